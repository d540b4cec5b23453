//! Idempotency keys: one key executes once (`semantics.md` §4, source document 1 §2.2 and §3.2).
//!
//! A caller begins a key with the hash of what it is about to do, and gets a token. Whoever begins the same key meanwhile
//! hears that it is in flight; afterwards, what came of it. All rules are in [`decide`], a pure function that every store
//! runs between reading an entry and writing it.

mod answer;
mod decide;
mod entry;
mod filter;
mod settings;

pub use answer::{Answer, cut_error};
pub use decide::{Act, Applied, Begun, Decision, Grant, Op, Reply, decide, known_answer};
pub use entry::{Entry, EntryKey, EntryState, StateWord, derived_id, is_derived};
pub use filter::EntryFilter;
pub use settings::{Keep, Settings};
