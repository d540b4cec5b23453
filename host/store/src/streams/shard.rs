//! The shard record of streams. One that can't be read is moved to quarantine, and another one takes its place, made of what is readable in
//! it and of the feed. Whoever owns the streams is fenced off. Relays begin with one pass over all streams and their checkpoints.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::{RelayName, ShardId};
use waybill_core::port::store::StoreError;
use waybill_core::streams::records::StreamShardRecord;
use waybill_surreal::{Bound, RecordIdKey, Transaction, key, text};

use super::keys::feed_pos;
use crate::fault::store_error;
use crate::quarantine::put;
use crate::rows::streams as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{RELAY_AT, STREAM_FEED, STREAM_SHARD, part_text, shard_end, shard_key, shard_start, unsigned};

/// Behind the names of all relays.
const RELAYS_END: &str = "\u{10ffff}";

/// The shard record; the default when there is none.
pub async fn read(transaction: &dyn Transaction, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
    let key = shard_key(shard);
    match transaction.get(STREAM_SHARD, key.clone()).await.map_err(store_error)? {
        Some(fields) => rows::shard(&key, &fields),
        None => Ok(StreamShardRecord::default()),
    }
}

/// Reads a shard record, and makes another one if it can't be read.
pub async fn read_or_rebuild(store: &SurrealStore, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
    match read(store.begin(false).await?.as_ref(), shard).await {
        Err(StoreError::Corrupt(_)) => {}
        read => return read,
    }
    let transaction = store.begin(true).await?;
    let worked = rebuild(transaction.as_ref(), shard).await;
    finish(transaction, worked).await
}

async fn rebuild(transaction: &dyn Transaction, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
    // Its owner may have written it again meanwhile.
    let reason = match read(transaction, shard).await {
        Err(StoreError::Corrupt(reason)) => reason,
        read => return read,
    };
    let key = shard_key(shard);
    let fields = transaction.get(STREAM_SHARD, key.clone()).await.map_err(store_error)?.unwrap_or_default();
    let number = |name: &str| unsigned(fields.get(name));
    let fed = feed_end(transaction, shard).await?;
    // Where neither says it, the feed goes on far above all that it had, and its readers begin anew.
    let pos = number("pos").max(fed).unwrap_or_else(now_millis);
    let record = StreamShardRecord {
        // The owner of the outbox shard has a token, and takes over with that.
        token: number("token").unwrap_or(0),
        // No commit that is under way expects it.
        beat: number("beat").unwrap_or_else(now_millis).saturating_add(1),
        pos,
        marks: relays(transaction).await?,
        ..StreamShardRecord::default()
    };
    let written = rows::of_shard(&record)?;
    put(transaction, STREAM_SHARD, &key, fields, None, &reason).await?;
    transaction.put(STREAM_SHARD, key, written).await.map_err(store_error)?;
    Ok(record)
}

/// Relays that ran before, each with the mark before everything: one that begins with the latest events where it never ran goes on with
/// what it lacks.
async fn relays(transaction: &dyn Transaction) -> Result<BTreeMap<RelayName, u64>, StoreError> {
    let (mut found, mut from) = (BTreeMap::new(), Bound::Included(relay_start("")));
    loop {
        let end = Bound::Excluded(relay_start(RELAYS_END));
        let rows = transaction.scan(RELAY_AT, from, end, 1).await.map_err(store_error)?;
        let Some(row) = rows.first() else { return Ok(found) };
        let Some(name) = part_text(&row.key, 0) else { return Ok(found) };
        found.extend(RelayName::new(name).ok().map(|relay| (relay, 0)));
        // Behind all streams of this one.
        from = Bound::Included(relay_start(&format!("{name}\u{1}")));
    }
}

/// Before all checkpoints of a relay.
fn relay_start(relay: &str) -> RecordIdKey {
    key([text(relay)])
}

/// The number of the last feed record that is kept.
async fn feed_end(transaction: &dyn Transaction, shard: ShardId) -> Result<Option<u64>, StoreError> {
    let (from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    let last = transaction.scan_back(STREAM_FEED, from, until, 1).await.map_err(store_error)?;
    Ok(last.first().and_then(|row| feed_pos(&row.key)))
}

/// Far above any number of commits.
fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2)
}
