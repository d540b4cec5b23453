//! The store on SurrealDB, in memory and on disk: the conformance suite, sagas, an application's own transactions, crashes, rows that can't be
//! read, disk use. What a failing disk does is another program, which other tools start and whose tests start it again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod business;
mod conformance_memory_engine;
mod conformance_surrealkv;
mod disk_use;
mod image;
mod saga_crash;
mod sagas;
mod torn_log;
mod unreadable;
