//! The bundled plugins against real brokers: what each delivers, brings, refuses and survives. Every test has servers of its own, or leaves the
//! shared one as it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod kafka;
mod kafka_disk;
mod kafka_scripted;
mod kafka_source;
mod kafka_tls;
mod mqtt;
mod mqtt_source;
mod nats;
mod nats_source;
mod postgres;
mod pulsar;
mod pulsar_scripted;
mod pulsar_source;
mod rabbitmq;
mod rabbitmq_source;
mod redis;
mod redis_source;
