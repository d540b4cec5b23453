//! The next commit: settlements, what enters the order, and claims, in this order (`architecture.md`, Owner commit).

mod claim;
mod commands;
mod name;
mod room;
mod sequence;
mod settle;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::commands::{CommandError, CommandId};
use super::flight::{Flight, InFlight};
use super::settle::{Settlement, Verdict};
use super::slots::SlotState;
use super::{Owner, Rule};
use crate::fates::{Fate, Fates};
use crate::ids::{MessageId, Seq, Tenant};
use crate::limits::ATTEMPT_RECORDS_MAX;
use crate::message::Message;
use crate::outbox::records::{AttemptOutcome, AttemptRecord, DeadLetter, Done, HistoryChunk, ShardRecord};
use crate::outbox::weight::FATES_BYTES;
use crate::port::store::{OwnerCommit, Write};
use crate::time::{Now, UnixMillis};
use crate::tx_event::{TxEvent, TxEventKind, TxLog, TxRecordKey, TxSubject};

/// Shares into which claimed segments are divided at most.
const OPEN_SHARES_MAX: usize = 16;
/// Claims of parked messages in one commit.
const PARKED_CLAIMS_MAX: usize = 2_000;

/// A commit to try, with answers that need no commit.
#[derive(Debug, Default)]
pub struct Built {
    /// To be committed; none = nothing to do.
    pub commit: Option<OwnerCommit>,
    /// Commands that can't be done any more.
    pub refused: Vec<(CommandId, CommandError)>,
}

/// The commit under construction.
struct CommitBuilder<'a> {
    owner: &'a mut Owner,
    now: Now,
    record: ShardRecord,
    writes: Vec<Write>,
    flight: InFlight,
    /// Audit events of what this commit does.
    log: TxLog,
    /// What it does to messages that bulk operations put back, by operation.
    fates: BTreeMap<Arc<str>, Fates>,
    /// History found in this commit, by segment.
    history: BTreeMap<Seq, Vec<Done>>,
    /// Claimed segments that lost a message.
    touched: BTreeSet<Seq>,
    /// Messages entering the order, tenant by tenant.
    entering: BTreeMap<Tenant, Vec<Entering>>,
    refused: Vec<(CommandId, CommandError)>,
    /// What it weighs so far.
    bytes: usize,
    /// What it weighed when claiming began.
    claims_from: usize,
    /// Claimed segments by tenant.
    open_by_tenant: BTreeMap<Tenant, usize>,
    /// Messages brought to memory with this commit, by tenant.
    loading: BTreeMap<Tenant, usize>,
    /// Callers' ids that enter with doorstep messages.
    new_ids: BTreeSet<(Tenant, MessageId)>,
    /// Dead letters, by seq, and scheduled messages, by instant and id, that a command of this commit is about.
    commanded: BTreeSet<(u64, Option<MessageId>)>,
}

/// A message on its way into a segment.
enum Entering {
    /// From the doorstep, or with a `new_id` of false from the schedule.
    Ready { message: Arc<Message>, new_id: bool },
    /// A direct one; `slot` says where its id goes.
    Direct { slot: (usize, usize) },
}

impl Owner {
    /// Builds the next commit, if there is anything to commit or the lease needs a beat. Call it only while no commit
    /// is out. `nonce` is fresh and random.
    pub fn build(&mut self, now: Now, nonce: u64) -> Built {
        if self.in_flight() {
            return Built::default();
        }
        self.renew_caution(now);
        self.begin_trial(now);
        let record = self.record.clone();
        let mut work = CommitBuilder {
            now,
            record: record.clone(),
            writes: Vec::new(),
            flight: InFlight::new(nonce, record.clone(), now.mono),
            log: TxLog::new(self.config.tx_events),
            fates: BTreeMap::new(),
            history: BTreeMap::new(),
            touched: BTreeSet::new(),
            entering: BTreeMap::new(),
            refused: Vec::new(),
            bytes: 0,
            claims_from: 0,
            open_by_tenant: BTreeMap::new(),
            loading: BTreeMap::new(),
            new_ids: BTreeSet::new(),
            commanded: BTreeSet::new(),
            owner: self,
        };
        work.settle();
        work.commands();
        work.quarantine();
        work.finish_segments();
        work.sequence();
        work.count_open();
        work.write_segments();
        work.begin_claims();
        work.claim();
        work.end_claims();
        work.name();
        work.release_all();
        work.seal(&record, nonce)
    }
}

impl CommitBuilder<'_> {
    fn seal(mut self, before: &ShardRecord, nonce: u64) -> Built {
        for (segment, entries) in std::mem::take(&mut self.history) {
            if entries.is_empty() {
                continue;
            }
            let chunk = HistoryChunk {
                shard: self.owner.config.shard,
                segment,
                beat: before.beat + 1,
                at: self.now.wall,
                entries,
            };
            self.writes.push(Write::PutHistory(Arc::new(chunk)));
        }
        let fates = std::mem::take(&mut self.fates);
        self.writes.extend(fates.into_iter().map(|(operation, fates)| Write::AddFates { operation, fates }));
        let key = TxRecordKey {
            at: self.now.wall,
            shard: self.owner.config.shard,
            of: TxSubject::Message,
            beat: before.beat + 1,
            part: 0,
        };
        let records = std::mem::take(&mut self.log).records(key, &self.owner.config.host);
        self.writes.extend(records.into_iter().map(Write::PutTxEvents));
        let beat_due = self.owner.beat_in(self.now.mono).is_zero();
        let is_needed = !self.writes.is_empty() || self.record != *before || beat_due;
        // A life that has ended in good order says nothing.
        if is_needed && !self.record.released {
            self.note_life();
        }
        let owner = self.owner;
        if !is_needed {
            // A pass that found nothing is over without a commit.
            if let Some(end) = self.flight.page_end.take() {
                owner.next.doorstep.end_page(end);
            }
            owner.naming.applied();
            return Built { commit: None, refused: self.refused };
        }
        self.record.owner.clone_from(&owner.config.host);
        self.record.floor = owner.floor(before);
        if owner.is_rule_kept(Rule::AlwaysBeat) || !self.writes.is_empty() {
            self.record.beat = before.beat + 1;
            self.record.nonce = nonce;
        }
        let commit = OwnerCommit {
            shard: owner.config.shard,
            expect_token: before.token,
            expect_beat: before.beat,
            record: self.record.clone(),
            writes: self.writes,
        };
        self.flight.record = self.record;
        let given_up: Vec<Seq> =
            before.open.keys().filter(|first| !self.flight.record.open.contains_key(first)).copied().collect();
        owner.flight = Flight::Out(Box::new(self.flight));
        if owner.is_rule_kept(Rule::EvictIdleOnly) {
            for first in given_up {
                owner.reconsider_segment(first, self.now);
            }
        }
        Built { commit: Some(commit), refused: self.refused }
    }
}

impl CommitBuilder<'_> {
    /// An audit event of a message.
    fn note(&mut self, kind: TxEventKind, message: &Message, attempts: u32, code: Option<&str>) {
        self.bytes += self.log.note(|| TxEvent {
            attempts,
            code: code.map(Arc::from),
            ..TxEvent::plain(kind, &message.tenant, &message.id)
        });
    }

    /// A message enters the outbox.
    fn begins(&mut self, message: &Arc<Message>) {
        self.note(TxEventKind::Begin, message, 0, None);
        self.flight.begun.push(Arc::clone(message));
    }

    /// A message becomes a dead letter.
    fn dies(&mut self, dead: Arc<DeadLetter>) {
        self.note(TxEventKind::Dead, &dead.message, dead.attempts, Some(&dead.code));
        self.flight.died.push(Arc::clone(&dead));
        self.put(Write::PutDead(dead));
    }

    /// Counts what becomes of a message, if a bulk operation put it back.
    fn count_fate(&mut self, message: &Message, fate: Fate) {
        let Some(operation) = &message.replayed_by else { return };
        let fates = match self.fates.entry(Arc::clone(operation)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.bytes += FATES_BYTES;
                new.insert(Fates::default())
            }
        };
        fates.count(fate);
    }
}

impl Owner {
    /// No segment lies below this: the lowest known one, or what comes after everything given out before this commit.
    fn floor(&self, before: &ShardRecord) -> Seq {
        if !self.window.knows_directory() {
            return before.floor;
        }
        self.window.lowest_stored().unwrap_or_else(|| before.floor.max(before.last.next()))
    }

    /// Segments that one tenant may have claimed: a share of the bound, so that a slow one leaves room for others.
    fn open_share(&self) -> usize {
        (self.config.limits.open_segments / self.window.busy_tenants().clamp(1, OPEN_SHARES_MAX)).max(1)
    }

    /// Looks again at the messages of a segment whose claim changed.
    pub(super) fn reconsider_segment(&mut self, first: Seq, now: Now) {
        let Some(segment) = self.window.segment(first).cloned() else { return };
        for entry in &segment.entries {
            let seq = first.plus(usize::from(entry.index));
            if self
                .slots
                .get(&seq)
                .is_some_and(|slot| matches!(slot.state, SlotState::Ready { .. } | SlotState::WantClaim))
            {
                self.consider(seq, now);
            }
        }
    }

    fn is_sending_from(&self, first: Seq) -> bool {
        self.slots.values().any(|slot| slot.place.segment == first && slot.pins_segment() && !slot.is_idle())
    }
}

/// A settlement of something that wasn't attempted.
pub(super) fn without_attempt(verdict: Verdict, at: UnixMillis) -> Settlement {
    Settlement {
        verdict,
        attempt: AttemptRecord {
            at,
            took_ms: 0,
            outcome: AttemptOutcome::Released,
            worker: Arc::from(""),
            transport: Arc::from(""),
            plugin: None,
            code: None,
            reason: None,
            maybe_delivered: false,
        },
    }
}

/// The history with one more attempt; the first is kept, older ones in between are dropped past the bound.
fn with_attempt(history: &[AttemptRecord], attempt: AttemptRecord) -> Vec<AttemptRecord> {
    let mut history = history.to_vec();
    history.push(attempt);
    if history.len() > ATTEMPT_RECORDS_MAX {
        history.remove(1);
    }
    history
}
