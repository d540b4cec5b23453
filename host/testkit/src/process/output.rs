//! Follows what a process writes: keeps it in a file, and finds the address in it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::watch;

/// What stands before the address in the line that tells it.
const MARK: &str = "listening on ";
/// Longest wait for the pipes of a process that has ended.
const ORPHANS_WAIT_MAX: Duration = Duration::from_secs(10);
/// Lines of the log shown with an error.
const TAIL_LINES: usize = 25;

#[derive(Clone, Debug, Default)]
struct OutputState {
    address: Option<String>,
    ended_pipes: usize,
}

/// Stdout and stderr of one process.
#[derive(Clone)]
pub(super) struct Output {
    state: watch::Receiver<OutputState>,
}

impl Output {
    /// Takes the child's pipes and appends what comes to `log`.
    pub(super) fn follow(child: &mut Child, log: &Path) -> std::io::Result<Self> {
        let file = Arc::new(Mutex::new(OpenOptions::new().create(true).append(true).open(log)?));
        let (tell, state) = watch::channel(OutputState::default());
        if let Some(pipe) = child.stdout.take() {
            tokio::spawn(copy(pipe, Arc::clone(&file), tell.clone()));
        }
        if let Some(pipe) = child.stderr.take() {
            tokio::spawn(copy(pipe, file, tell));
        }
        Ok(Self { state })
    }

    /// The base URL, as soon as the process told it; none when its output ended without.
    pub(super) async fn address(&mut self) -> Option<String> {
        let state = self.state.wait_for(|state| state.address.is_some() || state.ended_pipes == 2).await.ok()?;
        state.address.clone()
    }

    /// Waits until everything that the ended process wrote is in the log; not for its children, which may hold the
    /// pipes open for longer.
    pub(super) async fn finished(&mut self) {
        // An error means that both followers are gone: finished all the more.
        let _ = tokio::time::timeout(ORPHANS_WAIT_MAX, self.state.wait_for(|state| state.ended_pipes == 2)).await;
    }
}

async fn copy(pipe: impl AsyncRead + Unpin, log: Arc<Mutex<File>>, tell: watch::Sender<OutputState>) {
    let mut lines = BufReader::new(pipe).split(b'\n');
    while let Ok(Some(mut line)) = lines.next_segment().await {
        if let Some(address) = address_in(&String::from_utf8_lossy(&line)) {
            tell.send_modify(|state| {
                state.address.get_or_insert(address);
            });
        }
        line.push(b'\n');
        // A full disk under the log must not stop the process from writing to its pipe.
        let _ = log.lock().write_all(&line);
    }
    tell.send_modify(|state| state.ended_pipes += 1);
}

fn address_in(line: &str) -> Option<String> {
    let rest = line.split_once(MARK)?.1.trim_start();
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\\' | ',' | '\u{1b}')).unwrap_or(rest.len());
    let url = rest.get(..end)?.trim_end_matches(['/', '.']);
    (url.starts_with("http://") || url.starts_with("https://")).then(|| url.to_owned())
}

/// The last lines of a log, for an error message.
pub(super) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines
        .iter()
        .skip(lines.len().saturating_sub(TAIL_LINES))
        .fold(String::new(), |text, line| text + "  " + line + "\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_address_is_found_in_text_and_in_json_logs() {
        let found = |line| address_in(line).unwrap();
        assert_eq!(found("waybill 0.1.0 listening on http://127.0.0.1:7070"), "http://127.0.0.1:7070");
        assert_eq!(found(r#"{"message":"listening on http://127.0.0.1:1","level":"INFO"}"#), "http://127.0.0.1:1");
        assert_eq!(found("INFO listening on http://[::1]:7070/ data=./data"), "http://[::1]:7070");
        assert_eq!(address_in("listening on port 7070"), None);
        assert_eq!(address_in("ready"), None);
    }

    #[tokio::test]
    async fn what_a_process_writes_is_kept_and_its_address_told() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", "echo one >&2; echo listening on http://127.0.0.1:9; printf two"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = Output::follow(&mut child, &log).unwrap();
        assert_eq!(output.address().await.as_deref(), Some("http://127.0.0.1:9"));
        output.finished().await;
        let mut lines: Vec<String> = std::fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["listening on http://127.0.0.1:9", "one", "two"]);
    }
}
