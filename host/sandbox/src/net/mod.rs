//! Byte streams for guests: one [`Connection`] behind `net.connection` and `net-blocking.connection`.

mod connection;
mod prompt;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use connection::{Connection, time_to_connect};
