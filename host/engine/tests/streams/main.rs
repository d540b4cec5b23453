//! Event streams on the engine: appends, readers, takeover, upkeep and relays, with the in-memory store, a broker in memory, and a clock
//! that only moves when everybody waits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod append;
mod by_resource;
mod dead;
mod idle;
mod joint;
mod lagged;
mod large;
mod many;
mod meter;
mod owners;
mod relay;
mod reload;
mod retention;
mod runs;
mod seam;
mod support;
mod takeover;
mod traces;
mod trail;
mod upkeep;
