//! nats-server as the broker of an outage, and of a measurement: JetStream on file.

use std::io;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::server::Server;
use crate::brokers::{self, Measured};
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

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "nats",
    programs: &[("nats-server", "nats-server")],
    jars: None,
    window: 64,
    start: || {
        async {
            let mut server = Server::start().await?;
            server.prepare().await?;
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
        let info = self.client().await?.api(&format!("STREAM.INFO.{STREAM}"), &json!({})).await?;
        Ok(info.pointer("/state/messages").and_then(Value::as_u64).unwrap_or_default())
    }
}
