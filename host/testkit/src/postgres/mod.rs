//! A real PostgreSQL for tests and demos, and a client of it: `psql`, one process a session.
//!
//! Each server has a folder and a port of its own, so parallel tests never meet. It is killed when dropped. Where PostgreSQL
//! isn't installed it fails loudly: a test that skips itself proves nothing. It refuses to run as root, so for root it runs as
//! the user that Debian's package makes.

mod client;
mod documents;
mod server;

pub use client::Client;
pub use documents::{BY_PUBLICATION, BY_STATUS};
pub use server::{Options, PASSWORD, Server, Tls, USER, is_installed, psql};
