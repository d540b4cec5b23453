//! One stream of a relay: its window, what is in flight, its checkpoint.
//!
//! | file | holds |
//! |---|---|
//! | `load` | part: what was read goes in, and leaves when others need the room |
//! | `settle` | part: what a commit keeps of it |

mod load;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::streams::name::StreamKey;
use crate::streams::records::{Checkpoint, Refusal};
use crate::streams::rules::{Rule, Rules};
use crate::time::Monotonic;

/// What of an event keeps its order at the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderBy {
    #[default]
    Resource,
    Node,
    Stream,
}

/// An event to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelaySend {
    pub stream: StreamKey,
    pub seq: u64,
    /// Words for another generation are dropped.
    pub generation: u64,
    /// How often it failed before.
    pub failed: u32,
    pub packed: Bytes,
}

/// What became of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayOutcome {
    Acknowledged,
    /// It doesn't count, or nothing is known of it: not before this instant again.
    Again(Monotonic),
    /// It failed: not before this instant again.
    Failed(Monotonic),
    /// The broker will never take it.
    Refused(Refusal),
}

impl RelayOutcome {
    /// Whether it isn't sent again.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Acknowledged | Self::Refused(_))
    }
}

/// Events that retention took before the relay had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken {
    pub from: u64,
    pub to: u64,
    /// How many that were: of the numbers in between some may have been settled before.
    pub lost: u64,
}

#[derive(Debug)]
struct Waiting {
    pos: u64,
    key: String,
    packed: Bytes,
}

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Window {
    /// As last known committed.
    checkpoint: Checkpoint,
    /// Events beyond the checkpoint, as they were read.
    events: BTreeMap<u64, Waiting>,
    bytes: usize,
    /// Up to here the stream was read.
    covered: u64,
    /// Nothing was read yet.
    is_fresh: bool,
    /// Its events were given up for the room that they took: it has to be read again.
    is_parked: bool,
    /// Ranges that were overtaken, and that isn't recorded yet.
    overtaken: Vec<Overtaken>,
    acknowledged: BTreeSet<u64>,
    refused: BTreeMap<u64, Refusal>,
    in_flight: BTreeSet<u64>,
    again: BTreeMap<u64, Monotonic>,
    /// How often events failed that aren't settled.
    failed: BTreeMap<u64, u32>,
    seek: Option<Seek>,
    /// Number of the last seek.
    seeks: u64,
}

/// An operator wants it to go on elsewhere.
#[derive(Clone, Copy, Debug)]
struct Seek {
    upto: u64,
    /// Tells it from one that comes while its commit is out.
    number: u64,
    /// The first number that was kept, read behind the shard's beat of then.
    first: Option<(u64, u64)>,
}

impl Window {
    pub fn new(checkpoint: Checkpoint) -> Self {
        Self {
            covered: checkpoint.upto,
            checkpoint,
            events: BTreeMap::new(),
            bytes: 0,
            is_fresh: true,
            is_parked: false,
            overtaken: Vec::new(),
            acknowledged: BTreeSet::new(),
            refused: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            again: BTreeMap::new(),
            failed: BTreeMap::new(),
            seek: None,
            seeks: 0,
        }
    }

    /// Up to here the stream was read.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    pub fn upto(&self) -> u64 {
        self.checkpoint.upto
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Bytes of what is in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has as many events beyond the checkpoint as it may have. Those that are marked there count: behind one that can't be sent
    /// they would be more and more, and all of them are written with each checkpoint.
    pub fn is_full(&self, events_max: usize) -> bool {
        !self.events.is_empty() && self.events.len() + self.checkpoint.done.len() >= events_max
    }

    pub fn is_seeking(&self) -> bool {
        self.seek.is_some()
    }

    /// Nothing of it is under way or unrecorded.
    pub fn is_idle(&self) -> bool {
        self.events.is_empty() && !self.is_parked && self.is_at_rest()
    }

    fn is_at_rest(&self) -> bool {
        self.in_flight.is_empty() && !self.has_words() && self.seek.is_none()
    }

    fn has_words(&self) -> bool {
        !(self.acknowledged.is_empty() && self.refused.is_empty() && self.overtaken.is_empty())
    }

    fn is_settled(&self, seq: u64) -> bool {
        self.checkpoint.covers(seq) || self.acknowledged.contains(&seq) || self.refused.contains_key(&seq)
    }

    /// What may be sent now, at most `room`: no earlier event of its key is unsettled, but for those that go with it. `run_max`: most events
    /// of a key that go together.
    pub fn sends(
        &mut self,
        stream: &StreamKey,
        now: Monotonic,
        room: usize,
        run_max: usize,
        rules: Rules,
    ) -> Vec<RelaySend> {
        if self.seek.is_some() && rules.kept(Rule::SeekWaits) {
            return Vec::new();
        }
        // How many of a key go now; as many as may when no other one of it goes.
        let (mut sends, mut runs) = (Vec::new(), BTreeMap::new());
        for (seq, event) in &self.events {
            if sends.len() >= room {
                break;
            }
            if self.checkpoint.covers(*seq) || self.acknowledged.contains(seq) {
                continue;
            }
            if self.refused.contains_key(seq) {
                // Its dead letter isn't durable yet: its key waits.
                if rules.kept(Rule::DeadBeforeNext) {
                    runs.insert(event.key.as_str(), usize::MAX);
                }
                continue;
            }
            let run = runs.entry(event.key.as_str()).or_insert(0_usize);
            // What has no key at the broker isn't kept in order by it.
            let most = if event.key.is_empty() { 1 } else { run_max.max(1) };
            let is_next = *run < most || !rules.kept(Rule::OneOfAKey);
            let is_due = self.again.get(seq).is_none_or(|at| *at <= now);
            let goes = is_next && is_due && !self.in_flight.contains(seq);
            *run = if goes { run.saturating_add(1) } else { usize::MAX };
            if goes {
                sends.push(RelaySend {
                    stream: stream.clone(),
                    seq: *seq,
                    generation: self.checkpoint.generation,
                    failed: self.failures(*seq),
                    packed: event.packed.clone(),
                });
            }
        }
        for send in &sends {
            self.again.remove(&send.seq);
            self.in_flight.insert(send.seq);
        }
        sends
    }

    /// Takes what became of a send. False: it belongs to another generation, or isn't in flight.
    pub fn answer(&mut self, seq: u64, generation: u64, outcome: RelayOutcome, rules: Rules) -> bool {
        let is_ours = generation == self.checkpoint.generation || !rules.kept(Rule::SeekWaits);
        if !is_ours || !self.in_flight.remove(&seq) {
            return false;
        }
        if self.checkpoint.covers(seq) {
            // A checkpoint that went too far, in a mutation of the model.
            return true;
        }
        if outcome.is_settled() {
            self.failed.remove(&seq);
        }
        match outcome {
            RelayOutcome::Acknowledged => {
                self.acknowledged.insert(seq);
            }
            RelayOutcome::Again(at) => {
                // It goes behind that one, and is nothing to wake for.
                if !self.again.range(..seq).any(|(before, _)| self.is_of_one_key(*before, seq)) {
                    self.again.insert(seq, at);
                }
            }
            RelayOutcome::Failed(at) => {
                *self.failed.entry(seq).or_insert(0) += 1;
                let behind = self
                    .again
                    .range(seq + 1..)
                    .filter(|(behind, due)| **due <= at && self.is_of_one_key(seq, **behind));
                let behind: Vec<u64> = behind.map(|(behind, _)| *behind).collect();
                for behind in behind {
                    self.again.remove(&behind);
                }
                self.again.insert(seq, at);
            }
            RelayOutcome::Refused(why) => {
                self.refused.insert(seq, why);
            }
        }
        true
    }

    fn is_of_one_key(&self, seq: u64, other: u64) -> bool {
        let key = |seq| self.events.get(&seq).map(|event| event.key.as_str());
        key(seq).is_some() && key(seq) == key(other)
    }

    /// How often an event failed that isn't settled.
    pub fn failures(&self, seq: u64) -> u32 {
        self.failed.get(&seq).copied().unwrap_or(0)
    }

    /// What failed is tried as if it hadn't.
    pub fn forget_failures(&mut self) {
        self.failed.clear();
    }

    /// When something that failed may be sent again. Of a parked one what is due already waits for room, and not for a time.
    pub fn next_due(&self, now: Monotonic) -> Option<Monotonic> {
        let due = self.first_again()?;
        (!self.is_parked || due > now).then_some(due)
    }

    fn first_again(&self) -> Option<Monotonic> {
        let here = self.again.iter().filter(|(seq, _)| self.is_parked || self.events.contains_key(seq));
        here.map(|(_, at)| *at).min()
    }
}
