//! Kafka as the broker that messages come in from, written to by its Java client.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Disturbance, Load, Upstream};
use crate::kafka::{Server, client_of};

const LOAD: Load = Load {
    messages: 800,
    // Of the Java client's program.
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
const GROUP: &str = "ship";
const PARTITIONS: u32 = 4;
/// Milliseconds between two messages of a sender, so that kills meet all of the work.
const PACE_MS: u64 = 15;

/// A topic of orders, read by two instances of a source.
pub struct Kafka(Server);

impl Kafka {
    /// Starts a server with the topic.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start() -> io::Result<Self> {
        let server = Server::start().await?;
        server.client().await?.create(TOPIC, PARTITIONS).await?;
        Ok(Self(server))
    }
}

#[async_trait]
impl Upstream for Kafka {
    fn load(&self) -> Load {
        LOAD
    }

    fn source(&self) -> String {
        let url = self.0.url();
        format!(
            "plugin = \"kafka-source\"\ninstances = 2\nallow = {{ net = [\"tcp://{url}\"] }}\n\
             config = {{ servers = [\"{url}\"], topics = [\"{TOPIC}\"], group = \"{GROUP}\" }}\n"
        )
    }

    fn sender(&self) -> BoxFuture<'static, io::Result<u64>> {
        let url = self.0.url();
        async move { write(url, LOAD.messages, &format!("pace={PACE_MS}")).await }.boxed()
    }

    async fn send_large(&mut self, bytes: usize) -> io::Result<()> {
        match write(self.0.url(), LOAD.keys, &format!("bytes={bytes}")).await? {
            written if written == LOAD.keys => Ok(()),
            written => Err(io::Error::other(format!("{written} large messages were taken"))),
        }
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.0.kill().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.0.restart().await
    }

    async fn unsettled(&self) -> io::Result<Option<u64>> {
        let client = self.0.client().await?;
        let (ends, offsets) = (client.run("ends", &[TOPIC]).await?, client.run("offsets", &[GROUP]).await?);
        let mut left = BTreeMap::new();
        for line in &ends {
            let [partition, end] = line.as_slice() else { continue };
            left.insert(partition.clone(), end.parse::<u64>().map_err(io::Error::other)?);
        }
        for line in &offsets {
            let [_, partition, at] = line.as_slice() else { continue };
            if let Some(left) = left.get_mut(partition) {
                *left = left.saturating_sub(at.parse::<u64>().map_err(io::Error::other)?);
            }
        }
        Ok(Some(left.values().sum()))
    }
}

/// Has the Java client write the first so many messages; how many were acknowledged.
async fn write(url: String, messages: u64, how: &str) -> io::Result<u64> {
    let end = (messages + 1).to_string();
    let written = client_of(url).await?.run("write", &[TOPIC, "1", &end, how]).await?;
    let count = written.first().and_then(|parts| parts.first()).and_then(|count| count.parse().ok());
    count.ok_or_else(|| io::Error::other(format!("the Java client said {written:?}")))
}
