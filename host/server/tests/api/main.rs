//! The HTTP API against a service made of recordings: what is decoded, refused, encoded and documented. What the
//! outbox itself does is tested with the real one, in the workspace's `tests/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod approvals;
mod auth;
mod bad_input;
mod bytes;
mod closed_routes;
mod configuration;
mod connections;
mod dead_letters;
mod idempotency;
mod idempotency_header;
mod inbox;
mod keys;
mod live;
mod messages;
mod openapi;
mod operations;
mod plugins;
mod quarantine;
mod saga_fake;
mod sagas;
mod shares;
mod sources;
mod support;
mod system;
mod tls;
mod workers;
