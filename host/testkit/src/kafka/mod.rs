//! A real Apache Kafka (KRaft) for tests and demos, and its Java client, run as a process.
//!
//! Each server has a folder and ports of its own, so parallel tests never meet. It is killed when dropped. Java 17 runs it; its jars
//! come from Maven's repository and are kept in a cache. Where these aren't installed it fails loudly: a test that skips itself proves
//! nothing.

mod broker;
mod client;
mod server;

pub use broker::{BROKER, Durable};
pub use client::{Client, Record};
pub(crate) use server::client_of;
pub use server::{Options, Server, Tls};

use crate::maven::Jars;

/// The server and its client, and a logger for both.
static JARS: Jars = Jars {
    name: "kafka",
    version: "4.1.1",
    variable: "KAFKA_JARS",
    artifacts: &[("org.apache.kafka", "kafka_2.13", "4.1.1"), ("org.slf4j", "slf4j-simple", "1.7.36")],
};
