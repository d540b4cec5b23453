//! What the bundled transport and source for Kafka have in common: connections that are logged in, the cluster behind them,
//! and record batches.
//!
//! - [`ask`]: which requests are spoken, and in which versions; [`Connection`]: one server, logged in, a question at a time
//! - [`Login`], `scram`: who we are, and how it is proven; [`Identity`]: both, as all connections of an instance have it
//! - [`Cluster`]: servers by their numbers, topics with the leaders of their partitions
//! - [`batch`]: records written; [`records`]: records read; [`compression`]; [`partition`]: which partition a key has
//! - [`refusal`]: what error codes mean; [`provision`]: topics, created when the operator asks for them
//!
//! What this doesn't do: produce, fetch, or keep a place in a group.

pub mod ask;
pub mod batch;
mod cluster;
pub mod compression;
mod connection;
mod login;
pub mod partition;
pub mod provision;
pub mod records;
pub mod refusal;
mod scram;
mod varint;

use waybill_plugin::broker::Scheme;

pub use cluster::{Cluster, Dialer, Topic};
pub use connection::{CODES, Connection};
pub use kafka_protocol::messages;
pub use kafka_protocol::protocol::StrBytes;
pub use login::{Identity, Login, Sasl};
pub use uuid::Uuid;

/// How addresses of servers are written.
pub const SCHEME: Scheme = Scheme { plain: "kafka", tls: "kafkas", port: 9092, tls_port: 9093 };

/// A text as messages of the protocol hold it.
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
