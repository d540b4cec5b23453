//! redis-server as the broker of an outage, and of a measurement: Streams, with an append-only file that is synced every second.

use std::io;

use async_trait::async_trait;
use futures::FutureExt as _;

use super::client::Entry;
use super::server::{Options, Server};
use crate::brokers::{self, Measured};
use crate::outage::{Broker, DESTINATION, Stored};

/// A durable server that the transport adds to, as it comes or without doubles.
pub struct Durable {
    /// The server, started with `durable`.
    pub server: Server,
    /// Whether the transport's `dedup` is on.
    pub dedup: bool,
}

#[async_trait]
impl Broker for Durable {
    fn name(&self) -> &'static str {
        "redis-server"
    }

    fn transport(&self) -> String {
        let (port, dedup) = (self.server.port(), if self.dedup { "window" } else { "off" });
        format!(
            "plugin = \"redis\"\nconfig = {{ servers = [\"redis://127.0.0.1:{port}\"], dedup = \"{dedup}\" }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn freeze(&self) -> io::Result<()> {
        self.server.freeze()
    }

    async fn kill(&mut self) -> io::Result<()> {
        self.server.kill().await
    }

    async fn restart(&mut self) -> io::Result<()> {
        self.server.restart().await
    }

    async fn read_all(&mut self) -> io::Result<Vec<Stored>> {
        let all = self.server.client().await?.read_all(DESTINATION).await?;
        let field = |entry: &Entry, name: &str| entry.field(name).unwrap_or_default();
        let stored = all.iter().map(|entry| Stored {
            place: entry.id.clone(),
            id: field(entry, "id"),
            attempt: field(entry, "attempt"),
            payload: entry
                .fields
                .iter()
                .find(|(name, _)| name == "payload")
                .map_or_else(Vec::new, |(_, value)| value.clone()),
        });
        Ok(stored.collect())
    }
}

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "redis",
    programs: &[("redis-server", "redis-server")],
    jars: None,
    window: 256,
    start: || {
        async {
            let config = "appendonly yes\nappendfsync everysec".to_owned();
            let server = Server::start_with(Options { config, ..Options::default() }).await?;
            Ok(Box::new(server) as Box<dyn Measured>)
        }
        .boxed()
    },
};

#[async_trait]
impl Measured for Server {
    fn url(&self) -> String {
        Server::url(self)
    }

    async fn stored(&mut self) -> io::Result<u64> {
        let length = self.client().await?.ask(&["XLEN", DESTINATION]).await?;
        length.text().parse().map_err(io::Error::other)
    }
}
