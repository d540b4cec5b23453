//! Load for measuring: producers that cost little, a sink that costs little, and what a process used.
//!
//! The machine that measures also runs what is measured, so each CPU second spent here is one less for the host. That is why
//! this isn't the [`crate::receiver`], which remembers every arrival.

mod poster;
mod producer;
mod seen;
mod sink;
mod usage;

pub use poster::{Posted, post_all};
pub use producer::{Client, LoadError, Plan, batches};
pub use seen::{Filled, IDS_A_MS, SeenForm, seen_payload, stamp};
pub use sink::{LATENCY_FIELD, Sink};
pub use usage::{Usage, family_cpu, usage};
