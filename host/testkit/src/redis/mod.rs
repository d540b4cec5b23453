//! A real redis-server for tests and demos, and a small native client that says what is in its streams.
//!
//! Each server has a folder and a port of its own, so parallel tests never meet. It is killed when dropped. Where
//! `redis-server` isn't installed it fails loudly: a test that skips itself proves nothing.

mod broker;
mod client;
mod server;

pub use broker::{BROKER, Durable};
pub use client::{Client, Entry, Value};
pub use server::{Options, Server};
