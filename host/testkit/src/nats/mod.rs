//! A real nats-server for tests and demos, and a small native client that says what is in its streams.
//!
//! Each server has a folder and ports of its own, so parallel tests never meet. It is killed when dropped. Where
//! `nats-server` isn't installed it fails loudly: a test that skips itself proves nothing.

mod broker;
mod client;
mod pinned;
mod server;

pub use broker::BROKER;
pub use client::{Client, Login, Stored};
pub use pinned::pinned;
pub use server::{Options, Server};
