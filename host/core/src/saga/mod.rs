//! Sagas (`semantics.md` §3): steps with compensations that survive any crash and end completed, compensated or visibly
//! stuck.
//!
//! A saga and its sub-sagas are one tree, kept and stored as one unit until its root ends. What happens to it is a list of
//! [`event::Event`]s: applying them to nothing gives its state, so the history is the state and the audit. Everything here is
//! pure: time, randomness and ids come in, what has to be done comes out.
//!
//! | file | holds |
//! |---|---|
//! | `id`, `json` | names of sagas and definitions; JSON text kept as it is |
//! | `definition` | definitions: reading, checks, input mappings |
//! | `event` | what can happen to a saga |
//! | `state` | what a saga is after its events |
//! | `records` | what the store keeps |
//! | `limits` | every bound |
//! | `error` | what can be wrong with a request, with codes |
//! | `filter` | conditions for lists |
//! | `tree` | how events change a tree, and what it says about itself |
//! | `history` | a saga's history as an event stream |
//! | `machine` | what follows from what: the rules |
//! | `ways` | what an operator may do to one that waits, and what that leads to |
//! | `call` | what is called, and what comes of it |
//! | `shard` | the sagas of one shard: commits and effects |

pub mod call;
pub mod definition;
pub mod error;
pub mod event;
pub mod filter;
pub mod history;
pub mod id;
pub mod json;
pub mod limits;
pub mod machine;
pub mod records;
pub mod shard;
pub mod state;
pub mod tree;
pub mod ways;
