//! What must hold at each delivery, and at the end.

use std::collections::BTreeSet;

use waybill_core::ids::ShardId;

use super::events::{EventSeen, Folded, Id};
use super::ledger::events_in;
use super::setup::{COMPACTED, SHARDS, STREAMS};
use super::world::World;

impl World {
    /// A reader that had everything up to `had` gets an event; of a `node`, it wants those alone.
    pub(super) fn check_delivery(
        &mut self,
        who: &str,
        stream: usize,
        node: Option<u8>,
        had: Option<u64>,
        seen: &EventSeen,
    ) {
        self.ledger.stats.deliveries += 1;
        let by_seq = &self.ledger.by_seq[stream];
        if by_seq.get(&seen.seq) != Some(&seen.id) {
            let told = seen.described();
            return self
                .ledger
                .violation(format!("PHANTOM {who}: {told} of stream {stream} isn't committed like this"));
        }
        let is_wanted = |id: &Id| node.is_none_or(|node| self.ledger.events[*id].node == node);
        if !is_wanted(&seen.id) {
            let told = seen.described();
            return self.ledger.violation(format!("PHANTOM {who}: {told} of stream {stream} is another node's"));
        }
        let Some(had) = had else { return };
        if seen.seq <= had {
            return self.ledger.violation(format!("REPEAT {who}: stream {stream} gave {} after {had}", seen.seq));
        }
        let mut between = by_seq.range(had + 1..seen.seq);
        let missed = between.find(|(_, id)| is_wanted(id) && !self.ledger.events[**id].dropped);
        if let Some((missed, _)) = missed {
            let (seq, missed) = (seen.seq, *missed);
            self.ledger.violation(format!("MISSED {who}: stream {stream} gave {seq} after {had}, without {missed}"));
        }
    }

    pub(super) fn ends(&self) -> Vec<u64> {
        self.store.read(|tables| (0..SHARDS).map(|shard| tables.streams.shard(ShardId(shard)).pos).collect())
    }

    pub(super) fn is_settled(&self) -> bool {
        let is_quiet = self.clients.is_empty() && self.late.is_empty() && self.broker.is_quiet(self.setup.blocked);
        is_quiet
            && self.ledger.events.iter().all(|event| event.acknowledged.is_none() || event.seq.is_some())
            && self.named.iter().all(|reader| self.is_at_end(reader))
            && self.many.iter().all(|reader| self.has_all(reader))
            && (0..STREAMS).all(|stream| self.is_named(stream))
            && self.unrelayed().is_none()
    }

    fn is_named(&self, stream: usize) -> bool {
        let key = self.setup.stream(stream);
        self.store.read(|tables| {
            let head = tables.streams.head(key);
            tables.streams.rest(key).named_to(&head) >= head.last
        })
    }

    /// An event that the broker should have and hasn't.
    fn unrelayed(&self) -> Option<(usize, u64)> {
        for stream in (0..STREAMS).filter(|stream| Some(*stream) != self.setup.blocked) {
            let key = self.setup.stream(stream);
            let generation = self.store.read(|tables| tables.streams.checkpoint(&self.setup.relay, key).generation);
            let began = self.ledger.began.get(&(stream, generation)).copied().unwrap_or(0);
            for (seq, id) in &self.ledger.by_seq[stream] {
                let event = &self.ledger.events[*id];
                let is_left_out = generation == 0 && self.is_before_start(stream, *seq);
                if event.dead || event.dropped || event.lost || is_left_out {
                    continue;
                }
                let arrived = self.broker.arrived.get(&(stream, *seq));
                let is_there = match arrived {
                    Some(in_) if *seq > began => in_.contains(&generation),
                    Some(_) => true,
                    None => *seq <= began && event.skipped,
                };
                if !is_there {
                    return Some((stream, *seq));
                }
            }
        }
        None
    }

    pub(super) fn audit(&mut self) {
        let lost = self.ledger.events.iter().position(|event| event.acknowledged.is_some() && event.seq.is_none());
        if let Some(id) = lost {
            let stream = self.ledger.events[id].stream;
            return self
                .ledger
                .violation(format!("LOST event {id} of stream {stream} was acknowledged, without a number"));
        }
        if let Some((stream, seq)) = self.unrelayed() {
            self.ledger.violation(format!("BROKER lacks {seq} of stream {stream}"));
        }
        self.audit_readers();
        self.audit_trail();
        for stream in 0..STREAMS {
            let key = self.setup.stream(stream).clone();
            let chunks: Vec<_> = self.store.read(|tables| tables.streams.chunks_after(&key, 0).collect());
            let mut at = None;
            for chunk in chunks.into_iter().filter_map(|stored| stored.chunk.ok()) {
                if at.is_some_and(|at| at != chunk.from) {
                    self.ledger.violation(format!("COVER stream {stream} isn't covered at {}", chunk.from));
                }
                at = Some(chunk.last);
            }
        }
    }

    /// The audit trail has the death of each dead letter once, under its place.
    fn audit_trail(&mut self) {
        let (noted, places) = self.store.read(|tables| {
            let events = tables.tx_events.values().flat_map(|record| &record.events);
            let mut noted: Vec<String> = events.map(|event| event.id.to_string()).collect();
            let mut places: Vec<String> = tables.streams.dead.keys().map(ToString::to_string).collect();
            noted.sort_unstable();
            places.sort_unstable();
            (noted, places)
        });
        if noted != places {
            self.ledger.violation(format!("TRAIL has the deaths {noted:?}, dead letters are {places:?}"));
        }
    }

    fn audit_readers(&mut self) {
        for number in 0..self.named.len() {
            let reader = &self.named[number];
            let (stream, had, state) = (reader.stream, reader.had, reader.state.clone());
            if self.is_at_end(&self.named[number]) {
                self.check_tail(&format!("A{number}"), stream, None, had, &state);
            } else {
                let told = format!("{:?}", self.named[number].reader);
                self.ledger.violation(format!("STUCK reader A{number} of stream {stream}: {told}"));
            }
        }
        for number in 0..self.many.len() {
            if !self.has_all(&self.many[number]) {
                let told = format!("{:?}", self.many[number].reader);
                self.ledger.violation(format!("STUCK reader B{number}: {told}"));
                continue;
            }
            for stream in 0..STREAMS {
                let many = &self.many[number];
                let (node, had, state) = (many.node, many.had[stream], many.state[stream].clone());
                self.check_tail(&format!("B{number}"), stream, node, had, &state);
            }
        }
    }

    /// A reader that is at the end has the last event that it wants, and of a compacted stream the right state. Of a node's events that
    /// stream has no state: another node's may have replaced them.
    fn check_tail(&mut self, who: &str, stream: usize, node: Option<u8>, had: Option<u64>, state: &Folded) {
        let key = self.setup.stream(stream).clone();
        let here = self.store.read(|tables| events_in(&tables.streams, &key));
        let is_wanted = |seen: &&EventSeen| node.is_none_or(|node| self.ledger.events[seen.id].node == node);
        let here: BTreeSet<u64> = here.iter().filter(is_wanted).map(|seen| seen.seq).collect();
        if let Some(last) = here.last()
            && had.is_none_or(|had| had < *last)
        {
            self.ledger.violation(format!("MISSED {who}: stream {stream} ends at {last}, it has {had:?}"));
        }
        if stream != COMPACTED || node.is_some() {
            return;
        }
        let mut want = Folded::new();
        for (seq, id) in &self.ledger.by_seq[stream] {
            let event = &self.ledger.events[*id];
            if event.is_delete {
                want.remove(&event.resource);
            } else {
                want.insert(event.resource, *seq);
            }
        }
        if *state != want {
            self.ledger.violation(format!("STATE {who}: stream {stream} is {state:?}, should be {want:?}"));
        }
    }
}
