//! How many shards a store has: kept in it from the first start on. Key to shard is a hash modulo this number, so with
//! another one messages of a key would be in two shards at once, and sagas would no longer be found by their ids.

use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Engine, RecordIdKey, Transaction, int, int_of, object};

use crate::config::{OpenError, SHARDS_MAX};
use crate::fault::store_error;
use crate::query::{end_key, first_key};
use crate::store::finish;
use crate::tables::{
    DEAD, DONE, DOOR, META, OUTBOX, PARKED, SAGA, SAGA_DEAD, SAGA_DONE, SAGA_JOURNAL, SAGA_SHARD, SCHEDULED, SHARD,
    part_shard, unsigned,
};

/// Record of [`META`] that holds the number.
const KEPT: &str = "shards";
/// Record of [`META`] in which earlier versions left the number of their latest start.
const LIMITS: &str = "limits";
/// Tables whose keys begin with a shard.
const BY_SHARD: [&str; 10] = [OUTBOX, DOOR, PARKED, SCHEDULED, DEAD, DONE, SAGA_JOURNAL, SAGA, SAGA_DONE, SAGA_DEAD];
/// Tables whose key is a shard.
const OF_SHARD: [&str; 2] = [SHARD, SAGA_SHARD];
/// Tries when hosts start together.
const TRIES_MAX: u32 = 5;

/// The number of shards of a store. The first start makes it `configured`, or `otherwise` where nothing is configured; from
/// then on another configured number is refused.
pub async fn keep(engine: &dyn Engine, configured: Option<u16>, otherwise: u16) -> Result<u16, OpenError> {
    let mut tries = 1;
    loop {
        let transaction = engine.begin(true).await.map_err(store_error)?;
        let worked = read_or_init(transaction.as_ref(), configured.unwrap_or(otherwise)).await;
        match finish(transaction, worked).await {
            // Another host starts at the same moment: look what it made of it.
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error.into()),
            Ok(kept) => match configured {
                Some(configured) if configured != kept => return Err(OpenError::Shards { kept, configured }),
                _ => return Ok(kept),
            },
        }
    }
}

/// The number that is kept; notes it where none is kept yet.
async fn read_or_init(transaction: &dyn Transaction, first: u16) -> Result<u16, StoreError> {
    let at = RecordIdKey::String(KEPT.into());
    if let Some(kept) = number(transaction, KEPT).await? {
        return Ok(kept);
    }
    let number = found(transaction).await?.unwrap_or(first);
    transaction.put(META, at, object([("shards", int(i64::from(number)))])).await.map_err(store_error)?;
    Ok(number)
}

async fn number(transaction: &dyn Transaction, record: &'static str) -> Result<Option<u16>, StoreError> {
    let fields = transaction.get(META, RecordIdKey::String(record.into())).await.map_err(store_error)?;
    let number = fields.and_then(|fields| int_of(fields.get("shards"))).and_then(|number| u16::try_from(number).ok());
    Ok(number.filter(|number| (1..=SHARDS_MAX).contains(number)))
}

/// What a store of an earlier version was made with: what its latest start said, and at least as many as have anything in
/// them, since a smaller number would leave those to nobody. None in a new store.
async fn found(transaction: &dyn Transaction) -> Result<Option<u16>, StoreError> {
    let mut most = number(transaction, LIMITS).await?;
    for table in BY_SHARD {
        let (from, until) = (Bound::Included(first_key()), Bound::Excluded(end_key()));
        let rows = transaction.scan_back(table, from, until, 1).await.map_err(store_error)?;
        most =
            most.max(rows.first().and_then(|row| part_shard(&row.key)).and_then(|shard| count_to(u64::from(shard.0))));
    }
    for table in OF_SHARD {
        let (from, until) = (RecordIdKey::Number(0), RecordIdKey::Number(i64::from(SHARDS_MAX)));
        let rows = transaction.scan_back(table, Bound::Included(from), Bound::Excluded(until), 1);
        let last = rows.await.map_err(store_error)?.into_iter().next().map(|row| row.key);
        if let Some(RecordIdKey::Number(shard)) = last {
            most = most.max(unsigned(Some(&int(shard))).and_then(count_to));
        }
    }
    Ok(most)
}

/// How many shards there are if this one is the last.
fn count_to(shard: u64) -> Option<u16> {
    u16::try_from(shard + 1).ok().filter(|count| *count <= SHARDS_MAX)
}
