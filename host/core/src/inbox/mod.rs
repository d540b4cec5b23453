//! The inbox: what sources bring is handled once by each of its consumers.
//!
//! A delivery is in one of three places: **in hand** (in memory; its source still holds it), **stored** (a row here, with its payload),
//! or **final** (its id is in the seen set). What flows goes from hand to final in one packed commit. It is settled at its source only
//! behind a commit that is known to be in.
//!
//! | file | holds |
//! |---|---|
//! | `message` | what a source brought |
//! | `intake` | from a delivery to that |
//! | `forward` | what goes on to a topic, or to a saga |
//! | `settings` | what configuration says of sources and consumers |
//! | `fingerprint` | short hashes that stand for ids, keys and contents |
//! | `place` | names of what stands in a shard |
//! | `reached` | how far a list came in each shard |
//! | `filter` | conditions on stored messages |
//! | `seen` | where an id lies in the seen set |
//! | `records` | what the store keeps |
//! | `verdict` | what an answer of a handler means |
//! | `dlq` | the message that a dead letter leaves for others |
//! | `owner` | the state machine of a shard: order, takes, rows, claims, settling |
//! | `direct` | tables that are published without anything being written here |
//! | `limits` | every bound |

pub mod direct;
pub mod dlq;
pub mod filter;
pub mod fingerprint;
pub mod forward;
pub mod intake;
pub mod limits;
pub mod message;
pub mod owner;
pub mod place;
pub mod reached;
pub mod records;
pub mod seen;
pub mod settings;
pub mod verdict;
