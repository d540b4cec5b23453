//! Taking a shard over: one commit writes the next token, gives back what the last owner had claimed, and makes what it
//! had named suspect if its process died.

use std::sync::Arc;

use super::{Rule, Rules};
use crate::ids::Place;
use crate::ids::{Seq, ShardId};
use crate::limits::ALONE_CRASHES_MAX;
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
    /// The last owner's process is known to live: this one, or one that has said so.
    pub lived: bool,
    /// Every protocol rule holds, but in the model checker's mutations.
    pub rules: Rules,
}

/// Whether whoever takes a shard over finds that the process of the owner before died: it didn't give the shard back, hadn't
/// begun to, and isn't known to live.
pub fn has_died(before: &ShardRecord, lived: bool) -> bool {
    before.token != 0 && !before.released && !before.leaving && !lived
}

/// The commit that takes a shard over. `nonce` is fresh and random. It goes in only if the last owner wrote nothing
/// since the record was read.
pub fn takeover(input: TakeoverInput, now: UnixMillis, nonce: u64) -> OwnerCommit {
    let TakeoverInput { shard, host, record: before, open, claimed, dead_holds_key, lived, rules } = input;
    let mut record = before.clone();
    record.owner = host;
    record.token += 1;
    record.taken = nonce;
    record.beat += 1;
    record.nonce = nonce;
    record.open.clear();
    record.suspicion = match !has_died(&before, lived) && rules.kept(Rule::OnlyDeathIsACrash) {
        true => record.suspicion.after_clean_end(),
        false => record.suspicion.after_crash(),
    };
    (record.leaving, record.released) = (false, false);
    let mut work = Takeover { shard, before: &before, now, record, dead_holds_key, writes: Vec::new() };
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
    OwnerCommit {
        shard,
        expect_token: before.token,
        expect_beat: before.beat,
        record: work.record,
        writes: work.writes,
    }
}

struct Takeover<'a> {
    shard: ShardId,
    before: &'a ShardRecord,
    now: UnixMillis,
    /// As it will be.
    record: ShardRecord,
    dead_holds_key: bool,
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
                match self.convicted(place.seq()) {
                    Some(crashes) => self.convict(place, &entry.message, crashes, 0, Vec::new()),
                    None => rest.push(entry.clone()),
                }
            }
        }
        if rest.is_empty() {
            self.writes.push(Write::DeleteSegment(segment.first));
        } else if rest.len() < segment.entries.len() {
            let rest = Segment { first: segment.first, tenant: segment.tenant.clone(), entries: rest };
            self.writes.push(Write::PutSegment(Arc::new(rest)));
        }
        if !delivered.is_empty() {
            let chunk = HistoryChunk {
                shard: self.shard,
                segment: segment.first,
                beat: self.record.beat,
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
        let seq = parked.place.seq();
        if let Some(crashes) = self.convicted(seq) {
            self.writes.push(Write::DeleteParked(seq));
            self.convict(parked.place, &parked.message, crashes, parked.attempts, parked.history.clone());
        } else {
            self.writes.push(Write::PutParked(Arc::new(Parked { claimed: false, ..parked.clone() })));
        }
    }

    /// The crashes of a message that is taken for what killed its hosts; it is no suspect any more.
    fn convicted(&mut self, seq: Seq) -> Option<u32> {
        let suspects = &mut self.record.suspicion.suspects;
        let convicted = suspects.get(&seq).filter(|suspect| suspect.is_convicted()).map(|suspect| suspect.crashes)?;
        suspects.remove(&seq);
        Some(convicted)
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
            reason: format!("its host died {ALONE_CRASHES_MAX} times while it was the only suspect that was sent"),
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
