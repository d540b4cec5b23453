//! The end of ended sagas. A record for every commit that ended some lies by the first of their ends, so that only what is old
//! is looked at. One whose id was made from an idempotency key may have to stay for longer: it is put off in its record, and the
//! record is put back by the then first of its ends.

use std::time::Duration;

use waybill_core::idempotency::is_derived;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::Expired;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes, bytes_of, key, object};

use super::{TRIES_MAX, place};
use crate::codec::saga::{Ended, decode_ended, encode_ended};
use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::put;
use crate::rows::{encoded, lacks, unreadable};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    SAGA_DONE, SAGA_ENDED, SAGA_START, SAGA_TREE, number, part, part_ended_shard, saga_ended_key, saga_key,
    saga_start_key, saga_tree_key,
};

/// Records read at once: each may name all sagas of a commit.
const PAGE: usize = 64;

/// A record, with what it names.
struct Record {
    key: RecordIdKey,
    ended: Vec<Ended>,
}

/// What was read.
#[derive(Default)]
struct Read {
    records: Vec<Record>,
    /// Records that can't be decoded, with the reason. What they name stays until somebody puts them back.
    damaged: Vec<(Row, String)>,
}

/// Until when something stays.
#[derive(Clone, Copy)]
struct Kept {
    /// What ended before this goes,
    before: UnixMillis,
    /// except that what has an id of an idempotency key stays for this much longer.
    derived_longer: Duration,
}

impl Kept {
    /// The record of one whose time is up and that stays for longer all the same.
    fn put_off(self, ended: &Ended) -> Option<Ended> {
        let at = ended.at.plus(self.derived_longer);
        let stays = !ended.put_off && at >= self.before && is_derived(ended.key.id.as_str());
        stays.then(|| Ended { at, put_off: true, ..ended.clone() })
    }
}

/// Removes what ended before an instant, oldest first.
pub async fn expire(
    store: &SurrealStore,
    before: UnixMillis,
    derived_longer: Duration,
    limit: usize,
) -> Result<Expired, StoreError> {
    let kept = Kept { before, derived_longer };
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = remove(store.purge_fronts(), transaction.as_ref(), kept, limit).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
            Ok((expired, last)) => {
                if let Some(last) = last {
                    store.purge_fronts().reached(SAGA_ENDED, Reached::at(last));
                }
                return Ok(expired);
            }
        }
    }
}

/// Answers how many, and when the last of them ended: no record is left that names one before it.
async fn remove(
    fronts: &PurgeFronts,
    transaction: &dyn Transaction,
    kept: Kept,
    limit: usize,
) -> Result<(Expired, Option<UnixMillis>), StoreError> {
    let before = kept.before;
    let mut expired = Expired::default();
    let Read { records, damaged } =
        old_records(fronts.begin(SAGA_ENDED).min(before), transaction, before, limit).await?;
    quarantine(transaction, damaged).await?;
    let mut old: Vec<&Ended> =
        records.iter().flat_map(|record| &record.ended).filter(|ended| ended.at < before).collect();
    old.sort();
    old.truncate(limit);
    let Some(last) = old.last().map(|last| (*last).clone()) else { return Ok((expired, None)) };
    for record in records {
        let (due, mut left): (Vec<_>, Vec<_>) = record.ended.into_iter().partition(|ended| *ended <= last);
        if due.is_empty() {
            continue;
        }
        let shard = part_ended_shard(&record.key).ok_or_else(|| lacks(SAGA_ENDED, &record.key, "id"))?;
        for ended in due {
            if let Some(later) = kept.put_off(&ended) {
                expired.put_off += 1;
                left.push(later);
            } else {
                expired.removed += 1;
                forget(transaction, shard, &ended).await?;
            }
        }
        left.sort();
        transaction.delete(SAGA_ENDED, record.key.clone()).await.map_err(store_error)?;
        if let Some(first) = left.first() {
            let beat = part(&record.key, 2).ok_or_else(|| lacks(SAGA_ENDED, &record.key, "id"))?;
            let fields = object([("data", bytes(encoded(encode_ended(&left))?))]);
            let at = saga_ended_key(first.at, shard, beat);
            transaction.put(SAGA_ENDED, at, fields).await.map_err(store_error)?;
        }
    }
    Ok((expired, Some(last.at)))
}

/// Removes all that is stored of an ended saga.
async fn forget(transaction: &dyn Transaction, shard: ShardId, ended: &Ended) -> Result<(), StoreError> {
    let Ended { started_at, key, apart, .. } = ended;
    transaction.delete(SAGA_DONE, saga_key(shard, *started_at, key)).await.map_err(store_error)?;
    if *apart {
        let tree = saga_tree_key(shard, *started_at, key, true);
        transaction.delete(SAGA_TREE, tree).await.map_err(store_error)?;
    }
    if place::needs_start(&key.id, *started_at) {
        transaction.delete(SAGA_START, saga_start_key(shard, key, true)).await.map_err(store_error)?;
    }
    Ok(())
}

/// Records that name the oldest `limit` at least. They lie by their first end, so it is enough to read on until that many
/// ended before the next record's first.
async fn old_records(
    from: UnixMillis,
    transaction: &dyn Transaction,
    before: UnixMillis,
    limit: usize,
) -> Result<Read, StoreError> {
    let mut found = Read::default();
    let mut from = Bound::Included(key([number(from.0)]));
    let until = Bound::Excluded(key([number(before.0)]));
    loop {
        let rows = transaction.scan(SAGA_ENDED, from, until.clone(), PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(found) };
        let (read, reached) = (rows.len(), part(&last.key, 0).unwrap_or(0));
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            match ended(&row) {
                Ok(ended) => found.records.push(Record { key: row.key, ended }),
                Err(StoreError::Corrupt(reason)) => found.damaged.push((row, reason)),
                Err(error) => return Err(error),
            }
        }
        let enough =
            found.records.iter().flat_map(|record| &record.ended).filter(|ended| ended.at.0 <= reached).count();
        if read < PAGE || enough >= limit {
            return Ok(found);
        }
    }
}

/// What a record names.
pub fn ended(row: &Row) -> Result<Vec<Ended>, StoreError> {
    let (Some(_), Some(_)) = (part_ended_shard(&row.key), part(&row.key, 2)) else {
        return Err(lacks(SAGA_ENDED, &row.key, "id"));
    };
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(SAGA_ENDED, &row.key, "data"))?;
    decode_ended(&data).map_err(|error| unreadable(SAGA_ENDED, &row.key, error))
}

async fn quarantine(transaction: &dyn Transaction, damaged: Vec<(Row, String)>) -> Result<(), StoreError> {
    for (Row { key, fields }, reason) in damaged {
        put(transaction, SAGA_ENDED, &key, fields, None, &reason).await?;
    }
    Ok(())
}
