//! redis-server as the broker of an outage.

use std::io;

use async_trait::async_trait;

use super::client::Entry;
use super::server::Server;
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
