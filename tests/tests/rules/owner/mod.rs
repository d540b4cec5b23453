//! The owner of a shard, sentence by sentence (`semantics.md` §1), on the in-memory store.

mod bench;
mod commands;
mod commits;
mod keys;
mod lookups;
mod memory;
mod sequence;
mod settlements;
mod suspicion;
mod turns;
