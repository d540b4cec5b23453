//! Real components in the real sandbox: what guests do, reach and cost, and how they are replaced.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod examples;
mod guests;
mod hot_reload;
mod http;
mod network;
mod plugin_tasks;
mod ssrf;
