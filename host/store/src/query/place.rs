//! What lies at a place.

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::query::Found;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Row, Transaction};

use crate::fault::store_error;
use crate::owner::read;
use crate::quarantine::Spoilt;
use crate::rows::{segment, stopped};
use crate::tables::{DEAD, DONE, PARKED, seq_key};

/// History chunks of one segment read at once.
const CHUNKS_PAGE: usize = 64;

/// Looks at parked, dead letters, the segment and the history, in this order. A message whose own row can't be read is an error;
/// a chunk of the history that can't be holds others.
pub async fn at(transaction: &dyn Transaction, place: Place, spoilt: &mut Spoilt) -> Result<Option<Found>, StoreError> {
    let key = seq_key(place.shard, place.seq());
    if let Some(fields) = transaction.get(PARKED, key.clone()).await.map_err(store_error)? {
        let row = Row { key, fields };
        let parked = spoilt.note_corrupt(PARKED, &row.key, stopped::parked(&row))?;
        return Ok(Some(Found::Parked(parked)));
    }
    let dead = read::dead_letter(transaction, place.shard, place.seq()).await;
    if let Some(dead) = spoilt.note_corrupt(DEAD, &key, dead)? {
        return Ok(Some(Found::Dead(dead)));
    }
    if let Some(found) = flowing(transaction, place).await? {
        return Ok(Some(found));
    }
    done(transaction, place, spoilt).await
}

async fn flowing(transaction: &dyn Transaction, place: Place) -> Result<Option<Found>, StoreError> {
    let stored = read::segments(transaction, place.shard, &[place.segment]).await?;
    let Some(Ok(segment)) = stored.into_iter().next().map(|stored| stored.segment) else { return Ok(None) };
    let record = claims(transaction, place.shard).await?;
    let open = record.open.get(&place.segment);
    if open.is_some_and(|open| open.is_gone(place.index)) {
        return Ok(None);
    }
    let entry = segment.entries.iter().find(|entry| entry.index == place.index);
    Ok(entry.map(|entry| Found::Flowing { place, entry: entry.clone(), claimed: open.is_some() }))
}

/// The record of a shard, for what it has claimed. One that can't be read is made anew by its owner; until then nothing counts as claimed.
pub(super) async fn claims(transaction: &dyn Transaction, shard: ShardId) -> Result<ShardRecord, StoreError> {
    match read::shard(transaction, shard).await {
        Err(StoreError::Corrupt(_)) => Ok(ShardRecord::default()),
        read => read,
    }
}

async fn done(transaction: &dyn Transaction, place: Place, spoilt: &mut Spoilt) -> Result<Option<Found>, StoreError> {
    let mut from = Bound::Included(seq_key(place.shard, place.segment));
    let until = Bound::Excluded(seq_key(place.shard, Seq(place.segment.0.saturating_add(1))));
    loop {
        let rows = transaction.scan(DONE, from, until.clone(), CHUNKS_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(None) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            let Some(chunk) = spoilt.sift(DONE, &row.key, segment::history(row))? else { continue };
            if let Some(done) = chunk.entries.iter().find(|done| done.index == place.index) {
                return Ok(Some(Found::Done(place, done.clone())));
            }
        }
    }
}
