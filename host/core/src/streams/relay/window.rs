//! One stream of a relay: its window, what is in flight, its checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Written;
use crate::port::stream_store::{RelaySlice, StreamSlice};
use crate::streams::envelope::EventHead;
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
    pub packed: Bytes,
}

/// What became of a send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayOutcome {
    Acknowledged,
    /// Nothing is known, or it failed: not before this instant again.
    Again(Monotonic),
    /// The broker will never take it.
    Refused(Refusal),
}

/// Events that retention took before the relay had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken {
    pub from: u64,
    pub to: u64,
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
    /// Ranges that were overtaken, and that isn't recorded yet.
    overtaken: Vec<Overtaken>,
    acknowledged: BTreeSet<u64>,
    refused: BTreeMap<u64, Refusal>,
    in_flight: BTreeSet<u64>,
    again: BTreeMap<u64, Monotonic>,
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
            overtaken: Vec::new(),
            acknowledged: BTreeSet::new(),
            refused: BTreeMap::new(),
            in_flight: BTreeSet::new(),
            again: BTreeMap::new(),
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
        self.events.is_empty()
            && self.in_flight.is_empty()
            && self.acknowledged.is_empty()
            && self.refused.is_empty()
            && self.seek.is_none()
            && self.overtaken.is_empty()
    }

    fn is_settled(&self, seq: u64) -> bool {
        self.checkpoint.covers(seq) || self.acknowledged.contains(&seq) || self.refused.contains_key(&seq)
    }

    /// Takes what was read after [`Self::covered`]. What the feed hasn't named waits until it is; what it named up to `start` is left out,
    /// unless an operator has sought here.
    pub fn load(&mut self, read: &RelaySlice, by: OrderBy, start: u64, rules: Rules) -> Option<Overtaken> {
        self.is_fresh = false;
        let start = if self.checkpoint.generation == 0 { start } else { 0 };
        let slice = &read.slice;
        let overtaken = self.overtake(slice, start, rules);
        for stored in &slice.chunks {
            // An unreadable chunk holds the stream until somebody repairs it.
            let Ok(chunk) = &stored.chunk else { break };
            if chunk.last <= self.covered {
                continue;
            }
            let is_gap = chunk.from > self.covered;
            if !chunk.is_named() || (is_gap && rules.kept(Rule::NotOverTrimmed)) {
                break;
            }
            for event in chunk.events.iter().filter(|event| event.seq > self.covered) {
                if self.is_settled(event.seq) || event.pos <= start {
                    continue;
                }
                let key = key_of(&event.packed, by);
                self.bytes += event.packed.len();
                let waiting = Waiting { pos: event.pos, key, packed: event.packed.clone() };
                self.events.insert(event.seq, waiting);
            }
            self.covered = chunk.last;
        }
        overtaken
    }

    /// Retention took what wasn't read yet. What is in memory is sent all the same.
    fn overtake(&mut self, slice: &StreamSlice, start: u64, rules: Rules) -> Option<Overtaken> {
        let first = slice.rest.first;
        if first <= self.covered + 1 || !rules.kept(Rule::NotOverTrimmed) {
            return None;
        }
        let overtaken = Overtaken { from: self.covered + 1, to: first - 1 };
        self.covered = overtaken.to;
        // Nothing that went was behind its start.
        if start > 0 && slice.rest.gone <= start {
            return None;
        }
        self.overtaken.push(overtaken);
        Some(overtaken)
    }

    /// The longest settled run from the checkpoint on. It goes over what is covered and not there: compaction took it, or retention did,
    /// aloud.
    fn run_end(&self) -> u64 {
        self.events.keys().find(|seq| !self.is_settled(**seq)).map_or(self.covered, |seq| seq - 1)
    }

    /// What may be sent now, at most `room`: no earlier event of its key is unsettled.
    pub fn sends(&mut self, stream: &StreamKey, now: Monotonic, room: usize, rules: Rules) -> Vec<RelaySend> {
        if self.seek.is_some() && rules.kept(Rule::SeekWaits) {
            return Vec::new();
        }
        let (mut sends, mut busy) = (Vec::new(), BTreeSet::new());
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
                    busy.insert(event.key.as_str());
                }
                continue;
            }
            let is_first = busy.insert(event.key.as_str()) || !rules.kept(Rule::OneOfAKey);
            let is_due = self.again.get(seq).is_none_or(|at| *at <= now);
            if is_first && is_due && !self.in_flight.contains(seq) {
                sends.push(RelaySend {
                    stream: stream.clone(),
                    seq: *seq,
                    generation: self.checkpoint.generation,
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
        match outcome {
            RelayOutcome::Acknowledged => {
                self.acknowledged.insert(seq);
            }
            RelayOutcome::Again(at) => {
                self.again.insert(seq, at);
            }
            RelayOutcome::Refused(why) => {
                self.refused.insert(seq, why);
            }
        }
        true
    }

    /// When something that failed may be sent again.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.again.values().min().copied()
    }

    /// An operator wants it to go on after `upto`.
    pub fn seek_to(&mut self, upto: u64) {
        self.seeks += 1;
        self.seek = Some(Seek { upto, number: self.seeks, first: None });
    }

    /// A seek waits for a look at what is kept.
    pub fn wants_seek(&self, rules: Rules) -> bool {
        self.seek.is_some() && (self.in_flight.is_empty() || !rules.kept(Rule::SeekWaits))
    }

    /// What is kept, read behind this beat.
    pub fn seek_look(&mut self, slice: &StreamSlice, beat: u64) {
        if let Some(seek) = &mut self.seek {
            seek.first = Some((slice.rest.first, beat));
        }
    }

    /// The next checkpoint; none = as it is. `beat` is the shard's as last committed.
    pub fn draft(&self, stream: &StreamKey, beat: u64, rules: Rules) -> Option<Written> {
        if let Some(seek) = self.seek {
            let (first, read_at) = seek.first?;
            let may = self.in_flight.is_empty() || !rules.kept(Rule::SeekWaits);
            if !may || read_at != beat {
                return None;
            }
            let upto = seek.upto.max(first.saturating_sub(1));
            let checkpoint = Checkpoint { upto, done: BTreeSet::new(), generation: self.checkpoint.generation + 1 };
            return Some(self.written(stream, checkpoint, BTreeSet::new()));
        }
        let took: BTreeSet<u64> = self.acknowledged.iter().chain(self.refused.keys()).copied().collect();
        let mut done: BTreeSet<u64> = self.checkpoint.done.union(&took).copied().collect();
        let run_end =
            if rules.kept(Rule::LongestSettledRun) { self.run_end() } else { done.last().copied().unwrap_or(0) };
        let upto = self.checkpoint.upto.max(run_end);
        done = done.split_off(&(upto + 1));
        let checkpoint = Checkpoint { upto, done, generation: self.checkpoint.generation };
        (checkpoint != self.checkpoint).then(|| self.written(stream, checkpoint, took))
    }

    fn written(&self, stream: &StreamKey, checkpoint: Checkpoint, took: BTreeSet<u64>) -> Written {
        let seek = self.seek.map(|seek| seek.number);
        Written { stream: stream.clone(), checkpoint, took, overtaken: self.overtaken.len(), seek }
    }

    /// Refusals whose dead letters a checkpoint goes with.
    pub fn refusals(&self) -> impl Iterator<Item = (u64, &Bytes, &Refusal)> {
        self.refused.iter().filter_map(|(seq, why)| Some((*seq, &self.events.get(seq)?.packed, why)))
    }

    /// Ranges that were overtaken and aren't recorded.
    pub fn overtaken(&self) -> &[Overtaken] {
        &self.overtaken
    }

    /// Where the feed names the first event that a checkpoint doesn't cover; none = nothing of it is in memory.
    pub fn first_unsettled(&self, checkpoint: &Checkpoint) -> Option<u64> {
        self.events.iter().find(|(seq, _)| !checkpoint.covers(**seq)).map(|(_, event)| event.pos)
    }

    /// A checkpoint is durable.
    pub fn applied(&mut self, written: Written, rules: Rules) {
        if written.checkpoint.generation != self.checkpoint.generation {
            let in_flight = std::mem::take(&mut self.in_flight);
            // One that came meanwhile looks at what is kept anew.
            let later = self.seek.filter(|seek| written.seek != Some(seek.number));
            let seek = later.map(|seek| Seek { first: None, ..seek });
            *self = Self { seek, seeks: self.seeks, ..Self::new(written.checkpoint) };
            if !rules.kept(Rule::SeekWaits) {
                self.in_flight = in_flight;
            }
            return;
        }
        self.checkpoint = written.checkpoint;
        for seq in &written.took {
            self.acknowledged.remove(seq);
            self.refused.remove(seq);
        }
        self.overtaken.drain(..written.overtaken.min(self.overtaken.len()));
        let checkpoint = &self.checkpoint;
        self.events.retain(|seq, _| !checkpoint.covers(*seq));
        self.bytes = self.events.values().map(|event| event.packed.len()).sum();
    }
}

fn key_of(packed: &[u8], by: OrderBy) -> String {
    match (by, EventHead::of(packed)) {
        (OrderBy::Resource, Ok(head)) => head.resource_id.to_owned(),
        (OrderBy::Node, Ok(head)) => head.node_uuid.to_owned(),
        // What can't be read keeps the order of all that can't be.
        _ => String::new(),
    }
}
