//! The tables, and the one function that changes them on behalf of an owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::fates::Fates;
use waybill_core::idempotency::{Entry, EntryKey};
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, HistoryChunk, IdRecord, Malformed, Parked, Scheduled, Segment, ShardRecord,
};
use waybill_core::port::dedup::DedupKey;
use waybill_core::port::store::{OwnerCommit, SegmentInfo, StoreError, Write};
use waybill_core::port::tokens::StoredToken;
use waybill_core::port::transact::{AuditEvent, Operation};
use waybill_core::time::UnixMillis;
use waybill_core::tx_event::{TxRecord, TxRecordKey};

use super::dedup::DedupEntry;
use super::inbox::InboxTables;
use super::sagas::SagaTables;
use super::streams::StreamTables;

/// A doorstep row's messages, or why it can't be read.
pub type DoorContent = Result<Vec<Arc<Message>>, Malformed>;

/// What is stored under a segment's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentContent {
    Segment(Arc<Segment>),
    /// Something that doesn't decode.
    Malformed(Malformed),
}

impl SegmentContent {
    pub(super) fn decoded(&self) -> Result<Arc<Segment>, Malformed> {
        match self {
            Self::Segment(segment) => Ok(Arc::clone(segment)),
            Self::Malformed(malformed) => Err(malformed.clone()),
        }
    }

    /// What the directory says; of something unreadable as much as that there is something.
    pub(super) fn info(&self, first: Seq) -> SegmentInfo {
        let u32 = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        match self {
            Self::Segment(segment) => SegmentInfo {
                first,
                tenant: segment.tenant.clone(),
                messages: u32(segment.entries.len()),
                bytes: u32(segment.weight()),
            },
            Self::Malformed(_) => SegmentInfo { first, tenant: Tenant::unnamed(), messages: 1, bytes: 0 },
        }
    }
}

/// All tables, each ordered by its key as in the database.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub shards: BTreeMap<ShardId, ShardRecord>,
    pub segments: BTreeMap<(ShardId, Seq), SegmentContent>,
    pub parked: BTreeMap<(ShardId, Seq), Arc<Parked>>,
    pub scheduled: BTreeMap<(ShardId, UnixMillis, String), Arc<Scheduled>>,
    pub dead: BTreeMap<(ShardId, Seq), Arc<DeadLetter>>,
    /// `outbox_done`, by segment and beat.
    pub history: BTreeMap<(ShardId, Seq, u64), Arc<HistoryChunk>>,
    pub ids: BTreeMap<(String, String), IdRecord>,
    /// `outbox_id_due`: ids that outlived their history, and where they were.
    pub ids_due: BTreeMap<(UnixMillis, (String, String)), Place>,
    pub blobs: BTreeMap<String, Bytes>,
    pub door: BTreeMap<(ShardId, DoorKey), DoorContent>,
    /// `outbox_quarantine`: why, and what lay there.
    pub quarantine: BTreeMap<(ShardId, Seq), (String, Option<SegmentContent>)>,
    pub paused: BTreeSet<String>,
    /// Records of open incidents, by host.
    pub incidents: BTreeMap<String, String>,
    pub operations: BTreeMap<String, Operation>,
    /// `waybill_audit`, by instant and the order of writing.
    pub audit: BTreeMap<(UnixMillis, u64), AuditEvent>,
    /// The last number given out there.
    pub audit_last: u64,
    /// `waybill_tx_event`, in the order of time.
    pub tx_events: BTreeMap<TxRecordKey, Arc<TxRecord>>,
    /// What became of what operations put back, by operation and shard.
    pub fates: BTreeMap<(String, ShardId), Fates>,
    pub dedup: BTreeMap<DedupKey, DedupEntry>,
    pub sagas: SagaTables,
    pub inbox: InboxTables,
    pub streams: StreamTables,
    pub idempotency: BTreeMap<EntryKey, Entry>,
    /// `waybill_token`, by its name.
    pub tokens: BTreeMap<String, StoredToken>,
    /// `plugin_kv`: value and revision.
    pub kv: BTreeMap<(String, String), (Bytes, u64)>,
    /// Latest revision given out in `plugin_kv`.
    pub kv_revision: u64,
    /// The door clock, if a test has set it.
    pub clock: Option<u64>,
    /// Weight of the largest commit of an owner, if it is bounded.
    pub commit_bytes_max: Option<usize>,
}

/// Key of the id index.
pub(super) fn id_key(tenant: &Tenant, id: &MessageId) -> (String, String) {
    (tenant.as_str().to_owned(), id.as_str().to_owned())
}

impl Tables {
    /// Applies a commit, all or nothing.
    pub fn apply(&mut self, commit: &OwnerCommit) -> Result<(), StoreError> {
        let stored = self.shards.get(&commit.shard).cloned().unwrap_or_default();
        if (stored.token, stored.beat) != (commit.expect_token, commit.expect_beat) {
            return Err(StoreError::Conflict(format!(
                "shard {} stands at token {} beat {}, the commit expected token {} beat {}",
                commit.shard, stored.token, stored.beat, commit.expect_token, commit.expect_beat
            )));
        }
        if commit.record.beat <= commit.expect_beat {
            return Err(StoreError::Other("an owner commit has to raise the beat".into()));
        }
        if self.commit_bytes_max.is_some_and(|bytes_max| commit.weight() > bytes_max) {
            return Err(StoreError::TooLarge);
        }
        self.check_creates(&commit.writes)?;
        self.shards.insert(commit.shard, commit.record.clone());
        for write in &commit.writes {
            self.write(commit.shard, write);
        }
        Ok(())
    }

    /// Finds a taken id before anything changes, as the writes would meet it one after another.
    fn check_creates(&self, writes: &[Write]) -> Result<(), StoreError> {
        let mut seen: HashMap<(String, String), bool> = HashMap::new();
        for write in writes {
            match write {
                Write::PutId { record, create } => {
                    let key = id_key(&record.tenant, &record.id);
                    let taken = seen.get(&key).copied().unwrap_or_else(|| self.ids.contains_key(&key));
                    if *create && taken {
                        return Err(StoreError::Exists(format!("id {:?} of tenant {:?}", key.1, key.0)));
                    }
                    seen.insert(key, true);
                }
                Write::DeleteId { tenant, id } => {
                    seen.insert(id_key(tenant, id), false);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&mut self, shard: ShardId, write: &Write) {
        match write {
            Write::PutSegment(segment) => {
                self.segments.insert((shard, segment.first), SegmentContent::Segment(Arc::clone(segment)));
            }
            Write::DeleteSegment(first) => {
                self.segments.remove(&(shard, *first));
            }
            Write::QuarantineSegment { first, reason } => {
                // Somebody else who met it may have been first.
                if let Some(content) = self.segments.remove(&(shard, *first)) {
                    self.quarantine.insert((shard, *first), (reason.clone(), Some(content)));
                }
            }
            Write::PutParked(parked) => {
                self.parked.insert((shard, parked.place.seq()), Arc::clone(parked));
            }
            Write::DeleteParked(seq) => {
                self.parked.remove(&(shard, *seq));
            }
            Write::PutScheduled(scheduled) => {
                let id = scheduled.message.id.as_str().to_owned();
                self.scheduled.insert((shard, scheduled.due, id), Arc::clone(scheduled));
            }
            Write::DeleteScheduled { due, id } => {
                self.scheduled.remove(&(shard, *due, id.as_str().to_owned()));
            }
            Write::DeleteDoor(key) => {
                self.door.remove(&(shard, key.clone()));
            }
            Write::ForwardDoor { shard, key, messages } => {
                self.door.insert((*shard, key.clone()), Ok(messages.clone()));
            }
            Write::PutDead(dead) => {
                self.dead.insert((shard, dead.place.seq()), Arc::clone(dead));
            }
            Write::DeleteDead(seq) => {
                self.dead.remove(&(shard, *seq));
            }
            Write::PutHistory(chunk) => {
                self.history.insert((shard, chunk.segment, chunk.beat), Arc::clone(chunk));
            }
            Write::PutTxEvents(record) => {
                self.tx_events.insert(record.key, Arc::clone(record));
            }
            Write::AddFates { operation, fates } => {
                self.fates.entry((operation.to_string(), shard)).or_default().add(fates);
            }
            Write::PutId { record, .. } => {
                self.ids.insert(id_key(&record.tenant, &record.id), record.as_ref().clone());
            }
            Write::DeleteId { tenant, id } => {
                self.ids.remove(&id_key(tenant, id));
            }
            Write::PutBlob { blob, bytes } => {
                self.blobs.insert(blob.clone(), bytes.clone());
            }
            Write::DeleteBlob(blob) => {
                self.blobs.remove(blob);
            }
        }
    }
}
