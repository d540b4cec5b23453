//! Taking a shard's sagas over: the fence and the reads are one transaction, so that what is read is what no earlier writer can
//! change any more.
//!
//! A journal record or a row that can't be decoded is moved to `saga_quarantine` with its bytes, and the rest goes on: one
//! damaged record mustn't stop every saga of the shard. Data of a newer host gives the shard back.

use bytes::Bytes;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::saga_store::Acquired;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::{JournalRecord, SagaShardRecord, SagaTakeover};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes, bytes_of, text};

use super::{TRIES_MAX, place};
use crate::codec::saga::decode_journal;
use crate::fault::store_error;
use crate::rows::{lacks, saga as rows, saga_small, unreadable};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    SAGA, SAGA_DEAD, SAGA_JOURNAL, SAGA_QUARANTINE, SAGA_SHARD, SAGA_TREE, journal_key, part, part_text,
    quarantine_key, saga_tree_key, shard_end, shard_key, shard_start,
};

/// Records of one page of a walk, in this process: a journal record may hold a whole commit.
const JOURNAL_PAGE: usize = 16;
/// Rows of one page of a walk, in this process.
const ROWS_PAGE: usize = 500;
/// Against a server pages are so many times as long: it reads all that is left of a range for each of them.
const REMOTE_TIMES: usize = 16;

/// What lies in the store, not decoded yet.
struct Raw {
    record: SagaShardRecord,
    rows: Vec<(Row, Option<Bytes>)>,
    journal: Vec<Row>,
    dead: Vec<SagaKey>,
}

/// A record that can't be decoded.
struct Damaged {
    table: &'static str,
    key: RecordIdKey,
    reason: String,
}

/// Takes them over.
pub async fn acquire(store: &SurrealStore, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
    let times = if store.is_embedded() { 1 } else { REMOTE_TIMES };
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = fence(transaction.as_ref(), shard, (token, nonce), times).await;
        let raw = match finish(transaction, worked).await {
            Ok(Ok(raw)) => raw,
            Ok(Err(token)) => return Ok(Acquired::Lost { token }),
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => {
                tries += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let (mut takeover, damaged) = decode(raw)?;
        if damaged.is_empty() {
            return Ok(Acquired::Taken(Box::new(takeover)));
        }
        match quarantine(store, shard, &takeover.record, &damaged).await {
            Ok(record) => {
                takeover.record = record;
                return Ok(Acquired::Taken(Box::new(takeover)));
            }
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Reads everything and writes the shard record. `Err` holds the higher token that stands.
async fn fence(
    transaction: &dyn Transaction,
    shard: ShardId,
    (token, nonce): (u64, u64),
    times: usize,
) -> Result<Result<Raw, u64>, StoreError> {
    let (stands, swept) = place::shard(transaction, shard).await?;
    if token < stands.token {
        return Ok(Err(stands.token));
    }
    let mut rows = Vec::new();
    for row in walk(transaction, SAGA, shard_start(shard), shard, ROWS_PAGE * times).await? {
        let data = match apart(shard, &row.key) {
            Some(key) => place::tree_bytes(transaction, &row.fields, key).await?,
            None => rows::tree_bytes(&row.fields),
        };
        rows.push((row, data));
    }
    let journal =
        walk(transaction, SAGA_JOURNAL, journal_key(shard, stands.floor), shard, JOURNAL_PAGE * times).await?;
    let dead = walk(transaction, SAGA_DEAD, shard_start(shard), shard, ROWS_PAGE * times).await?;
    let dead = dead.iter().map(|row| saga_small::dead_key(&row.key).ok_or_else(|| lacks(SAGA_DEAD, &row.key, "id")));
    let dead = dead.collect::<Result<_, _>>()?;
    let record = SagaShardRecord { token, beat: stands.beat + 1, nonce, floor: stands.floor };
    let fields = saga_small::of_shard(&record, swept);
    transaction.put(SAGA_SHARD, shard_key(shard), fields).await.map_err(store_error)?;
    Ok(Ok(Raw { record, rows, journal, dead }))
}

/// Where the tree of a row lies if it lies apart.
fn apart(shard: ShardId, key: &RecordIdKey) -> Option<RecordIdKey> {
    let started = UnixMillis(part(key, 1)?);
    saga_of(key).map(|of| saga_tree_key(shard, started, &of, false))
}

/// The saga that the key of a row names.
fn saga_of(key: &RecordIdKey) -> Option<SagaKey> {
    Some(SagaKey { tenant: Tenant::new(part_text(key, 2)?).ok()?, id: SagaId::new(part_text(key, 3)?).ok()? })
}

/// All records of a shard in a table from a key on.
async fn walk(
    transaction: &dyn Transaction,
    table: &'static str,
    from: RecordIdKey,
    shard: ShardId,
    page: usize,
) -> Result<Vec<Row>, StoreError> {
    let mut all = Vec::new();
    let mut from = Bound::Included(from);
    loop {
        let rows = transaction.scan(table, from, Bound::Excluded(shard_end(shard)), page).await.map_err(store_error)?;
        let read = rows.len();
        let Some(last) = rows.last() else { return Ok(all) };
        from = Bound::Excluded(last.key.clone());
        all.extend(rows);
        if read < page {
            return Ok(all);
        }
    }
}

/// Decodes it all; what can't be decoded is named. Data of a newer host is an error of the whole.
fn decode(raw: Raw) -> Result<(SagaTakeover, Vec<Damaged>), StoreError> {
    let mut damaged = Vec::new();
    let mut spoilt = |table: &'static str, key: &RecordIdKey, error: StoreError| match error {
        StoreError::Corrupt(reason) => {
            damaged.push(Damaged { table, key: key.clone(), reason });
            Ok(())
        }
        error => Err(error),
    };
    let mut takeover = SagaTakeover { record: raw.record, dead: raw.dead, ..SagaTakeover::default() };
    for (row, data) in raw.rows {
        match rows::saga(SAGA, &row, data) {
            Ok(saga) => takeover.rows.push(saga),
            Err(error) => spoilt(SAGA, &row.key, error)?,
        }
    }
    for row in raw.journal {
        match journal_record(&row) {
            Ok(record) => takeover.journal.push(record),
            Err(error) => spoilt(SAGA_JOURNAL, &row.key, error)?,
        }
    }
    Ok((takeover, damaged))
}

fn journal_record(row: &Row) -> Result<JournalRecord, StoreError> {
    let beat = part(&row.key, 1).ok_or_else(|| lacks(SAGA_JOURNAL, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(SAGA_JOURNAL, &row.key, "data"))?;
    let entries = decode_journal(&data).map_err(|error| unreadable(SAGA_JOURNAL, &row.key, error))?;
    Ok(JournalRecord { beat, entries })
}

/// Moves damaged records away, if `record` still stands; answers the record that stands then.
async fn quarantine(
    store: &SurrealStore,
    shard: ShardId,
    record: &SagaShardRecord,
    damaged: &[Damaged],
) -> Result<SagaShardRecord, StoreError> {
    for record in damaged {
        tracing::error!(
            table = record.table, key = ?record.key, reason = record.reason,
            "a stored record of sagas can't be read and is moved to saga_quarantine"
        );
    }
    let transaction = store.begin(true).await?;
    let worked = move_away(transaction.as_ref(), shard, record, damaged).await;
    finish(transaction, worked).await
}

async fn move_away(
    transaction: &dyn Transaction,
    shard: ShardId,
    record: &SagaShardRecord,
    damaged: &[Damaged],
) -> Result<SagaShardRecord, StoreError> {
    let (stands, swept) = place::shard(transaction, shard).await?;
    if stands != *record {
        return Err(StoreError::Conflict(format!("somebody else took the sagas of shard {shard}")));
    }
    let mut kept = Vec::with_capacity(damaged.len());
    for record in damaged {
        let mut fields =
            transaction.get(record.table, record.key.clone()).await.map_err(store_error)?.unwrap_or_default();
        if record.table == SAGA
            && let Some(key) = apart(shard, &record.key)
            && let Some(data) = place::tree_bytes(transaction, &fields, key).await?
        {
            fields.insert("data", bytes(data));
        }
        fields.insert("reason", text(&record.reason));
        kept.push(fields);
    }
    for (record, fields) in damaged.iter().zip(kept) {
        let at = quarantine_key(record.table, &record.key);
        transaction.put(SAGA_QUARANTINE, at, fields).await.map_err(store_error)?;
        transaction.delete(record.table, record.key.clone()).await.map_err(store_error)?;
        if record.table == SAGA
            && let Some(key) = apart(shard, &record.key)
        {
            transaction.delete(SAGA_TREE, key).await.map_err(store_error)?;
        }
    }
    let next = SagaShardRecord { beat: stands.beat + 1, ..stands };
    let fields = saga_small::of_shard(&next, swept);
    transaction.put(SAGA_SHARD, shard_key(shard), fields).await.map_err(store_error)?;
    Ok(next)
}
