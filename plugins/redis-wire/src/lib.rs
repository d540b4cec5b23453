//! What the bundled transport and source for Redis have in common: one connection, logged in, and questions over it.
//!
//! - [`resp`]: what a server says; [`command`]: what is written; [`refusal`]: what its errors mean
//! - [`Connection`]: login, what the server says of itself, questions and pings; [`Login`]: who we are
//! - [`group`]: consumer groups, created when the operator asks for them
//!
//! What this doesn't do: add or read entries.

pub mod command;
mod connection;
pub mod group;
mod login;
pub mod refusal;
pub mod resp;

use waybill_plugin::broker::Scheme;

pub use connection::{Connection, broken, drain};
pub use login::Login;

/// How addresses of servers are written.
pub const SCHEME: Scheme = Scheme { plain: "redis", tls: "rediss", port: 6379, tls_port: 6379 };
