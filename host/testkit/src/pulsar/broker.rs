//! Pulsar as the broker of a measurement.

use std::io;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::Value;

use super::JARS;
use super::server::Server;
use crate::brokers::{self, Measured};
use crate::maven;
use crate::outage::DESTINATION;

pub const BROKER: brokers::Broker = brokers::Broker {
    name: "pulsar",
    programs: maven::PROGRAMS,
    jars: Some(&JARS),
    window: 1_000,
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
        let path = format!("persistent/public/default/{DESTINATION}/stats");
        let stats: Value = serde_json::from_str(&self.admin("GET", &path, "").await?).map_err(io::Error::other)?;
        let count = stats.get("msgInCounter").and_then(Value::as_u64);
        count.ok_or_else(|| io::Error::other(format!("no count of messages: {stats}")))
    }
}
