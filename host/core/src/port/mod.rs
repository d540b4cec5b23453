//! The ports: what the core needs from the outside, as small traits. Adapters implement them and run their conformance
//! suites (`waybill_testkit::conformance`).

pub mod backoff;
pub mod dead;
pub mod dedup;
pub mod followup;
pub mod handler;
pub mod http_handler;
pub mod idempotency;
pub mod inbox_store;
pub mod kv;
pub mod missing;
pub mod participant;
pub mod plugins;
pub mod provision;
pub mod quarantine;
pub mod query;
pub mod saga;
pub mod saga_store;
pub mod service;
pub mod source;
pub mod store;
pub mod table;
pub mod tasks;
pub mod transact;
pub mod transport;
pub mod workers;
