//! Byte streams for guests: one [`Connection`] behind `net.connection` and `net-blocking.connection`.

mod connection;

pub(crate) use connection::Connection;
