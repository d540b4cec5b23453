//! The bundled transports against real brokers: what each delivers, refuses and survives. Every test has servers of its own, or leaves the
//! shared one as it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod nats;
mod rabbitmq;
mod redis;
