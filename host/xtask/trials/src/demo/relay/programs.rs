//! The example's programs as processes: the shop that places orders, and the handler that bills them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use waybill_testkit::api::{Api, CallError};
use waybill_testkit::process::free_port;

use super::evidence::Report;

/// A Python that starts on a busy machine takes this long at most.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// What `billing.py` writes when it is there.
const LISTENS: &str = "listening on ";
/// What `shop.py` writes of its progress.
const PLACED: &str = "placed ";
/// One message in so many fails at its first call, and another one.
const TROUBLE: u32 = 20;

/// `shop.py`, which knows PostgreSQL and nothing else.
pub struct Shop {
    python: PathBuf,
    script: PathBuf,
    database: String,
}

impl Shop {
    pub fn new(python: &Path, script: &Path, database: &str) -> Self {
        Self { python: python.to_owned(), script: script.to_owned(), database: database.to_owned() }
    }

    fn command(&self, act: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(&self.script).args([act, "--database", &self.database]);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Makes its tables, where they are missing.
    pub async fn create(&self) -> Result<()> {
        let made = self.command("create").output().await.context("starting shop.py")?;
        if !made.status.success() {
            bail!("shop.py made no tables: {}", String::from_utf8_lossy(&made.stderr));
        }
        Ok(())
    }

    /// Begins to place orders.
    pub fn place(&self, orders: u32, customers: u32, rate: u32) -> Result<Placing> {
        let mut command = self.command("place");
        for (name, value) in [("--orders", orders), ("--customers", customers), ("--rate", rate)] {
            command.args([name, &value.to_string()]);
        }
        // It says that its database is away, which everybody knows.
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("starting shop.py")?;
        let output = child.stdout.take().context("shop.py has no output")?;
        let (tell, placed) = watch::channel(0);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(count) = line.strip_prefix(PLACED).and_then(|count| count.parse().ok()) {
                    tell.send_replace(count);
                }
            }
        });
        Ok(Placing { child, placed })
    }
}

/// Orders on their way into the tables.
pub struct Placing {
    child: Child,
    placed: watch::Receiver<u32>,
}

impl Placing {
    /// Orders placed so far.
    pub fn placed(&self) -> u32 {
        *self.placed.borrow()
    }

    /// Waits for its end, which has to be a good one.
    pub async fn ended(mut self) -> Result<()> {
        let status = self.child.wait().await.context("waiting for shop.py")?;
        if !status.success() {
            bail!("shop.py ended with {status}");
        }
        Ok(())
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// `billing.py`: handler and webhook in one, and the only witness of its calls.
pub struct Billing {
    python: PathBuf,
    script: PathBuf,
    file: PathBuf,
    port: u16,
    api: Api,
    process: Child,
}

/// What it has so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    pub bills: u32,
    /// Messages that came to the handler.
    #[serde(rename = "/handle", default)]
    pub handled: u32,
    /// Messages that came to the webhook.
    #[serde(rename = "/webhook", default)]
    pub webhooks: u32,
}

impl Billing {
    /// Starts it on a free port, which it keeps.
    pub async fn start(python: &Path, script: &Path, file: &Path) -> Result<Self> {
        let port = free_port()?;
        let process = spawn(python, script, file, port).await?;
        let api = Api::new(format!("http://127.0.0.1:{port}"));
        Ok(Self { python: python.to_owned(), script: script.to_owned(), file: file.to_owned(), port, api, process })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> &str {
        self.api.base()
    }

    /// Kills it (`kill -9`) and waits for its end.
    pub async fn kill(&mut self) -> Result<()> {
        self.process.kill().await.context("killing billing.py")
    }

    /// Starts it again with its port and file, after [`Billing::kill`].
    pub async fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.python, &self.script, &self.file, self.port).await?;
        Ok(())
    }

    pub async fn counts(&self) -> Result<Counts, CallError> {
        self.api.read("/counts", &[]).await
    }

    /// Everything, from its own database.
    pub async fn report(&self) -> Result<Report> {
        self.api.read("/report", &[]).await.context("asking billing.py for its report")
    }
}

async fn spawn(python: &Path, script: &Path, file: &Path, port: u16) -> Result<Child> {
    let mut process = Command::new(python)
        .arg(script)
        .arg(port.to_string())
        .arg(file)
        .args(["--trouble", &TROUBLE.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting billing.py")?;
    let output = process.stdout.take().context("billing.py has no output")?;
    let mut lines = BufReader::new(output).lines();
    let first = tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await;
    let first = first.context("billing.py doesn't say where it listens")?.context("reading what billing.py says")?;
    if !first.as_deref().is_some_and(|line| line.starts_with(LISTENS)) {
        bail!("billing.py ended, or said something else than where it listens: {first:?}");
    }
    // Read on, or a full pipe would stop it.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(process)
}
