//! The HTTP API over a host in memory: what is decoded, refused, encoded and documented, and what comes of it. What the engine
//! does by itself is tested with it, and with real processes in the workspace's `tests/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod approvals;
mod auth;
mod backup;
mod bad_input;
mod bytes;
mod closed_routes;
mod configuration;
mod connections;
mod dead_letters;
mod examples;
mod fake_inbound;
mod grpc;
mod hindrance;
mod history;
mod idempotency;
mod idempotency_header;
mod inbox;
mod live;
mod messages;
mod openapi;
mod openapi_bounds;
mod openapi_rules;
mod operations;
mod page;
mod page_acts;
mod page_bad_input;
mod page_hostile;
mod page_live;
mod page_markup;
mod page_oidc;
mod page_roles;
mod page_tenants;
mod page_views;
mod page_world;
mod page_written;
mod plugins;
mod quarantine;
mod relays;
mod replays;
mod saga_definitions;
mod sagas;
mod shares;
mod sources;
mod streams;
mod subscribe;
mod support;
mod system;
mod tls;
mod tokens;
mod workers;
