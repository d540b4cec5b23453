//! The owner of a shard, sentence by sentence (`semantics.md` §1), on the in-memory store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "owner/bench.rs"]
mod bench;
#[path = "owner/commands.rs"]
mod commands;
#[path = "owner/commits.rs"]
mod commits;
#[path = "owner/keys.rs"]
mod keys;
#[path = "owner/memory.rs"]
mod memory;
#[path = "owner/sequence.rs"]
mod sequence;
#[path = "owner/settlements.rs"]
mod settlements;
#[path = "owner/suspicion.rs"]
mod suspicion;
#[path = "owner/turns.rs"]
mod turns;
