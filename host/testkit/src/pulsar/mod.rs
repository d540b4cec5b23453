//! A real Apache Pulsar for tests, and a foreign client of it: the one that Pulsar's own project makes for Python.
//!
//! Each server has a folder and ports of its own, so parallel tests never meet. It takes a quarter of a minute to start, so tests that
//! don't break it share one ([`Server::shared`]) and use topics of their own. It ends when it is dropped, and with this process however
//! that ends. Its jars come from Maven's repository once, into a folder of caches. Where Java 17 or Maven isn't installed it fails loudly:
//! a test that skips itself proves nothing.

mod broker;
mod foreign;
mod server;

pub use broker::{BROKER, Durable};
pub use foreign::{Foreign, Read};
pub use server::{Options, Server, Tls};

use crate::maven::Jars;

static JARS: Jars = Jars {
    name: "pulsar",
    version: "4.0.7",
    variable: "PULSAR_JARS",
    artifacts: &[("org.apache.pulsar", "pulsar-broker", "4.0.7")],
};
