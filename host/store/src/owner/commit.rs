//! The owner's commit: one transaction, guarded by the shard record. The hot path of the product.
//!
//! Everything is encoded before the transaction begins, so that its snapshot is young and it is open for microseconds.

use waybill_core::fates::Fates;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::port::store::{OwnerCommit, StoreError, Write};
use waybill_surreal::{Object, RecordIdKey, Transaction, bytes, object};

use crate::fault::store_error;
use crate::index::Indexing;
use crate::quarantine::put;
use crate::rows::{door, fates, segment, shard, small, stopped, tx_event};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    BLOB, DATA, DEAD, DONE, DONE_DUE, DOOR, ID, OUTBOX, PARKED, SCHEDULED, SHARD, TX_EVENT, door_key, fates_key,
    history_due_key, history_key, id_key, scheduled_key, seq_key, shard_key,
};

/// One change of one record.
enum Change {
    Put(&'static str, RecordIdKey, Object),
    Create(&'static str, RecordIdKey, Object),
    Delete(&'static str, RecordIdKey),
    /// Both records of a segment.
    PutSegment(Seq, segment::SegmentRows),
    QuarantineSegment(Seq, String),
    /// Counts of an operation.
    AddFates(RecordIdKey, Fates),
}

pub async fn commit(store: &SurrealStore, commit: &OwnerCommit) -> Result<(), StoreError> {
    if commit.record.beat <= commit.expect_beat {
        return Err(StoreError::Other("an owner commit has to raise the beat".into()));
    }
    let record = shard::of_shard(&commit.record)?;
    let mut changes = Vec::with_capacity(commit.writes.len());
    for write in &commit.writes {
        changes_of(commit.shard, write, &mut changes)?;
    }
    let indexing = Indexing::begin(store.indexes(), commit);
    store.due_fronts().around_commit(commit.shard, &commit.writes);
    let stopped = commit.writes.iter().any(touches_stopped);
    if stopped {
        store.depth_cache().touch();
    }
    let transaction = store.begin(true).await?;
    let worked = guarded(transaction.as_ref(), commit, record, changes, indexing.as_ref()).await;
    let done = finish(transaction, worked).await;
    store.due_fronts().around_commit(commit.shard, &commit.writes);
    if stopped {
        store.depth_cache().touch();
    }
    if let (Some(indexing), Ok(())) = (&indexing, &done) {
        indexing.went_in(store.indexes(), commit);
    }
    done
}

/// Whether a write changes what depths are counted from.
fn touches_stopped(write: &Write) -> bool {
    matches!(write, Write::PutDead(_) | Write::DeleteDead(_) | Write::PutScheduled(_) | Write::DeleteScheduled { .. })
}

async fn guarded(
    transaction: &dyn Transaction,
    commit: &OwnerCommit,
    record: Object,
    mut changes: Vec<Change>,
    indexing: Option<&Indexing>,
) -> Result<(), StoreError> {
    let stored = transaction.get(SHARD, shard_key(commit.shard)).await.map_err(store_error)?;
    let stands = match &stored {
        Some(fields) => shard::token_and_beat(fields)
            .ok_or_else(|| StoreError::Corrupt(format!("outbox_shard:{} has no token and beat", commit.shard)))?,
        None => (0, 0),
    };
    if stands != (commit.expect_token, commit.expect_beat) {
        return Err(StoreError::Conflict(format!(
            "shard {} stands at token {} beat {}, the commit expected token {} beat {}",
            commit.shard, stands.0, stands.1, commit.expect_token, commit.expect_beat
        )));
    }
    // A segment behind the last seq given out is new: there is no older one to clear away.
    let last = stored.as_ref().map_or(Seq(0), shard::last);
    if let Some(indexing) = indexing {
        let of_indexes = indexing.changes(transaction, commit, last).await?;
        changes.extend(of_indexes.into_iter().map(|(table, key, fields)| match fields {
            Some(fields) => Change::Put(table, key, fields),
            None => Change::Delete(table, key),
        }));
    }
    transaction.put(SHARD, shard_key(commit.shard), record).await.map_err(store_error)?;
    for change in changes {
        apply(transaction, commit.shard, last, change).await?;
    }
    Ok(())
}

async fn apply(transaction: &dyn Transaction, shard: ShardId, last: Seq, change: Change) -> Result<(), StoreError> {
    let done = match change {
        Change::Put(table, key, fields) => transaction.put(table, key, fields).await,
        Change::Create(table, key, fields) => transaction.create(table, key, fields).await,
        Change::Delete(OUTBOX, key) => {
            transaction.delete(DATA, key.clone()).await.map_err(store_error)?;
            transaction.delete(OUTBOX, key).await
        }
        Change::Delete(table, key) => transaction.delete(table, key).await,
        Change::PutSegment(first, rows) => {
            let key = seq_key(shard, first);
            match rows.data {
                Some(data) => transaction.put(DATA, key.clone(), data).await.map_err(store_error)?,
                None if first <= last => transaction.delete(DATA, key.clone()).await.map_err(store_error)?,
                None => {}
            }
            transaction.put(OUTBOX, key, rows.row).await
        }
        Change::QuarantineSegment(first, reason) => {
            return quarantine(transaction, seq_key(shard, first), &reason).await;
        }
        Change::AddFates(key, fates) => return fates::add(transaction, key, fates).await,
    };
    done.map_err(store_error)
}

async fn quarantine(transaction: &dyn Transaction, key: RecordIdKey, reason: &str) -> Result<(), StoreError> {
    // Somebody else who met it may have been first.
    let Some(row) = transaction.get(OUTBOX, key.clone()).await.map_err(store_error)? else { return Ok(()) };
    let data = transaction.get(DATA, key.clone()).await.map_err(store_error)?;
    put(transaction, OUTBOX, &key, row, data.as_ref().and_then(segment::data_of), reason).await
}

fn changes_of(shard: ShardId, write: &Write, changes: &mut Vec<Change>) -> Result<(), StoreError> {
    let mut due = None;
    changes.push(match write {
        Write::PutSegment(segment) => Change::PutSegment(segment.first, segment::of_segment(segment)?),
        Write::DeleteSegment(first) => Change::Delete(OUTBOX, seq_key(shard, *first)),
        Write::QuarantineSegment { first, reason } => Change::QuarantineSegment(*first, reason.clone()),
        Write::PutParked(parked) => {
            Change::Put(PARKED, seq_key(shard, parked.place.seq()), stopped::of_parked(parked)?)
        }
        Write::DeleteParked(seq) => Change::Delete(PARKED, seq_key(shard, *seq)),
        Write::PutScheduled(row) => {
            Change::Put(SCHEDULED, scheduled_key(shard, row.due, &row.message.id), stopped::of_scheduled(row)?)
        }
        Write::DeleteScheduled { due, id } => Change::Delete(SCHEDULED, scheduled_key(shard, *due, id)),
        Write::DeleteDoor(key) => Change::Delete(DOOR, door_key(shard, key)),
        Write::ForwardDoor { shard, key, messages } => {
            Change::Put(DOOR, door_key(*shard, key), door::of_group(messages)?)
        }
        Write::PutDead(dead) => Change::Put(DEAD, seq_key(shard, dead.place.seq()), stopped::of_dead(dead)?),
        Write::DeleteDead(seq) => Change::Delete(DEAD, seq_key(shard, *seq)),
        Write::PutHistory(chunk) => {
            due = Some(Change::Put(DONE_DUE, history_due_key(shard, &chunk.key()), Object::default()));
            Change::Put(DONE, history_key(shard, chunk.segment, chunk.beat), segment::of_history(chunk)?)
        }
        Write::PutTxEvents(record) => {
            Change::Put(TX_EVENT, tx_event::key_of(&record.key), tx_event::of_record(record)?)
        }
        Write::AddFates { operation, fates } => Change::AddFates(fates_key(operation, shard), fates.clone()),
        Write::PutId { record, create } => {
            let key = id_key(&record.tenant, &record.id);
            let fields = small::of_id(record);
            if *create { Change::Create(ID, key, fields) } else { Change::Put(ID, key, fields) }
        }
        Write::DeleteId { tenant, id } => Change::Delete(ID, id_key(tenant, id)),
        Write::PutBlob { blob, bytes: data } => {
            let fields = object([("data", bytes(data.clone()))]);
            Change::Put(BLOB, RecordIdKey::String(blob.as_str().into()), fields)
        }
        Write::DeleteBlob(blob) => Change::Delete(BLOB, RecordIdKey::String(blob.as_str().into())),
    });
    changes.extend(due);
    Ok(())
}
