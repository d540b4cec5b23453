//! The doorstep of streams: rows that anyone puts there in his own transaction, and what the owner reads before a commit.

use std::collections::{BTreeSet, HashMap};

use ulid::Ulid;
use waybill_core::ids::ShardId;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{DoorQuery, PassFound, PassQuery};
use waybill_core::streams::records::{DoorAppend, DoorContent, EventIdKey, StreamDoorRow};
use waybill_surreal::{Bound, Object, Transaction};

use super::heads::Snapshot;
use super::ids;
use crate::fault::store_error;
use crate::owner::read::door_newest;
use crate::quarantine::weight;
use crate::rows::streams as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{STREAM_DOOR, door_key, door_start, shard_end};
use crate::transact::door_stamp;

/// Rows read at once: each may hold a large append.
const PAGE: usize = 128;
/// Bytes of rows after which a page of a pass ends, whatever its limit is: it is in memory as a whole.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Puts rows on their doorsteps, each shard's in order. Call it at the end: a row's stamp shouldn't be older than its commit by the time
/// that the rest took.
pub async fn put(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    rows: Vec<(ShardId, Object)>,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let shards = rows.iter().map(|(shard, _)| *shard).collect();
    let nanos = door_stamp(store, transaction, STREAM_DOOR, shards).await?;
    let mut ordinals: HashMap<ShardId, u32> = HashMap::new();
    for (shard, fields) in rows {
        let ordinal = ordinals.entry(shard).or_default();
        let key = DoorKey { nanos, ordinal: *ordinal, ulid: Ulid::new().to_string() };
        *ordinal += 1;
        transaction.put(STREAM_DOOR, door_key(shard, &key), fields).await.map_err(store_error)?;
    }
    Ok(())
}

/// The rows of some appends, encoded before their transaction begins.
fn door_rows(appends: &[DoorAppend]) -> Result<Vec<(ShardId, Object)>, StoreError> {
    appends.iter().map(|(shard, append)| Ok((*shard, rows::of_append(append)?))).collect()
}

/// Puts events there, in one commit.
pub async fn append(store: &SurrealStore, appends: &[DoorAppend]) -> Result<(), StoreError> {
    let rows = door_rows(appends)?;
    let transaction = store.begin(true).await?;
    let worked = put(store, transaction.as_ref(), rows).await;
    finish(transaction, worked).await
}

/// What an owner reads before a commit, in one snapshot.
pub async fn pass(store: &SurrealStore, shard: ShardId, query: &PassQuery) -> Result<PassFound, StoreError> {
    // Read before the snapshot begins: what is put there later has a later stamp than what this page goes up to.
    let clock = match &query.door {
        Some(DoorQuery { until: None, .. }) => store.stamps().clock_of_look(store.door_nanos().await?),
        _ => 0,
    };
    let transaction = store.begin_snapshot().await?;
    let mut snapshot = Snapshot::of(store, transaction.as_ref());
    let found = read(&mut snapshot, shard, query, clock).await;
    let spoilt = snapshot.spoilt;
    store.end_snapshot(transaction).await;
    store.set_aside(spoilt).await;
    found
}

async fn read(
    snapshot: &mut Snapshot<'_>,
    shard: ShardId,
    query: &PassQuery,
    clock: u64,
) -> Result<PassFound, StoreError> {
    let mut found = PassFound { is_all: true, ..PassFound::default() };
    if let Some(door) = &query.door {
        found.until = match door.until {
            Some(until) => until,
            None => door_newest(snapshot.transaction, STREAM_DOOR, shard, clock).await?.unwrap_or(0).max(clock),
        };
        (found.rows, found.is_all) = page(snapshot, shard, (door.from, found.until), door.limit).await?;
    }
    look_at_streams(snapshot, query, &mut found).await?;
    let mut wanted: BTreeSet<EventIdKey> = query.ids.iter().cloned().collect();
    for content in found.rows.iter().filter_map(|row| row.content.as_ref().ok()) {
        if let DoorContent::Append(append) = content {
            let indexed = append.events.iter().filter(|event| event.is_indexed);
            wanted.extend(indexed.map(|event| (append.stream.tenant.clone(), event.id.clone())));
        }
    }
    for id in wanted {
        if let Some(record) = ids::read(snapshot, &id).await? {
            found.ids.insert(id, record);
        }
    }
    Ok(found)
}

/// Looks at the streams that the rows name and at those asked for, as far as their bytes allow: all of it is in memory at once.
async fn look_at_streams(
    snapshot: &mut Snapshot<'_>,
    query: &PassQuery,
    found: &mut PassFound,
) -> Result<(), StoreError> {
    let (mut bytes, bytes_max) = (0_usize, query.unnamed_bytes_total());
    let mut looked = 0;
    for row in &found.rows {
        if let Ok(content) = &row.content
            && !found.streams.contains_key(content.stream())
        {
            if bytes > bytes_max {
                break;
            }
            let view = snapshot.view(content.stream(), query.unnamed_bytes_max).await?;
            bytes += view.bytes();
            found.streams.insert(content.stream().clone(), view);
        }
        looked += 1;
    }
    found.is_all &= looked == found.rows.len();
    found.rows.truncate(looked);
    for stream in &query.streams {
        if bytes <= bytes_max && !found.streams.contains_key(stream) {
            let view = snapshot.view(stream, query.unnamed_bytes_max).await?;
            bytes += view.bytes();
            found.streams.insert(stream.clone(), view);
        }
    }
    Ok(())
}

/// Rows of these stamps, at most `limit`, and whether these are all.
async fn page(
    snapshot: &mut Snapshot<'_>,
    shard: ShardId,
    (first, until): (u64, u64),
    limit: usize,
) -> Result<(Vec<StreamDoorRow>, bool), StoreError> {
    let mut from = Bound::Included(door_start(shard, first));
    let end = Bound::Excluded(until.checked_add(1).map_or_else(|| shard_end(shard), |end| door_start(shard, end)));
    let (mut found, mut bytes) = (Vec::new(), 0);
    loop {
        // One row more than are taken, so that the last page knows that it is.
        let wanted = (limit + 1).saturating_sub(found.len()).min(PAGE);
        let rows = snapshot.transaction.scan(STREAM_DOOR, from, end.clone(), wanted).await.map_err(store_error)?;
        let is_last = rows.len() < wanted;
        let Some(last) = rows.last() else { return Ok((found, true)) };
        from = Bound::Excluded(last.key.clone());
        for row in rows {
            if found.len() >= limit || (bytes >= PAGE_BYTES_MAX && !found.is_empty()) {
                return Ok((found, false));
            }
            bytes += weight(&row.fields, None);
            let key = row.key.clone();
            found.extend(snapshot.spoilt.sift(STREAM_DOOR, &key, rows::door(row))?);
        }
        if is_last {
            return Ok((found, true));
        }
    }
}
