//! RabbitMQ as the broker of an outage, and of a measurement: a durable classic queue behind a topic exchange.

use std::io;

use async_trait::async_trait;
use futures::FutureExt as _;

use super::server::{Options, Server};
use crate::brokers::{self, Measured};
use crate::outage::{Broker, DESTINATION, Stored};

/// Name of the queue.
const QUEUE: &str = "orders";
/// Every server has it.
const EXCHANGE: &str = "amq.topic";

#[async_trait]
impl Broker for Server {
    fn name(&self) -> &'static str {
        "rabbitmq-server"
    }

    fn transport(&self) -> String {
        let port = self.port();
        format!(
            "plugin = \"rabbitmq\"\nconfig = {{ servers = [\"amqp://127.0.0.1:{port}\"], exchange = \"{EXCHANGE}\" }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        let mut client = self.client().await?;
        client.declare_queue(QUEUE, &[]).await?;
        client.bind(QUEUE, EXCHANGE, DESTINATION).await?;
        // The first kill may come at once.
        self.write_declared().await
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
        let all = self.client().await?.read_all(QUEUE).await?;
        let stored = all.into_iter().enumerate().map(|(place, message)| Stored {
            place: place.to_string(),
            id: message.property("message-id").unwrap_or_default().to_owned(),
            attempt: message.header("x-attempt").unwrap_or_default().to_owned(),
            payload: message.payload,
        });
        Ok(stored.collect())
    }
}

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "rabbitmq",
    programs: &[("rabbitmq-server", "rabbitmq-server")],
    jars: None,
    window: 256,
    start: || {
        async {
            let mut server = Server::start_with(Options { unrestrained: true, ..Options::default() }).await?;
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
        self.client().await?.count(QUEUE).await
    }
}
