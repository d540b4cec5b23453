//! Runs a program to its end and keeps what it writes.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::count::Outcome;
use super::output::Output;

/// A program that runs longer hangs; the longest takes some minutes on two cores, and several times that beside a load.
pub const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// How long the rest is waited for: a program that it started and left behind may hold the pipe for ever. Far longer than a busy
/// machine takes to read what is there, or a suite that passed would count as one that died.
const READ_AFTER_END: Duration = Duration::from_secs(20);
/// A longer line comes in pieces.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Lines that were read and not looked at yet.
const LINES_AHEAD: usize = 64;
/// Before what a test says that it didn't try, on a line of its own (`host/testkit/src/extent.rs`).
pub const LEFT_OUT: &str = "left out: ";

/// A program that has ended.
pub struct Ended {
    /// What its tests came to.
    pub outcome: Outcome,
    /// What it wrote, to its standard output and its standard error in the order of writing.
    pub output: Output,
    /// What its tests say that they didn't try.
    pub left_out: Vec<String>,
    /// How it ended; none when its time was over.
    pub status: Option<ExitStatus>,
}

/// Runs it; one whose time is over is killed.
pub async fn follow(mut command: Command, name: &str) -> Result<Ended> {
    let (reader, writer) = std::io::pipe().with_context(|| format!("making a pipe for {name}"))?;
    let same = writer.try_clone().with_context(|| format!("making a pipe for {name}"))?;
    command.stdin(Stdio::null()).stdout(same).stderr(writer).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    // It holds the pipe's other end: with it there would be no end of reading.
    drop(command);

    let (mut outcome, mut output, mut left_out) = (Outcome::default(), Output::default(), Vec::new());
    let reading = read(reader, &mut outcome, &mut output, &mut left_out);
    let ended = tokio::time::timeout(TIME_MAX, to_end(&mut child, reading)).await;
    let status = match ended {
        Ok(status) => Some(status.with_context(|| format!("following {name}"))?),
        Err(_) => {
            child.kill().await.with_context(|| format!("ending {name}"))?;
            None
        }
    };
    Ok(Ended { outcome, output, left_out, status })
}

/// Waits until it has ended and all that it wrote is read.
async fn to_end(child: &mut Child, reading: impl Future<Output = Result<()>>) -> Result<ExitStatus> {
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        done = &mut reading => {
            done?;
            child.wait().await.context("waiting for its end")
        }
        status = child.wait() => {
            let status = status.context("waiting for its end")?;
            if let Ok(done) = tokio::time::timeout(READ_AFTER_END, reading).await {
                done?;
            }
            Ok(status)
        }
    }
}

/// Keeps what is written and reads the results in it.
async fn read(
    reader: PipeReader,
    outcome: &mut Outcome,
    output: &mut Output,
    left_out: &mut Vec<String>,
) -> Result<()> {
    let mut lines = lines(reader);
    while let Some(line) = lines.recv().await {
        let line = line.context("reading what it says")?;
        let text = String::from_utf8_lossy(&line);
        outcome.read(&text);
        left_out.extend(text.strip_prefix(LEFT_OUT).map(|what| what.trim_end().to_owned()));
        output.add(&line);
    }
    Ok(())
}

/// Reads lines in a thread, which ends with the last of those who write.
fn lines(reader: PipeReader) -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = Vec::new();
            let line = match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => Ok(line),
                Err(error) => Err(error),
            };
            let last = line.is_err();
            if sender.blocking_send(line).is_err() || last {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[tokio::test]
    async fn what_a_program_leaves_behind_does_not_keep_it_from_ending() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // The sleeper holds the pipe far longer than anybody waits.
        let script = "sleep 600 & echo $! >sleeper; echo 'test result: ok. 1 passed; 0 failed; 0 ignored' >&2";
        command.args(["-c", script]).current_dir(folder.path());
        let ended = tokio::time::timeout(Duration::from_secs(120), follow(command, "sh")).await;
        let sleeper = std::fs::read_to_string(folder.path().join("sleeper")).unwrap();
        std::process::Command::new("kill").arg(sleeper.trim()).status().unwrap();
        let ended = ended.expect("it waits for what was left behind").unwrap();
        assert!(ended.status.unwrap().success());
        assert_eq!((ended.outcome.passed, ended.outcome.complete), (1, true));
    }
}
