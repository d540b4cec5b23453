//! The release binary under measurement: its own folder, its defaults, its CPU time and memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tempfile::TempDir;
use waybill_testkit::api::{Api, Depth};
use waybill_testkit::load::{Usage, usage};
use waybill_testkit::process::{Host, Launch};

use super::Bench;
use super::figure::Figure;

const TERMINATE_WITHIN: Duration = Duration::from_secs(60);
/// A host in which nothing moves for this long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Name of the data directory.
const DATA: &str = "data";
const POLL: Duration = Duration::from_millis(10);

/// A host that is measured.
pub struct Measured {
    host: Host,
    pub api: Api,
    ready: Duration,
    before: Usage,
    // Last: the folder goes when the host is gone.
    folder: TempDir,
}

impl Measured {
    /// Starts one with this configuration, which names no store.
    pub async fn start(bench: &Bench, config: &str) -> Result<Self> {
        Self::start_in(bench, bench.folder()?, config).await
    }

    /// The same in a folder that may have a data directory.
    pub async fn start_in(bench: &Bench, folder: TempDir, config: &str) -> Result<Self> {
        // What was asked for on the command line comes over what the workload needs.
        let mut document: toml::Table = config.parse().context("the workload's configuration")?;
        for (name, section) in bench.config.parse::<toml::Table>().context("--config")? {
            let section = section.as_table().cloned().with_context(|| format!("--config: `{name}` is no section"))?;
            let place = document.entry(name).or_insert_with(|| toml::Table::new().into());
            place.as_table_mut().context("--config")?.extend(section);
        }
        let store = document.entry("store").or_insert_with(|| toml::Table::new().into());
        let url = format!("surrealkv://{}", data(&folder).display());
        store.as_table_mut().context("the section [store]")?.insert("url".into(), url.into());
        let launch = Launch::prepare(bench.binary.clone(), folder.path(), &document.to_string())?;
        let (host, api) = Host::ready(&launch).await?;
        let ready = host.started().elapsed();
        let before = used(&host)?;
        Ok(Self { host, api, ready, before, folder })
    }

    /// An operator's act that has to succeed.
    pub async fn act(&self, path: &str) -> Result<()> {
        match self.api.post(path, &json!({})).await {
            Ok(reply) if reply.is_ok() => Ok(()),
            Ok(reply) => bail!("POST {path} answered {}: {}", reply.status, reply.body),
            Err(error) => bail!("POST {path} wasn't answered: {error:?}"),
        }
    }

    /// Counts CPU time from here on.
    pub fn mark(&mut self) -> Result<()> {
        self.before = used(&self.host)?;
        Ok(())
    }

    /// Bytes that are resident now.
    pub fn resident(&self) -> Result<u64> {
        used(&self.host).map(|used| used.resident)
    }

    pub fn data(&self) -> PathBuf {
        data(&self.folder)
    }

    /// Waits until nothing is on its way.
    pub async fn drained(&self) -> Result<()> {
        let (mut seen, mut moved) = (u64::MAX, Instant::now());
        loop {
            let left = self.api.depths().await?.iter().map(Depth::on_the_way).sum::<u64>();
            if left == 0 {
                return Ok(());
            }
            if left != seen {
                (seen, moved) = (left, Instant::now());
            } else if moved.elapsed() > PATIENCE {
                bail!("{left} messages wait and nothing has moved for {} s", PATIENCE.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Adds what it used to a figure.
    pub fn used(&self, figure: Figure) -> Result<Figure> {
        let now = used(&self.host)?;
        let figure = figure.with_cpu(now.cpu.saturating_sub(self.before.cpu));
        Ok(Figure {
            resident_peak_mib: Some(now.resident_peak as f64 / 1_048_576.0),
            ready_ms: Some(self.ready.as_secs_f64() * 1e3),
            ..figure
        })
    }

    /// Ends it in good order; a host that doesn't is no figure.
    pub async fn end(self) -> Result<()> {
        self.ended().await.map(drop)
    }

    /// The same, and what it leaves behind.
    pub async fn ended(self) -> Result<TempDir> {
        let status = self.host.terminate(TERMINATE_WITHIN).await?;
        if !status.success() {
            bail!("the host was asked to end and ended with {status}");
        }
        Ok(self.folder)
    }
}

/// The data directory in a host's folder.
pub fn data(folder: &TempDir) -> PathBuf {
    folder.path().join(DATA)
}

fn used(host: &Host) -> Result<Usage> {
    let pid = host.id().context("the host has ended by itself")?;
    usage(pid).context("reading what the host used")
}
