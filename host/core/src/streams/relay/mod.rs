//! The relay: what the events of streams are sent to brokers by, at the owner of their shard.
//!
//! Not through the outbox, so that an event is written once. What the feed names beyond the relay's **mark** is behind until its stream's
//! checkpoint has come that far. Of each such stream a window of events is in memory; of a (stream, key) the earliest unsettled event is
//! sent. Checkpoints, dead letters and the mark go into the owner's next commit.
//!
//! | file | holds |
//! |---|---|
//! | `behind` | part: which streams are behind, and how far the mark may go |
//! | `window` | one stream: its window, what is in flight, its checkpoint |
//! | `room` | part: which windows are read, and which leave their room to others |
//! | `record` | part: what commits write of it, and how far the mark goes |
//! | `of_shard` | one relay of one shard |

mod behind;
mod of_shard;
mod record;
mod room;
#[cfg(test)]
mod tests;
mod window;

pub use of_shard::{FeedTaken, Relay, RelaySettings};
pub use window::{OrderBy, Overtaken, RelayOutcome, RelaySend};

use std::collections::BTreeSet;

use super::name::StreamKey;
use super::records::{Checkpoint, StreamShardRecord, StreamWrite};
use super::rules::Rule;
use crate::ids::RelayName;

/// A checkpoint that a commit writes, and which words of the broker are in it.
#[derive(Debug)]
struct Written {
    stream: StreamKey,
    checkpoint: Checkpoint,
    took: BTreeSet<u64>,
    overtaken: usize,
    /// Number of the seek that it is.
    seek: Option<u64>,
}

/// What a commit writes of relays.
#[derive(Debug, Default)]
pub struct RelayFlight {
    of: Vec<(RelayName, Vec<Written>)>,
}

/// The relays of a shard.
#[derive(Debug, Default)]
pub struct Relays {
    list: Vec<Relay>,
}

impl Relays {
    pub fn new(list: Vec<Relay>) -> Self {
        Self { list }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Relay> {
        self.list.iter()
    }

    pub fn get_mut(&mut self, name: &RelayName) -> Option<&mut Relay> {
        self.list.iter_mut().find(|relay| relay.name() == name)
    }

    /// Relays for which retention waits, of a stream.
    pub fn holding(&self, stream: &StreamKey) -> Vec<RelayName> {
        let holding = self.list.iter().filter(|relay| relay.settings().holds && relay.takes(stream));
        holding.map(|relay| relay.name().clone()).collect()
    }

    /// Whether a relay is about to seek in a stream.
    pub fn is_seeking(&self, stream: &StreamKey) -> bool {
        self.list.iter().any(|relay| relay.is_seeking(stream))
    }

    /// Writes what is to be written; nothing = nothing has changed that must be kept at once.
    pub(super) fn draft(&self, writes: &mut Vec<StreamWrite>, record: &mut StreamShardRecord) -> RelayFlight {
        let beat = record.beat.saturating_sub(1);
        let mut flight = RelayFlight::default();
        for relay in &self.list {
            let (written, mark) = relay.draft(beat, record, writes);
            record.marks.insert(relay.name().clone(), mark);
            if relay.start() > 0 && relay.settings().rules.kept(Rule::StartIsKept) {
                record.starts.insert(relay.name().clone(), relay.start());
            }
            flight.of.push((relay.name().clone(), written));
        }
        flight
    }

    pub(super) fn applied(&mut self, flight: RelayFlight) {
        for (name, written) in flight.of {
            if let Some(relay) = self.get_mut(&name) {
                written.into_iter().for_each(|written| relay.applied(written));
            }
        }
    }
}
