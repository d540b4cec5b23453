//! Part: what was read goes in, and leaves when others need the room.

use std::collections::BTreeSet;

use super::{OrderBy, Overtaken, Waiting, Window};
use crate::port::stream_store::{RelaySlice, StreamSlice};
use crate::streams::envelope::EventHead;
use crate::streams::rules::{Rule, Rules};
use crate::time::Monotonic;

impl Window {
    /// Takes what was read after [`Self::covered`]. What the feed hasn't named waits until it is; what it named up to `start` is left out,
    /// unless an operator has sought here.
    pub fn load(&mut self, read: &RelaySlice, by: OrderBy, start: u64, rules: Rules) -> Option<Overtaken> {
        (self.is_fresh, self.is_parked) = (false, false);
        let is_sought = self.checkpoint.generation > 0 && rules.kept(Rule::SeekBeforeStart);
        let start = if is_sought { 0 } else { start };
        let slice = &read.slice;
        let overtaken = self.overtake(slice, start, rules);
        'read: for stored in &slice.chunks {
            // An unreadable chunk holds the stream until somebody repairs it.
            let Ok(chunk) = &stored.chunk else { break };
            if chunk.last <= self.covered {
                continue;
            }
            let is_gap = chunk.from > self.covered;
            if !chunk.is_named() || (is_gap && rules.kept(Rule::NotOverTrimmed)) {
                break;
            }
            let covered = self.covered;
            for event in chunk.events.iter().filter(|event| event.seq > covered) {
                if self.is_settled(event.seq) || event.pos <= start {
                    continue;
                }
                if event.apart > 0 {
                    // Its payload wasn't read any more: the next look begins with it.
                    self.covered = event.seq - 1;
                    break 'read;
                }
                let key = key_of(&event.packed, by);
                self.bytes += event.packed.len();
                let waiting = Waiting { pos: event.pos, key, packed: event.packed.clone() };
                self.events.insert(event.seq, waiting);
            }
            self.covered = chunk.last;
        }
        // Of a window that was parked some may be gone: nobody would wait for it.
        let is_left = |seq: u64| seq > self.covered || self.events.contains_key(&seq);
        self.again.retain(|seq, _| is_left(*seq));
        self.failed.retain(|seq, _| is_left(*seq));
        overtaken
    }

    /// Gives its events up if none of them can be sent now and nothing is under way or unrecorded. When they may be sent again stays known.
    /// False: it keeps what it has.
    pub fn park(&mut self, now: Monotonic) -> bool {
        if !self.is_blocked(now) {
            return false;
        }
        self.events.clear();
        (self.bytes, self.covered, self.is_parked) = (0, self.checkpoint.upto, true);
        true
    }

    /// Its events were given up for the room that they took.
    pub fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// It was parked, and nothing of it is due.
    pub fn rests(&self, now: Monotonic) -> bool {
        self.is_parked && self.first_again().is_some_and(|due| due > now)
    }

    fn is_blocked(&self, now: Monotonic) -> bool {
        let mut keys = BTreeSet::new();
        let mut earliest = self.events.iter().filter(|(_, event)| keys.insert(event.key.as_str()));
        let waits = |seq: &u64| self.again.get(seq).is_some_and(|at| *at > now);
        self.is_at_rest() && !self.events.is_empty() && earliest.all(|(seq, _)| waits(seq))
    }

    /// Retention took what wasn't read yet. What is in memory is sent all the same, and what was settled beyond the checkpoint isn't lost.
    fn overtake(&mut self, slice: &StreamSlice, start: u64, rules: Rules) -> Option<Overtaken> {
        let first = slice.rest.first;
        if first <= self.covered + 1 || !rules.kept(Rule::NotOverTrimmed) {
            return None;
        }
        let (from, to) = (self.covered + 1, first - 1);
        let settled = self.checkpoint.done.range(from..=to).count() as u64;
        let overtaken = Overtaken { from, to, lost: first - from - settled };
        self.covered = to;
        // Nothing that went was behind its start.
        let is_before_start = start > 0 && slice.rest.gone <= start && rules.kept(Rule::GoneBeforeStart);
        if is_before_start || overtaken.lost == 0 {
            return None;
        }
        self.overtaken.push(overtaken);
        Some(overtaken)
    }
}

fn key_of(packed: &[u8], by: OrderBy) -> String {
    match (by, EventHead::of(packed)) {
        (OrderBy::Resource, Ok(head)) => head.resource_id.to_owned(),
        (OrderBy::Node, Ok(head)) => head.node_uuid.to_owned(),
        // All of them have one key at the broker, too: the stream's.
        (OrderBy::Stream, Ok(_)) => "stream".to_owned(),
        // What can't be read keeps the order of all that can't be.
        _ => String::new(),
    }
}
