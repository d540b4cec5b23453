//! What the store keeps of the inbox. What flows is never a row: a row exists only for what stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fingerprint::{ContentDigest, Fingerprint, HashSecret, OrderTag};
use super::message::InboundMessage;
use super::seen::{OwnedAge, SeenMark};
use crate::ids::{ConsumerName, InboundId, Seq, ShardId, SourceName, Tenant};
use crate::outbox::records::DeadState;
use crate::outbox::suspicion::Suspicion;
use crate::port::saga::StepReply;
use crate::port::transact::DoorGroup;
use crate::saga::id::SagaKey;
use crate::saga::json::Json;
use crate::streams::joint::JointAppends;
use crate::time::UnixMillis;
use crate::tx_event::TxRecord;

/// `inbox_shard:n`: who writes the inbox of a shard, and what has to be known at once by who takes it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxShardRecord {
    /// Fencing token of the shard's owner.
    pub token: u64,
    /// Grows by one with every commit; it names what a commit wrote: takes, seen marks, history.
    pub beat: u64,
    /// Fresh random number with every commit: tells whose commit went in.
    pub nonce: u64,
    /// Highest seq given out.
    pub last: Seq,
    /// Time that somebody owned the shard, as of this commit.
    pub age: OwnedAge,
    /// Secret of the shard's hashes; it never changes.
    pub secret: HashSecret,
    /// Takes whose messages aren't finished, by the beat that wrote them.
    pub open: BTreeMap<u64, BTreeSet<Seq>>,
    /// What is called, or about to be, while the owner is cautious; and who may have killed a process.
    pub suspicion: Suspicion<Fingerprint>,
    /// Rows by context: at most [`super::limits::CONTEXTS_MAX`] and those that count together.
    pub contexts: BTreeMap<Arc<str>, ContextCount>,
    /// Sources that have no place of their own at their peer.
    pub positions: BTreeMap<SourceName, SourcePosition>,
}

/// How far a source is settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourcePosition {
    /// Everything up to there is.
    pub position: String,
    /// Age at which an owner first found no source of this name in its configuration; none while there is one.
    pub unnamed_since: Option<OwnedAge>,
}

/// Rows of one context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextCount {
    pub count: u64,
    /// When the oldest of them was received.
    pub oldest_at: UnixMillis,
}

/// A message with a key that was taken before it is handled: its place in the order outlives its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    pub seq: Seq,
    pub fingerprint: Fingerprint,
    pub order: OrderTag,
    /// Who brought it: an orphan waits for this one.
    pub source: SourceName,
}

/// `inbox_taken:[shard, beat]`: the takes of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeRecord {
    /// Beat of the commit that wrote it.
    pub beat: u64,
    pub takes: Vec<Take>,
}

/// Why something didn't succeed, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    pub code: String,
    pub reason: String,
}

/// `inbox:[shard, seq]`: one stopped message of one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Its place in the order, and its key.
    pub seq: Seq,
    pub consumer: ConsumerName,
    pub fingerprint: Fingerprint,
    pub order: Option<OrderTag>,
    pub digest: ContentDigest,
    pub message: Arc<InboundMessage>,
    /// Definite failures so far.
    pub attempts: u32,
    pub last_error: Option<LastError>,
    /// Not called before this instant.
    pub due: UnixMillis,
    /// The delay that led to `due`.
    pub delay: Duration,
    /// A handler may have had it before, or may have it now.
    pub maybe_handled: bool,
}

impl InboxRow {
    /// Everything but the message: what its owner keeps in memory of each row.
    pub fn head(&self) -> RowHead {
        RowHead {
            seq: self.seq,
            consumer: self.consumer.clone(),
            fingerprint: self.fingerprint,
            order: self.order,
            digest: self.digest,
            source: self.message.source.clone(),
            context: Arc::from(self.message.context.as_str()),
            received_at: self.message.received_at,
            attempts: self.attempts,
            due: self.due,
            delay: self.delay,
            maybe_handled: self.maybe_handled,
        }
    }
}

/// A row without its message. Read for all rows when a shard is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowHead {
    pub seq: Seq,
    pub consumer: ConsumerName,
    pub fingerprint: Fingerprint,
    pub order: Option<OrderTag>,
    pub digest: ContentDigest,
    pub source: SourceName,
    pub context: Arc<str>,
    pub received_at: UnixMillis,
    pub attempts: u32,
    pub due: UnixMillis,
    pub delay: Duration,
    pub maybe_handled: bool,
}

impl RowHead {
    /// How long it waits from `now`, the wall clock's: until it is due, and never longer than the delay that led to that, however
    /// far the clock was set back since the row was written.
    pub fn wait(&self, now: UnixMillis) -> Duration {
        self.due.since(now).min(self.delay)
    }
}

/// A dead letter of the inbox, at its message's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxDead {
    pub seq: Seq,
    pub consumer: ConsumerName,
    /// Of the id; of an id that was used again, that of id and content.
    pub fingerprint: Fingerprint,
    pub digest: ContentDigest,
    pub message: Arc<InboundMessage>,
    /// Stable code of the last error.
    pub code: String,
    pub reason: String,
    /// Definite failures before it died.
    pub attempts: u32,
    pub died_at: UnixMillis,
    pub state: DeadState,
}

/// How a message of a consumer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InboxEnd {
    Processed,
    /// The handler said that it was done before.
    Duplicate,
    Dead,
}

/// What is kept of a finished message for operators, packed in `inbox_done:[shard, beat]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxDone {
    pub consumer: ConsumerName,
    pub id: InboundId,
    pub tenant: Tenant,
    pub subject: String,
    pub received_at: UnixMillis,
    /// Never before `received_at`, whatever the clock says.
    pub processed_at: UnixMillis,
    pub attempts: u32,
    pub end: InboxEnd,
}

/// What a saga gets from the inbox, by `saga_door`. The owner of the saga's shard drains it in a commit of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum SagaDoorItem {
    Signal {
        key: SagaKey,
        name: String,
        data: Json,
        /// Where it came from, as an operator reads it.
        by: String,
    },
    /// A correlated reply to a `bus:` step.
    Reply { tenant: Tenant, reply: Box<StepReply> },
}

impl SagaDoorItem {
    /// Its shard among `count`: that of its tree.
    pub fn shard(&self, count: u16) -> ShardId {
        let key = match self {
            Self::Signal { key, .. } => key.root(),
            Self::Reply { tenant, reply } => SagaKey { tenant: tenant.clone(), id: reply.id.clone() }.root(),
        };
        key.shard(count)
    }
}

/// Items for one shard's sagas, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaDoorGroup {
    pub shard: ShardId,
    pub items: Vec<SagaDoorItem>,
}

/// One change of rows, takes or dead letters in a commit, or what the audit trail says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxWrite {
    /// Writes the takes of this commit, under its beat.
    PutTakes(TakeRecord),
    /// Removes a record of takes: none of it is open.
    DeleteTakes(u64),
    /// Writes a row, new or with its next attempt.
    PutRow(Arc<InboxRow>),
    /// Removes a row, if it is there.
    DeleteRow(Seq),
    /// Writes a dead letter.
    PutDead(Arc<InboxDead>),
    /// Removes a dead letter, if it is there.
    DeleteDead(Seq),
    /// Writes what the audit trail says of the commit.
    PutTxEvents(Arc<TxRecord>),
}

/// One transaction of the writer of a shard's inbox. It goes in only if the stored record has `expect_token` and `expect_beat`; the
/// record is written every time, so that of two commits built on one state at most one goes in.
#[derive(Clone, Debug, PartialEq)]
pub struct InboxCommit {
    pub shard: ShardId,
    /// Token that must stand.
    pub expect_token: u64,
    /// Beat that must stand.
    pub expect_beat: u64,
    /// The record to write: beat one higher, nonce fresh, age not lower.
    pub record: InboxShardRecord,
    pub writes: Vec<InboxWrite>,
    /// What is finished by it, under `record.age`.
    pub seen: Vec<SeenMark>,
    pub done: Vec<InboxDone>,
    /// Messages for the outbox, by shard: for the doorstep, without a look whether their ids are there.
    pub messages: Vec<DoorGroup>,
    pub sagas: Vec<SagaDoorGroup>,
    /// Events for the doorsteps of streams, in order, and events that number themselves, each stream of them once. Where one of these can't
    /// be appended, nothing of the commit is written ([`StoreError::Appends`](crate::port::store::StoreError::Appends)).
    pub events: JointAppends,
}

/// What a new owner finds besides the record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboxTakeover {
    /// Heads of all rows of the shard, by seq.
    pub rows: Vec<RowHead>,
    /// Records of takes, by beat. What of them isn't in the record's `open` is finished.
    pub takes: Vec<TakeRecord>,
}
