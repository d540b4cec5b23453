//! The client that Pulsar's own project makes, for Python: what it reads of what we wrote, and what it writes for us to read.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::maven::caches;
use crate::toolchains;

/// Its package, of the version that the tests run on.
const PACKAGE: &str = "pulsar-client==3.13.0\n";
const PROGRAM: &str = include_str!("foreign.py");
/// Longest that it takes on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(300);

/// How it reaches a server.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    /// `pulsar://...` or `pulsar+ssl://...`.
    pub url: String,
    pub token: Option<String>,
    /// File with the CA.
    pub ca: Option<PathBuf>,
}

/// A message as it read it.
#[derive(Clone, Debug)]
pub struct Read(pub Value);

impl Read {
    /// A property; none: it has none of that name.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.0.get("properties")?.get(name)?.as_str()
    }

    /// A text of the message itself: `topic`, `key`, `ordering_key`, `payload` (in Base64).
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Ledger, entry and index.
    pub fn place(&self) -> Vec<i64> {
        let place = self.0.get("place").and_then(Value::as_array);
        place.into_iter().flatten().filter_map(Value::as_i64).collect()
    }
}

impl Foreign {
    /// Reads so many messages of a topic from its beginning, by a consumer of this kind (`Exclusive`, `Shared`, `Failover`, `KeyShared`).
    ///
    /// # Errors
    /// It can't be installed, or failed; the text is its own.
    pub async fn read(&self, topic: &str, kind: &str, count: usize) -> io::Result<Vec<Read>> {
        let order = json!({ "do": "read", "topic": topic, "subscription": "foreign", "type": kind, "count": count });
        self.reading(order).await
    }

    /// Writes messages (`payload`, `key`, `properties`), so many in a batch, compressed (`NONE`, `LZ4`, `ZLib`, `ZSTD`, `SNAPPY`).
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn write(&self, topic: &str, messages: Value, batch: usize, compression: &str) -> io::Result<()> {
        let order = json!({
            "do": "write", "topic": topic, "messages": messages, "batch": batch, "compression": compression,
        });
        self.run(order).await.map(|_| ())
    }

    /// Writes messages so many milliseconds apart, and each until it is acknowledged, also by a broker that comes back.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn write_slowly(&self, topic: &str, messages: Value, pace_ms: u64) -> io::Result<()> {
        self.run(json!({ "do": "write", "topic": topic, "messages": messages, "pace": pace_ms })).await.map(|_| ())
    }

    /// Reads all that a subscription keeps, until nothing more comes for some seconds.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_kept(&self, topic: &str, subscription: &str) -> io::Result<Vec<Read>> {
        let order = json!({ "do": "read", "topic": topic, "subscription": subscription });
        self.reading(order).await
    }

    async fn reading(&self, order: Value) -> io::Result<Vec<Read>> {
        let text = self.run(order).await?;
        text.lines().map(|line| serde_json::from_str(line).map(Read).map_err(io::Error::other)).collect()
    }

    async fn run(&self, mut order: Value) -> io::Result<String> {
        if let Some(order) = order.as_object_mut() {
            order.insert("url".to_owned(), json!(self.url));
            order.insert("token".to_owned(), json!(self.token));
            order.insert("ca".to_owned(), json!(self.ca));
        }
        let programs = tokio::task::spawn_blocking(install).await.map_err(io::Error::other)??;
        let mut command = Command::new(programs.join("python3"));
        command.args(["-c", PROGRAM]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(format!("{order}\n").as_bytes()).await?;
        }
        let output = tokio::time::timeout(TIME_MAX, child.wait_with_output()).await.map_err(io::Error::other)??;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("Pulsar's own client failed with {}: {words}", output.status)));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }
}

fn install() -> io::Result<PathBuf> {
    let folder = caches();
    std::fs::create_dir_all(&folder)?;
    let lock = std::fs::File::create(folder.join("pulsar-python.lock"))?;
    lock.lock()?;
    let requirements = folder.join("pulsar-python.txt");
    std::fs::write(&requirements, PACKAGE)?;
    toolchains::environment(&folder.join("pulsar-python"), &requirements, None).map_err(io::Error::other)
}
