//! The release binary: killed, reloaded, with a slow disk and with a full one, on data of earlier versions. What a test asserts is about its own
//! processes and their directories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client_helpers;
mod config_reload;
mod config_reload_inbound;
mod credentials;
mod external_worker;
mod full_disk;
mod generated_clients;
mod golden;
mod idempotency;
#[cfg(target_os = "linux")]
mod image;
mod inbound;
mod kill;
mod monitoring;
#[cfg(target_os = "linux")]
mod package;
mod page_browser;
mod page_oidc;
mod participants;
mod payload_dedup;
mod provisioning;
mod saga_kill;
mod script;
mod search;
mod shards;
mod slow_disk;
mod source_plugins;
mod stream_clients;
mod streams;
mod telemetry;
