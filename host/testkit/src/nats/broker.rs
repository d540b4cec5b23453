//! nats-server as the broker of an outage.

use std::io;

use async_trait::async_trait;
use serde_json::json;

use super::server::Server;
use crate::outage::{Broker, Stored};

/// Name of the stream.
const STREAM: &str = "ORDERS";

#[async_trait]
impl Broker for Server {
    fn name(&self) -> &'static str {
        "nats-server"
    }

    fn transport(&self) -> String {
        let port = self.port();
        format!(
            "plugin = \"nats\"\nconfig = {{ servers = [\"nats://127.0.0.1:{port}\"], stream = \"{STREAM}\" }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        self.client().await?.create_stream(STREAM, &["orders.>"], &json!({})).await
    }

    fn freeze(&self) -> io::Result<()> {
        Server::freeze(self)
    }

    async fn kill(&mut self) -> io::Result<()> {
        Server::kill(self).await
    }

    async fn restart(&mut self) -> io::Result<()> {
        Server::restart(self).await
    }

    async fn read_all(&mut self) -> io::Result<Vec<Stored>> {
        let all = self.client().await?.read_all(STREAM).await?;
        let header = |message: &super::Stored, name| message.header(name).unwrap_or_default().to_owned();
        let stored = all.into_iter().map(|message| Stored {
            place: message.sequence.to_string(),
            id: header(&message, "Nats-Msg-Id"),
            attempt: header(&message, "x-attempt"),
            payload: message.payload,
        });
        Ok(stored.collect())
    }
}
