//! The outbox: its records, and the state machine of a shard's owner.

pub mod bits;
pub mod commit_fate;
pub mod dead_groups;
pub mod dead_plan;
pub mod decide;
pub mod door_watch;
pub mod drain;
pub mod facets;
pub mod filter;
pub mod found;
pub mod index;
pub mod lanes;
pub mod lone_trials;
pub mod lookups;
pub mod owner;
pub mod preparation;
pub mod rates;
pub mod records;
pub mod suspicion;
pub mod weight;
