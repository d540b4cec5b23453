//! Pulsar as the broker of an outage, and of a measurement.

use std::io;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use serde_json::Value;

use super::JARS;
use super::server::Server;
use crate::brokers::{self, Measured};
use crate::maven;
use crate::outage::{Broker, DESTINATION, Stored};

/// Keeps what comes to the topic, which Pulsar does for subscriptions alone.
const SUBSCRIPTION: &str = "kept";
/// Where its topics are, in paths of its HTTP service.
const NAMESPACE: &str = "persistent/public/default";

/// A server that the transport sends to.
pub struct Durable {
    pub server: Server,
}

#[async_trait]
impl Broker for Durable {
    fn name(&self) -> &'static str {
        "pulsar"
    }

    fn transport(&self) -> String {
        let port = self.server.port();
        format!(
            "plugin = \"pulsar\"\nconfig = {{ servers = [\"pulsar://127.0.0.1:{port}\"] }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        self.server.create_topic(DESTINATION, 0).await?;
        let path = format!("{NAMESPACE}/{DESTINATION}/subscription/{SUBSCRIPTION}");
        self.server.admin("PUT", &path, "").await.map(|_| ())
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
        let topic = format!("persistent://public/default/{DESTINATION}");
        let all = self.server.foreign().read_kept(&topic, SUBSCRIPTION).await?;
        let stored = all.into_iter().map(|message| {
            let property = |name: &str| message.property(name).unwrap_or_default().to_owned();
            let payload = STANDARD.decode(message.text("payload")).map_err(io::Error::other)?;
            let place = format!("{:?}", message.place());
            Ok(Stored { place, id: property("id"), attempt: property("x-attempt"), payload })
        });
        stored.collect()
    }
}

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "pulsar",
    programs: maven::PROGRAMS,
    jars: Some(&JARS),
    window: 500,
    start: || {
        async {
            let server = Server::start().await?;
            server.create_topic(DESTINATION, 0).await?;
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
        let path = format!("{NAMESPACE}/{DESTINATION}/stats");
        let stats: Value = serde_json::from_str(&self.admin("GET", &path, "").await?).map_err(io::Error::other)?;
        let count = stats.get("msgInCounter").and_then(Value::as_u64);
        count.ok_or_else(|| io::Error::other(format!("no count of messages: {stats}")))
    }
}
