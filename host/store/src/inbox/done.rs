//! History of the inbox, packed by commits: `inbox_done:[shard, beat]`. Beats and ages only grow, so what an id's mark in the seen set says
//! of its age leads to its record.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::{ConsumerName, InboundId, ShardId};
use waybill_core::inbox::records::InboxDone;
use waybill_core::inbox::seen::{OwnedAge, SeenPlace, SeenQuery};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, Row, Transaction, bytes, bytes_of, int, millis, millis_of, object};

use super::seen::{Asker, find};
use super::shard;
use crate::codec::inbox::{decode_done, encode_done};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::{encoded, lacks, unreadable};
use crate::store::{SurrealStore, finish};
use crate::tables::{INBOX_DONE, beat_key, number, part, part_shard, parts, shard_end, shard_start, unsigned};

/// Records read at once: each may hold a whole commit.
const PAGE: usize = 64;
/// Bytes of history that are looked through for one id: some 500,000 messages.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 5;

pub fn of_done(done: &[InboxDone], age: OwnedAge) -> Result<Object, StoreError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(object([
        ("at", millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))),
        ("age", number(age.0)),
        ("messages", int(done.len() as i64)),
        ("data", bytes(encoded(encode_done(done))?)),
    ]))
}

/// The age of the commit that wrote a record.
pub fn age_in(row: &Row) -> Option<OwnedAge> {
    unsigned(row.fields.get("age")).map(OwnedAge)
}

fn beat_in(row: &Row) -> Option<u64> {
    part(&row.key, 1).filter(|_| parts(&row.key).len() == 2)
}

/// When it was written; retention goes by it.
fn written_at(row: &Row) -> Option<UnixMillis> {
    millis_of(row.fields.get("at")).map(UnixMillis)
}

/// What one commit finished.
pub fn done_in(row: &Row) -> Result<Vec<InboxDone>, StoreError> {
    let lacks = |name: &str| lacks(INBOX_DONE, &row.key, name);
    part_shard(&row.key).zip(beat_in(row)).ok_or_else(|| lacks("id"))?;
    age_in(row).ok_or_else(|| lacks("age"))?;
    written_at(row).ok_or_else(|| lacks("at"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks("data"))?;
    decode_done(&data).map_err(|error| unreadable(INBOX_DONE, &row.key, error))
}

/// What the history has of an id, the latest first.
pub async fn of_id(
    store: &SurrealStore,
    shard: ShardId,
    consumer: &ConsumerName,
    id: &InboundId,
) -> Result<Vec<InboxDone>, StoreError> {
    let mut spoilt = Spoilt::default();
    let found = try_of_id(store, shard, (consumer, id), &mut spoilt).await;
    store.set_aside(spoilt).await;
    found
}

async fn try_of_id(
    store: &SurrealStore,
    shard: ShardId,
    (consumer, id): (&ConsumerName, &InboundId),
    spoilt: &mut Spoilt,
) -> Result<Vec<InboxDone>, StoreError> {
    let transaction = store.begin(false).await?;
    let mut looked = before(transaction.as_ref(), shard, u64::MAX, (consumer, id), spoilt).await?;
    let Some(reached) = looked.reached else { return Ok(looked.found) };
    // Not all of it was looked through. When it was finished says the seen set, but for an id that goes by its sender's stamp.
    let secret = shard::read(transaction.as_ref(), shard).await?.secret;
    let places = SeenPlace::all_of(id.as_str(), secret.of_id(consumer, id), None);
    let query = SeenQuery { consumer: consumer.clone(), places };
    let hits = find::find(store, shard, std::slice::from_ref(&query), Asker::People).await?;
    if let Some(hit) = hits.into_iter().flatten().next() {
        // Packed marks have the latest age of their block: it was written at that age or before.
        let beat = behind(transaction.as_ref(), shard, hit.age).await?.min(reached);
        looked.found.extend(before(transaction.as_ref(), shard, beat, (consumer, id), spoilt).await?.found);
    }
    Ok(looked.found)
}

/// The first beat whose record is younger than an age.
async fn behind(transaction: &dyn Transaction, shard: ShardId, age: OwnedAge) -> Result<u64, StoreError> {
    let (from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    let last = transaction.scan_back(INBOX_DONE, from, until.clone(), 1).await.map_err(store_error)?;
    let (mut low, mut high) = (0, last.first().and_then(beat_in).map_or(0, |beat| beat.saturating_add(1)));
    while low < high {
        let middle = low + (high - low) / 2;
        let from = Bound::Included(beat_key(shard, middle));
        let rows = transaction.scan(INBOX_DONE, from, until.clone(), 1).await.map_err(store_error)?;
        match rows.first().and_then(|row| age_in(row).zip(beat_in(row))) {
            Some((found, beat)) if found <= age => low = beat.saturating_add(1).min(high),
            _ => high = middle,
        }
    }
    Ok(high)
}

/// A walk through the history.
struct Walk {
    found: Vec<InboxDone>,
    /// The beat that it ended at before it was through.
    reached: Option<u64>,
}

/// What records before a beat have of an id, from the youngest on.
async fn before(
    transaction: &dyn Transaction,
    shard: ShardId,
    beat: u64,
    (consumer, id): (&ConsumerName, &InboundId),
    spoilt: &mut Spoilt,
) -> Result<Walk, StoreError> {
    let (from, mut until) = (Bound::Included(shard_start(shard)), Bound::Excluded(beat_key(shard, beat)));
    let (mut found, mut read) = (Vec::new(), 0);
    loop {
        let rows = transaction.scan_back(INBOX_DONE, from.clone(), until, PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(Walk { found, reached: None }) };
        let reached = beat_in(last);
        until = Bound::Excluded(last.key.clone());
        for row in &rows {
            read += bytes_of(row.fields.get("data")).map_or(0, |data| data.len());
            let done = spoilt.sift(INBOX_DONE, &row.key, done_in(row))?.unwrap_or_default();
            found.extend(done.into_iter().rev().filter(|one| one.consumer == *consumer && one.id == *id));
        }
        if read >= BYTES_MAX {
            return Ok(Walk { found, reached });
        }
    }
}

/// Removes records written before an instant, at most `limit`; answers how many it looked at. Records lie in the order of the commits. Where
/// the clock was ahead once, those of that time say that they are young; one behind them that is old proves that they are old, too.
pub async fn purge(
    store: &SurrealStore,
    shard: ShardId,
    before: UnixMillis,
    limit: usize,
) -> Result<usize, StoreError> {
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let front = store.inbox_fronts().begin(shard);
        let transaction = store.begin(true).await?;
        let worked = try_purge(transaction.as_ref(), shard, front, (before, limit), &mut spoilt).await;
        let done = finish(transaction, worked).await;
        store.set_aside(spoilt).await;
        match done {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
            Ok((looked, reached)) => {
                store.inbox_fronts().reached(shard, reached);
                return Ok(looked);
            }
        }
    }
}

/// How many records it looked at, and the beat up to which it removed all.
async fn try_purge(
    transaction: &dyn Transaction,
    shard: ShardId,
    front: u64,
    (before, limit): (UnixMillis, usize),
    spoilt: &mut Spoilt,
) -> Result<(usize, u64), StoreError> {
    let (from, until) = (Bound::Included(beat_key(shard, front)), Bound::Excluded(shard_end(shard)));
    let rows = transaction.scan(INBOX_DONE, from, until, limit).await.map_err(store_error)?;
    let mut old = 0;
    for (at, row) in (1..).zip(&rows) {
        match (beat_in(row), written_at(row)) {
            (Some(_), Some(written)) if written < before => old = at,
            (Some(_), Some(_)) => {}
            _ => spoilt.note(INBOX_DONE, &row.key),
        }
    }
    if old == 0 && rows.len() == limit && is_old_behind(transaction, shard, &rows, before).await? {
        old = rows.len();
    }
    let mut reached = front;
    for row in rows.into_iter().take(old) {
        if let (Some(beat), Some(_)) = (beat_in(&row), written_at(&row)) {
            reached = beat.saturating_add(1);
            transaction.delete(INBOX_DONE, row.key).await.map_err(store_error)?;
        }
    }
    Ok((old, reached))
}

/// Whether a record behind these is old; looked for further and further away.
async fn is_old_behind(
    transaction: &dyn Transaction,
    shard: ShardId,
    rows: &[Row],
    before: UnixMillis,
) -> Result<bool, StoreError> {
    let mut beat = rows.last().and_then(beat_in).unwrap_or(0);
    let mut step = 1_u64;
    loop {
        beat = beat.saturating_add(step);
        step = step.saturating_mul(2);
        let (from, until) = (Bound::Included(beat_key(shard, beat)), Bound::Excluded(shard_end(shard)));
        let found = transaction.scan(INBOX_DONE, from, until, 1).await.map_err(store_error)?;
        match found.first().map(written_at) {
            None => return Ok(false),
            Some(written) if written.is_some_and(|written| written < before) => return Ok(true),
            Some(_) => {}
        }
    }
}
