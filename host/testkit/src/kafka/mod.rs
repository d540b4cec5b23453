//! A real Apache Kafka (KRaft) for tests and demos, and its Java client, run as a process.
//!
//! Each server has a folder and ports of its own, so parallel tests never meet. It is killed when dropped. Java 17 runs it; its jars
//! come from Maven's repository and are kept in a cache. Where these aren't installed it fails loudly: a test that skips itself proves
//! nothing.

mod broker;
mod client;
mod jars;
mod server;

pub use broker::Durable;
pub use client::{Client, Record};
pub use server::{Options, Server};
