//! Taking a shard's sagas over: first the fence, one small commit after which no earlier writer can change anything, then the
//! reads, page by page and each page a transaction of its own. A database that is opened again makes transactions give way that
//! have been open for long; a page never is, however many sagas there are.
//!
//! A journal record or a row that can't be decoded is moved to quarantine with its bytes, and the rest goes on: one
//! damaged record mustn't stop every saga of the shard. Data of a newer host gives the shard back.

use std::collections::BTreeMap;

use bytes::Bytes;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::{Acquired, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::{JournalEntry, JournalRecord, SagaShardRecord, SagaTakeover};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, bytes, bytes_of, object};

use super::{TRIES_MAX, dropped, place};
use crate::codec::saga::{decode_journal, encode_journal};
use crate::fault::store_error;
use crate::quarantine::{MOVED_BYTES_MAX, is_set_aside, put, saga_of, weight};
use crate::rows::{encoded, lacks, saga as rows, saga_small, unreadable};
use crate::store::{SurrealStore, finish};
use crate::tables::{
    SAGA, SAGA_DEAD, SAGA_JOURNAL, SAGA_SHARD, SAGA_TREE, beat_key, part, saga_tree_key, shard_end, shard_key,
    shard_start,
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
    dead: Vec<Row>,
}

/// A record that can't be decoded.
struct Damaged {
    table: &'static str,
    key: RecordIdKey,
    reason: String,
}

pub async fn acquire(store: &SurrealStore, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
    let mut tries = 1;
    loop {
        let record = match fence(store, shard, token, nonce).await {
            Ok(Ok(record)) => record,
            Ok(Err(token)) => return Ok(Acquired::Lost { token }),
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => {
                tries += 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let (mut takeover, damaged) = decode(read(store, shard, record).await?)?;
        let still = match damaged.is_empty() {
            true => unchanged(store, shard, &takeover.record).await,
            false => quarantine(store, shard, &mut takeover, &damaged).await,
        };
        match still {
            Ok(record) => {
                takeover.record = record;
                return Ok(Acquired::Taken(Box::new(takeover)));
            }
            // The fence tells whether it was a higher token.
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Writes the shard record with the token. `Err` holds the higher token that stands.
async fn fence(
    store: &SurrealStore,
    shard: ShardId,
    token: u64,
    nonce: u64,
) -> Result<Result<SagaShardRecord, u64>, StoreError> {
    let transaction = store.begin(true).await?;
    let worked = raise(transaction.as_ref(), shard, token, nonce).await;
    finish(transaction, worked).await
}

async fn raise(
    transaction: &dyn Transaction,
    shard: ShardId,
    token: u64,
    nonce: u64,
) -> Result<Result<SagaShardRecord, u64>, StoreError> {
    let (stands, swept, unread) = match place::shard(transaction, shard).await {
        Ok((stands, swept)) => (stands, swept, None),
        Err(StoreError::Corrupt(reason)) => {
            let stands = rebuilt(transaction, shard).await?;
            let fields = transaction.get(SAGA_SHARD, shard_key(shard)).await.map_err(store_error)?;
            (stands, stands.floor, fields.zip(Some(reason)))
        }
        Err(error) => return Err(error),
    };
    if token < stands.token {
        return Ok(Err(stands.token));
    }
    if let Some((fields, reason)) = unread {
        put(transaction, SAGA_SHARD, &shard_key(shard), fields, None, &reason).await?;
    }
    let record = SagaShardRecord { token, beat: stands.beat + 1, nonce, floor: stands.floor };
    let fields = saga_small::of_shard(&record, swept);
    transaction.put(SAGA_SHARD, shard_key(shard), fields).await.map_err(store_error)?;
    Ok(Ok(record))
}

/// Reads everything behind the fence.
async fn read(store: &SurrealStore, shard: ShardId, record: SagaShardRecord) -> Result<Raw, StoreError> {
    let times = if store.is_embedded() { 1 } else { REMOTE_TIMES };
    let rows = walk(store, SAGA, shard_start(shard), shard, ROWS_PAGE * times).await?;
    let journal = walk(store, SAGA_JOURNAL, beat_key(shard, record.floor), shard, JOURNAL_PAGE * times).await?;
    let dead = walk(store, SAGA_DEAD, shard_start(shard), shard, ROWS_PAGE * times).await?;
    let alone = |rows: Vec<(Row, Option<Bytes>)>| rows.into_iter().map(|(row, _)| row).collect();
    Ok(Raw { record, rows, journal: alone(journal), dead: alone(dead) })
}

/// The record if nobody has written the shard since. What was read in pages is then what stood at one moment.
async fn unchanged(
    store: &SurrealStore,
    shard: ShardId,
    record: &SagaShardRecord,
) -> Result<SagaShardRecord, StoreError> {
    let (stands, _) = place::shard(store.begin(false).await?.as_ref(), shard).await?;
    if stands == *record { Ok(stands) } else { Err(taken(shard)) }
}

fn taken(shard: ShardId) -> StoreError {
    StoreError::Conflict(format!("somebody else took the sagas of shard {shard}"))
}

/// What stands in place of a shard record that can't be read: the journal says where it begins and ends.
async fn rebuilt(transaction: &dyn Transaction, shard: ShardId) -> Result<SagaShardRecord, StoreError> {
    let range = || (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    let (from, until) = range();
    let first = transaction.scan(SAGA_JOURNAL, from, until, 1).await.map_err(store_error)?;
    let (from, until) = range();
    let last = transaction.scan_back(SAGA_JOURNAL, from, until, 1).await.map_err(store_error)?;
    let beat = |rows: &[Row]| rows.first().and_then(|row| part(&row.key, 1));
    let beat_last = beat(&last).unwrap_or(0);
    Ok(SagaShardRecord { token: 0, beat: beat_last, nonce: 0, floor: beat(&first).unwrap_or(beat_last) })
}

/// Where the tree of a row lies if it lies apart.
fn apart(shard: ShardId, key: &RecordIdKey) -> Option<RecordIdKey> {
    let started = UnixMillis(part(key, 1)?);
    saga_of(key).map(|(_, of)| saga_tree_key(shard, started, &of, false))
}

/// All records of a shard in a table from a key on, with the bytes of trees.
async fn walk(
    store: &SurrealStore,
    table: &'static str,
    from: RecordIdKey,
    shard: ShardId,
    limit: usize,
) -> Result<Vec<(Row, Option<Bytes>)>, StoreError> {
    let mut all = Vec::new();
    let mut from = Bound::Included(from);
    loop {
        let rows = page(store, table, &from, shard, limit).await?;
        let read = rows.len();
        let Some((last, _)) = rows.last() else { return Ok(all) };
        from = Bound::Excluded(last.key.clone());
        all.extend(rows);
        if read < limit {
            return Ok(all);
        }
    }
}

/// One page, read again when it has to give way.
async fn page(
    store: &SurrealStore,
    table: &'static str,
    from: &Bound,
    shard: ShardId,
    limit: usize,
) -> Result<Vec<(Row, Option<Bytes>)>, StoreError> {
    let mut tries = 1;
    loop {
        match try_page(store, table, from.clone(), shard, limit).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_page(
    store: &SurrealStore,
    table: &'static str,
    from: Bound,
    shard: ShardId,
    limit: usize,
) -> Result<Vec<(Row, Option<Bytes>)>, StoreError> {
    let transaction = store.begin(false).await?;
    let rows = transaction.scan(table, from, Bound::Excluded(shard_end(shard)), limit).await.map_err(store_error)?;
    let mut page = Vec::with_capacity(rows.len());
    for row in rows {
        let data = match apart(shard, &row.key) {
            Some(key) if table == SAGA => place::tree_bytes(transaction.as_ref(), &row.fields, key).await?,
            _ => rows::tree_bytes(&row.fields).filter(|_| table == SAGA),
        };
        page.push((row, data));
    }
    Ok(page)
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
    let mut takeover = SagaTakeover { record: raw.record, ..SagaTakeover::default() };
    for row in raw.dead {
        match saga_small::dead_key(&row.key).ok_or_else(|| lacks(SAGA_DEAD, &row.key, "id")) {
            Ok(key) => takeover.dead.push(key),
            Err(error) => spoilt(SAGA_DEAD, &row.key, error)?,
        }
    }
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

/// A record of the journal.
pub fn journal_record(row: &Row) -> Result<JournalRecord, StoreError> {
    let beat = part(&row.key, 1).ok_or_else(|| lacks(SAGA_JOURNAL, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(SAGA_JOURNAL, &row.key, "data"))?;
    let entries = decode_journal(&data).map_err(|error| unreadable(SAGA_JOURNAL, &row.key, error))?;
    Ok(JournalRecord { beat, entries })
}

/// Sagas that ended, perhaps, in a journal record that can't be read, with the last instant that the journal tells of them: those
/// without a row. A saga that ends has none any more.
fn doubtful(takeover: &SagaTakeover, damaged: &[Damaged]) -> BTreeMap<SagaKey, UnixMillis> {
    let mut last = BTreeMap::new();
    if !damaged.iter().any(|record| record.table == SAGA_JOURNAL) {
        return last;
    }
    for entry in takeover.journal.iter().flat_map(|record| &record.entries) {
        let known: &mut UnixMillis = last.entry(entry.key.clone()).or_default();
        *known = entry.events.iter().map(|event| event.at).fold(*known, UnixMillis::max);
    }
    for row in &takeover.rows {
        last.remove(&row.summary.key);
    }
    last
}

/// Whether a saga has ended: its row among the ended ones says so. Or whether it was set aside, and perhaps dropped: what lies in
/// quarantine says so, or a mark.
async fn is_over(
    transaction: &dyn Transaction,
    shard: ShardId,
    (key, last): (&SagaKey, UnixMillis),
) -> Result<bool, StoreError> {
    match place::find(transaction, SagaTable::Done, shard, key).await {
        // The row of an ended one lies in quarantine.
        Err(StoreError::Corrupt(_)) => return Ok(true),
        found => {
            if found?.is_some() {
                return Ok(true);
            }
        }
    }
    if dropped(transaction, shard, key).await?.is_some_and(|at| last <= at) {
        return Ok(true);
    }
    is_set_aside(transaction, shard, key).await
}

/// Moves damaged records away, if the record of the takeover still stands. In the same moment the journal is told of the ends that
/// only they told, so that no takeover runs these sagas again.
async fn quarantine(
    store: &SurrealStore,
    shard: ShardId,
    takeover: &mut SagaTakeover,
    damaged: &[Damaged],
) -> Result<SagaShardRecord, StoreError> {
    let mut doubtful = doubtful(takeover, damaged);
    let (mut stands, mut left) = (takeover.record, damaged);
    while !left.is_empty() {
        let transaction = store.begin(true).await?;
        let worked = move_first(transaction.as_ref(), shard, &stands, left, &doubtful).await;
        let moved = finish(transaction, worked).await?;
        (stands, left) = (moved.record, left.split_at(moved.count.clamp(1, left.len())).1);
        takeover.journal.extend(moved.over);
        doubtful.clear();
    }
    Ok(stands)
}

/// What one transaction moved.
struct MovedNow {
    /// The record that stands then.
    record: SagaShardRecord,
    count: usize,
    /// What the journal was told.
    over: Option<JournalRecord>,
}

/// Moves as many as go into one transaction.
async fn move_first(
    transaction: &dyn Transaction,
    shard: ShardId,
    record: &SagaShardRecord,
    damaged: &[Damaged],
    doubtful: &BTreeMap<SagaKey, UnixMillis>,
) -> Result<MovedNow, StoreError> {
    let (stands, swept) = place::shard(transaction, shard).await?;
    if stands != *record {
        return Err(taken(shard));
    }
    let mut over = Vec::new();
    for (key, last) in doubtful {
        if is_over(transaction, shard, (key, *last)).await? {
            over.push(JournalEntry { key: key.clone(), from: 0, events: Vec::new(), ended: true });
        }
    }
    let (mut kept, mut size) = (Vec::new(), 0);
    for record in damaged {
        if size >= MOVED_BYTES_MAX {
            break;
        }
        let fields = transaction.get(record.table, record.key.clone()).await.map_err(store_error)?.unwrap_or_default();
        let tree = match apart(shard, &record.key).filter(|_| record.table == SAGA) {
            Some(key) => transaction.get(SAGA_TREE, key).await.map_err(store_error)?,
            None => None,
        };
        let tree = tree.as_ref().and_then(rows::tree_bytes);
        size += weight(&fields, tree.as_ref());
        kept.push((fields, tree));
    }
    let count = kept.len();
    for (record, (fields, tree)) in damaged.iter().zip(kept) {
        put(transaction, record.table, &record.key, fields, tree, &record.reason).await?;
    }
    let next = SagaShardRecord { beat: stands.beat + 1, ..stands };
    let over = Some(JournalRecord { beat: next.beat, entries: over }).filter(|over| !over.entries.is_empty());
    if let Some(over) = &over {
        let fields = object([("data", bytes(encoded(encode_journal(&over.entries))?))]);
        transaction.put(SAGA_JOURNAL, beat_key(shard, over.beat), fields).await.map_err(store_error)?;
    }
    let fields = saga_small::of_shard(&next, swept);
    transaction.put(SAGA_SHARD, shard_key(shard), fields).await.map_err(store_error)?;
    Ok(MovedNow { record: next, count, over })
}
