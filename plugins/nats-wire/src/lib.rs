//! What the bundled transport and source for NATS have in common: one connection, logged in, and JetStream's API over it.
//!
//! - `codec`, [`info`], `refusal`: what a server says; [`Incoming`]: what of it concerns the connection itself
//! - [`keys`]: what an operator may set for any client; `credentials`: who we are; [`subject`]: where may be published
//! - [`Connection`]: the session of a pool
//! - [`api`]: JetStream's answers; [`stream`]: a stream compared with what is wanted, created or changed
//! - `room`: what a new stream gets unasked, and what the server has no room for
//!
//! What this doesn't do: publish or fetch messages.

pub mod api;
pub mod codec;
mod connection;
mod credentials;
mod incoming;
pub mod info;
pub mod keys;
mod refusal;
mod room;
pub mod stream;
pub mod subject;
mod text;

pub use connection::{Connection, PONG, Shared};
pub use credentials::Auth;
pub use incoming::{Event, Incoming};
pub use refusal::no_publish;
pub use text::shown;
