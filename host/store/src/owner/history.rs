//! History by the time of its writing. A chunk lies by its segment, so that a message is found by its place; a backlog that is
//! older than the retention would be read again and again to find in it what is old. So a row without fields lies beside each
//! chunk, by its time, and only what is old is read.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::{HistoryChunk, HistoryKey};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, int, millis_of, object};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::query::{end_key, first_key};
use crate::rows::segment;
use crate::store::{SurrealStore, finish};
use crate::tables::{DONE, DONE_DUE, META, history_due, history_due_key, history_key, part, part_shard, shard_start};

/// Chunks of one page of a longer walk; each may hold a segment.
const WALK_PAGE: usize = 32;
/// Data of one page of old chunks, in bytes: it is purged in one transaction.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Says in [`META`] that chunks of versions before have their rows by time.
const LISTED: &str = "history_by_time";

/// Chunks written before an instant, in the order of writing.
pub async fn before(
    store: &SurrealStore,
    shard: ShardId,
    after: Option<HistoryKey>,
    before: UnixMillis,
    limit: usize,
) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
    let mut from = match after {
        Some(after) => Bound::Excluded(history_due_key(shard, &after)),
        None => Bound::Included(shard_start(shard)),
    };
    let until = Bound::Excluded(waybill_surreal::key([int(i64::from(shard.0)), crate::tables::number(before.0)]));
    let (mut chunks, mut spoilt) = (Vec::new(), Spoilt::default());
    loop {
        let transaction = store.begin(false).await?;
        let rows = transaction.scan(DONE_DUE, from, until.clone(), limit).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(chunks) };
        from = Bound::Excluded(last.key.clone());
        let (mut gone, mut bytes) = (Vec::new(), 0);
        for row in rows {
            let Some(of) = history_due(&row.key) else {
                spoilt.note(DONE_DUE, &row.key);
                continue;
            };
            let key = history_key(shard, of.segment, of.beat);
            match transaction.get(DONE, key.clone()).await.map_err(store_error)? {
                Some(fields) => {
                    let row = Row { key, fields };
                    if let Some(chunk) = spoilt.sift(DONE, &row.key, segment::history(&row))? {
                        bytes += segment::data_of(&row.fields).map_or(0, |data| data.len());
                        chunks.push(chunk);
                    }
                }
                None => gone.push(row.key),
            }
            if bytes >= PAGE_BYTES_MAX {
                break;
            }
        }
        drop(transaction);
        store.set_aside(std::mem::take(&mut spoilt)).await;
        forget(store, shard, gone).await?;
        if !chunks.is_empty() {
            return Ok(chunks);
        }
    }
}

/// Removes rows of chunks that aren't there any more: somebody moved them away. One that was put back meanwhile keeps its row.
pub(crate) async fn forget(store: &SurrealStore, shard: ShardId, gone: Vec<RecordIdKey>) -> Result<(), StoreError> {
    if gone.is_empty() {
        return Ok(());
    }
    let transaction = store.begin(true).await?;
    let worked = try_forget(transaction.as_ref(), shard, gone).await;
    match finish(transaction, worked).await {
        // Somebody puts one back at this moment; the next read finds the rest.
        Err(StoreError::Conflict(_)) => Ok(()),
        done => done,
    }
}

async fn try_forget(transaction: &dyn Transaction, shard: ShardId, gone: Vec<RecordIdKey>) -> Result<(), StoreError> {
    for key in gone {
        let chunk = history_due(&key).map(|of| history_key(shard, of.segment, of.beat));
        let there = match chunk {
            Some(chunk) => transaction.get(DONE, chunk).await.map_err(store_error)?.is_some(),
            None => false,
        };
        if !there {
            transaction.delete(DONE_DUE, key).await.map_err(store_error)?;
        }
    }
    Ok(())
}

/// Writes the rows of chunks that a version before has written, once.
pub async fn list_by_time(store: &SurrealStore) -> Result<(), StoreError> {
    let listed = || RecordIdKey::String(LISTED.into());
    if store.begin(false).await?.get(META, listed()).await.map_err(store_error)?.is_some() {
        return Ok(());
    }
    let mut from = Bound::Included(first_key());
    let mut count = 0;
    loop {
        let transaction = store.begin(true).await?;
        let rows = transaction.scan(DONE, from, Bound::Excluded(end_key()), WALK_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else {
            // Said in the same transaction that found nothing more.
            transaction.put(META, listed(), object([("chunks", int(count))])).await.map_err(store_error)?;
            return finish(transaction, Ok(())).await;
        };
        from = Bound::Excluded(last.key.clone());
        let mut spoilt = Spoilt::default();
        for row in &rows {
            match due_of(row) {
                Some(due) => {
                    transaction.put(DONE_DUE, due, Object::default()).await.map_err(store_error)?;
                    count += 1;
                }
                None => spoilt.note(DONE, &row.key),
            }
        }
        finish(transaction, Ok(())).await?;
        store.set_aside(spoilt).await;
    }
}

/// The place of a chunk by time, from its key and its plain column: it needn't be decoded.
pub fn due_of(row: &Row) -> Option<RecordIdKey> {
    let at = UnixMillis(millis_of(row.fields.get("at"))?);
    let of = HistoryKey { at, segment: Seq(part(&row.key, 1)?), beat: part(&row.key, 2)? };
    Some(history_due_key(part_shard(&row.key)?, &of))
}
