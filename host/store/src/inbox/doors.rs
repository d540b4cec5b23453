//! What the inbox left for sagas, and which home a consumer is bound to.

use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::port::inbox_store::SagaDoorRow;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, RecordIdKey, Transaction, millis, object, text};

use crate::fault::store_error;
use crate::quarantine::{Spoilt, sifted};
use crate::rows::inbox as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{INBOX_CONSUMER, SAGA_DOOR, shard_end, shard_start};

/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

/// The first rows of a shard's door, in order.
pub async fn door(
    transaction: &dyn Transaction,
    shard: ShardId,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Vec<SagaDoorRow>, StoreError> {
    let range = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    sifted(transaction, SAGA_DOOR, range, limit, spoilt, |row| rows::saga_door(&row)).await
}

fn consumer_key(consumer: &ConsumerName) -> RecordIdKey {
    RecordIdKey::String(consumer.as_str().into())
}

/// Binds a consumer to a home if it has none. The one that it has.
pub async fn bind(store: &SurrealStore, consumer: &ConsumerName, home: &str) -> Result<String, StoreError> {
    let mut tries = 1;
    loop {
        let mut spoilt = Spoilt::default();
        let transaction = store.begin(true).await?;
        let worked = try_bind(transaction.as_ref(), consumer, home, &mut spoilt).await;
        let done = finish(transaction, worked).await;
        store.set_aside(spoilt).await;
        match done {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn try_bind(
    transaction: &dyn Transaction,
    consumer: &ConsumerName,
    home: &str,
    spoilt: &mut Spoilt,
) -> Result<String, StoreError> {
    let key = consumer_key(consumer);
    if let Some(fields) = transaction.get(INBOX_CONSUMER, key.clone()).await.map_err(store_error)? {
        return spoilt.note_corrupt(INBOX_CONSUMER, &key, rows::home(&key, &fields));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let fields = object([("home", text(home)), ("since", since)]);
    transaction.put(INBOX_CONSUMER, key, fields).await.map_err(store_error)?;
    Ok(home.to_owned())
}

/// Forgets the home of a consumer.
pub async fn unbind(store: &SurrealStore, consumer: &ConsumerName) -> Result<(), StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = transaction.delete(INBOX_CONSUMER, consumer_key(consumer)).await.map_err(store_error);
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}
