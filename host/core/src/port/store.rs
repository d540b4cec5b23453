//! The storage port of a shard's owner. Two adapters: SurrealDB (`waybill-store`) and the in-memory reference store
//! (`waybill-testkit`); both run one conformance suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::code::Code;
use crate::fates::Fates;
use crate::ids::{MessageId, Place, Seq, ShardId, Tenant};
use crate::message::Message;
use crate::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, HistoryKey, IdRecord, Malformed, Parked, Scheduled, Segment,
    ShardRecord,
};
use crate::streams::exact::ExactRefusal;
use crate::time::UnixMillis;
use crate::tx_event::TxRecord;

/// What went wrong in the store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Another commit came first; nothing was written.
    #[error("the store found a conflicting write and applied nothing: {0}")]
    Conflict(String),
    /// The disk has no room.
    #[error("the disk is full: free space in the data directory's file system, the host goes on by itself ({0})")]
    DiskFull(String),
    /// The store can't be reached or didn't answer in time.
    #[error("the store can't be reached: {0}")]
    Unavailable(String),
    /// A record to be created exists.
    #[error("a record that should be new exists: {0}")]
    Exists(String),
    /// The caller's statement is wrong.
    #[error("{0}")]
    Statement(String),
    /// The caller's statement touches Waybill's own tables.
    #[error(
        "the statement touches {table:?}, which belongs to Waybill: use the API for messages, and tables of your own"
    )]
    OwnTable { table: String },
    /// Callers' statements aren't run on a store that several hosts share.
    #[error(
        "statements of a transaction aren't run on a shared store (ws://): send messages only, and write your rows to the database \
         yourself, with fn::waybill::enqueue in the same transaction"
    )]
    Shared,
    /// The idempotency key that a transaction was to finish isn't its caller's any more; nothing was committed.
    #[error("idempotency key {0:?} was taken over or released meanwhile, so nothing was committed: begin it again")]
    LeaseLost(String),
    /// Data of a newer version of Waybill.
    #[error("the data was written by a newer Waybill ({0}): start that version, or restore a backup")]
    NewerData(String),
    /// Data that doesn't decode.
    #[error("a stored record can't be read: {0}")]
    Corrupt(String),
    /// A commit that is known to have gone in isn't in the store any more.
    #[error(
        "the store of shard {shard} went back: it says (token {}, beat {}), and (token {}, beat {}) was committed. What was \
         committed since is lost. Stop the host, put back a whole copy of the data, or start it again to go on from what is there",
        found.0, found.1, known.0, known.1
    )]
    WentBack {
        shard: ShardId,
        /// Token and beat that are known to be committed.
        known: (u64, u64),
        /// Token and beat that the store has.
        found: (u64, u64),
    },
    /// The transaction writes more than the store takes at once; nothing was written.
    #[error(
        "the transaction writes more than the store takes at once (store.memtable, keys and the store's own entries included), so \
         nothing was committed: split it, or raise store.memtable"
    )]
    TooLarge,
    /// Events that were to be appended at a number can't be; nothing was written.
    #[error(transparent)]
    Append(Box<ExactRefusal>),
    /// The same of a group commit, each with its place among the commit's appends: those who asked for them leave the group.
    #[error("{} of the events in the commit can't be appended, the first because {}", .0.len(), first_reason(.0))]
    Appends(Vec<(usize, ExactRefusal)>),
    #[error("the store failed: {0}")]
    Other(String),
}

fn first_reason(refused: &[(usize, ExactRefusal)]) -> String {
    refused.first().map(|(_, refusal)| refusal.to_string()).unwrap_or_default()
}

impl StoreError {
    pub fn code(&self) -> Code {
        match self {
            Self::Conflict(_) | Self::Exists(_) => Code::STORAGE_CONFLICT,
            Self::DiskFull(_) => Code::STORAGE_DISK_FULL,
            Self::Unavailable(_) => Code::PROVIDER_UNAVAILABLE,
            Self::Statement(_) => Code::STORAGE_STATEMENT,
            Self::OwnTable { .. } => Code::AUTH_TABLE,
            Self::Shared => Code::STORAGE_SHARED,
            Self::LeaseLost(_) => Code::TX_LEASE_LOST,
            Self::NewerData(_) => Code::STORAGE_NEWER_DATA,
            Self::Corrupt(_) => Code::STORAGE_CORRUPT,
            Self::WentBack { .. } => Code::STORAGE_WENT_BACK,
            Self::TooLarge => Code::STORAGE_TOO_LARGE,
            Self::Append(refusal) => refusal.code(),
            Self::Appends(refused) => refused.first().map_or(Code::STORAGE_CONFLICT, |(_, refusal)| refusal.code()),
            Self::Other(_) => Code::UNKNOWN_INTERNAL,
        }
    }
    /// As the one caller of a commit hears it: the first of its events that can't be appended.
    pub fn of_one_caller(self) -> Self {
        match self {
            Self::Appends(refused) => {
                let first = refused.into_iter().next().map(|(_, refusal)| refusal);
                Self::Append(Box::new(first.unwrap_or(ExactRefusal::Empty)))
            }
            error => error,
        }
    }
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::DiskFull(_) | Self::Unavailable(_))
    }
}

/// One change in an owner commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Writes a segment under its first seq, new or rewritten.
    PutSegment(Arc<Segment>),
    DeleteSegment(Seq),
    /// Moves a segment that can't be decoded to quarantine ([`crate::port::quarantine`]), bytes and all.
    QuarantineSegment {
        first: Seq,
        reason: String,
    },
    /// Writes a parked message under its seq.
    PutParked(Arc<Parked>),
    /// Removes a parked message.
    DeleteParked(Seq),
    /// Writes a scheduled message.
    PutScheduled(Arc<Scheduled>),
    /// Removes a scheduled message.
    DeleteScheduled {
        due: UnixMillis,
        id: MessageId,
    },
    /// Removes a doorstep row.
    DeleteDoor(DoorKey),
    /// Puts messages on another shard's doorstep (a stray found while draining), under this stamp.
    ForwardDoor {
        shard: ShardId,
        /// Stamp and uniqueness as they were.
        key: DoorKey,
        messages: Vec<Arc<Message>>,
    },
    /// Writes a dead letter under its seq.
    PutDead(Arc<DeadLetter>),
    /// Removes a dead letter.
    DeleteDead(Seq),
    PutHistory(Arc<HistoryChunk>),
    /// Writes audit events under their key.
    PutTxEvents(Arc<TxRecord>),
    /// Adds to what this shard counts of the messages that a bulk operation put back.
    AddFates {
        /// Id of the operation.
        operation: Arc<str>,
        fates: Fates,
    },
    /// Writes a row of the id index. `create` fails the commit with [`StoreError::Exists`] when the id is taken.
    PutId {
        record: Arc<IdRecord>,
        /// It must be new.
        create: bool,
    },
    /// Removes a row of the id index.
    DeleteId {
        tenant: Tenant,
        id: MessageId,
    },
    /// Writes a large payload.
    PutBlob {
        blob: String,
        bytes: Bytes,
    },
    /// Removes a large payload.
    DeleteBlob(String),
}

/// One transaction of a shard's owner (or of a rival that takes over).
///
/// It goes in only if the stored record has `expect_token` and `expect_beat`; the record is written every time, with a
/// higher beat and a fresh nonce, so that two commits of one shard never both go in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerCommit {
    pub shard: ShardId,
    /// Token that must stand.
    pub expect_token: u64,
    /// Beat that must stand.
    pub expect_beat: u64,
    /// The record to write.
    pub record: ShardRecord,
    /// The other changes, in order.
    pub writes: Vec<Write>,
}

/// What the directory says of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    pub first: Seq,
    pub tenant: Tenant,
    /// Messages in it as stored.
    pub messages: u32,
    /// Their weight in bytes ([`crate::message::Message::weight`]).
    pub bytes: u32,
}

/// A segment as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSegment {
    pub first: Seq,
    /// The segment, or why it can't be decoded.
    pub segment: Result<Arc<Segment>, Malformed>,
}

/// Scheduled messages that are due, and when the next one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueScheduled {
    /// Due ones, oldest first, at most the limit.
    pub due: Vec<Arc<Scheduled>>,
    /// Instant of the first one not in `due`; none = no other.
    pub next: Option<UnixMillis>,
}

/// What a shard's owner needs of the store.
#[async_trait]
pub trait OwnerStore: Send + Sync + 'static {
    /// The shard record; the default record when there is none yet.
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError>;
    /// Applies a commit, all or nothing. `Err(Conflict)`, `Err(Exists)` and `Err(TooLarge)` prove that nothing was applied; after any
    /// other error the outcome is unknown and the caller reads the shard record.
    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError>;
    /// What segments there are with `from <= first`, in order, at most `limit`, without their data.
    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError>;
    /// The segments with these first seqs that exist, in the order asked.
    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError>;
    /// All parked messages with seq above `after`, in order, at most `limit`. Here and in every read of several rows, a row that
    /// can't be read is moved to quarantine and left out; data of a newer host is an error of the whole.
    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError>;
    /// Scheduled messages due at `now`.
    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError>;
    /// Doorstep rows with `from_nanos <= nanos <= until_nanos` after `after`, in key order, at most `limit`.
    async fn door(
        &self,
        shard: ShardId,
        from_nanos: u64,
        until_nanos: u64,
        after: Option<DoorKey>,
        limit: usize,
    ) -> Result<Vec<DoorRow>, StoreError>;
    /// The clock that stamps doorstep rows, in nanoseconds since 1970; never before a stamp that this process gave out.
    async fn door_clock(&self) -> Result<u64, StoreError>;
    /// The stamp of the last doorstep row in key order: it may be ahead of the clock, when that was set back since or is
    /// another process's.
    async fn door_newest(&self, shard: ShardId) -> Result<Option<u64>, StoreError>;
    /// Rows of the id index, one slot for each asked.
    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError>;
    /// A large payload; none when it is gone.
    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError>;
    /// The dead letter at a seq.
    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError>;
    /// Places of dead letters that died before `before`, in key order after `after`, at most `limit`: for retention. It reads no row
    /// whose message entered the order between that and `now`. One that entered it later by its seq did so while the clock was ahead:
    /// of these the first 10,000 are looked at.
    async fn dead_before(
        &self,
        shard: ShardId,
        after: Option<Seq>,
        before: UnixMillis,
        now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError>;
    /// Dead letters that hold their key.
    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError>;
    /// History chunks written before `before`, in the order of writing, after `after`, at most `limit`: for retention. It reads
    /// no chunk that it doesn't answer.
    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError>;
    /// Removes history chunks with the id rows and blobs of their entries. Not guarded: finished work belongs to nobody. Ids that
    /// were made from idempotency keys ([`crate::idempotency::is_derived`]) stay until `keep_derived` after their chunk was written,
    /// for [`OwnerStore::purge_ids`].
    async fn purge_history(
        &self,
        chunks: &[Arc<HistoryChunk>],
        keep_derived: Duration,
        now: UnixMillis,
    ) -> Result<(), StoreError>;
    /// Removes id rows that outlived their history and whose time is over, at most `limit`; how many it looked at.
    async fn purge_ids(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError>;
}
