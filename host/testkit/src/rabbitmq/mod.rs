//! A real RabbitMQ for tests and demos, and a small native client that says what is in its queues.
//!
//! Each server has a folder, ports, a node name and a port mapper (epmd) of its own, so parallel tests never meet. It takes
//! eight seconds to start, so tests that don't break it share one ([`Server::shared`]) and use names of their own. It ends when
//! it is dropped, and with this process however that ends. Where `rabbitmq-server` isn't installed it fails loudly: a test that
//! skips itself proves nothing.

mod broker;
mod client;
mod server;

pub use broker::BROKER;
pub use client::{Client, Login, Stored};
pub use server::{Options, Server, Tls};
