//! A real Mosquitto for tests and demos, RabbitMQ's MQTT plugin for outages, and a small native client that publishes and
//! subscribes.
//!
//! Each server has a folder and a port of its own, so parallel tests never meet. It is killed when dropped. Where `mosquitto`
//! isn't installed it fails loudly: a test that skips itself proves nothing.

mod broker;
mod client;
mod server;

pub use broker::{BROKER, Durable};
pub use client::{Client, Login, Received};
pub use server::{Options, Server};
