//! Pulsar as the broker that messages come in from, written to by its own project's client.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{Disturbance, Load, Upstream, id_of, key_of};
use crate::pulsar::Server;

const LOAD: Load = Load {
    messages: 500,
    keys: 20,
    senders: 2,
    call: Duration::from_millis(20),
    ordered: true,
    disturbances: &[
        Disturbance::SourceTrapped,
        Disturbance::HostKilled,
        Disturbance::BrokerKilled,
        Disturbance::SourceReplaced,
        Disturbance::HandlerKilled,
        Disturbance::HostKilled,
    ],
};
const TOPIC: &str = "orders-in";
const SUBSCRIPTION: &str = "ship";
/// Milliseconds between two messages of a sender, so that kills meet all of the work.
const PACE_MS: u64 = 20;

/// A topic of orders, read by two instances of a source that share its keys.
pub struct Pulsar(Server);

impl Pulsar {
    /// Starts a server with the topic, and with the subscription, which keeps what comes from then on.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start() -> io::Result<Self> {
        let server = Server::start().await?;
        server.create_topic(TOPIC, 0).await?;
        let path = format!("persistent/public/default/{TOPIC}/subscription/{SUBSCRIPTION}");
        server.admin("PUT", &path, "").await?;
        Ok(Self(server))
    }
}

#[async_trait]
impl Upstream for Pulsar {
    fn load(&self) -> Load {
        LOAD
    }

    fn source(&self) -> String {
        let (url, port) = (self.0.url(), self.0.port());
        format!(
            "plugin = \"pulsar-source\"\ninstances = 2\nallow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}\n\
             config = {{ servers = [\"{url}\"], topic = \"{TOPIC}\", subscription = \"{SUBSCRIPTION}\", type = \"key-shared\" }}\n"
        )
    }

    fn sender(&self) -> BoxFuture<'static, io::Result<u64>> {
        let client = self.0.foreign();
        async move {
            client.write_slowly(&path(), messages(LOAD.messages, 0), PACE_MS).await?;
            Ok(LOAD.messages)
        }
        .boxed()
    }

    async fn send_large(&mut self, bytes: usize) -> io::Result<()> {
        self.0.foreign().write(&path(), messages(LOAD.keys, bytes), 1, "NONE").await
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.0.kill().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.0.restart().await
    }

    async fn unsettled(&self) -> io::Result<Option<u64>> {
        let path = format!("persistent/public/default/{TOPIC}/stats?getPreciseBacklog=true");
        let stats: Value = serde_json::from_str(&self.0.admin("GET", &path, "").await?).map_err(io::Error::other)?;
        let backlog = stats.pointer(&format!("/subscriptions/{SUBSCRIPTION}/msgBacklog")).and_then(Value::as_u64);
        backlog.map(Some).ok_or_else(|| io::Error::other(format!("no backlog: {stats}")))
    }
}

/// The topic, as clients name it.
fn path() -> String {
    format!("persistent://public/default/{TOPIC}")
}

/// The first so many messages, each with so many bytes more.
fn messages(count: u64, bytes: usize) -> Value {
    let padding = "x".repeat(bytes);
    let message = |number: u64| {
        json!({
            "payload": json!({ "order": number, "padding": padding }).to_string(), "key": key_of(number, LOAD.keys),
            "properties": { "id": id_of(number), "content-type": "application/json" },
        })
    };
    (1..=count).map(message).collect()
}
