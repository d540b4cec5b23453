//! What is known of sagas of which nothing is left. A saga that an operator dropped from quarantine leaves a mark. Marks go with
//! their time, or when there are too many of them, as rows of ended sagas do; up to when that happened is noted. So whoever puts
//! an old journal record back knows whether a saga may run that begins in it.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaKey;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, object};

use crate::config::SHARDS_MAX;
use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::{META, SAGA_SHARD, dropped_end, dropped_start, number, saga_dropped_key, unsigned};

/// Record of [`META`] that says up to when sagas ended or were dropped of which nothing may be known any more.
const FORGOTTEN: &str = "sagas_forgotten";
/// Most marks of dropped sagas: operators drop them one by one, and each takes some 200 bytes.
const DROPPED_MAX: usize = 1_000;

fn forgotten_key() -> RecordIdKey {
    RecordIdKey::String(FORGOTTEN.into())
}

/// Now, by the wall clock.
pub fn wall() -> UnixMillis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

fn of_instant(at: UnixMillis) -> Object {
    object([("at", number(at.0))])
}

/// The instant in a record. One that can't be read is later than all others: then nothing is proved.
fn instant(fields: &Object) -> UnixMillis {
    unsigned(fields.get("at")).map_or(UnixMillis(u64::MAX), UnixMillis)
}

/// Of a saga that ended or was dropped at this instant or before, nothing may be known any more.
pub async fn forgotten_until(transaction: &dyn Transaction) -> Result<UnixMillis, StoreError> {
    let stands = transaction.get(META, forgotten_key()).await.map_err(store_error)?;
    Ok(stands.as_ref().map_or(UnixMillis(0), instant))
}

/// Notes that of sagas that ended or were dropped up to an instant nothing may be known any more. Once in a transaction: it need
/// not see what the transaction wrote before.
pub async fn forget(transaction: &dyn Transaction, up_to: UnixMillis) -> Result<(), StoreError> {
    let stands = transaction.get(META, forgotten_key()).await.map_err(store_error)?;
    if stands.is_some_and(|stands| instant(&stands) >= up_to) {
        return Ok(());
    }
    transaction.put(META, forgotten_key(), of_instant(up_to)).await.map_err(store_error)
}

/// When a saga was dropped from quarantine, if that is known.
pub async fn dropped(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
) -> Result<Option<UnixMillis>, StoreError> {
    let mark = transaction.get(META, saga_dropped_key(shard, of)).await.map_err(store_error)?;
    Ok(mark.as_ref().map(instant))
}

async fn marks(transaction: &dyn Transaction) -> Result<Vec<Row>, StoreError> {
    let (from, until) = (Bound::Included(dropped_start()), Bound::Excluded(dropped_end()));
    transaction.scan(META, from, until, DROPPED_MAX).await.map_err(store_error)
}

/// Marks a saga as dropped. The oldest mark goes when there are too many.
pub async fn mark_dropped(
    transaction: &dyn Transaction,
    shard: ShardId,
    of: &SagaKey,
    at: UnixMillis,
) -> Result<(), StoreError> {
    let marks = marks(transaction).await?;
    let oldest = marks.iter().min_by_key(|mark| instant(&mark.fields)).filter(|_| marks.len() >= DROPPED_MAX);
    if let Some(oldest) = oldest {
        forget(transaction, instant(&oldest.fields)).await?;
        transaction.delete(META, oldest.key.clone()).await.map_err(store_error)?;
    }
    transaction.put(META, saga_dropped_key(shard, of), of_instant(at)).await.map_err(store_error)
}

/// Removes marks of sagas that were dropped before an instant; answers when the last of these was.
pub async fn remove_marks(transaction: &dyn Transaction, before: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
    let mut last = None;
    for mark in marks(transaction).await? {
        let at = instant(&mark.fields);
        if at < before {
            transaction.delete(META, mark.key).await.map_err(store_error)?;
            last = last.max(Some(at));
        }
    }
    Ok(last)
}

/// Once, when a store is opened: what earlier versions removed or dropped nobody knows, so of what ended until now nothing is proved.
pub async fn begin(store: &SurrealStore) -> Result<(), StoreError> {
    if store.begin(false).await?.get(META, forgotten_key()).await.map_err(store_error)?.is_some() {
        return Ok(());
    }
    let transaction = store.begin(true).await?;
    let worked = try_begin(transaction.as_ref()).await;
    match finish(transaction, worked).await {
        // Another host starts at the same moment and does the same.
        Err(StoreError::Conflict(_)) => Ok(()),
        done => done,
    }
}

async fn try_begin(transaction: &dyn Transaction) -> Result<(), StoreError> {
    let (from, until) = (RecordIdKey::Number(0), RecordIdKey::Number(i64::from(SHARDS_MAX)));
    let shards = transaction.scan(SAGA_SHARD, Bound::Included(from), Bound::Excluded(until), 1);
    let is_new = shards.await.map_err(store_error)?.is_empty();
    forget(transaction, if is_new { UnixMillis(0) } else { wall() }).await
}
