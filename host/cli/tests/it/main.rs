//! Tests of the `waybill` command, run in this process with streams of their own.
#![recursion_limit = "512"]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod alert_settings;
mod alone;
mod call;
mod changes;
mod commands;
mod configuration;
mod documents;
#[cfg(unix)]
mod exposure;
mod fake_inbound;
mod filters;
mod health;
mod help;
mod host;
mod ill;
mod inbound;
mod inbound_configuration;
mod index_configuration;
mod metrics_page;
mod oidc_configuration;
mod operations;
mod plugins;
mod saga_folder;
mod sagas;
mod sending;
#[cfg(unix)]
mod serve;
mod streams;
mod streams_configuration;
mod support;
#[cfg(unix)]
mod tenants;
mod terminal;
#[cfg(unix)]
mod tokens;
