//! Taking a shard over: a commit writes the next token, gives back segments that the last owner had claimed, and makes what it had
//! named suspect if its process died. Claimed parked messages stay as they are: the new owner has claimed them then.
//!
//! No commit is larger than its bound, so what doesn't fit stays claimed in the record and goes in the next commit, which is a
//! takeover again, from this process itself. The first one has all that a death leads to, also the dead letter of a message that it
//! convicts: whoever takes over after a death in between counts that one, and nothing twice. Nothing is sent before the last.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Rule, Rules};
use crate::code::Code;
use crate::fates::{Death, Fate, Fates};
use crate::ids::Place;
use crate::ids::{Seq, ShardId};
use crate::limits::{ALONE_CRASHES_MAX, SEGMENT_BYTES_MAX};
use crate::message::Message;
use crate::outbox::records::{
    AttemptOutcome, AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, HistoryChunk, Parked, Segment,
    ShardRecord,
};
use crate::port::store::{OwnerCommit, StoredSegment, Write};
use crate::time::UnixMillis;
use crate::tx_event::{TxEvent, TxEventKind, TxLog, TxRecordKey, TxSubject};

/// Claimed segments that one commit of a takeover looks at: what it reads stays small, too.
const SEGMENTS_MAX: usize = 16;

/// What a rival has read before it takes over.
#[derive(Clone, Debug)]
pub struct TakeoverInput {
    pub shard: ShardId,
    /// Name of the new owner.
    pub host: String,
    /// The record as read.
    pub record: ShardRecord,
    /// Those of [`takeover_reads`], as far as they exist.
    pub open: Vec<StoredSegment>,
    /// Parked messages that are claimed.
    pub claimed: Vec<Arc<Parked>>,
    /// Bytes past which the commit takes no further segment; one it always takes.
    pub commit_bytes: usize,
    /// A dead letter keeps its key.
    pub dead_holds_key: bool,
    /// It writes audit events.
    pub tx_events: bool,
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

/// The claimed segments that the next commit of a takeover looks at. Those in which a suspect may be convicted come first.
pub fn takeover_reads(record: &ShardRecord) -> Vec<Seq> {
    let mut firsts = accused(record);
    for first in record.open.keys() {
        if firsts.len() >= SEGMENTS_MAX {
            break;
        }
        if !firsts.contains(first) {
            firsts.push(*first);
        }
    }
    firsts
}

/// Claimed segments of suspects that another crash convicts: hardly ever more than one, for one at a time is on trial by itself.
fn accused(record: &ShardRecord) -> Vec<Seq> {
    let suspicion = &record.suspicion;
    let mut firsts = Vec::new();
    for (seq, suspect) in &suspicion.suspects {
        if (suspect.is_convicted() || suspicion.alone == Some(*seq))
            && let Some((first, _)) = record.open.range(..=*seq).next_back()
            && !firsts.contains(first)
        {
            firsts.push(*first);
        }
    }
    firsts
}

/// The next commit that takes a shard over. `nonce` is fresh and random. It goes in only if the last owner wrote nothing
/// since the record was read. While its record has claimed segments, another one has to follow before the shard is owned.
pub fn takeover(input: TakeoverInput, now: UnixMillis, nonce: u64) -> OwnerCommit {
    let TakeoverInput {
        shard,
        host,
        record: before,
        open,
        claimed,
        commit_bytes,
        dead_holds_key,
        tx_events,
        lived,
        rules,
    } = input;
    let mut record = before.clone();
    record.owner = host;
    record.token += 1;
    record.taken = nonce;
    record.beat += 1;
    record.nonce = nonce;
    record.suspicion = match !has_died(&before, lived) && rules.kept(Rule::OnlyDeathIsACrash) {
        true => record.suspicion.after_clean_end(),
        false => record.suspicion.after_crash(),
    };
    (record.leaving, record.released) = (false, false);
    let log = TxLog::new(tx_events);
    let mut work = Takeover { shard, before: &before, now, record, dead_holds_key, log, writes: Vec::new(), bytes: 0 };
    let mut found: BTreeMap<Seq, StoredSegment> = open.into_iter().map(|stored| (stored.first, stored)).collect();
    let urgent = accused(&before);
    for first in &urgent {
        work.stored(*first, found.remove(first));
    }
    for parked in claimed {
        work.parked(&parked);
    }
    for first in takeover_reads(&before).into_iter().filter(|first| !urgent.contains(first)) {
        if work.bytes > 0 && work.bytes >= commit_bytes {
            break;
        }
        work.stored(first, found.remove(&first));
    }
    let key = TxRecordKey { at: now, shard, of: TxSubject::Message, beat: work.record.beat, part: 0 };
    let records = std::mem::take(&mut work.log).records(key, &work.record.owner);
    work.writes.extend(records.into_iter().map(Write::PutTxEvents));
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
    log: TxLog,
    writes: Vec<Write>,
    bytes: usize,
}

impl Takeover<'_> {
    fn put(&mut self, write: Write) {
        self.bytes += write.weight();
        self.writes.push(write);
    }

    /// Gives a segment back as it was read; none = it doesn't exist.
    fn stored(&mut self, first: Seq, stored: Option<StoredSegment>) {
        self.record.open.remove(&first);
        match stored.map(|stored| stored.segment) {
            Some(Ok(segment)) => self.segment(&segment),
            Some(Err(malformed)) => {
                self.bytes += SEGMENT_BYTES_MAX;
                self.put(Write::QuarantineSegment { first, reason: malformed.reason });
            }
            None => {}
        }
    }

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
            self.put(Write::DeleteSegment(segment.first));
        } else if rest.len() < segment.entries.len() {
            let rest = Segment { first: segment.first, tenant: segment.tenant.clone(), entries: rest };
            self.put(Write::PutSegment(Arc::new(rest)));
        }
        if !delivered.is_empty() {
            let chunk = HistoryChunk {
                shard: self.shard,
                segment: segment.first,
                beat: self.record.beat,
                at: self.now,
                entries: delivered,
            };
            self.put(Write::PutHistory(Arc::new(chunk)));
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
            self.put(Write::DeleteParked(seq));
            self.convict(parked.place, &parked.message, crashes, parked.attempts, parked.history.clone());
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
            code: Some(Code::SUSPECTED_POISON.into()),
            reason: None,
            maybe_delivered: true,
        });
        let dead = DeadLetter {
            place,
            message: Arc::clone(message),
            code: Code::SUSPECTED_POISON.into(),
            reason: format!("its host died {ALONE_CRASHES_MAX} times while it was the only suspect that was sent"),
            attempts,
            suspect,
            died_at: self.now,
            state: DeadState::Dead,
            holds_key: self.dead_holds_key && message.key.is_some(),
            history,
        };
        let code = Some(Arc::from(dead.code.as_str()));
        let plain = || TxEvent::plain(TxEventKind::Dead, &message.tenant, &message.id);
        self.bytes += self.log.note(|| TxEvent { attempts, code, ..plain() });
        if let Some(operation) = &message.replayed_by {
            let mut fates = Fates::default();
            fates.count(Fate::Died(Death::of(&dead)));
            self.put(Write::AddFates { operation: Arc::clone(operation), fates });
        }
        self.put(Write::PutDead(Arc::new(dead)));
    }
}
