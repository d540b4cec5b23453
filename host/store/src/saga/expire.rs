//! The end of ended sagas. A record for every commit that ended some lies by the first of their ends, so that only what is old
//! is looked at. That a saga has ended is kept as long as the journal holds events of it: should the journal's own record of that
//! end be damaged, nothing else keeps a takeover from running the saga again. One whose id was made from an idempotency key may have
//! to stay for longer: it is put off in its record, and the record is put back by the then first of its ends.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use waybill_core::idempotency::is_derived;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::Expired;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::SagaShardRecord;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes, bytes_of, key, object};

use super::{TRIES_MAX, forgotten, journal_record, place};
use crate::codec::saga::{Ended, decode_ended, encode_ended};
use crate::fault::store_error;
use crate::fronts::{PurgeFronts, Reached};
use crate::quarantine::put;
use crate::rows::{encoded, lacks, unreadable};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    SAGA_DONE, SAGA_ENDED, SAGA_JOURNAL, SAGA_START, SAGA_TREE, beat_key, number, part, part_ended_shard,
    saga_ended_key, saga_key, saga_start_key, saga_tree_key,
};

/// Records read at once: each may name all sagas of a commit.
const PAGE: usize = 64;
/// Pages of one purge: with them it may find nothing but what has to stay.
const PAGES_MAX: usize = 64;

/// A record, with what it names.
struct Record {
    key: RecordIdKey,
    ended: Vec<Ended>,
    /// Those of them of which the journal holds events.
    needed: HashSet<SagaKey>,
}

impl Record {
    /// Those that may be removed when they are old.
    fn free(&self) -> impl Iterator<Item = &Ended> {
        self.ended.iter().filter(move |ended| !self.needed.contains(&ended.key))
    }
}

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
            Ok((expired, reached)) => {
                if let Some(reached) = reached {
                    store.purge_fronts().reached(SAGA_ENDED, Reached::at(reached));
                }
                return Ok(expired);
            }
        }
    }
}

/// Answers how many, and where the next purge goes on: of what ended before, only that is left which has to stay.
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
    let mut old: Vec<&Ended> = records.iter().flat_map(Record::free).filter(|ended| ended.at < before).collect();
    old.sort();
    old.truncate(limit);
    let (count, last) = (old.len(), old.last().map(|last| (*last).clone()));
    let gone = old.iter().filter(|ended| kept.put_off(ended).is_none()).map(|ended| ended.at).max();
    if let Some(up_to) = forgotten::remove_marks(transaction, before).await?.max(gone) {
        forgotten::forget(transaction, up_to).await?;
    }
    // What has to stay is looked at again when a purge begins at the front.
    let read_to = records.last().and_then(|record| part(&record.key, 0)).map(UnixMillis);
    let Some(last) = last else { return Ok((expired, read_to.filter(|_| limit > 0))) };
    let reached = if count < limit { read_to } else { Some(last.at) };
    for Record { key: named_by, ended, needed } in records {
        let is_due = |ended: &Ended| *ended <= last && !needed.contains(&ended.key);
        let (due, mut left): (Vec<_>, Vec<_>) = ended.into_iter().partition(is_due);
        if due.is_empty() {
            continue;
        }
        let shard = part_ended_shard(&named_by).ok_or_else(|| lacks(SAGA_ENDED, &named_by, "id"))?;
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
        transaction.delete(SAGA_ENDED, named_by.clone()).await.map_err(store_error)?;
        if let Some(first) = left.first() {
            let beat = part(&named_by, 2).ok_or_else(|| lacks(SAGA_ENDED, &named_by, "id"))?;
            let fields = object([("data", bytes(encoded(encode_ended(&left))?))]);
            let at = saga_ended_key(first.at, shard, beat);
            transaction.put(SAGA_ENDED, at, fields).await.map_err(store_error)?;
        }
    }
    Ok((expired, reached))
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

/// Records that name the oldest `limit` at least, of those that may be removed. They lie by their first end, so it is enough to
/// read on until that many ended before the next record's first. After [`PAGES_MAX`] pages the next purge goes on.
async fn old_records(
    from: UnixMillis,
    transaction: &dyn Transaction,
    before: UnixMillis,
    limit: usize,
) -> Result<Read, StoreError> {
    let mut found = Read::default();
    let mut from = Bound::Included(key([number(from.0)]));
    let until = Bound::Excluded(key([number(before.0)]));
    let mut shards = Shards::default();
    for _ in 0..PAGES_MAX {
        let rows = transaction.scan(SAGA_ENDED, from, until.clone(), PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(found) };
        let (read, reached) = (rows.len(), part(&last.key, 0).unwrap_or(0));
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            match ended(&row) {
                Ok(ended) => {
                    let needed = needed(transaction, &mut shards, &row.key, &ended).await?;
                    found.records.push(Record { key: row.key, ended, needed });
                }
                Err(StoreError::Corrupt(reason)) => found.damaged.push((row, reason)),
                Err(error) => return Err(error),
            }
        }
        let enough = found.records.iter().flat_map(Record::free).filter(|ended| ended.at.0 <= reached).count();
        if read < PAGE || enough >= limit {
            return Ok(found);
        }
    }
    Ok(found)
}

/// The journals of shards, as they are asked for.
type Shards = BTreeMap<ShardId, Journal>;

/// How far a journal is.
#[derive(Clone, Copy)]
struct Journal {
    record: SagaShardRecord,
    /// The least beat at which something was found that has to stay.
    needed_from: u64,
}

async fn journal(transaction: &dyn Transaction, shards: &mut Shards, shard: ShardId) -> Result<Journal, StoreError> {
    if let Some(known) = shards.get(&shard) {
        return Ok(*known);
    }
    let record = match place::shard(transaction, shard).await {
        Ok((record, _)) => record,
        // The next takeover makes it anew of what the journal holds.
        Err(StoreError::Corrupt(_)) => SagaShardRecord { beat: u64::MAX, ..SagaShardRecord::default() },
        Err(error) => return Err(error),
    };
    let journal = Journal { record, needed_from: u64::MAX };
    shards.insert(shard, journal);
    Ok(journal)
}

/// Of what one commit ended, the sagas whose end the journal says as well: as long as it isn't cut behind their events, a takeover
/// reads these, and needs to know of the end. A saga that never was in the journal has no end there.
async fn needed(
    transaction: &dyn Transaction,
    shards: &mut Shards,
    of: &RecordIdKey,
    ended: &[Ended],
) -> Result<HashSet<SagaKey>, StoreError> {
    let (Some(shard), Some(beat)) = (part_ended_shard(of), part(of, 2)) else { return Ok(HashSet::new()) };
    let Journal { record, needed_from } = journal(transaction, shards, shard).await?;
    // Events of a saga lie in earlier records than its end.
    if beat <= record.floor || beat > record.beat {
        return Ok(HashSet::new());
    }
    let all = || ended.iter().map(|ended| ended.key.clone()).collect();
    // What keeps the journal from being cut keeps most of what ended behind it: not all of these records are read each time.
    if beat > needed_from {
        return Ok(all());
    }
    let at = beat_key(shard, beat);
    let Some(fields) = transaction.get(SAGA_JOURNAL, at.clone()).await.map_err(store_error)? else {
        return Ok(HashSet::new());
    };
    let needed: HashSet<SagaKey> = match journal_record(&Row { key: at, fields }) {
        Ok(record) => record.entries.into_iter().filter(|entry| entry.ended).map(|entry| entry.key).collect(),
        Err(StoreError::Corrupt(_)) => all(),
        Err(error) => return Err(error),
    };
    if !needed.is_empty() {
        shards.insert(shard, Journal { record, needed_from: beat });
    }
    Ok(needed)
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
