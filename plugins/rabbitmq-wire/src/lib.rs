//! What the bundled transport and source for RabbitMQ have in common: one connection over AMQP 0-9-1, logged in.
//!
//! - [`codec`]: what a server says; [`wire`]: how we write; [`Refusal`]: why a server closes
//! - [`Incoming`]: what is said on a connection, and what of it concerns the connection itself
//! - [`Connection`]: the greeting, and questions about exchanges and queues; [`Credentials`]: who we are
//! - [`keys`]: what an operator may set for any client; [`Wanted`]: exchange and queues, created when the operator asks for it
//!
//! What this doesn't do: publish or consume messages.

pub mod codec;
mod connection;
mod credentials;
mod incoming;
pub mod keys;
mod provision;
mod refusal;
mod text;
pub mod wire;

pub use connection::{Answer, CHANNEL, Connection, Login};
pub use credentials::{Auth, Credentials};
pub use incoming::{Alarms, Beat, Delivered, Event, Incoming, asked_to_wait};
pub use provision::{Wanted, provision};
pub use refusal::{Refusal, Scope};
pub use text::{name, shown};
