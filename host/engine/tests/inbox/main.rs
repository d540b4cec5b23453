//! The sentences of the inbox (`docs/design/inbox.md`), each proved on the engine with the in-memory store, a broker in memory, handlers
//! that do as told, and a clock that only moves when everybody waits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod bad_input;
mod component;
mod crashes;
mod dead_letters;
mod flow;
mod forward;
mod hosts;
mod ids;
mod left_events;
mod limits;
mod lost;
mod order;
mod reload;
mod service;
mod sources;
mod stored;
mod support;
mod tables;
mod verdicts;
