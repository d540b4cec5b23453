//! Pulsar as a process: broker, bookie and metadata in one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::sync::OnceCell;

use super::JARS;
use super::foreign::Foreign;
use crate::maven::{Archive, java_program};
use crate::process::{free_port, guard};

/// A cold start takes a quarter of a minute; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(300);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(100);
/// Time for ending in good order on a busy machine.
const END_TIME_MAX: Duration = Duration::from_secs(180);
/// Archive of the classes that it loads.
const ARCHIVE: &str = "server.jsa";
/// In its folder: the key by which tokens are signed, and the token that it shows itself.
const TOKEN_KEY_FILE: &str = "secret.key";
const TOKEN_FILE: &str = "token";
/// Packages of Java that Pulsar looks into.
const OPENED: [&str; 12] = [
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.util.zip",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.io",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.platform",
    "java.base/sun.nio.ch",
    "java.management/sun.management",
];

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration.
    pub config: String,
    /// A second listener, with TLS.
    pub tls: Option<Tls>,
    /// The key by which tokens are signed (HS256): who shows none isn't let in. The role `waybill` may do everything.
    pub token_key: Option<Vec<u8>>,
    /// A token of the role `waybill`, which the broker shows itself.
    pub own_token: String,
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
    ports: Ports,
    jars: PathBuf,
    archive: Archive,
    token: Option<String>,
    child: Child,
    /// Ends it when this process is gone.
    guard: Child,
    /// The last one to go.
    folder: TempDir,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    broker: u16,
    http: u16,
    bookie: u16,
    tls: u16,
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
        let made = JARS.made("", make).await?;
        Self::launch(options, Archive::Uses(made.join(ARCHIVE))).await
    }

    async fn launch(options: Options, archive: Archive) -> io::Result<Self> {
        let jars = JARS.folder().await?;
        let folder = tempfile::tempdir()?;
        let ports = Ports { broker: free_port()?, http: free_port()?, bookie: free_port()?, tls: free_port()? };
        prepare(folder.path(), &options, ports)?;
        let child = spawn(folder.path(), &jars, &archive, ports)?;
        let guard = guard(&[&child], folder.path())?;
        let token = options.token_key.is_some().then_some(options.own_token);
        let mut server = Self { ports, jars, archive, token, child, guard, folder };
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
        self.ports.broker
    }

    pub fn url(&self) -> String {
        format!("pulsar://127.0.0.1:{}", self.ports.broker)
    }

    /// `pulsar+ssl://127.0.0.1:PORT`, where [`Options::tls`] is set.
    pub fn tls_url(&self) -> String {
        format!("pulsar+ssl://127.0.0.1:{}", self.ports.tls)
    }

    /// `http://127.0.0.1:PORT`, for provisioning.
    pub fn admin_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.http)
    }

    /// The client of Pulsar's own project.
    pub fn foreign(&self) -> Foreign {
        Foreign { url: self.url(), token: self.token.clone(), ca: None }
    }

    /// Asks its HTTP service, e.g. `PUT` of `persistent/public/default/orders/partitions` with `4`.
    ///
    /// # Errors
    /// It answers with a failure; the text is its own.
    pub async fn admin(&self, method: &str, path: &str, body: &str) -> io::Result<String> {
        self.ask(&reqwest::Client::new(), method, path, body).await
    }

    async fn ask(&self, client: &reqwest::Client, method: &str, path: &str, body: &str) -> io::Result<String> {
        let method = method.parse().map_err(io::Error::other)?;
        let mut request = client.request(method, format!("{}/admin/v2/{path}", self.admin_url()));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let request = request.header("content-type", "application/json").body(body.to_owned());
        let response = request.send().await.map_err(io::Error::other)?;
        let status = response.status();
        let text = response.text().await.map_err(io::Error::other)?;
        if status.is_success() { Ok(text) } else { Err(io::Error::other(format!("{path}: {status} {text}"))) }
    }

    /// Makes a topic of the namespace `public/default`; 0 partitions: none.
    ///
    /// # Errors
    /// It is there, or can't be made.
    pub async fn create_topic(&self, name: &str, partitions: u32) -> io::Result<()> {
        let path = format!("persistent/public/default/{name}");
        match partitions {
            0 => self.admin("PUT", &path, "").await,
            count => self.admin("PUT", &format!("{path}/partitions"), &count.to_string()).await,
        }
        .map(|_| ())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
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
        self.child = spawn(self.folder.path(), &self.jars, &self.archive, self.ports)?;
        self.guard = guard(&[&self.child], self.folder.path())?;
        self.ready().await
    }

    /// Kills it and starts it again with another key by which tokens are signed: those of the key before are good for nothing.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn change_token_key(&mut self, key: &[u8], own_token: &str) -> io::Result<()> {
        self.kill().await?;
        std::fs::write(self.folder.path().join(TOKEN_KEY_FILE), key)?;
        std::fs::write(self.folder.path().join(TOKEN_FILE), own_token)?;
        self.token = Some(own_token.to_owned());
        self.restart().await
    }

    /// Stops it where it is: connections stay, nothing is read or answered. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Ends it in good order.
    async fn end(mut self) -> io::Result<()> {
        self.guard.kill().await?;
        self.signal(Signal::TERM)?;
        tokio::time::timeout(END_TIME_MAX, self.child.wait()).await.map_err(io::Error::other)?.map(|_| ())
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("Pulsar has ended"))?;
        rustix::process::kill_process(pid, signal).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        // One for all questions: it reads the machine's certificates when it is made, which costs more than the question.
        let client = reqwest::Client::new();
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("Pulsar ended with {status}:\n{}", self.log())));
            }
            // It takes requests before it has made the namespace that topics are in.
            if self.ask(&client, "GET", "namespaces/public/default", "").await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("Pulsar wasn't ready in time:\n{}", self.log())))
    }
}

/// Makes the archive of its classes.
async fn make(folder: PathBuf) -> io::Result<()> {
    let server = Server::launch(Options::default(), Archive::Makes(folder.join(ARCHIVE))).await?;
    server.create_topic("archived", 2).await?;
    let topic = "persistent://public/default/archived";
    let messages = serde_json::json!([{ "payload": "x", "key": "a", "properties": { "id": "1" } }]);
    server.foreign().write(topic, messages, 1, "NONE").await?;
    server.foreign().read(topic, "Exclusive", 1).await?;
    server.end().await
}

fn prepare(folder: &Path, options: &Options, ports: Ports) -> io::Result<()> {
    let data = folder.join("bookie");
    let (data, status) = (data.display(), folder.join("status"));
    std::fs::write(&status, "")?;
    let mut config = format!(
        "clusterName=standalone\nbrokerServicePort={}\nwebServicePort={}\nstatusFilePath={}\n\
         bindAddress=127.0.0.1\nadvertisedAddress=127.0.0.1\nallowLoopback=true\n\
         managedLedgerDefaultEnsembleSize=1\nmanagedLedgerDefaultWriteQuorum=1\nmanagedLedgerDefaultAckQuorum=1\n\
         managedLedgerCacheSizeMB=32\nnumIOThreads=2\nnumHttpServerThreads=4\nnumOrderedExecutorThreads=2\n\
         numCacheExecutorThreadPoolSize=2\nwebSocketServiceEnabled=false\nloadBalancerEnabled=false\n\
         allowAutoTopicCreationType=non-partitioned\nbrokerDeleteInactiveTopicsEnabled=false\n\
         backlogQuotaCheckIntervalInSeconds=1\n\
         diskUsageThreshold=0.99\ndiskUsageWarnThreshold=0.98\njournalSyncData=true\njournalMaxGroupWaitMSec=1\n\
         journalDirectories={data}\nledgerDirectories={data}\ndbStorage_writeCacheMaxSizeMb=32\n\
         dbStorage_readAheadCacheMaxSizeMb=16\ndbStorage_rocksDB_blockCacheSize=8388608\n",
        ports.broker,
        ports.http,
        status.display(),
    );
    if let Some(tls) = &options.tls {
        config.push_str(&format!("brokerServicePortTls={}\n", ports.tls));
        for (option, name, text) in [
            ("tlsCertificateFilePath", "cert.pem", &tls.cert),
            ("tlsKeyFilePath", "key.pem", &tls.key),
            ("tlsTrustCertsFilePath", "ca.pem", &tls.ca),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            config.push_str(&format!("{option}={}\n", path.display()));
        }
    }
    if let Some(key) = &options.token_key {
        let (key_file, token_file) = (folder.join(TOKEN_KEY_FILE), folder.join(TOKEN_FILE));
        std::fs::write(&key_file, key)?;
        std::fs::write(&token_file, &options.own_token)?;
        config.push_str(&format!(
            "authenticationEnabled=true\nauthorizationEnabled=true\nsuperUserRoles=waybill\n\
             authenticationProviders=org.apache.pulsar.broker.authentication.AuthenticationProviderToken\n\
             tokenSecretKey=file://{}\n\
             brokerClientAuthenticationPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken\n\
             brokerClientAuthenticationParameters=file:{}\n",
            key_file.display(),
            token_file.display(),
        ));
    }
    config.push_str(&options.config);
    std::fs::write(folder.join("standalone.conf"), config)?;
    let logging = "appender.out.type = Console\nappender.out.name = out\nappender.out.layout.type = PatternLayout\n\
                   appender.out.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n\n\
                   rootLogger.level = warn\nrootLogger.appenderRef.out.ref = out\n";
    std::fs::write(folder.join("log4j2.properties"), logging)
}

fn spawn(folder: &Path, jars: &Path, archive: &Archive, ports: Ports) -> io::Result<Child> {
    let java = java_program("java")?;
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = Command::new(java);
    command.current_dir(folder).args(archive.options()).args([
        "-Xms384m",
        "-Xmx384m",
        "-XX:MaxDirectMemorySize=384m",
        "-XX:+UseSerialGC",
    ]);
    command.args(["-XX:TieredStopAtLevel=1", "-Dio.netty.tryReflectionSetAccessible=true"]);
    for package in OPENED {
        command.arg("--add-opens").arg(format!("{package}=ALL-UNNAMED"));
    }
    command.arg(format!("-Dlog4j2.configurationFile={}", folder.join("log4j2.properties").display()));
    command.arg("-cp").arg(jars.join("*")).arg("org.apache.pulsar.PulsarStandaloneStarter");
    command.arg("-c").arg(folder.join("standalone.conf")).arg("--metadata-dir").arg(folder.join("metadata"));
    command.arg("--bookkeeper-dir").arg(folder.join("bookie"));
    command.args(["--bookkeeper-port", &ports.bookie.to_string(), "-nfw", "-nss", "-a", "127.0.0.1"]);
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).kill_on_drop(true).spawn()
}
