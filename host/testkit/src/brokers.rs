//! The brokers that there are a transport and a real server for. Each says how its server is started to be measured, and counted.

use std::io;

use async_trait::async_trait;
use futures::future::BoxFuture;

use crate::maven::Jars;
use crate::{kafka, mqtt, nats, pulsar, rabbitmq, redis};

/// All of them, in the order in which they are measured.
pub static ALL: [Broker; 6] =
    [nats::BROKER, rabbitmq::BROKER, redis::BROKER, mqtt::BROKER, kafka::BROKER, pulsar::BROKER];

pub struct Broker {
    /// Name of its transport, and of its client in `tests/natives`.
    pub name: &'static str,
    /// Programs that its server and its clients need, each with the Debian package that brings it.
    pub programs: &'static [(&'static str, &'static str)],
    /// What else they need of Maven's repository.
    pub jars: Option<&'static Jars>,
    /// Messages without acknowledgement on the one connection while it is measured.
    pub window: u32,
    /// Starts a server that takes messages to [`crate::outage::DESTINATION`].
    pub start: fn() -> Starting,
}

impl Broker {
    /// Messages of one call while its transport is measured: more than the window takes at once, so that it slides.
    pub fn batch(&self) -> u64 {
        u64::from(self.window) * 2
    }

    /// Settings of its transport that give it the entries that its own client sends.
    pub fn settings(&self) -> &'static [(&'static str, &'static str)] {
        // An entry holds messages of many keys.
        if self.name == "pulsar" { &[("batching", "partition")] } else { &[] }
    }
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
