//! What the bundled transport and source for Apache Pulsar have in common: connections to the brokers of a cluster over the binary
//! protocol, logged in.
//!
//! - [`proto`]: the protocol's messages; [`frame`]: how they are written and read; [`batch`]: the messages of an entry, with `compression`
//! - [`Connection`]: one broker; [`Brokers`]: those of a cluster, and which has a topic; [`Incoming`]: what is said on a connection
//! - [`Credentials`]: who we are; [`Refusal`]: why a broker refuses; [`keys`]: what an operator may set for any client
//! - [`topic`]: names; [`Hashing`]: which partition a key belongs to
//! - [`Admin`]: tenants, namespaces and topics over HTTP, created when the operator asks for it
//!
//! What this doesn't do: publish or consume messages; transactions, schemas, encryption.

mod admin;
pub mod batch;
mod brokers;
mod compression;
mod connection;
mod credentials;
pub mod frame;
mod incoming;
pub mod keys;
mod partition;
pub mod proto;
mod refusal;
pub mod topic;

pub use admin::{Admin, Wanted};
pub use brokers::{Brokers, Dial, Place, Time, Unfound};
pub use connection::{Answer, Connection, Login};
pub use credentials::{Auth, Credentials};
pub use incoming::Incoming;
pub use partition::Hashing;
pub use refusal::Refusal;
