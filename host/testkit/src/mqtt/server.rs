//! `mosquitto` as a process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::client::{Client, Login};
use crate::process::{find_program, free_port};

/// A cold start takes 50 ms; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(5);
/// Where Debian keeps it, which isn't in the search path of every user.
const DEBIAN: &str = "/usr/sbin/mosquitto";

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration: limits, TLS.
    pub config: String,
    /// Whether it keeps sessions on disk, written behind each change, which is still after its acknowledgement.
    pub durable: bool,
    /// The one user that is let in, with its password; none = anybody.
    pub user: Option<(String, String)>,
}

pub struct Server {
    folder: TempDir,
    options: Options,
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one that keeps nothing on disk and lets anybody in, and waits until it answers.
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

    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Its process id; none once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A native client without credentials, whose session ends with its connection.
    ///
    /// # Errors
    /// It doesn't answer, or doesn't let us in.
    pub async fn client(&self) -> io::Result<Client> {
        Client::connect(self.port, &Login::default()).await
    }

    /// A native client whose session the server keeps under this name.
    ///
    /// # Errors
    /// As [`Server::client`].
    pub async fn session(&self, name: &str) -> io::Result<Client> {
        Client::connect(self.port, &Login { session: Some(name.to_owned()), ..Login::default() }).await
    }

    /// Kills it (`kill -9`) and waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Ends it in good order, which writes its sessions to disk, and waits for its end.
    ///
    /// # Errors
    /// It has ended already.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        self.child.wait().await.map(|_| ())
    }

    /// Starts it again on the same port and folder, after its end, and waits until it answers.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.child = spawn(self.folder.path(), &self.options, self.port)?;
        self.ready().await
    }

    /// Gives the user of [`Options::user`] another password, and has the server read it (SIGHUP). Whoever came by the one before is sent
    /// away.
    ///
    /// # Errors
    /// It has no user, or has ended.
    pub fn change_password(&mut self, password: &str) -> io::Result<()> {
        let (user, known) = self.options.user.as_mut().ok_or_else(|| io::Error::other("mosquitto lets anybody in"))?;
        write_user(self.folder.path(), user, password)?;
        password.clone_into(known);
        self.signal(Signal::HUP)
    }

    /// Stops it where it is: connections stay, nothing is read or answered. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Server::freeze`].
    ///
    /// # Errors
    /// It has ended.
    pub fn thaw(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("mosquitto has ended"))?;
        rustix::process::kill_process(pid, signal).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        let mut last = io::Error::other("it wasn't asked");
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("mosquitto ended with {status}:\n{}", self.log())));
            }
            // Whoever isn't let in has an answer, too.
            match self.client().await {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => last = error,
                _ => return Ok(()),
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("mosquitto wasn't ready in time: {last}\n{}", self.log())))
    }
}

fn spawn(folder: &Path, options: &Options, port: u16) -> io::Result<Child> {
    let debian = Some(DEBIAN.into()).filter(|path: &std::path::PathBuf| path.is_file());
    let program = find_program("mosquitto").or(debian).ok_or_else(|| {
        io::Error::other(
            "mosquitto is not installed: `apt-get install mosquitto` (Debian, Ubuntu), or https://mosquitto.org/download",
        )
    })?;
    let disk = if options.durable {
        format!(
            "persistence true\npersistence_location {}/\nautosave_on_changes true\nautosave_interval 1\n",
            folder.display()
        )
    } else {
        "persistence false\n".to_owned()
    };
    let users = match &options.user {
        Some((user, password)) => {
            let path = write_user(folder, user, password)?;
            format!("allow_anonymous false\npassword_file {}\n", path.display())
        }
        None => "allow_anonymous true\n".to_owned(),
    };
    // As root it becomes another user otherwise, who may not read its folder; others it leaves as they are.
    let config = format!(
        "user root\nlog_dest file {}\nset_tcp_nodelay true\nmax_queued_messages 0\n{disk}listener {port} 127.0.0.1\n{users}{}\n",
        folder.join("log").display(),
        options.config
    );
    let path = folder.join("mosquitto.conf");
    std::fs::write(&path, config)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn()
}

/// Writes the file with the one user that is let in.
fn write_user(folder: &Path, user: &str, password: &str) -> io::Result<PathBuf> {
    let path = folder.join("users");
    let program = find_program("mosquitto_passwd")
        .ok_or_else(|| io::Error::other("mosquitto_passwd is not installed: it comes with mosquitto"))?;
    let mut hash = std::process::Command::new(program);
    hash.args(["-b", "-c"]).arg(&path).args([user, password]);
    if hash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        Ok(path)
    } else {
        Err(io::Error::other("mosquitto_passwd failed"))
    }
}
