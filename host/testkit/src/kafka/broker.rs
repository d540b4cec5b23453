//! Kafka as the broker of an outage, and of a measurement.

use std::io;

use async_trait::async_trait;
use futures::FutureExt as _;

use super::JARS;
use super::server::Server;
use crate::brokers::{self, Measured};
use crate::maven;
use crate::outage::{Broker, DESTINATION, Stored};

/// More than any run has.
const READ_MAX: usize = 1_000_000;

/// A server that the transport writes to.
pub struct Durable {
    pub server: Server,
}

#[async_trait]
impl Broker for Durable {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn transport(&self) -> String {
        let port = self.server.port();
        format!(
            "plugin = \"kafka\"\nconfig = {{ servers = [\"127.0.0.1:{port}\"] }}\n\
             allow = {{ net = [\"tcp://127.0.0.1:{port}\"] }}"
        )
    }

    async fn prepare(&mut self) -> io::Result<()> {
        self.server.client().await?.create(DESTINATION, 4).await
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
        let all = self.server.client().await?.read(DESTINATION, READ_MAX).await?;
        let stored = all.into_iter().map(|record| Stored {
            place: format!("{}/{}", record.partition, record.offset),
            id: record.header("id").unwrap_or_default().to_owned(),
            attempt: record.header("x-attempt").unwrap_or_default().to_owned(),
            payload: record.value.into_bytes(),
        });
        Ok(stored.collect())
    }
}

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "kafka",
    programs: maven::PROGRAMS,
    jars: Some(&JARS),
    window: 500,
    start: || {
        async {
            let server = Server::start().await?;
            server.client().await?.create(DESTINATION, 4).await?;
            Ok(Box::new(server) as Box<dyn Measured>)
        }
        .boxed()
    },
};

#[async_trait]
impl Measured for Server {
    fn url(&self) -> String {
        format!("kafka://{}", Server::url(self))
    }

    async fn stored(&mut self) -> io::Result<u64> {
        let ends = self.client().await?.run("ends", &[DESTINATION]).await?;
        let end = |parts: &Vec<String>| parts.get(1).and_then(|end| end.parse::<u64>().ok());
        let all: Option<Vec<u64>> = ends.iter().map(end).collect();
        let all = all.ok_or_else(|| io::Error::other(format!("no offsets: {ends:?}")))?;
        Ok(all.iter().sum())
    }
}
