//! An MQTT server as the broker of an outage, and of a measurement. Mosquitto writes to its disk after it has acknowledged, so
//! nothing-is-lost is proven on RabbitMQ's MQTT plugin, behind a durable queue; Mosquitto is measured.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::Value;

use super::client::Client;
use super::server::Server;
use crate::brokers::{self, Measured};
use crate::outage::{Broker, DESTINATION, Stored};
use crate::process::free_port;
use crate::rabbitmq;

/// The queue behind RabbitMQ's exchange of everything that comes by MQTT.
const QUEUE: &str = "orders";
const EXCHANGE: &str = "amq.topic";
/// Name of the session that counts.
const COUNTER: &str = "waybill-counter";
/// Silence after which nothing more is on its way.
const SILENCE: Duration = Duration::from_secs(1);

/// RabbitMQ with its MQTT plugin, which speaks 3.1.1 in the version that Debian has.
pub struct Durable {
    server: rabbitmq::Server,
    port: u16,
}

impl Durable {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// It isn't installed, or doesn't start; the text says what to do.
    pub async fn start() -> io::Result<Self> {
        let port = free_port()?;
        let options = rabbitmq::Options {
            plugins: &["rabbitmq_mqtt"],
            config: format!("mqtt.listeners.tcp.1 = 127.0.0.1:{port}\n"),
            ..rabbitmq::Options::default()
        };
        Ok(Self { server: rabbitmq::Server::start_with(options).await?, port })
    }

    /// `mqtt://127.0.0.1:PORT`, the same after a restart.
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }
}

#[async_trait]
impl Broker for Durable {
    fn name(&self) -> &'static str {
        "rabbitmq-server with MQTT"
    }

    fn transport(&self) -> String {
        let port = self.port;
        format!(
            "plugin = \"mqtt\"\nconfig = {{ servers = [\"mqtt://127.0.0.1:{port}\"] }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        let mut client = self.server.client().await?;
        client.declare_queue(QUEUE, &[]).await?;
        client.bind(QUEUE, EXCHANGE, "#").await?;
        // The first kill may come at once.
        self.server.write_declared().await
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
        let all = self.server.client().await?.read_all(QUEUE).await?;
        let stored = all.into_iter().enumerate().map(|(place, message)| {
            let event: Value = serde_json::from_slice(&message.payload).map_err(io::Error::other)?;
            let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let payload = event.get("data").map(Value::to_string).unwrap_or_default().into_bytes();
            Ok(Stored { place: place.to_string(), id: text("id"), attempt: text("attempt"), payload })
        });
        stored.collect()
    }
}

/// A Mosquitto with a session that gets everything.
struct Counted {
    server: Server,
    seen: u64,
}

async fn counter(server: &Server) -> io::Result<Client> {
    server.session(COUNTER).await
}

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "mqtt",
    programs: &[("mosquitto", "mosquitto")],
    jars: None,
    window: 256,
    start: || {
        async {
            let server = Server::start().await?;
            let mut client = counter(&server).await?;
            client.subscribe(DESTINATION).await?;
            client.close().await?;
            Ok(Box::new(Counted { server, seen: 0 }) as Box<dyn Measured>)
        }
        .boxed()
    },
};

#[async_trait]
impl Measured for Counted {
    fn url(&self) -> String {
        self.server.url()
    }

    async fn stored(&mut self) -> io::Result<u64> {
        let mut client = counter(&self.server).await?;
        while client.receive(SILENCE).await?.is_some() {
            self.seen += 1;
        }
        client.close().await?;
        Ok(self.seen)
    }
}
