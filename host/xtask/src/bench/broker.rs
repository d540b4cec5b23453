//! W5: brokers with acknowledgements. Each bundled transport by itself beside the broker's own Rust client, both on one connection
//! with the same window of unacknowledged messages, to a server of their own; and messages through a whole host.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::load::{Plan, batches};
use waybill_testkit::{nats, rabbitmq, redis};

use super::Bench;
use super::delivery::send;
use super::figure::Figure;
use super::host::Measured;
use super::native::told;

/// Where every message goes.
const DESTINATION: &str = "orders.created";
/// The stream of NATS that takes them.
const STREAM: &str = "ORDERS";
/// The queue of RabbitMQ that takes them, and the exchange that the transport and the native client use.
const QUEUE: &str = "orders";
const EXCHANGE: &str = "amq.topic";
const BATCH: u64 = 100;
const CLIENTS: usize = 4;

/// A broker that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broker {
    /// JetStream on file.
    Nats,
    /// A durable classic queue behind a topic exchange.
    Rabbitmq,
    /// Streams, with an append-only file that is synced every second.
    Redis,
}

/// A broker's server, running.
enum Server {
    Nats(nats::Server, nats::Client),
    Rabbitmq(Box<rabbitmq::Server>),
    Redis(redis::Server),
}

impl Broker {
    /// Its transport, and its native client in `tests/natives`.
    fn name(self) -> &'static str {
        match self {
            Self::Nats => "nats",
            Self::Rabbitmq => "rabbitmq",
            Self::Redis => "redis",
        }
    }

    /// Unacknowledged messages on the connection.
    fn window(self) -> u32 {
        match self {
            Self::Nats => 64,
            Self::Rabbitmq | Self::Redis => 256,
        }
    }

    async fn start(self) -> Result<Server> {
        match self {
            Self::Nats => {
                let server = nats::Server::start().await.context("starting nats-server: is it installed?")?;
                let mut client = server.client().await.context("connecting to nats-server")?;
                client.create_stream(STREAM, &["orders.>"], &json!({})).await.context("making the stream")?;
                Ok(Server::Nats(server, client))
            }
            Self::Rabbitmq => {
                let options = rabbitmq::Options { unrestrained: true, ..rabbitmq::Options::default() };
                let server = rabbitmq::Server::start_with(options).await;
                let server = server.context("starting rabbitmq-server: is it installed?")?;
                let mut client = server.client().await.context("connecting to rabbitmq-server")?;
                client.declare_queue(QUEUE, &[]).await.context("making the queue")?;
                client.bind(QUEUE, EXCHANGE, DESTINATION).await.context("binding the queue")?;
                Ok(Server::Rabbitmq(Box::new(server)))
            }
            Self::Redis => {
                let config = "appendonly yes\nappendfsync everysec".to_owned();
                let options = redis::Options { config, ..redis::Options::default() };
                let server = redis::Server::start_with(options).await;
                Ok(Server::Redis(server.context("starting redis-server: is it installed?")?))
            }
        }
    }

    /// The component.
    pub async fn component(self, bench: &Bench, messages: u64) -> Result<Figure> {
        let mut command = Command::new(&bench.alone);
        command.args([self.name(), &messages.to_string()]);
        self.measure(command, messages).await
    }

    /// The broker's own client.
    pub async fn native(self, bench: &Bench, messages: u64) -> Result<Figure> {
        let mut command = Command::new(&bench.natives);
        command.args([self.name(), &messages.to_string()]);
        self.measure(command, messages).await
    }

    /// Runs a program that sends to a new server.
    async fn measure(self, mut command: Command, messages: u64) -> Result<Figure> {
        let mut server = self.start().await?;
        let window = self.window().to_string();
        let figure = told(command.args([&server.url(), &window]), self.name(), messages).await?;
        server.check(messages).await?;
        Ok(figure)
    }
}

/// Through a host: enqueued over the API, committed, published to NATS, settled.
pub async fn through(bench: &Bench, messages: u64) -> Result<Figure> {
    let mut server = Broker::Nats.start().await?;
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    let config = format!(
        "[transport.nats]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"] }}\nallow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:orders.**\"\ntransport = \"nats\"\n"
    );
    let mut host = Measured::start(bench, &config).await?;
    let bodies = batches(&Plan::new(format!("bus:{DESTINATION}")), 0, messages, BATCH);
    host.mark()?;
    let began = Instant::now();
    let sent = send(host.api.base(), "/v1/messages", bodies, CLIENTS, None).await?;
    host.drained().await?;
    let figure = host.used(Figure::of_rate(messages, began.elapsed()).with_times(sent))?;
    server.check(messages).await?;
    host.end().await?;
    Ok(figure)
}

impl Server {
    fn url(&self) -> String {
        match self {
            Self::Nats(server, _) => server.url(),
            Self::Rabbitmq(server) => server.url(),
            Self::Redis(server) => server.url(),
        }
    }

    /// What was acknowledged is there, once.
    async fn check(&mut self, messages: u64) -> Result<()> {
        let stored = self.stored().await?;
        anyhow::ensure!(stored == messages, "the broker holds {stored} of {messages} messages");
        Ok(())
    }

    async fn stored(&mut self) -> Result<u64> {
        match self {
            Self::Nats(_, client) => {
                let asked = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({})).await;
                let info = asked.context("asking the stream")?;
                Ok(info.pointer("/state/messages").and_then(Value::as_u64).unwrap_or_default())
            }
            Self::Rabbitmq(server) => {
                let mut client = server.client().await.context("connecting to rabbitmq-server")?;
                client.count(QUEUE).await.context("asking the queue")
            }
            Self::Redis(server) => {
                let mut client = server.client().await.context("connecting to redis-server")?;
                let length = client.ask(&["XLEN", DESTINATION]).await.context("asking the stream")?;
                length.text().parse().context("the length of the stream")
            }
        }
    }
}
