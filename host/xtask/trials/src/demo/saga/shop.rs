//! The shop of the example as a process: what the saga's steps change, and the only witness that the demo believes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use waybill_testkit::api::Api;

/// A Python that starts on a busy machine takes this long at most.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// What the shop writes when it is there.
const ADDRESS: &str = "listening on ";

/// What the shop has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Accounts {
    /// Pieces of each kind of goods.
    pub shelf: BTreeMap<String, i64>,
    /// Money that came in.
    pub cents: i64,
    pub parcels: i64,
    pub confirmed: i64,
}

/// One request to the shop.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Asked {
    pub order: String,
    /// `holds`, `charges`, `shipments` or `confirmations`.
    pub kind: String,
    /// It asked to undo.
    pub undo: bool,
    pub key: String,
    /// How often it changed the accounts.
    pub changed: u64,
}

/// A running shop; it ends when this is dropped.
pub struct Shop {
    _process: Child,
    api: Api,
}

impl Shop {
    /// Starts it on a free port.
    pub async fn start(script: &Path) -> Result<Self> {
        let mut process = Command::new("python3")
            .arg(script)
            .arg("0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting python3")?;
        let output = process.stdout.take().context("the shop has no output")?;
        let mut lines = BufReader::new(output).lines();
        let first = tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await;
        let first = first.context("the shop doesn't say where it listens")?.context("reading what the shop says")?;
        let Some(url) = first.as_deref().and_then(|line| line.strip_prefix(ADDRESS)) else {
            bail!("{} ended, or said something else than where it listens: {first:?}", script.display());
        };
        let api = Api::new(url);
        // Read on, or a full pipe would stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _process: process, api })
    }

    pub fn url(&self) -> &str {
        self.api.base()
    }

    /// What it has now.
    pub async fn accounts(&self) -> Result<Accounts> {
        self.api.read("/accounts", &[]).await.context("asking the shop for its accounts")
    }

    /// All that it was asked, in order.
    pub async fn log(&self) -> Result<Vec<Asked>> {
        self.api.read("/log", &[]).await.context("asking the shop for its log")
    }

    /// From now on everything can be undone.
    pub async fn repair(&self) -> Result<()> {
        match self.api.post("/mend", &json!({})).await {
            Ok(reply) if reply.is_ok() => Ok(()),
            other => bail!("the shop can't be mended: {other:?}"),
        }
    }
}
