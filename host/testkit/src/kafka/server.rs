//! Apache Kafka as a process: a server that is broker and controller, and others that join it.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::JARS;
use super::client::{self, Client};
use crate::maven::{Archive, java_program};
use crate::process::{free_port, guard};

/// A cold start takes 3 to 8 seconds; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(180);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(50);
/// Time for ending in good order on a busy machine.
const END_TIME_MAX: Duration = Duration::from_secs(120);
/// Longest wait for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// ApiVersions, version 0, without a client's name: length, number, version, correlation, no name.
const ARE_YOU_THERE: [u8; 14] = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 255, 255];
/// Archive of its classes and of those of the tool that formats its store.
const ARCHIVE: &str = "server.jsa";
/// Of a server that is started again. Its cluster knows the one that was killed, and lets nobody in with its number as long as that might
/// live: nine seconds otherwise. From the start it would be too short for a busy machine.
const AFTER_A_KILL: &str = "broker.session.timeout.ms=4000\nbroker.heartbeat.interval.ms=500\n";

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration.
    pub config: String,
    /// Whether it has a second port where the user `waybill` logs in by the password `secret`: PLAIN and SCRAM. Who has logged in by
    /// SCRAM-SHA-512 has to do so anew behind four seconds.
    pub sasl: bool,
    /// A port with TLS, and with `sasl` one more where one logs in over TLS; both let nobody in without a certificate.
    pub tls: Option<Tls>,
    /// Program and words before its own, such as make it see a small disk.
    pub enter: Vec<String>,
}

/// PEM of a listener with TLS; the key as PKCS #8.
#[derive(Clone, Debug)]
pub struct Tls {
    pub cert: String,
    pub key: String,
    /// Who signs certificates of clients.
    pub ca: String,
}

pub struct Server {
    options: Options,
    ports: Ports,
    archive: Archive,
    child: Child,
    /// Ends it when this process is gone.
    guard: Child,
    /// The last one to go.
    folder: TempDir,
}

#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    sasl: u16,
    tls: u16,
    sasl_tls: u16,
    node: Node,
}

/// Which server of its cluster it is.
#[derive(Clone, Copy)]
struct Node {
    /// The first one is the controller, too.
    id: u32,
    controller: u16,
}

impl Server {
    /// Starts one, and waits until it answers. Topics are made when they are asked for, with four partitions.
    ///
    /// # Errors
    /// Java isn't installed, or it doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(Options::default()).await
    }

    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(options: Options) -> io::Result<Self> {
        let controller = free_port()?;
        Self::node(options, Node { id: 1, controller }).await
    }

    /// The one that tests share who leave it as it is, with topics of their own; one may log in. Started at the first call.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn shared() -> io::Result<&'static Self> {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        SHARED.get_or_try_init(|| Self::start_with(Options { sasl: true, ..Options::default() })).await
    }

    /// Starts another server of this one's cluster, which decides nothing. It may lead topics of which this one has a copy.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn joined(&self) -> io::Result<Self> {
        Self::node(Options::default(), Node { id: 2, controller: self.ports.node.controller }).await
    }

    async fn node(options: Options, node: Node) -> io::Result<Self> {
        let archive = Archive::Uses(made().await?.join(ARCHIVE));
        Self::launch(options, node, archive).await
    }

    async fn launch(options: Options, node: Node, archive: Archive) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let ports = Ports { plain: free_port()?, sasl: free_port()?, tls: free_port()?, sasl_tls: free_port()?, node };
        configure(folder.path(), &options, ports)?;
        format(folder.path(), &options, node, &archive).await?;
        let child = spawn(folder.path(), &options, &archive).await?;
        let guard = guard(&[&child], folder.path())?;
        let mut server = Self { options, ports, archive, child, guard, folder };
        server.ready().await?;
        Ok(server)
    }

    /// Its port on loopback: the same after a restart.
    pub fn port(&self) -> u16 {
        self.ports.plain
    }

    /// The port where one logs in, with [`Options::sasl`].
    pub fn sasl_port(&self) -> u16 {
        self.ports.sasl
    }

    /// `kafkas://127.0.0.1:PORT`, with [`Options::tls`].
    pub fn tls_url(&self) -> String {
        format!("kafkas://127.0.0.1:{}", self.ports.tls)
    }

    /// The same where one logs in, with [`Options::sasl`] and [`Options::tls`].
    pub fn sasl_tls_url(&self) -> String {
        format!("kafkas://127.0.0.1:{}", self.ports.sasl_tls)
    }

    pub fn url(&self) -> String {
        format!("127.0.0.1:{}", self.ports.plain)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Its Java client.
    ///
    /// # Errors
    /// Its jars can't be had.
    pub async fn client(&self) -> io::Result<Client> {
        client_of(self.url()).await
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

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It doesn't.
    pub async fn ended(&mut self) -> io::Result<()> {
        timeout(END_TIME_MAX, self.child.wait()).await.map_err(io::Error::other)??;
        self.guard.kill().await
    }

    /// Starts it again on the same ports and folder, after [`Server::kill`] or [`Server::ended`], and waits until it answers.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        let config = format!("{}\n{AFTER_A_KILL}", self.options.config);
        configure(self.folder.path(), &Options { config, ..self.options.clone() }, self.ports)?;
        self.child = spawn(self.folder.path(), &self.options, &self.archive).await?;
        self.guard = guard(&[&self.child], self.folder.path())?;
        self.ready().await
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

    /// Ends it in good order.
    async fn end(mut self) -> io::Result<()> {
        self.guard.kill().await?;
        self.signal(Signal::TERM)?;
        timeout(END_TIME_MAX, self.child.wait()).await.map_err(io::Error::other)?.map(|_| ())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("Kafka has ended"))?;
        rustix::process::kill_process(pid, signal).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("Kafka ended with {status}:\n{}", self.log())));
            }
            if timeout(ANSWER_TIME_MAX, self.answers()).await.is_ok_and(|answered| answered.is_ok()) {
                return Ok(());
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("Kafka wasn't ready in time\n{}", self.log())))
    }

    async fn answers(&self) -> io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports.plain)).await?;
        stream.write_all(&ARE_YOU_THERE).await?;
        stream.read_exact(&mut [0; 8]).await.map(|_| ())
    }
}

/// The Java client of a server at an address.
pub(crate) async fn client_of(server: String) -> io::Result<Client> {
    Ok(Client::of(server, made().await?))
}

/// The folder with the client's program, and the archives of both.
async fn made() -> io::Result<PathBuf> {
    JARS.made(client::SOURCE, make).await
}

async fn make(folder: PathBuf) -> io::Result<()> {
    client::compile(&folder).await?;
    let node = Node { id: 1, controller: free_port()? };
    let options = Options { sasl: true, ..Options::default() };
    let server = Server::launch(options, node, Archive::Makes(folder.join(ARCHIVE))).await?;
    Client::of(server.url(), folder).archiving().run("everything", &["archived"]).await?;
    server.end().await
}

fn configure(folder: &Path, options: &Options, ports: Ports) -> io::Result<()> {
    let Ports { plain, sasl, tls, sasl_tls, node: Node { id, controller } } = ports;
    let (roles, decides) = if id == 1 {
        ("broker,controller", format!(",CONTROLLER://127.0.0.1:{controller}"))
    } else {
        ("broker", String::new())
    };
    let mut listeners = String::new();
    for (is_there, protocol, port) in [
        (options.sasl, "SASL_PLAINTEXT", sasl),
        (options.tls.is_some(), "SSL", tls),
        (options.sasl && options.tls.is_some(), "SASL_SSL", sasl_tls),
    ] {
        if is_there {
            let _ = write!(listeners, ",{protocol}://127.0.0.1:{port}");
        }
    }
    let mut config = format!(
        "process.roles={roles}\nnode.id={id}\n\
         listeners=PLAINTEXT://127.0.0.1:{plain}{decides}{listeners}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{plain}{listeners}\n\
         controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL\n\
         log.dirs={}\nnum.partitions=4\noffsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n\
         transaction.state.log.replication.factor=1\ntransaction.state.log.num.partitions=4\ntransaction.state.log.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\nlog.retention.check.interval.ms=1000\nlog.initial.task.delay.ms=0\n\
         num.network.threads=2\nnum.io.threads=2\nlog.cleaner.dedupe.buffer.size=8388608\n{}\n",
        folder.join("data").display(),
        options.config
    );
    if options.sasl {
        config.push_str(
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms=10000\n",
        );
        for listener in ["listener.name.sasl_plaintext", "listener.name.sasl_ssl"] {
            let module = "org.apache.kafka.common.security";
            let _ = write!(
                config,
                "{listener}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_waybill=\"secret\";\n\
                 {listener}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
                 {listener}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n"
            );
        }
    }
    if let Some(tls) = &options.tls {
        let (identity, ca) = (folder.join("identity.pem"), folder.join("ca.pem"));
        std::fs::write(&identity, format!("{}{}", tls.key, tls.cert))?;
        std::fs::write(&ca, &tls.ca)?;
        let _ = write!(
            config,
            "ssl.keystore.type=PEM\nssl.keystore.location={}\nssl.truststore.type=PEM\nssl.truststore.location={}\n\
             listener.name.ssl.ssl.client.auth=required\nlistener.name.sasl_ssl.ssl.client.auth=required\n",
            identity.display(),
            ca.display()
        );
    }
    std::fs::write(folder.join("server.properties"), config)
}

/// Makes an empty store, once.
async fn format(folder: &Path, options: &Options, node: Node, archive: &Archive) -> io::Result<()> {
    let mut command = java(&options.enter, archive, "128m").await?;
    command.args([
        "kafka.tools.StorageTool",
        "format",
        if node.id == 1 { "--standalone" } else { "--no-initial-controllers" },
        "-t",
        "V2F5YmlsbC10ZXN0LWthZg",
        "-c",
    ]);
    command.arg(folder.join("server.properties"));
    if options.sasl {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            command.args(["--add-scram", &format!("{mechanism}=[name=waybill,password=secret]")]);
        }
    }
    let done = command.stdin(Stdio::null()).output().await?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stdout, done.stderr].concat();
    Err(io::Error::other(format!("Kafka's store can't be made:\n{}", String::from_utf8_lossy(&said))))
}

async fn spawn(folder: &Path, options: &Options, archive: &Archive) -> io::Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    let mut command = java(&options.enter, archive, "256m").await?;
    command
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "kafka.Kafka"])
        .arg(folder.join("server.properties"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
    command.spawn()
}

/// Java with Kafka's classes and so much memory, behind these words.
async fn java(enter: &[String], archive: &Archive, memory: &str) -> io::Result<Command> {
    let java = java_program("java")?;
    let mut command = match enter {
        [] => Command::new(java),
        [program, words @ ..] => {
            let mut command = Command::new(program);
            command.args(words).arg(java);
            command
        }
    };
    command.args(archive.options()).args([format!("-Xms{memory}"), format!("-Xmx{memory}")]);
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg("-cp").arg(JARS.folder().await?.join("*"));
    Ok(command)
}
