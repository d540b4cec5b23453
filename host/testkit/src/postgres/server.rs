//! `postgres` as a process, with a database and a user for tests.

use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::client::Client;
use crate::process::{find_program, free_port};

/// A cold start takes 2 s; a loaded machine is slower.
const READY_TIME_MAX: Duration = Duration::from_secs(180);
/// Between two questions whether it is ready.
const READY_POLL: Duration = Duration::from_millis(20);
/// Where Debian keeps the programs, a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Who owns tables and inserts rows; the database is called the same.
pub const USER: &str = "app";
/// Of both users, where passwords are asked for.
pub const PASSWORD: &str = "s3cret";
const SUPERUSER: &str = "postgres";

/// How to start one.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines added to its configuration.
    pub config: String,
    /// Passwords are asked for, by this method of `pg_hba.conf`, e.g. `scram-sha-256`; none = everybody is trusted.
    pub login: Option<&'static str>,
    pub tls: Option<Tls>,
    /// Connections without TLS are refused.
    pub tls_only: bool,
}

/// PEM of its certificate and key.
#[derive(Clone, Debug)]
pub struct Tls {
    pub cert: String,
    pub key: String,
}

pub struct Server {
    child: Child,
    port: u16,
    account: Account,
    /// The last one to go.
    folder: TempDir,
}

/// Whom the server runs as: it refuses root.
#[derive(Clone, Copy, Debug)]
enum Account {
    Ours,
    Other { user: u32, group: u32 },
}

impl Server {
    /// Starts one that trusts everybody on loopback, and waits until it answers.
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
        let account = Account::find()?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        account.give(folder.path())?;
        prepare(folder.path(), &options, account).await?;
        let child = spawn(folder.path(), port, account)?;
        let mut server = Self { child, port, account, folder };
        server.ready().await?;
        let mut client = server.superuser().await?;
        client.query(&format!("CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")).await?;
        client.query(&format!("ALTER DATABASE {USER} OWNER TO {USER}")).await?;
        Ok(server)
    }

    /// Its port on loopback: the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of its first process, whose children its sessions are; none once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// `postgres://app@127.0.0.1:PORT/app`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{USER}", self.port)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A client as the user who owns the tables.
    ///
    /// # Errors
    /// It doesn't answer.
    pub async fn client(&self) -> io::Result<Client> {
        Client::connect(&psql()?, self.port, USER, PASSWORD).await
    }

    /// A client who may do everything.
    ///
    /// # Errors
    /// It doesn't answer.
    pub async fn superuser(&self) -> io::Result<Client> {
        Client::connect(&psql()?, self.port, SUPERUSER, PASSWORD).await
    }

    /// Kills it (`kill -9`) and waits for its end. Its sessions' processes end when they notice.
    ///
    /// # Errors
    /// The system refuses.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again on the same port and folder, after [`Server::kill`], and waits until it has recovered.
    ///
    /// # Errors
    /// It doesn't start.
    pub async fn restart(&mut self) -> io::Result<()> {
        // The number in it is another process's by now, or nobody's.
        let _ = std::fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        self.child = spawn(self.folder.path(), self.port, self.account)?;
        self.ready().await
    }

    /// Stops it where it is: new connections wait. [`Server::kill`] ends it all the same.
    ///
    /// # Errors
    /// It has ended.
    pub fn freeze(&self) -> io::Result<()> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("postgres has ended"))?;
        rustix::process::kill_process(pid, Signal::STOP).map_err(Into::into)
    }

    async fn ready(&mut self) -> io::Result<()> {
        let asked = Instant::now();
        let mut last = io::Error::other("it wasn't asked");
        while asked.elapsed() < READY_TIME_MAX {
            if let Some(status) = self.child.try_wait()? {
                // Sessions of a killed one still hold its memory until they notice.
                if !self.log().contains("shared memory block") {
                    return Err(io::Error::other(format!("postgres ended with {status}:\n{}", self.log())));
                }
                self.child = spawn(self.folder.path(), self.port, self.account)?;
            }
            match self.superuser().await {
                Ok(_) => return Ok(()),
                Err(error) => last = error,
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Err(io::Error::other(format!("postgres wasn't ready in time: {last}\n{}", self.log())))
    }
}

impl Account {
    fn find() -> io::Result<Self> {
        if !rustix::process::getuid().is_root() {
            return Ok(Self::Ours);
        }
        let accounts = std::fs::read_to_string("/etc/passwd")?;
        let numbers = accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != SUPERUSER {
                return None;
            }
            let mut numbers = fields.skip(1).map_while(|field| field.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        });
        let (user, group) = numbers.ok_or_else(missing)?;
        Ok(Self::Other { user, group })
    }

    /// Makes a file or folder the account's.
    fn give(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Ours => Ok(()),
            Self::Other { user, group } => chown(path, Some(user), Some(group)),
        }
    }

    fn run(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env("HOME", folder).env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
        if let Self::Other { user, group } = self {
            command.uid(user).gid(group);
        }
        command
    }
}

/// Makes the cluster, with its database.
async fn prepare(folder: &Path, options: &Options, account: Account) -> io::Result<()> {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        account.give(&path)?;
        io::Result::Ok(path)
    };
    let (data, password) = (folder.join("data"), file("password", PASSWORD)?);
    let login = options.login.unwrap_or("trust");
    let mut initdb = account.run(&program("initdb")?, folder);
    initdb
        .arg("-D")
        .arg(&data)
        .args(["-U", SUPERUSER, "-A", login, "-E", "UTF8", "--no-sync", "--pwfile"])
        .arg(&password);
    let made = initdb.output().await?;
    if !made.status.success() {
        return Err(io::Error::other(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr))));
    }
    // No socket in the file system: its lock would outlive a killed server.
    let mut config = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\n".to_owned();
    if let Some(Tls { cert, key }) = &options.tls {
        let (cert, key) = (file("cert.pem", cert)?, file("key.pem", key)?);
        config += &format!("ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n", cert.display(), key.display());
    }
    config += &options.config;
    let config = file("more.conf", &config)?;
    let include = format!("\ninclude '{}'\n", config.display());
    let path = data.join("postgresql.conf");
    let known = std::fs::read_to_string(&path)?;
    std::fs::write(&path, known + &include)?;
    if options.tls_only {
        let path = data.join("pg_hba.conf");
        // The superuser's own clients come without.
        let lines = format!("host all {SUPERUSER} 127.0.0.1/32 {login}\nhostssl all all 127.0.0.1/32 {login}\n");
        std::fs::write(&path, lines)?;
    }
    create_database(folder, &data, account).await
}

/// By the single-user server, so that nobody has to wait for it.
async fn create_database(folder: &Path, data: &Path, account: Account) -> io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let mut alone = account.run(&program("postgres")?, folder);
    alone.args(["--single", "-D"]).arg(data).arg("postgres");
    alone.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = alone.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(format!("CREATE DATABASE {USER};\n").as_bytes()).await?;
    }
    let ended = child.wait_with_output().await?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("no database: {}", String::from_utf8_lossy(&ended.stderr)))),
    }
}

fn spawn(folder: &Path, port: u16, account: Account) -> io::Result<Child> {
    let log = std::fs::File::create(folder.join("log"))?;
    let mut command = account.run(&program("postgres")?, folder);
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
    command.stdout(Stdio::null()).stderr(log).spawn()
}

/// Whether the server and its tools are there.
pub fn is_installed() -> bool {
    ["postgres", "initdb", "psql"].iter().all(|name| program(name).is_ok())
}

/// Where the program is that [`Client`] runs.
///
/// # Errors
/// It isn't installed.
pub fn psql() -> io::Result<PathBuf> {
    program("psql")
}

/// Where a program is: in the search path, or in the folder of the newest version that Debian has.
fn program(name: &str) -> io::Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(DEBIAN)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin").join(name)))
        })
        .filter(|(_, program)| program.is_file())
        .collect();
    versions.sort();
    versions.pop().map(|(_, program)| program).or_else(|| find_program(name)).ok_or_else(missing)
}

fn missing() -> io::Error {
    io::Error::other(
        "PostgreSQL is not installed: `apt-get install postgresql` (Debian, Ubuntu), or https://www.postgresql.org/download",
    )
}
