//! Looking after buckets: packing those that lie idle, and removing those that are out of the window. A commit notes a bucket once a slot
//! of ages, so nothing else is looked at.

use waybill_core::ids::ShardId;
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction};

use super::bucket::{BucketKey, Form, due_start, slot};
use super::records::{self, Content};
use super::{TRIES_MAX, merge, pack};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::lacks;
use crate::store::{SurrealStore, finish};
use crate::tables::{INBOX_SEEN, INBOX_SEEN_DUE, part_shard};

/// Notes read at once.
const NOTES_PAGE: usize = 256;
/// Records of a bucket removed in one transaction: a block takes 4 KiB, what a commit added up to 12 KB.
const REMOVED_AT_ONCE: usize = 256;

/// A note that a bucket has to be looked at.
struct Note {
    key: RecordIdKey,
    bucket: BucketKey,
    slot: u64,
}

/// Notes in order behind `from`, at most a page of them, and the last key that was read; none when there are no more.
async fn notes(
    store: &SurrealStore,
    (from, until): (Bound, Bound),
) -> Result<(Vec<Note>, Option<RecordIdKey>), StoreError> {
    let (mut notes, mut spoilt) = (Vec::new(), Spoilt::default());
    let transaction = store.begin(false).await?;
    let rows = transaction.scan(INBOX_SEEN_DUE, from, until, NOTES_PAGE).await.map_err(store_error)?;
    drop(transaction);
    let last = rows.last().map(|row| row.key.clone());
    for row in rows {
        match note_in(&row) {
            Ok((bucket, slot)) => notes.push(Note { key: row.key, bucket, slot }),
            Err(_) => spoilt.note(INBOX_SEEN_DUE, &row.key),
        }
    }
    store.set_aside(spoilt).await;
    Ok((notes, last))
}

/// The bucket and the slot that a note says.
pub fn note_in(row: &Row) -> Result<(BucketKey, u64), StoreError> {
    // A note has no fields: whatever has some isn't one of ours.
    let note = BucketKey::of_due(&row.key).filter(|_| row.fields.0.is_empty());
    note.ok_or_else(|| lacks(INBOX_SEEN_DUE, &row.key, "id"))
}

/// The note by which a record that is put back is looked after.
pub fn note_of(row: &Row) -> Option<RecordIdKey> {
    let (bucket, _) = BucketKey::of_record(&row.key)?;
    Some(bucket.due(part_shard(&row.key)?, false, 0))
}

/// The latest age at which an id of a bucket was finished; none when nothing is left of it.
async fn latest(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<Option<OwnedAge>, StoreError> {
    let packed = records::head(transaction, shard, bucket, spoilt).await?.map(|head| OwnedAge(head.age));
    Ok(packed.max(latest_added(transaction, shard, bucket, spoilt).await?))
}

/// The same of what was added since it was packed.
async fn latest_added(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<Option<OwnedAge>, StoreError> {
    let (from, mut until) = (Bound::Included(bucket.added_start(shard)), Bound::Excluded(bucket.blocks_start(shard)));
    loop {
        let rows = transaction.scan_back(INBOX_SEEN, from.clone(), until, 1).await.map_err(store_error)?;
        let Some(row) = rows.first() else { return Ok(None) };
        until = Bound::Excluded(row.key.clone());
        if let Some(Content::Added(added)) = spoilt.sift(INBOX_SEEN, &row.key, records::read(row))? {
            return Ok(Some(added.age));
        }
    }
}

/// Removes buckets whose last id was finished at or before `until`. How many records it looked at: fewer than `limit` = none is left.
pub async fn forget(store: &SurrealStore, shard: ShardId, until: OwnedAge, limit: usize) -> Result<usize, StoreError> {
    let mut looked = 0;
    // What was never packed is over as well, should nobody have looked after it for so long.
    for over in [true, false] {
        let mut from = Bound::Included(due_start(shard, over, 0));
        let end = Bound::Excluded(due_start(shard, over, slot(until).saturating_add(1)));
        loop {
            let (notes, last) = notes(store, (from, end.clone())).await?;
            for note in notes {
                looked += forget_bucket(store, shard, &note, until).await?;
                if looked >= limit {
                    return Ok(looked);
                }
            }
            let Some(last) = last else { break };
            from = Bound::Excluded(last);
        }
    }
    Ok(looked)
}

/// Removes a bucket if it is over. Zero when it isn't.
async fn forget_bucket(
    store: &SurrealStore,
    shard: ShardId,
    note: &Note,
    until: OwnedAge,
) -> Result<usize, StoreError> {
    let (mut looked, mut tries) = (0, 1);
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = forget_page(transaction.as_ref(), shard, note, until, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        store.set_aside(spoilt).await;
        match done {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
            Ok(Page::Kept) => return Ok(looked),
            Ok(Page::Removed(count)) => looked += count,
            Ok(Page::Gone(count)) => {
                store.seen_memory().removed(shard, &note.bucket);
                store.seen_filters().forget(shard, &note.bucket);
                return Ok(looked + count);
            }
        }
    }
}

/// What a transaction did with a bucket.
enum Page {
    /// It isn't over.
    Kept,
    /// So many of its records are removed, and there are more.
    Removed(usize),
    /// Nothing is left of it.
    Gone(usize),
}

async fn forget_page(
    transaction: &dyn Transaction,
    shard: ShardId,
    note: &Note,
    until: OwnedAge,
    spoilt: &mut Spoilt,
) -> Result<Page, StoreError> {
    let bucket = &note.bucket;
    if let Some(latest) = latest(transaction, shard, bucket, spoilt).await?
        && latest > until
    {
        // Its later ids have a note of their own.
        if slot(latest) > note.slot {
            transaction.delete(INBOX_SEEN_DUE, note.key.clone()).await.map_err(store_error)?;
        }
        return Ok(Page::Kept);
    }
    // From its end: as long as there are blocks, the head says of which tables.
    let (from, end) = (Bound::Included(bucket.start(shard)), Bound::Excluded(bucket.end(shard)));
    let rows = transaction.scan_back(INBOX_SEEN, from, end, REMOVED_AT_ONCE).await.map_err(store_error)?;
    let count = rows.len();
    for row in rows {
        transaction.delete(INBOX_SEEN, row.key).await.map_err(store_error)?;
    }
    if count == REMOVED_AT_ONCE {
        return Ok(Page::Removed(count));
    }
    transaction.delete(INBOX_SEEN_DUE, note.key.clone()).await.map_err(store_error)?;
    Ok(Page::Gone(count + 1))
}

/// Packs buckets that weren't touched in the slot of an age or later. How many records it looked at: fewer than `limit` = none is left.
pub async fn pack_idle(store: &SurrealStore, shard: ShardId, age: OwnedAge, limit: usize) -> Result<usize, StoreError> {
    let mut looked = 0;
    let mut from = Bound::Included(due_start(shard, false, 0));
    let end = Bound::Excluded(due_start(shard, false, slot(age)));
    loop {
        let (notes, last) = notes(store, (from, end.clone())).await?;
        for note in notes {
            looked += 1;
            let (records, is_done) = pack_bucket(store, shard, &note, age, limit.saturating_sub(looked)).await?;
            looked += records;
            if is_done {
                close(store, shard, &note, age).await?;
            }
            if looked >= limit {
                return Ok(looked);
            }
        }
        let Some(last) = last else { return Ok(looked) };
        from = Bound::Excluded(last);
    }
}

/// Packs one, at least one step. How many records it looked at, and whether nothing is left to do.
async fn pack_bucket(
    store: &SurrealStore,
    shard: ShardId,
    note: &Note,
    age: OwnedAge,
    limit: usize,
) -> Result<(usize, bool), StoreError> {
    let bucket = &note.bucket;
    let mut looked = 0;
    if !is_busy(store, shard, note).await? {
        loop {
            let packed = pack::pack(store, shard, bucket).await?;
            looked += packed;
            if packed == 0 {
                break;
            }
            if looked >= limit {
                return Ok((looked, false));
            }
        }
    }
    while let Some(records) = merge::advance(store, shard, bucket, age).await? {
        looked += records;
        if looked >= limit {
            return Ok((looked, false));
        }
    }
    Ok((looked, true))
}

/// Whether a bucket was touched again since, and has little that isn't packed: a later note says when it is idle.
async fn is_busy(store: &SurrealStore, shard: ShardId, note: &Note) -> Result<bool, StoreError> {
    let (mut spoilt, bucket) = (Spoilt::default(), &note.bucket);
    let transaction = store.begin(false).await?;
    let added = latest_added(transaction.as_ref(), shard, bucket, &mut spoilt).await;
    let is_touched = added.as_ref().is_ok_and(|latest| latest.is_some_and(|latest| slot(latest) > note.slot));
    let mut is_full = false;
    if is_touched {
        let (from, until) = (Bound::Included(bucket.added_start(shard)), Bound::Excluded(bucket.blocks_start(shard)));
        let rows = transaction.scan(INBOX_SEEN, from, until, pack::RECORDS_MAX).await.map_err(store_error)?;
        is_full = rows.len() == pack::RECORDS_MAX;
    }
    drop(transaction);
    store.set_aside(spoilt).await;
    added.map(|_| is_touched && !is_full)
}

/// A bucket was looked after: it is looked at again when it is over, and a run once more when its day is.
async fn close(store: &SurrealStore, shard: ShardId, note: &Note, age: OwnedAge) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = try_close(transaction.as_ref(), shard, note, age, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        store.set_aside(spoilt).await;
        match done {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_close(
    transaction: &dyn Transaction,
    shard: ShardId,
    note: &Note,
    age: OwnedAge,
    spoilt: &mut Spoilt,
) -> Result<(), StoreError> {
    let bucket = &note.bucket;
    // Of one without a head and without additions some blocks may be left: the next look for what is over removes them.
    let latest = latest(transaction, shard, bucket, spoilt).await?.unwrap_or_default();
    transaction.delete(INBOX_SEEN_DUE, note.key.clone()).await.map_err(store_error)?;
    let mut again = vec![bucket.due(shard, true, slot(latest))];
    if bucket.form == Form::Run && age < bucket.run_end() {
        again.push(bucket.due(shard, false, slot(bucket.run_end())));
    }
    for key in again {
        transaction.put(INBOX_SEEN_DUE, key, Object::default()).await.map_err(store_error)?;
    }
    Ok(())
}
