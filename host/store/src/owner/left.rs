//! What has left a segment. Which of its messages were delivered, parked or dead says the shard record, and the rows that these
//! messages became say it as well: so it is known also where the record isn't, up to what was delivered and had no row yet.

use std::collections::BTreeSet;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::limits::{COMMIT_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use waybill_core::outbox::records::{Entry, Segment};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction};

use crate::fault::store_error;
use crate::rows::segment::{self, SegmentRows};
use crate::rows::shard as shard_rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{DATA, DEAD, DONE, OUTBOX, PARKED, SHARD, part, seq_key, shard_end, shard_key, shard_start};

/// Segments looked at in one transaction.
const PAGE: usize = 16;
/// History chunks of one segment read at once.
const CHUNKS_PAGE: usize = 64;

/// Indices of messages of a segment that are parked, dead or done. Some may be those of the segments behind it.
pub async fn left_of(transaction: &dyn Transaction, shard: ShardId, first: Seq) -> Result<BTreeSet<u16>, StoreError> {
    let mut left = BTreeSet::new();
    for table in [PARKED, DEAD] {
        let from = Bound::Included(seq_key(shard, first));
        let until = Bound::Excluded(seq_key(shard, first.plus(SEGMENT_MESSAGES_MAX)));
        let rows = transaction.scan(table, from, until, SEGMENT_MESSAGES_MAX).await.map_err(store_error)?;
        // Their keys are enough, whether they can be read or not.
        let seqs = rows.iter().filter_map(|row| part(&row.key, 1));
        left.extend(seqs.filter_map(|seq| u16::try_from(seq.checked_sub(first.0)?).ok()));
    }
    let mut from = Bound::Included(seq_key(shard, first));
    let until = Bound::Excluded(seq_key(shard, first.plus(1)));
    loop {
        let rows = transaction.scan(DONE, from, until.clone(), CHUNKS_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(left) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            match segment::history(row) {
                Ok(chunk) => left.extend(chunk.entries.iter().map(|done| done.index)),
                // Retention or a list moves it away; of what it held nobody knows.
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Takes what has left them out of all segments of a shard whose record can't be read, page by page.
pub async fn take_out(store: &SurrealStore, shard: ShardId) -> Result<(), StoreError> {
    let mut from = Bound::Included(shard_start(shard));
    loop {
        let transaction = store.begin(true).await?;
        let worked = page(transaction.as_ref(), shard, from).await;
        match finish(transaction, worked).await? {
            Some(last) => from = Bound::Excluded(last),
            None => return Ok(()),
        }
    }
}

/// One page; answers the key of its last segment, none when there are no more or the record can be read.
async fn page(transaction: &dyn Transaction, shard: ShardId, from: Bound) -> Result<Option<RecordIdKey>, StoreError> {
    let key = shard_key(shard);
    let Some(record) = transaction.get(SHARD, key.clone()).await.map_err(store_error)? else { return Ok(None) };
    match shard_rows::shard(&key, &record) {
        Err(StoreError::Corrupt(_)) => {}
        // Another host has made it anew.
        read => return read.map(|_| None),
    }
    let until = Bound::Excluded(shard_end(shard));
    let rows = transaction.scan(OUTBOX, from, until, PAGE).await.map_err(store_error)?;
    let (mut last, mut bytes, mut changed) = (None, 0, Vec::new());
    for row in rows {
        last = Some(row.key.clone());
        if let Some(smaller) = without_left(transaction, shard, &row).await? {
            bytes += smaller.as_ref().map_or(0, Segment::weight);
            changed.push((row.key, smaller.as_ref().map(segment::of_segment).transpose()?));
        }
        if bytes >= COMMIT_BYTES_MAX / 2 {
            break;
        }
    }
    // From here on it is only written. Whoever makes the record anew meanwhile meets a conflict with this.
    if !changed.is_empty() {
        transaction.put(SHARD, key, record).await.map_err(store_error)?;
    }
    for (key, rows) in changed {
        write(transaction, key, rows).await?;
    }
    Ok(last)
}

async fn write(transaction: &dyn Transaction, key: RecordIdKey, rows: Option<SegmentRows>) -> Result<(), StoreError> {
    let (row, data) = rows.map_or((None, None), |rows| (Some(rows.row), rows.data));
    match data {
        Some(data) => transaction.put(DATA, key.clone(), data).await,
        None => transaction.delete(DATA, key.clone()).await,
    }
    .map_err(store_error)?;
    match row {
        Some(row) => transaction.put(OUTBOX, key, row).await,
        None => transaction.delete(OUTBOX, key).await,
    }
    .map_err(store_error)
}

/// A segment without what has left it, none when nothing is left in it; `None` when nothing has left it. One that can't be
/// decoded stays: whoever reads it moves it to quarantine.
async fn without_left(
    transaction: &dyn Transaction,
    shard: ShardId,
    row: &Row,
) -> Result<Option<Option<Segment>>, StoreError> {
    let Ok(first) = segment::info(row).map(|info| info.first) else { return Ok(None) };
    let left = left_of(transaction, shard, first).await?;
    if left.is_empty() {
        return Ok(None);
    }
    let data = match segment::data_of(&row.fields) {
        Some(data) => Some(data),
        None => {
            let apart = transaction.get(DATA, row.key.clone()).await.map_err(store_error)?;
            apart.as_ref().and_then(segment::data_of)
        }
    };
    let Ok(whole) = segment::segment(shard, first, data)? else { return Ok(None) };
    let entries: Vec<Entry> = whole.entries.iter().filter(|entry| !left.contains(&entry.index)).cloned().collect();
    if entries.len() == whole.entries.len() {
        return Ok(None);
    }
    let smaller = Segment { first, tenant: whole.tenant.clone(), entries };
    Ok(Some(Some(smaller).filter(|smaller| !smaller.entries.is_empty())))
}
