//! The release binary as a process: started, watched until it is ready, stopped in good order or killed.
//!
//! It learns the port from the line `listening on http://...` that `waybill serve` writes, so hosts of parallel tests
//! never meet on one. Everything that the process writes goes to a log file beside its data. A dropped [`Host`] is
//! killed, so a failed test leaves none behind.

#[cfg(target_os = "linux")]
mod disk;
mod guard;
mod output;
mod port;
mod program;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use thiserror::Error;
use tokio::process::{Child, Command};

use crate::api::Api;
#[cfg(target_os = "linux")]
pub use disk::Disk;
pub use guard::guard;
use output::Output;
pub use port::free_port;
pub use program::find_program;

/// A cold start on a loaded machine with a store to recover; a host that takes longer is broken.
pub const READY_TIME_MAX: Duration = Duration::from_secs(180);
/// Between two questions to `/readyz`.
const READY_POLL: Duration = Duration::from_millis(5);
/// Names the binary to run; otherwise it is looked for beside the running test.
pub const BINARY_VARIABLE: &str = "WAYBILL_BIN";

/// Why a host isn't running.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// There is no binary.
    #[error(
        "there is no waybill binary at {}: build it with `cargo build --release -p waybill`, or name it in {BINARY_VARIABLE}",
        path.display()
    )]
    NoBinary {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("{act}: {cause}")]
    System { act: &'static str, cause: std::io::Error },
    /// It ended before it was ready.
    #[error("waybill ended with {status} before it was ready; its last words ({}):\n{tail}", log.display())]
    Ended { status: ExitStatus, log: PathBuf, tail: String },
    /// It runs and isn't ready.
    #[error("waybill wasn't ready after {} s: {state}; its last words ({}):\n{tail}", READY_TIME_MAX.as_secs(), log.display())]
    NotReady {
        /// What it said last.
        state: String,
        log: PathBuf,
        tail: String,
    },
    #[error("waybill still runs {} s after SIGTERM; its last words ({}):\n{tail}", after.as_secs(), log.display())]
    DoesNotEnd {
        /// How long it was given.
        after: Duration,
        log: PathBuf,
        tail: String,
    },
}

fn system(act: &'static str) -> impl FnOnce(std::io::Error) -> ProcessError {
    move |cause| ProcessError::System { act, cause }
}

/// How to start a host.
#[derive(Clone, Debug)]
pub struct Launch {
    pub binary: PathBuf,
    pub config: PathBuf,
    /// Where its output goes; appended to.
    pub log: PathBuf,
    /// What its environment gets beside that of the tests.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// Writes `config` to `waybill.toml` in `dir`, with the output beside it in `waybill.log`.
    pub fn prepare(binary: PathBuf, dir: &Path, config: &str) -> Result<Self, ProcessError> {
        let launch =
            Self { binary, config: dir.join("waybill.toml"), log: dir.join("waybill.log"), environment: Vec::new() };
        std::fs::write(&launch.config, config).map_err(system("writing waybill.toml"))?;
        Ok(launch)
    }
}

/// The binary under test: from [`BINARY_VARIABLE`], else in the target folder that the running test was built in.
pub fn binary() -> Result<PathBuf, ProcessError> {
    let path = match std::env::var_os(BINARY_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => {
            let test = std::env::current_exe().map_err(system("finding the running test"))?;
            // target/release/deps/some_test-0123 or target/release/xtask
            let folder = test.parent().filter(|dir| !dir.ends_with("deps")).or(test.parent().and_then(Path::parent));
            folder.unwrap_or(Path::new(".")).join(format!("waybill{}", std::env::consts::EXE_SUFFIX))
        }
    };
    if path.is_file() { Ok(path) } else { Err(ProcessError::NoBinary { path }) }
}

pub struct Host {
    child: Child,
    output: Output,
    log: PathBuf,
    started: Instant,
}

impl Host {
    /// Starts it and doesn't wait.
    pub fn start(launch: &Launch) -> Result<Self, ProcessError> {
        let started = Instant::now();
        let mut command = Command::new(&launch.binary);
        // Settings of whoever runs the tests aren't part of them.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"WAYBILL_")) {
            command.env_remove(name);
        }
        let mut child = command
            .arg("serve")
            .arg("--config")
            .arg(&launch.config)
            .args(["--listen", "127.0.0.1:0"])
            .envs(launch.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(system("starting waybill"))?;
        let output = Output::follow(&mut child, &launch.log).map_err(system("opening the host's log file"))?;
        Ok(Self { child, output, log: launch.log.clone(), started })
    }

    /// Starts it and waits until it is ready.
    pub async fn ready(launch: &Launch) -> Result<(Self, Api), ProcessError> {
        let mut host = Self::start(launch)?;
        let api = host.wait_ready().await?;
        Ok((host, api))
    }

    /// Where it answers, as soon as it says so; none = it ended without.
    pub async fn address(&mut self) -> Option<String> {
        self.output.address().await
    }

    /// Waits until `/readyz` says 200.
    pub async fn wait_ready(&mut self) -> Result<Api, ProcessError> {
        let deadline = tokio::time::Instant::now() + READY_TIME_MAX;
        let mut output = self.output.clone();
        let base = tokio::select! {
            address = output.address() => address,
            _ = self.child.wait() => None,
            () = tokio::time::sleep_until(deadline) => return Err(self.not_ready("it didn't say where it listens".into())),
        };
        let Some(base) = base else { return Err(self.ended().await) };
        let api = Api::new(base);
        let mut state = "it never answered /readyz".to_owned();
        while tokio::time::Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Err(self.ended().await);
            }
            if let Ok(reply) = api.get("/readyz", &[]).await {
                if reply.is_ok() {
                    return Ok(api);
                }
                state = format!("/readyz says {} {}", reply.status, reply.body);
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(self.not_ready(state))
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Its output so far.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its process id; none once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// `kill -9`, and waits until the process is gone. Whether it still ran.
    pub async fn kill(mut self) -> Result<bool, ProcessError> {
        let ran = matches!(self.child.try_wait(), Ok(None));
        self.child.kill().await.map_err(system("killing waybill"))?;
        self.output.finished().await;
        Ok(ran)
    }

    /// SIGTERM, and waits at most `within` until it has drained and ended.
    pub async fn terminate(mut self, within: Duration) -> Result<ExitStatus, ProcessError> {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process(pid, Signal::TERM)
                .map_err(|errno| system("sending SIGTERM to waybill")(errno.into()))?;
        }
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => {
                let status = status.map_err(system("waiting for waybill to end"))?;
                self.output.finished().await;
                Ok(status)
            }
            Err(_) => {
                let tail = output::tail(&self.log);
                Err(ProcessError::DoesNotEnd { after: within, log: self.log.clone(), tail })
            }
        }
    }

    /// Whether it has ended by itself, and how.
    pub fn ended_by_itself(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    async fn ended(&mut self) -> ProcessError {
        match self.child.wait().await {
            Ok(status) => {
                self.output.finished().await;
                ProcessError::Ended { status, log: self.log.clone(), tail: output::tail(&self.log) }
            }
            Err(cause) => system("waiting for waybill to end")(cause),
        }
    }

    fn not_ready(&self, state: String) -> ProcessError {
        ProcessError::NotReady { state, log: self.log.clone(), tail: output::tail(&self.log) }
    }
}
