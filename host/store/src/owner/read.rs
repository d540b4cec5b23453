//! What a shard's owner reads. Every read is one range of keys that stops at its limit, or single records.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{DeadLetter, DoorKey, DoorRow, IdRecord, Parked, ShardRecord};
use waybill_core::port::store::{DueScheduled, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row, Transaction, bool_of, bytes_of, millis_of};

use crate::fault::store_error;
use crate::quarantine::{Spoilt, sifted};
use crate::rows::{door as door_rows, segment, shard as shard_rows, small, stopped};
use crate::tables::{
    BLOB, DATA, DEAD, DOOR, ID, OUTBOX, PARKED, SCHEDULED, SHARD, door_key, door_start, id_key, part, scheduled_key,
    seq_key, shard_end, shard_key, shard_start,
};
use waybill_surreal::RecordIdKey;

/// Rows of one page of a longer walk.
const WALK_PAGE: usize = 500;
/// Dead letters looked at whose seqs are of a time that hasn't come: whoever reads them does so again and again.
const AHEAD_ROWS_MAX: usize = 10_000;

/// The shard record; the default when there is none.
pub async fn shard(transaction: &dyn Transaction, shard: ShardId) -> Result<ShardRecord, StoreError> {
    let key = shard_key(shard);
    match transaction.get(SHARD, key.clone()).await.map_err(store_error)? {
        Some(fields) => shard_rows::shard(&key, &fields),
        None => Ok(ShardRecord::default()),
    }
}

/// The rows of a shard behind `after`.
fn behind(shard: ShardId, after: Option<RecordIdKey>) -> (Bound, Bound) {
    let from = after.map_or_else(|| Bound::Included(shard_start(shard)), Bound::Excluded);
    (from, Bound::Excluded(shard_end(shard)))
}

/// What segments there are.
pub async fn directory(
    transaction: &dyn Transaction,
    shard: ShardId,
    from: Seq,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Vec<SegmentInfo>, StoreError> {
    let range = (Bound::Included(seq_key(shard, from)), Bound::Excluded(shard_end(shard)));
    sifted(transaction, OUTBOX, range, limit, spoilt, |row| segment::info(&row)).await
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

pub async fn parked(
    transaction: &dyn Transaction,
    shard: ShardId,
    after: Option<Seq>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Vec<Arc<Parked>>, StoreError> {
    let range = behind(shard, after.map(|seq| seq_key(shard, seq)));
    sifted(transaction, PARKED, range, limit, spoilt, |row| stopped::parked(&row)).await
}

/// Scheduled messages that are due, of which none lies before `front`; one row more is read to know when the next one is.
pub async fn scheduled_due(
    transaction: &dyn Transaction,
    shard: ShardId,
    front: UnixMillis,
    now: UnixMillis,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<DueScheduled, StoreError> {
    let (mut from, until) = (Bound::Included(seq_key(shard, Seq(front.0))), Bound::Excluded(shard_end(shard)));
    let mut found = DueScheduled::default();
    loop {
        let wanted = limit.saturating_add(1).saturating_sub(found.due.len());
        let rows = transaction.scan(SCHEDULED, from, until.clone(), wanted).await.map_err(store_error)?;
        let is_last = rows.len() < wanted;
        let Some(last) = rows.last() else { return Ok(found) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            let due = part(&row.key, 1).map(UnixMillis);
            if let Some(due) = due.filter(|due| *due > now || found.due.len() >= limit) {
                found.next = Some(due);
                return Ok(found);
            }
            found.due.extend(spoilt.sift(SCHEDULED, &row.key, stopped::scheduled(row))?);
        }
        if is_last {
            return Ok(found);
        }
    }
}

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

pub async fn door(
    transaction: &dyn Transaction,
    shard: ShardId,
    (from, until): (u64, u64),
    after: Option<&DoorKey>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Vec<DoorRow>, StoreError> {
    let from = match after {
        Some(after) if after.nanos >= from => Bound::Excluded(door_key(shard, after)),
        _ => Bound::Included(door_start(shard, from)),
    };
    let until = Bound::Excluded(match until.checked_add(1) {
        Some(end) => door_start(shard, end),
        None => shard_end(shard),
    });
    sifted(transaction, DOOR, (from, until), limit, spoilt, door_rows::door).await
}

/// The stamp of the last row of a doorstep. A key that has no stamp where one should be tells nothing.
pub async fn door_newest(
    transaction: &dyn Transaction,
    doorstep: &'static str,
    shard: ShardId,
    not_before: u64,
) -> Result<Option<u64>, StoreError> {
    let (from, until) = (Bound::Included(door_start(shard, not_before)), Bound::Excluded(door_start(shard, u64::MAX)));
    let rows = transaction.scan_back(doorstep, from, until, 1).await.map_err(store_error)?;
    Ok(rows.first().and_then(|row| part(&row.key, 1)))
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

pub async fn blob(transaction: &dyn Transaction, blob: &str, spoilt: &mut Spoilt) -> Result<Option<Bytes>, StoreError> {
    let key = RecordIdKey::String(blob.into());
    let found = transaction.get(BLOB, key.clone()).await.map_err(store_error)?;
    let data = found.as_ref().and_then(|fields| bytes_of(fields.get("data")));
    if found.is_some() && data.is_none() {
        spoilt.note(BLOB, &key);
    }
    Ok(data)
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

/// Dead letters that hold their key, of one page of a walk over all of the shard's behind `after`; and the page's last row, if there
/// may be another page.
pub async fn held_keys(
    transaction: &dyn Transaction,
    shard: ShardId,
    after: Option<RecordIdKey>,
    spoilt: &mut Spoilt,
) -> Result<(Vec<Arc<DeadLetter>>, Option<RecordIdKey>), StoreError> {
    let (from, until) = behind(shard, after);
    let rows = transaction.scan(DEAD, from, until, WALK_PAGE).await.map_err(store_error)?;
    let mut held = Vec::new();
    for row in rows.iter().filter(|row| bool_of(row.fields.get("holds_key")) == Some(true)) {
        held.extend(spoilt.sift(DEAD, &row.key, stopped::dead(row))?);
    }
    Ok((held, rows.last().map(|row| row.key.clone())))
}

/// Places of dead letters that died before an instant. A message dies after it entered the order, and its seq begins with the
/// milliseconds of that: so the walk ends at the seqs of that instant. Where the clock was ahead once and has been set back, seqs go on
/// from the highest: they lie behind those of `now`, and the first rows there are looked at as well.
pub async fn dead_before(
    transaction: &dyn Transaction,
    shard: ShardId,
    after: Option<Seq>,
    (before, now): (UnixMillis, UnixMillis),
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Vec<Place>, StoreError> {
    let first_of = |at: UnixMillis| Seq(at.0.saturating_mul(1 << 20));
    let (end, ahead) = (first_of(before), first_of(UnixMillis(before.max(now).0.saturating_add(1))));
    let mut old = OldDead { before, limit, places: Vec::new() };
    if after.is_none_or(|after| after < end) {
        let (from, _) = behind(shard, after.map(|after| seq_key(shard, after)));
        old.walk(transaction, (from, Bound::Excluded(seq_key(shard, end))), usize::MAX, spoilt).await?;
    }
    let from = match after {
        Some(after) if after >= ahead => Bound::Excluded(seq_key(shard, after)),
        _ => Bound::Included(seq_key(shard, ahead)),
    };
    old.walk(transaction, (from, Bound::Excluded(shard_end(shard))), AHEAD_ROWS_MAX, spoilt).await?;
    Ok(old.places)
}

/// A walk for what died before an instant.
struct OldDead {
    before: UnixMillis,
    limit: usize,
    places: Vec<Place>,
}

impl OldDead {
    /// Goes over a range until there are enough, or so many rows were read.
    async fn walk(
        &mut self,
        transaction: &dyn Transaction,
        (mut from, until): (Bound, Bound),
        rows_max: usize,
        spoilt: &mut Spoilt,
    ) -> Result<(), StoreError> {
        let mut read = 0;
        while self.places.len() < self.limit && read < rows_max {
            let rows = transaction.scan(DEAD, from, until.clone(), WALK_PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            from = Bound::Excluded(last.key.clone());
            read += rows.len();
            // By the column: what isn't old yet needn't be decoded.
            let before = self.before.0;
            let old = rows.iter().filter(|row| millis_of(row.fields.get("died_at")).is_some_and(|at| at < before));
            for row in old.take(self.limit - self.places.len()) {
                self.places.extend(spoilt.sift(DEAD, &row.key, stopped::dead(row))?.map(|dead| dead.place));
            }
        }
        Ok(())
    }
}
