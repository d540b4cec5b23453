//! RabbitMQ as a process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::client::{Client, Login};
use crate::process::{find_program, free_port, guard};

/// A cold start takes 8 s; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(300);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(50);
/// Where Debian keeps the programs themselves; what is in the search path changes the user first.
const DEBIAN: &str = "/usr/lib/rabbitmq/lib";
/// Schedulers that spin take the processors from those who are tested.
const QUIET: &str = "+sbwt none +sbwtdcpu none +sbwtdio none";

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration.
    pub config: String,
    /// Plugins of it that are enabled, e.g. `rabbitmq_auth_mechanism_ssl`.
    pub plugins: &'static [&'static str],
    /// A second listener, with TLS.
    pub tls: Option<Tls>,
    /// As it comes, for measuring; otherwise it spares the processors.
    pub unrestrained: bool,
}

/// PEM of a listener with TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    pub cert: String,
    pub key: String,
    /// Who signs certificates of clients; they may come without one.
    pub ca: String,
}

pub struct Server {
    options: Options,
    ports: Ports,
    epmd: Child,
    child: Child,
    /// Ends both when this process is gone.
    guard: Child,
    /// The last one to go.
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    amqp: u16,
    tls: u16,
    epmd: u16,
    /// Of the node's own protocol, for `rabbitmqctl`.
    node: u16,
}

impl Server {
    /// Starts one as it comes, and waits until it answers.
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
        let ports = Ports { amqp: free_port()?, tls: free_port()?, epmd: free_port()?, node: free_port()? };
        prepare(folder.path(), &options, ports)?;
        let mut command = Command::new(find_program("epmd").ok_or_else(missing)?);
        command.args(["-address", "127.0.0.1", "-port"]).arg(ports.epmd.to_string());
        let epmd = quiet(&mut command).spawn()?;
        let child = spawn(folder.path(), &options, ports)?;
        let guard = guard(&[&epmd, &child], folder.path())?;
        let mut server = Self { options, ports, epmd, child, guard, folder };
        server.ready().await?;
        Ok(server)
    }

    /// The one that tests share who leave it as it is; started at the first call.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn shared() -> io::Result<&'static Self> {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// Its port on loopback: the same after a restart.
    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    /// `amqp://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.ports.amqp)
    }

    /// `amqps://127.0.0.1:PORT`, where [`Options::tls`] is set.
    pub fn tls_url(&self) -> String {
        format!("amqps://127.0.0.1:{}", self.ports.tls)
    }

    pub fn log(&self) -> String {
        let folder = self.folder.path();
        let logs =
            std::fs::read_dir(folder.join("log")).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let all = logs.chain([folder.join("out")]).filter_map(|path| std::fs::read_to_string(path).ok());
        all.collect::<Vec<_>>().join("\n")
    }

    /// A native client as the default user.
    ///
    /// # Errors
    /// It doesn't answer.
    pub async fn client(&self) -> io::Result<Client> {
        Client::connect(self.ports.amqp, &Login::default()).await
    }

    /// Runs `rabbitmqctl` with these words and answers what it says.
    ///
    /// # Errors
    /// It failed; the text is its own.
    pub async fn ctl(&self, words: &[&str]) -> io::Result<String> {
        let mut command = Command::new(programs()?.join("rabbitmqctl"));
        environment(&mut command, self.folder.path(), self.ports);
        let output = command.args(["-q", "-n", &node(self.ports)]).args(words).stdin(Stdio::null()).output().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            let words = words.join(" ");
            let error = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("rabbitmqctl {words} ended with {}: {text}{error}", output.status)))
        }
    }

    /// Writes to its disk what was declared. It confirms a declaration up to two seconds before that, so a queue, an exchange or a
    /// binding of the last moment is gone after [`Server::kill`].
    ///
    /// # Errors
    /// As [`Server::ctl`].
    pub async fn write_declared(&self) -> io::Result<()> {
        self.ctl(&["eval", "ok = mnesia:sync_log()."]).await.map(drop)
    }

    /// Kills it (`kill -9`) and waits for its end.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        // The guard first: it must not end whoever gets the number next.
        self.guard.kill().await?;
        self.child.kill().await
    }

    /// Starts it again on the same ports and folder, after [`Server::kill`], and waits until it answers.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.child = spawn(self.folder.path(), &self.options, self.ports)?;
        self.guard = guard(&[&self.epmd, &self.child], self.folder.path())?;
        self.ready().await
    }

    /// Stops it where it is: connections stay, nothing is read or answered. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("rabbitmq-server has ended"))?;
        rustix::process::kill_process(pid, Signal::STOP).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        let mut last = io::Error::other("it wasn't asked");
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("rabbitmq-server ended with {status}:\n{}", self.log())));
            }
            match self.client().await {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("rabbitmq-server wasn't ready in time: {last}\n{}", self.log())))
    }
}

fn prepare(folder: &Path, options: &Options, ports: Ports) -> io::Result<()> {
    for name in ["data", "log", "home"] {
        std::fs::create_dir(folder.join(name))?;
    }
    let mut config = format!("listeners.tcp.1 = 127.0.0.1:{}\nlog.console = false\n", ports.amqp);
    if let Some(tls) = &options.tls {
        config.push_str(&format!(
            "listeners.ssl.1 = 127.0.0.1:{}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n",
            ports.tls
        ));
        for (option, text) in [("certfile", &tls.cert), ("keyfile", &tls.key), ("cacertfile", &tls.ca)] {
            let path = folder.join(option);
            std::fs::write(&path, text)?;
            config.push_str(&format!("ssl_options.{option} = {}\n", path.display()));
        }
    }
    config.push_str(&options.config);
    std::fs::write(folder.join("rabbitmq.conf"), config)?;
    std::fs::write(folder.join("enabled_plugins"), format!("[{}].", options.plugins.join(",")))
}

fn spawn(folder: &Path, options: &Options, ports: Ports) -> io::Result<Child> {
    let mut command = Command::new(programs()?.join("rabbitmq-server"));
    environment(&mut command, folder, ports);
    if !options.unrestrained {
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", QUIET);
    }
    let out = std::fs::File::create(folder.join("out"))?;
    quiet(&mut command).stderr(out.try_clone()?).stdout(out).spawn()
}

/// Everything of its own, and nothing of the machine's.
fn environment(command: &mut Command, folder: &Path, ports: Ports) {
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LANG", "C.UTF-8");
    // Then its script becomes the server instead of starting one, and what is killed is it.
    command.env("RUNNING_UNDER_SYSTEMD", "true");
    for (name, path) in [
        ("HOME", "home"),
        ("RABBITMQ_CONF_ENV_FILE", "no-such-file"),
        ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
        ("RABBITMQ_MNESIA_BASE", "data"),
        ("RABBITMQ_LOG_BASE", "log"),
        ("RABBITMQ_PID_FILE", "pid"),
    ] {
        command.env(name, folder.join(path));
    }
    command.env("RABBITMQ_NODENAME", node(ports)).env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
    for (name, port) in
        [("RABBITMQ_NODE_PORT", ports.amqp), ("RABBITMQ_DIST_PORT", ports.node), ("ERL_EPMD_PORT", ports.epmd)]
    {
        command.env(name, port.to_string());
    }
    command.env("ERL_EPMD_ADDRESS", "127.0.0.1").env("ERL_MAX_PORTS", "4096");
}

fn node(ports: Ports) -> String {
    format!("waybill{}@localhost", ports.amqp)
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true)
}

/// The folder with its programs.
fn programs() -> io::Result<PathBuf> {
    let installed =
        std::fs::read_dir(DEBIAN).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("sbin")));
    let newest = installed.filter(|folder| folder.join("rabbitmq-server").is_file()).max();
    let elsewhere = || find_program("rabbitmq-server").and_then(|program| program.parent().map(Path::to_path_buf));
    newest.or_else(elsewhere).ok_or_else(missing)
}

fn missing() -> io::Error {
    io::Error::other(
        "rabbitmq-server is not installed: `apt-get install rabbitmq-server` (Debian, Ubuntu), or https://www.rabbitmq.com/docs/download",
    )
}
