//! The outbox's sentences (`semantics.md` §1 and 2, and the promises), each proved on the engine with the in-memory
//! store, transports that do as told, and a clock that only moves when everybody waits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod alerts;
mod audit;
mod bounds;
mod clock_steps;
mod commit_bytes;
mod dead_letters;
mod dedup;
mod delivery;
mod fairness;
mod holds;
mod idempotency;
mod lifecycle;
mod operations;
mod order;
mod panics;
mod quarantine;
mod rates;
mod reconfigure;
mod retention;
mod retries;
mod schedule;
mod shards;
mod slow_disk;
mod supervision;
mod support;
mod totals;
mod traces;
mod transact;
mod trouble;
mod views;
mod workers;
