//! The brokers that there are a transport and a real server for. Each says how its server is started to be measured, and counted.

use std::io;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::{mqtt, nats, rabbitmq, redis};

/// All of them, in the order in which they are measured.
pub static ALL: [Broker; 4] = [nats::BROKER, rabbitmq::BROKER, redis::BROKER, mqtt::BROKER];

pub struct Broker {
    /// Name of its transport, and of its client in `tests/natives`.
    pub name: &'static str,
    /// Its server's program, and the Debian package that brings it.
    pub server: &'static str,
    /// Messages without acknowledgement on the one connection while it is measured.
    pub window: u32,
    /// Starts a server that takes messages to [`crate::outage::DESTINATION`].
    pub start: fn() -> Starting,
}

/// A server on its way to running.
pub type Starting = BoxFuture<'static, io::Result<Box<dyn Measured>>>;

#[async_trait]
pub trait Measured: Send {
    /// Where it is, as its transport and its client take it.
    fn url(&self) -> String;

    /// Messages that it has.
    async fn stored(&mut self) -> io::Result<u64>;
}
