//! Building with what the run before has left.
//!
//! Incremental data of a compiler that was ended half-way, by a power loss or a machine that was taken away, can make parts of our
//! crates that don't fit together: cargo takes them for fresh and the linker misses symbols, at every run from then on. Where
//! nobody watches, our crates are compiled from nothing then, once.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, run, shown};

/// How the linker names a function that one part of a crate promised and no part has: local to a module, by the optimiser's name.
const MISSING: [&str; 2] = ["undefined hidden symbol", ".llvm."];

/// How a build ended, and whether parts of crates didn't fit together.
struct Ended {
    status: ExitStatus,
    torn: bool,
}

/// Runs a command of cargo that builds, and hands over each line of its standard output. Its errors are shown as they come.
pub fn build(repository: &Repository, command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<()> {
    let mut ended = once(command, line)?;
    if ended.torn {
        eprintln!(
            "parts of our crates don't fit together: a compiler was ended half-way before; they are compiled from nothing"
        );
        let mut clean = repository.cargo(["clean", "--release", "--locked"]);
        for package in &repository.packages {
            clean.args(["--package", &package.name]);
        }
        run(&mut clean)?;
        ended = once(command, line)?;
    }
    if !ended.status.success() {
        bail!("{} ended with {}", shown(command), ended.status);
    }
    Ok(())
}

/// At a terminal cargo writes there itself and draws its progress; else it is shown by us and read on the way.
fn once(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<Ended> {
    command.stdout(Stdio::piped());
    if !std::io::stderr().is_terminal() {
        command.stderr(Stdio::piped());
    }
    let mut cargo = command.spawn().with_context(|| format!("starting {}", shown(command)))?;
    let errors = cargo.stderr.take().map(|errors| std::thread::spawn(move || show(errors)));
    if let Some(output) = cargo.stdout.take() {
        for said in BufReader::new(output).lines() {
            line(&said.context("reading what cargo says")?);
        }
    }
    let status = cargo.wait().context("waiting for cargo")?;
    let torn = match errors.map(std::thread::JoinHandle::join) {
        Some(Ok(torn)) => torn?,
        Some(Err(_)) => bail!("reading what {} says ended with a panic", shown(command)),
        None => false,
    };
    Ok(Ended { torn: torn && !status.success(), status })
}

/// Shows what cargo says, and answers whether a linker missed what an optimiser had named.
fn show(errors: ChildStderr) -> Result<bool> {
    copy(errors, &mut std::io::stderr()).context("reading what cargo says")
}

fn copy(from: impl Read, to: &mut impl Write) -> std::io::Result<bool> {
    let mut from = BufReader::new(from);
    let (mut line, mut torn) = (Vec::new(), false);
    while from.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        torn |= MISSING.iter().all(|part| text.contains(part));
        to.write_all(&line)?;
        line.clear();
    }
    Ok(torn)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn torn(text: &str) -> bool {
        let mut shown = Vec::new();
        let torn = copy(text.as_bytes(), &mut shown).unwrap();
        assert_eq!(shown, text.as_bytes());
        torn
    }

    #[test]
    fn parts_that_do_not_fit_are_known_by_what_the_linker_misses() {
        assert!(torn(
            "   Compiling a\nrust-lld: error: undefined hidden symbol: drop_in_place.llvm.713\n>>> referenced by b"
        ));
        assert!(!torn("rust-lld: error: undefined symbol: SSL_new\nnote: some .llvm. word\n"));
        assert!(!torn("error[E0716]: temporary value dropped while borrowed"));
    }
}
