//! Double entry: what must hold at each commit.
//!
//! First words of violations: GAP, TWICE, REUSED (numbers are 1, 2, 3, ... in commit order, each for one event); LOST, ANSWER (what was
//! acknowledged is numbered, and as was told); ORDER (a plain append that began after another's acknowledgement gets the higher number);
//! EXACT (an exact append is aborted only if the head moved); FENCED; COVER (chunks cover a stream without a hole); TRAIL (each
//! dead letter has its audit event); COMPACTION, HOLD (what
//! stays); ROOM (what a relay has in memory is bounded); CHECKPOINT, NEEDLESS (a checkpoint counts only what the broker acknowledged under
//! it); EARLY (what was there before a relay that takes the latest); KEY, BROKER; and of readers MISSED, REPEAT, PHANTOM, STATE, STUCK,
//! EXPIRED.

use std::collections::{BTreeMap, BTreeSet};

use waybill_core::streams::records::{Checkpoint, StreamDead, StreamWrite};

use super::events::{EventSeen, Id, Known};
use super::setup::{COMPACTED, SHARDS, STREAMS, shard_of};
use super::stats::Stats;
use super::world::World;
use crate::memory_store::StreamTables;

#[derive(Default)]
pub(super) struct Ledger {
    pub now: u64,
    pub violations: Vec<String>,
    pub stats: Stats,
    pub events: Vec<Known>,
    /// The last number of each stream, and which event has which.
    pub last: [u64; STREAMS],
    pub by_seq: [BTreeMap<u64, Id>; STREAMS],
    /// Acknowledged by the broker: stream, seq, generation.
    pub acknowledged: BTreeSet<(usize, u64, u64)>,
    /// Where each generation of the relay's checkpoints began.
    pub began: BTreeMap<(usize, u64), u64>,
    /// The feed record that names each event, by stream and number.
    pub named: BTreeMap<(usize, u64), u64>,
    /// Of a relay that takes the latest: behind which feed record it began in each shard, and where owners had it begin, by shard and token.
    pub started: [Option<u64>; SHARDS as usize],
    pub starting: BTreeMap<(usize, u64), u64>,
}

/// What the books need of the store as it was before a commit.
pub(super) struct Before {
    /// Events of the streams whose chunks it writes.
    events: BTreeMap<usize, Vec<EventSeen>>,
    /// Checkpoints that it writes.
    checkpoints: BTreeMap<usize, Checkpoint>,
}

impl Ledger {
    pub fn violation(&mut self, what: String) {
        self.violations.push(format!("t{} {what}", self.now));
    }

    pub fn acknowledge(&mut self, id: Id) {
        let now = self.now;
        self.events[id].acknowledged.get_or_insert(now);
    }

    /// The event with a number, if the number was given.
    pub fn event(&mut self, stream: usize, seq: u64) -> Option<&mut Known> {
        let id = *self.by_seq[stream].get(&seq)?;
        self.events.get_mut(id)
    }

    /// Whether a number was named by the feed up to there.
    pub fn was_named_by(&self, stream: usize, seq: u64, pos: Option<u64>) -> bool {
        self.named.get(&(stream, seq)).zip(pos).is_some_and(|(named, pos)| *named <= pos)
    }

    /// A number is given to an event.
    fn number(&mut self, stream: usize, seen: &EventSeen) {
        let want = self.last[stream] + 1;
        if seen.seq != want {
            return self.violation(format!("GAP stream {stream}: {} given out after {}", seen.described(), want - 1));
        }
        self.last[stream] = seen.seq;
        self.by_seq[stream].insert(seen.seq, seen.id);
        self.stats.numbered += 1;
        let known = self.events[seen.id].clone();
        if let Some(seq) = known.seq {
            self.violation(format!("TWICE event {} of stream {stream} has numbers {seq} and {}", seen.id, seen.seq));
        }
        if known.is_plain {
            self.check_order(stream, seen.id, &known);
        }
        self.events[seen.id].seq = Some(seen.seq);
    }

    fn check_order(&mut self, stream: usize, id: Id, known: &Known) {
        let earlier = self.events.iter().enumerate().find(|(other, event)| {
            let is_before = event.acknowledged.is_some_and(|at| at < known.begin)
                || (event.transaction == known.transaction && event.index < known.index);
            *other != id && event.stream == stream && event.is_plain && event.seq.is_none() && is_before
        });
        if let Some((other, _)) = earlier {
            self.violation(format!("ORDER stream {stream}: {id} numbered before {other}, which came earlier"));
        }
    }
}

/// All events that are stored of a stream.
pub(super) fn events_in(tables: &StreamTables, stream: &waybill_core::streams::name::StreamKey) -> Vec<EventSeen> {
    let chunks = tables.chunks_after(stream, 0).filter_map(|stored| stored.chunk.ok());
    chunks.flat_map(|chunk| chunk.events.iter().map(EventSeen::of).collect::<Vec<_>>()).collect()
}

impl World {
    pub(super) fn books_before(&self, writes: &[StreamWrite]) -> Before {
        let mut before = Before { events: BTreeMap::new(), checkpoints: BTreeMap::new() };
        self.store.read(|tables| {
            for write in writes {
                match write {
                    StreamWrite::PutChunk { stream, .. } | StreamWrite::DeleteChunk { stream, .. } => {
                        let number = self.setup.number(stream);
                        before.events.entry(number).or_insert_with(|| events_in(&tables.streams, stream));
                    }
                    StreamWrite::PutCheckpoint { relay, stream, .. } => {
                        let checkpoint = tables.streams.checkpoint(relay, stream);
                        before.checkpoints.insert(self.setup.number(stream), checkpoint);
                    }
                    _ => {}
                }
            }
        });
        before
    }

    /// A commit went in.
    pub(super) fn books_after(&mut self, writes: &[StreamWrite], before: Before) {
        for write in writes {
            match write {
                StreamWrite::PutDead(dead) => match dead.as_ref() {
                    StreamDead::Relay { stream, seq, .. } => {
                        let stream = self.setup.number(stream);
                        if let Some(event) = self.ledger.event(stream, *seq) {
                            event.dead = true;
                        }
                        self.ledger.stats.dead += 1;
                    }
                    StreamDead::Door { event, .. } => {
                        self.ledger.violation(format!("LOST {:?} is a dead letter of the doorstep", event.id));
                    }
                },
                StreamWrite::PutRest { stream, rest } => {
                    let number = self.setup.number(stream);
                    self.ledger.stats.adopted += u64::from(rest.fed > self.adopted[number]);
                    self.adopted[number] = self.adopted[number].max(rest.fed);
                }
                StreamWrite::PutFeed(record) => {
                    for part in &record.parts {
                        let stream = self.setup.number(&part.stream);
                        self.ledger.named.extend((part.from..=part.to).map(|seq| ((stream, seq), record.pos)));
                    }
                }
                _ => {}
            }
        }
        for (stream, old) in before.events {
            self.check_chunks(stream, &old);
        }
        for write in writes {
            if let StreamWrite::PutCheckpoint { stream, checkpoint, .. } = write {
                let stream = self.setup.number(stream);
                self.check_checkpoint(stream, &before.checkpoints[&stream], checkpoint);
            }
        }
    }

    /// Numbers never change hands, and nothing leaves a stream but by the rules.
    fn check_chunks(&mut self, stream: usize, old: &[EventSeen]) {
        let key = self.setup.stream(stream).clone();
        let (here, rest, held) = self.store.read(|tables| {
            let streams = &tables.streams;
            (events_in(streams, &key), streams.rest(&key), streams.checkpoint(&self.setup.relay, &key))
        });
        let mut fresh: Vec<EventSeen> =
            here.iter().filter(|seen| seen.seq > self.ledger.last[stream]).copied().collect();
        fresh.sort_by_key(|seen| seen.seq);
        for seen in &fresh {
            self.ledger.number(stream, seen);
            if !self.ledger.violations.is_empty() {
                return;
            }
        }
        for seen in &here {
            if self.ledger.by_seq[stream].get(&seen.seq) != Some(&seen.id) {
                self.ledger.violation(format!("REUSED stream {stream}: a number holds {} now", seen.described()));
            }
        }
        let here: BTreeSet<u64> = here.iter().map(|seen| seen.seq).collect();
        for gone in old.iter().filter(|seen| !here.contains(&seen.seq)) {
            if self.setup.holds && !held.covers(gone.seq) && self.is_held(stream, gone.seq, &held) {
                self.ledger
                    .violation(format!("HOLD stream {stream}: {} left before the relay had it", gone.described()));
            }
            if gone.seq < rest.first && stream != COMPACTED {
                continue;
            }
            let mut later = self.ledger.by_seq[stream].range(gone.seq + 1..);
            let is_replaced = later.any(|(_, id)| self.ledger.events[*id].resource == gone.resource);
            if !is_replaced && (!gone.is_delete || rest.purged < gone.seq) {
                let told = gone.described();
                self.ledger.violation(format!("COMPACTION stream {stream}: {told} was the last of its resource"));
            }
            self.ledger.events[gone.id].dropped = true;
        }
    }

    /// Whether the relay is there to have an event, and wants it.
    fn is_held(&self, stream: usize, seq: u64, held: &Checkpoint) -> bool {
        let is_there =
            self.setup.latest_from.is_none() || self.ledger.started[usize::from(shard_of(stream).0)].is_some();
        is_there && (held.generation > 0 || !self.is_before_start(stream, seq))
    }

    fn check_checkpoint(&mut self, stream: usize, old: &Checkpoint, new: &Checkpoint) {
        if new.generation != old.generation {
            self.ledger.stats.seeks += 1;
            self.ledger.began.insert((stream, new.generation), new.upto);
            for seq in old.upto + 1..=new.upto {
                if let Some(event) = self.ledger.event(stream, seq) {
                    event.skipped = true;
                }
            }
            if !new.done.is_empty() {
                self.ledger.violation(format!("CHECKPOINT stream {stream}: a seek kept marks"));
            }
            return;
        }
        if new.upto < old.upto {
            self.ledger.violation(format!("CHECKPOINT stream {stream} went from {} to {}", old.upto, new.upto));
        }
        for seq in (old.upto + 1..=new.upto).chain(new.done.iter().copied()) {
            if old.done.contains(&seq) {
                continue;
            }
            let is_before_start = new.generation == 0 && self.is_before_start(stream, seq);
            if let Some(event) = self.ledger.event(stream, seq)
                && is_before_start
            {
                event.skipped = true;
                self.ledger.stats.left_out += 1;
                continue;
            }
            let acknowledged = self.ledger.acknowledged.contains(&(stream, seq, new.generation));
            let excused = self.ledger.event(stream, seq).is_some_and(|event| event.dead || event.dropped || event.lost);
            if !acknowledged && !excused {
                self.ledger.violation(format!("CHECKPOINT stream {stream}: {seq} counted without the broker's word"));
            }
        }
        if let Some(seq) = old.done.iter().find(|seq| !new.covers(**seq)) {
            self.ledger.violation(format!("CHECKPOINT stream {stream}: the mark of {seq} was lost"));
        }
    }
}
