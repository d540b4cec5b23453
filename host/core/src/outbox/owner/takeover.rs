//! Taking a shard over: one commit writes the next token and makes what the last owner had claimed suspect.

use std::sync::Arc;

use super::Routing;
use crate::ids::Place;
use crate::ids::{Seq, ShardId};
use crate::limits::SOLO_CRASHES_MAX;
use crate::message::Message;
use crate::outbox::records::{
    AttemptOutcome, AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, HistoryChunk, Parked, Segment,
    ShardRecord,
};
use crate::port::store::{OwnerCommit, StoredSegment, Write};
use crate::time::UnixMillis;

/// What a rival has read before it takes over.
#[derive(Clone, Debug)]
pub struct TakeoverInput {
    /// Shard.
    pub shard: ShardId,
    /// Name of the new owner.
    pub host: String,
    /// The record as read.
    pub record: ShardRecord,
    /// The segments that `record.open` names, as far as they exist.
    pub open: Vec<StoredSegment>,
    /// Parked messages that are claimed.
    pub claimed: Vec<Arc<Parked>>,
    /// A dead letter keeps its key.
    pub dead_holds_key: bool,
    /// Routes: what workers claim from outside is no suspect.
    pub routing: Arc<Routing>,
}

/// The commit that takes a shard over. `nonce` is fresh and random. It goes in only if the last owner wrote nothing
/// since the record was read.
pub fn takeover(input: TakeoverInput, now: UnixMillis, nonce: u64) -> OwnerCommit {
    let TakeoverInput { shard, host, record: before, open, claimed, dead_holds_key, routing } = input;
    let mut record = before.clone();
    record.owner = host;
    record.token += 1;
    record.beat += 1;
    record.nonce = nonce;
    record.open.clear();
    record.solo = None;
    record.released = false;
    let mut work =
        Takeover { shard, before: &before, now, beat: record.beat, dead_holds_key, routing, writes: Vec::new() };
    for stored in open {
        match stored.segment {
            Ok(segment) => work.segment(&segment),
            Err(malformed) => {
                work.writes.push(Write::QuarantineSegment { first: stored.first, reason: malformed.reason })
            }
        }
    }
    for parked in claimed {
        work.parked(&parked);
    }
    OwnerCommit { shard, expect_token: before.token, expect_beat: before.beat, record, writes: work.writes }
}

struct Takeover<'a> {
    shard: ShardId,
    before: &'a ShardRecord,
    now: UnixMillis,
    beat: u64,
    dead_holds_key: bool,
    routing: Arc<Routing>,
    writes: Vec<Write>,
}

impl Takeover<'_> {
    fn segment(&mut self, segment: &Arc<Segment>) {
        let open = self.before.open.get(&segment.first).cloned().unwrap_or_default();
        let mut rest = Vec::new();
        let mut delivered = Vec::new();
        for entry in &segment.entries {
            if open.acked.contains(entry.index) {
                delivered.push(self.delivered(entry));
            } else if !open.moved.contains(entry.index) {
                let place = Place { shard: self.shard, segment: segment.first, index: entry.index };
                let (suspect, solo_crashes) =
                    self.crashed(&entry.message, place.seq(), entry.suspect, entry.solo_crashes);
                if solo_crashes >= SOLO_CRASHES_MAX {
                    self.convict(place, &entry.message, suspect, 0, Vec::new());
                } else {
                    rest.push(Entry { suspect, solo_crashes, ..entry.clone() });
                }
            }
        }
        if rest.is_empty() {
            self.writes.push(Write::DeleteSegment(segment.first));
        } else {
            let rest = Segment { first: segment.first, tenant: segment.tenant.clone(), entries: rest };
            self.writes.push(Write::PutSegment(Arc::new(rest)));
        }
        if !delivered.is_empty() {
            let chunk = HistoryChunk {
                shard: self.shard,
                segment: segment.first,
                beat: self.beat,
                at: self.now,
                entries: delivered,
            };
            self.writes.push(Write::PutHistory(Arc::new(chunk)));
        }
    }

    /// The receipt was in the memory of the owner that died.
    fn delivered(&self, entry: &Entry) -> Done {
        Done {
            index: entry.index,
            message: Arc::clone(&entry.message),
            end: DoneEnd::Delivered,
            at: self.now,
            attempts: 1,
            receipt: None,
            history: Vec::new(),
        }
    }

    fn parked(&mut self, parked: &Parked) {
        let (suspect, solo_crashes) =
            self.crashed(&parked.message, parked.place.seq(), parked.suspect, parked.solo_crashes);
        if solo_crashes >= SOLO_CRASHES_MAX {
            self.writes.push(Write::DeleteParked(parked.place.seq()));
            self.convict(parked.place, &parked.message, suspect, parked.attempts, parked.history.clone());
        } else {
            let row = Parked { suspect, solo_crashes, claimed: false, ..parked.clone() };
            self.writes.push(Write::PutParked(Arc::new(row)));
        }
    }

    /// What a message is suspected of after another crash. The host can't have died of what a worker outside had.
    fn crashed(&self, message: &Message, seq: Seq, suspect: u32, solo_crashes: u32) -> (u32, u32) {
        if self.routing.external.is_some() && self.routing.transport_of(&message.topic) == self.routing.external {
            return (suspect, solo_crashes);
        }
        let solo = u32::from(self.before.solo == Some(seq));
        (suspect.saturating_add(1), solo_crashes.saturating_add(solo))
    }

    fn convict(
        &mut self,
        place: Place,
        message: &Arc<Message>,
        suspect: u32,
        attempts: u32,
        mut history: Vec<AttemptRecord>,
    ) {
        history.push(AttemptRecord {
            at: self.now,
            took_ms: 0,
            outcome: AttemptOutcome::Unknown,
            worker: Arc::from(self.before.owner.as_str()),
            transport: Arc::from(""),
            plugin: None,
            code: Some("SUSPECTED_POISON".to_owned()),
            reason: None,
            maybe_delivered: true,
        });
        let dead = DeadLetter {
            place,
            message: Arc::clone(message),
            code: "SUSPECTED_POISON".to_owned(),
            reason: format!("its worker died {SOLO_CRASHES_MAX} times while sending nothing but this message"),
            attempts,
            suspect,
            died_at: self.now,
            state: DeadState::Dead,
            holds_key: self.dead_holds_key && message.key.is_some(),
            history,
        };
        self.writes.push(Write::PutDead(Arc::new(dead)));
    }
}
