//! `redis-server` as a process.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::client::Client;
use crate::process::{find_program, free_port};

/// A cold start takes 50 ms; a loaded machine is slower, and a log has to be read.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(5);

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration: users, memory, TLS.
    pub config: String,
    /// Whether it writes each command to disk before it answers; otherwise it keeps nothing.
    pub durable: bool,
    /// The password of its default user, for [`Server::client`].
    pub password: Option<String>,
}

pub struct Server {
    folder: TempDir,
    options: Options,
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one that keeps nothing on disk, and waits until it answers.
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
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let child = spawn(folder.path(), &options, port)?;
        let mut server = Self { folder, options, child, port };
        server.ready().await?;
        Ok(server)
    }

    /// Its port on loopback: the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its process id; none once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Its folder: configuration, data, log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A native client, logged in as the default user.
    ///
    /// # Errors
    /// It doesn't answer.
    pub async fn client(&self) -> io::Result<Client> {
        let mut client = Client::connect(self.port).await?;
        if let Some(password) = &self.options.password {
            client.ask(&["AUTH", password]).await?;
        }
        Ok(client)
    }

    /// Kills it (`kill -9`) and waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again on the same port and folder, after [`Server::kill`], and waits until it has read its data.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.child = spawn(self.folder.path(), &self.options, self.port)?;
        self.ready().await
    }

    /// Stops it where it is: connections stay, nothing is read or answered. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("redis-server has ended"))?;
        rustix::process::kill_process(pid, Signal::STOP).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        let mut last = io::Error::other("it wasn't asked");
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("redis-server ended with {status}:\n{}", self.log())));
            }
            // While it reads its data it answers, and refuses.
            match self.answers().await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("redis-server wasn't ready in time: {last}\n{}", self.log())))
    }

    async fn answers(&self) -> io::Result<()> {
        self.client().await?.ask(&["PING"]).await.map(|_| ())
    }
}

fn spawn(folder: &Path, options: &Options, port: u16) -> io::Result<Child> {
    let program = find_program("redis-server").ok_or_else(|| {
        io::Error::other(
            "redis-server is not installed: `apt-get install redis-server` (Debian, Ubuntu), or https://redis.io/downloads",
        )
    })?;
    let password = options.password.as_ref().map(|password| format!("requirepass {password}\n")).unwrap_or_default();
    let disk = if options.durable { "appendonly yes\nappendfsync always\n" } else { "appendonly no\n" };
    let config = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\nlogfile {}\nsave \"\"\ndaemonize no\n{disk}{password}{}\n",
        folder.display(),
        folder.join("log").display(),
        options.config
    );
    let path = folder.join("redis.conf");
    std::fs::write(&path, config)?;
    let mut command = Command::new(program);
    command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn()
}
