//! Event streams: numbered events, appended beside business data, read from any position on, relayed to brokers.
//!
//! Whoever gives out a number writes the stream's head, so numbers follow commits. Plain appends go over a doorstep and are numbered by
//! the shard's owner; appends at an expected number do it themselves, in their caller's transaction. A feed a shard says what each commit
//! added. The store is the law, memory a hint.
//!
//! | file | holds |
//! |---|---|
//! | `name` | names of streams and patterns of them |
//! | `event` | what is appended, checked and packed |
//! | `envelope`, `proto` | the protobuf of an event |
//! | `chunk` | events of a stream in one record |
//! | `blob` | large payloads, beside their chunk |
//! | `records` | what the store keeps |
//! | `dead` | dead letters, and what a relay never had |
//! | `exact` | appends at an expected number |
//! | `joint` | events that commit with something else |
//! | `owner` | the state machine of a shard: adopting, numbering, the feed |
//! | `upkeep` | merging, retention, compaction |
//! | `reading` | pages, readers, cursors |
//! | `relay` | from streams to brokers |
//! | `wire` | an event outside of the store: as JSON, as a message |
//! | `settings` | what configuration says of streams and relays |
//! | `access` | roles that name streams |
//! | `rules` | the rules that the model leaves out one by one |
//! | `limits` | every bound |

pub mod access;
pub mod blob;
pub mod chunk;
pub mod dead;
pub mod envelope;
pub mod event;
pub mod exact;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod joint;
pub mod limits;
pub mod name;
pub mod owner;
pub mod proto;
pub mod reading;
pub mod records;
pub mod relay;
pub mod rules;
pub mod settings;
pub mod upkeep;
pub mod wire;
