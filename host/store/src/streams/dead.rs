//! Dead letters, and what retention took before relays had it: both are for operators. Owners add them, whoever acts on one changes or
//! removes it.

use std::sync::Arc;

use waybill_core::ids::RelayName;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::store::StoreError;
use waybill_core::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use waybill_core::streams::name::StreamKey;
use waybill_surreal::{Bound, Row, Transaction};

use super::heads::Snapshot;
use super::keys::{dead_behind, dead_key, dead_place, overtaken_behind, overtaken_in};
use crate::fault::store_error;
use crate::rows::streams as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{RELAY_OVERTAKEN, STREAM_DEAD};

/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

/// Dead letters behind a place. What can't be read is gone round, so that a page is only short at the end.
pub async fn page(
    snapshot: &mut Snapshot<'_>,
    behind: Option<StreamDeadPlace>,
    limit: usize,
) -> Result<Vec<Arc<StoredDead>>, StoreError> {
    let (mut from, until) = dead_behind(behind);
    let mut found = Vec::new();
    while found.len() < limit {
        let room = limit - found.len();
        let read = snapshot.transaction.scan(STREAM_DEAD, from, until.clone(), room).await.map_err(store_error)?;
        let Some(last) = read.last() else { break };
        from = Bound::Excluded(last.key.clone());
        for row in &read {
            match dead_place(&row.key) {
                Some(place) => {
                    let letter = rows::stored_dead(place, row);
                    found.extend(snapshot.spoilt.sift(STREAM_DEAD, &row.key, letter)?.map(Arc::new));
                }
                None => snapshot.spoilt.note_misplaced(STREAM_DEAD, row),
            }
        }
    }
    Ok(found)
}

/// The dead letter at a place.
pub async fn letter(
    snapshot: &mut Snapshot<'_>,
    place: StreamDeadPlace,
) -> Result<Option<Arc<StoredDead>>, StoreError> {
    let key = dead_key(place.shard, place.beat, place.number);
    let Some(fields) = snapshot.transaction.get(STREAM_DEAD, key.clone()).await.map_err(store_error)? else {
        return Ok(None);
    };
    let read = rows::stored_dead(place, &Row { key: key.clone(), fields });
    Ok(Some(Arc::new(snapshot.spoilt.note_corrupt(STREAM_DEAD, &key, read)?)))
}

/// Puts a dead letter into another condition; without one it is removed. False when there is none.
pub async fn change(
    store: &SurrealStore,
    place: StreamDeadPlace,
    state: Option<&DeadState>,
) -> Result<bool, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = try_change(transaction.as_ref(), place, state).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_change(
    transaction: &dyn Transaction,
    place: StreamDeadPlace,
    state: Option<&DeadState>,
) -> Result<bool, StoreError> {
    let key = dead_key(place.shard, place.beat, place.number);
    let Some(mut fields) = transaction.get(STREAM_DEAD, key.clone()).await.map_err(store_error)? else {
        return Ok(false);
    };
    let done = match state {
        Some(state) => {
            rows::put_dead_state(&mut fields, state);
            transaction.put(STREAM_DEAD, key, fields).await
        }
        None => transaction.delete(STREAM_DEAD, key).await,
    };
    done.map_err(store_error)?;
    Ok(true)
}

/// Ranges that a relay never had, behind one of them.
pub async fn overtaken(
    snapshot: &mut Snapshot<'_>,
    relay: &RelayName,
    behind: Option<(&StreamKey, u64)>,
    limit: usize,
) -> Result<Vec<OvertakenRange>, StoreError> {
    let (mut from, until) = overtaken_behind(relay, behind);
    let mut found = Vec::new();
    while found.len() < limit {
        let room = limit - found.len();
        let read = snapshot.transaction.scan(RELAY_OVERTAKEN, from, until.clone(), room).await.map_err(store_error)?;
        let Some(last) = read.last() else { break };
        from = Bound::Excluded(last.key.clone());
        for row in &read {
            match overtaken_in(&row.key) {
                Some(place) => {
                    let range = rows::overtaken_range(place, row);
                    found.extend(snapshot.spoilt.sift(RELAY_OVERTAKEN, &row.key, range)?);
                }
                None => snapshot.spoilt.note_misplaced(RELAY_OVERTAKEN, row),
            }
        }
    }
    Ok(found)
}
