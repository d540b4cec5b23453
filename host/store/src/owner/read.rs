//! What a shard's owner reads. Every read is one range of keys that stops at its limit, or single records.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{MessageId, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{DeadLetter, DoorKey, DoorRow, HistoryChunk, IdRecord, Parked, ShardRecord};
use waybill_core::port::store::{DueScheduled, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row, Transaction, bool_of, bytes_of, millis_of};

use crate::fault::store_error;
use crate::rows::{door as door_rows, segment, shard as shard_rows, small, stopped};
use crate::tables::{
    BLOB, DATA, DEAD, DONE, DOOR, ID, OUTBOX, PARKED, SCHEDULED, SHARD, door_key, door_start, history_key, id_key,
    part, scheduled_key, seq_key, shard_end, shard_key, shard_start,
};
use waybill_surreal::RecordIdKey;

/// Rows of one page of a longer walk.
const WALK_PAGE: usize = 500;
/// History chunks of one page of a longer walk; each may hold a segment.
const HISTORY_PAGE: usize = 32;

/// The shard record; the default when there is none.
pub async fn shard(transaction: &dyn Transaction, shard: ShardId) -> Result<ShardRecord, StoreError> {
    let key = shard_key(shard);
    match transaction.get(SHARD, key.clone()).await.map_err(store_error)? {
        Some(fields) => shard_rows::shard(&key, &fields),
        None => Ok(ShardRecord::default()),
    }
}

/// Rows of a shard in a table behind `after`.
async fn of_shard(
    transaction: &dyn Transaction,
    table: &'static str,
    shard: ShardId,
    after: Option<RecordIdKey>,
    limit: usize,
) -> Result<Vec<Row>, StoreError> {
    let from = after.map_or_else(|| Bound::Included(shard_start(shard)), Bound::Excluded);
    transaction.scan(table, from, Bound::Excluded(shard_end(shard)), limit).await.map_err(store_error)
}

/// What segments there are.
pub async fn directory(
    transaction: &dyn Transaction,
    shard: ShardId,
    from: Seq,
    limit: usize,
) -> Result<Vec<SegmentInfo>, StoreError> {
    let from = Bound::Included(seq_key(shard, from));
    let rows = transaction.scan(OUTBOX, from, Bound::Excluded(shard_end(shard)), limit).await.map_err(store_error)?;
    Ok(rows.iter().map(segment::info).collect())
}

/// The segments with these first seqs.
pub async fn segments(
    transaction: &dyn Transaction,
    shard: ShardId,
    firsts: &[Seq],
) -> Result<Vec<StoredSegment>, StoreError> {
    let mut segments = Vec::with_capacity(firsts.len());
    for first in firsts {
        let key = seq_key(shard, *first);
        let Some(row) = transaction.get(OUTBOX, key.clone()).await.map_err(store_error)? else { continue };
        let data = match segment::data_of(&row) {
            Some(data) => Some(data),
            None => transaction.get(DATA, key).await.map_err(store_error)?.as_ref().and_then(segment::data_of),
        };
        segments.push(StoredSegment { first: *first, segment: segment::segment(shard, *first, data)? });
    }
    Ok(segments)
}

/// Parked messages.
pub async fn parked(
    transaction: &dyn Transaction,
    shard: ShardId,
    after: Option<Seq>,
    limit: usize,
) -> Result<Vec<Arc<Parked>>, StoreError> {
    let rows = of_shard(transaction, PARKED, shard, after.map(|seq| seq_key(shard, seq)), limit).await?;
    rows.iter().map(stopped::parked).collect()
}

/// Scheduled messages that are due, of which none lies before `front`; one row more is read to know when the next one is.
pub async fn scheduled_due(
    transaction: &dyn Transaction,
    shard: ShardId,
    front: UnixMillis,
    now: UnixMillis,
    limit: usize,
) -> Result<DueScheduled, StoreError> {
    let (from, until) = (Bound::Included(seq_key(shard, Seq(front.0))), Bound::Excluded(shard_end(shard)));
    let rows = transaction.scan(SCHEDULED, from, until, limit.saturating_add(1)).await.map_err(store_error)?;
    let mut found = DueScheduled::default();
    for row in &rows {
        let due = UnixMillis(part(&row.key, 1).unwrap_or(0));
        if due > now || found.due.len() >= limit {
            found.next = Some(due);
            break;
        }
        found.due.push(stopped::scheduled(row)?);
    }
    Ok(found)
}

/// A scheduled message.
pub async fn scheduled(
    transaction: &dyn Transaction,
    shard: ShardId,
    due: UnixMillis,
    id: &MessageId,
) -> Result<Option<Arc<waybill_core::outbox::records::Scheduled>>, StoreError> {
    let key = scheduled_key(shard, due, id);
    let fields = transaction.get(SCHEDULED, key.clone()).await.map_err(store_error)?;
    fields.map(|fields| stopped::scheduled(&Row { key, fields })).transpose()
}

/// Doorstep rows.
pub async fn door(
    transaction: &dyn Transaction,
    shard: ShardId,
    (from, until): (u64, u64),
    after: Option<&DoorKey>,
    limit: usize,
) -> Result<Vec<DoorRow>, StoreError> {
    let from = match after {
        Some(after) if after.nanos >= from => Bound::Excluded(door_key(shard, after)),
        _ => Bound::Included(door_start(shard, from)),
    };
    let until = Bound::Excluded(match until.checked_add(1) {
        Some(end) => door_start(shard, end),
        None => shard_end(shard),
    });
    let rows = transaction.scan(DOOR, from, until, limit).await.map_err(store_error)?;
    rows.into_iter().map(door_rows::door).collect()
}

/// A row of the id index.
pub async fn id(
    transaction: &dyn Transaction,
    tenant: &Tenant,
    id: &MessageId,
) -> Result<Option<IdRecord>, StoreError> {
    let key = id_key(tenant, id);
    let fields = transaction.get(ID, key.clone()).await.map_err(store_error)?;
    fields.map(|fields| small::id(tenant, id, &key, &fields)).transpose()
}

/// A large payload.
pub async fn blob(transaction: &dyn Transaction, blob: &str) -> Result<Option<Bytes>, StoreError> {
    let found = transaction.get(BLOB, RecordIdKey::String(blob.into())).await.map_err(store_error)?;
    Ok(found.and_then(|fields| bytes_of(fields.get("data"))))
}

/// The dead letter at a seq.
pub async fn dead_letter(
    transaction: &dyn Transaction,
    shard: ShardId,
    seq: Seq,
) -> Result<Option<Arc<DeadLetter>>, StoreError> {
    let key = seq_key(shard, seq);
    let fields = transaction.get(DEAD, key.clone()).await.map_err(store_error)?;
    fields.map(|fields| stopped::dead(&Row { key, fields })).transpose()
}

/// Dead letters that hold their key: a walk over all of the shard's, done once when a shard is taken.
pub async fn held_keys(transaction: &dyn Transaction, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
    let mut held = Vec::new();
    let mut after = None;
    loop {
        let rows = of_shard(transaction, DEAD, shard, after, WALK_PAGE).await?;
        let Some(last) = rows.last() else { return Ok(held) };
        after = Some(last.key.clone());
        for row in rows.iter().filter(|row| bool_of(row.fields.get("holds_key")) == Some(true)) {
            held.push(stopped::dead(row)?);
        }
    }
}

/// History chunks written before an instant. A chunk is never written before its segment, whose seq begins with its
/// milliseconds: so the walk ends at the segments of that instant.
pub async fn history_before(
    transaction: &dyn Transaction,
    shard: ShardId,
    after: Option<(Seq, u64)>,
    before: UnixMillis,
    limit: usize,
) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
    let mut from = match after {
        Some((segment, beat)) => Bound::Excluded(history_key(shard, segment, beat)),
        None => Bound::Included(shard_start(shard)),
    };
    let until = Bound::Excluded(seq_key(shard, Seq(before.0.saturating_mul(1 << 20))));
    let mut chunks = Vec::new();
    while chunks.len() < limit {
        let rows = transaction.scan(DONE, from, until.clone(), HISTORY_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { break };
        from = Bound::Excluded(last.key.clone());
        let old = rows.iter().filter(|row| millis_of(row.fields.get("at")).is_some_and(|at| at < before.0));
        for row in old.take(limit - chunks.len()) {
            chunks.push(segment::history(row)?);
        }
    }
    Ok(chunks)
}
