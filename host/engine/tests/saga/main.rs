//! The sentences of sagas (`semantics.md` §3), each proved on the engine with the in-memory store, a participant that does as
//! told, and a clock that only moves when everybody waits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bounds;
mod broken;
mod calls;
mod dead_letters;
mod define;
mod door;
mod forward;
mod history;
mod left_events;
mod lists;
mod meter;
mod needs;
mod operations;
mod operators;
mod reconfigure;
mod restarts;
mod schedules;
mod support;
mod trouble;
mod waits;
