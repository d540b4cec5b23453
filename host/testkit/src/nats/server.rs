//! `nats-server` as a process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::client::{Client, Login};
use crate::process::{find_program, free_port};

/// A cold start takes 50 ms; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two looks for the file with the ports.
const READY_POLL: Duration = Duration::from_millis(5);

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration: users, TLS, limits.
    pub config: String,
    /// A fixed port; none = one that is free.
    pub port: Option<u16>,
    pub core_only: bool,
    /// Another one than the machine's, e.g. [`super::pinned`].
    pub program: Option<PathBuf>,
}

pub struct Server {
    folder: TempDir,
    options: Options,
    child: Child,
    port: u16,
}

#[derive(Deserialize)]
struct Ports {
    nats: Vec<String>,
}

impl Server {
    /// Starts one with JetStream and nothing else, and waits until it answers.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(options: Options) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        // One that the system chooses may be a client's while the server is away, and the server couldn't come back.
        let port = options.port.map_or_else(free_port, Ok)?;
        let (child, port) = spawn(folder.path(), &options, port).await?;
        Ok(Self { folder, options, child, port })
    }

    /// Its port on loopback: the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `nats://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its process id; none once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its folder: configuration, streams, log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What it calls itself, e.g. `nats-server: v2.9.10`.
    ///
    /// # Errors
    /// It can't be asked.
    pub async fn version(&self) -> io::Result<String> {
        let program = self.options.program.clone().map_or_else(installed, Ok)?;
        let output = Command::new(program).arg("-v").stdin(Stdio::null()).output().await?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A native client without credentials.
    ///
    /// # Errors
    /// It doesn't answer.
    pub async fn client(&self) -> io::Result<Client> {
        Client::connect(self.port, &Login::default()).await
    }

    /// Kills it (`kill -9`) and waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again on the same port and folder, after [`Server::kill`].
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        (self.child, _) = spawn(self.folder.path(), &self.options, self.port).await?;
        Ok(())
    }

    /// Changes its configuration and starts it again.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn reconfigure(&mut self, config: &str) -> io::Result<()> {
        config.clone_into(&mut self.options.config);
        self.kill().await?;
        self.restart().await
    }

    /// Tells it to send its clients away and end (lame duck mode).
    ///
    /// # Errors
    /// It has ended.
    pub fn lame_duck(&self) -> io::Result<()> {
        // What `nats-server --signal ldm=PID` sends.
        self.signal(Signal::USR2)
    }

    /// Stops it where it is: connections stay, nothing is read or answered. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("nats-server has ended"))?;
        rustix::process::kill_process(pid, signal).map_err(Into::into)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn ended(&mut self) -> io::Result<()> {
        self.child.wait().await.map(|_| ())
    }
}

async fn spawn(folder: &Path, options: &Options, port: u16) -> io::Result<(Child, u16)> {
    let (config, ports) = (folder.join("server.conf"), folder.join("ports"));
    std::fs::write(&config, &options.config)?;
    if ports.is_dir() {
        std::fs::remove_dir_all(&ports)?;
    }
    std::fs::create_dir(&ports)?;
    let program = options.program.clone().map_or_else(installed, Ok)?;
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p"]).arg(port.to_string());
    command.arg("-c").arg(&config).arg("--ports_file_dir").arg(&ports).arg("-l").arg(folder.join("log"));
    if !options.core_only {
        command.arg("-js").arg("-sd").arg(folder.join("streams"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let asked = Instant::now();
    while asked.elapsed() < READY_TIME_MAX {
        if let Some(status) = child.try_wait()? {
            let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            return Err(io::Error::other(format!("nats-server ended with {status}:\n{log}")));
        }
        if let Some(port) = told_port(&ports)? {
            return Ok((child, port));
        }
        tokio::time::sleep(READY_POLL).await;
    }
    Err(io::Error::other("nats-server didn't tell its ports in time"))
}

/// The one that the system brings.
fn installed() -> io::Result<PathBuf> {
    find_program("nats-server").ok_or_else(|| {
        io::Error::other(
            "nats-server is not installed: `apt-get install nats-server` (Debian, Ubuntu), or https://nats.io/download",
        )
    })
}

/// The port in the file that the server writes once it listens.
fn told_port(folder: &Path) -> io::Result<Option<u16>> {
    let files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    let Some(file) = files.iter().find(|path| path.extension().is_some_and(|extension| extension == "ports")) else {
        return Ok(None);
    };
    // It may be half written: then the next look finds it whole.
    let Ok(ports) = serde_json::from_slice::<Ports>(&std::fs::read(file)?) else { return Ok(None) };
    Ok(ports.nats.first().and_then(|url| url.rsplit(':').next()).and_then(|port| port.parse().ok()))
}
