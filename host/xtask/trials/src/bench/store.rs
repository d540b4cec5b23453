//! The store side of W2 and W2f: what the store's commits of sagas cost by themselves, without steps, API and state machine.
//!
//! The program is an example of the store, written to be read by people; here one line of it is read.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use xtask::cargo::{Repository, run};

use super::Bench;
use super::figure::Figure;

/// The store's own program.
const EXAMPLE: &str = "saga_commit";
/// Transitions of a commit in the line that counts: of as many sagas as W2 has under way.
const LINE: &str = "64 transitions:";

pub fn build(repository: &Repository) -> Result<PathBuf> {
    example(repository, EXAMPLE)
}

/// Builds an example.
pub fn example(repository: &Repository, name: &str) -> Result<PathBuf> {
    run(&mut repository.cargo(["build", "--release", "--locked", "--workspace", "--example", name]))?;
    Ok(repository.target.join("release").join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

/// Sagas of three steps in commits of 64 transitions, on a disk; `back` = with two compensations.
pub async fn sagas(bench: &Bench, back: bool) -> Result<Figure> {
    let folder = bench.folder()?;
    let output = Command::new(&bench.commits)
        .args(back.then_some("back"))
        .arg(format!("surrealkv://{}", folder.path().join("data").display()))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("running {}", bench.commits.display()))?;
    if !output.status.success() {
        bail!("{EXAMPLE} ended with {}", output.status);
    }
    figure(&String::from_utf8_lossy(&output.stdout))
}

/// What the line says: sagas a second, and microseconds of CPU a saga.
fn figure(text: &str) -> Result<Figure> {
    let line = text.lines().find(|line| line.trim_start().starts_with(LINE));
    let line = line.with_context(|| format!("{EXAMPLE} told nothing of {LINE:?}"))?;
    let number = |before: &str, behind: &str| -> Option<f64> {
        let rest = line.split_once(before)?.1;
        rest.split_once(behind)?.0.trim().parse().ok()
    };
    let read = number("=", "sagas/s").zip(number("a saga", "us"));
    let (rate, micros) =
        read.with_context(|| format!("{EXAMPLE} told something else than sagas/s and us a saga: {line}"))?;
    // Microseconds a saga are seconds for a million.
    Ok(Figure { rate: Some(rate), cpu_s_per_10k: Some(micros / 100.0), ..Figure::default() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_line_of_64_transitions_is_read() {
        let text = "mem://\n     16 transitions:   90000/s =  22500 sagas/s, a saga 50.0 us\n     64 transitions:  160000/s =  \
                    40000 sagas/s, p50 1ms, p99 2ms, CPU a commit 500 us, a transition 7.50 us, a saga 30.5 us\n";
        let figure = figure(text).unwrap();
        assert_eq!((figure.rate, figure.cpu_s_per_10k), (Some(40_000.0), Some(0.305)));
        assert!(super::figure("").is_err() && super::figure("  64 transitions: none").is_err());
    }
}
