//! Which incarnation of its data a store is: a random number, kept in it from the first time that it is asked for. Cursors of readers name it,
//! so that one of another store is told from its own.

use ulid::Ulid;
use waybill_core::port::store::StoreError;
use waybill_surreal::{RecordIdKey, Transaction, int, int_of, object};

use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::META;

/// Record of [`META`] that holds the number.
const INCARNATION: &str = "incarnation";
/// Tries when hosts start together.
const TRIES_MAX: u32 = 5;

impl SurrealStore {
    /// The number of this incarnation. One that can't be read is made anew: readers of many streams begin anew, too.
    pub async fn incarnation(&self) -> Result<u64, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = read_or_init(transaction.as_ref()).await;
            match finish(transaction, worked).await {
                // Another host starts at the same moment: it is asked what it made.
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }
}

impl SurrealStore {
    /// Makes this another incarnation: what is there was put back, and readers may know of what isn't.
    pub(crate) async fn begin_incarnation(&self) -> Result<(), StoreError> {
        let transaction = self.begin(true).await?;
        let worked = init(transaction.as_ref()).await;
        finish(transaction, worked).await.map(|_| ())
    }
}

async fn read_or_init(transaction: &dyn Transaction) -> Result<u64, StoreError> {
    let kept = transaction.get(META, RecordIdKey::String(INCARNATION.into())).await.map_err(store_error)?;
    if let Some(number) = kept.and_then(|fields| int_of(fields.get("number"))) {
        return Ok(u64::from_ne_bytes(number.to_ne_bytes()));
    }
    init(transaction).await
}

async fn init(transaction: &dyn Transaction) -> Result<u64, StoreError> {
    let random = Ulid::new().random() & u128::from(u64::MAX);
    let number = u64::try_from(random).unwrap_or(u64::MAX);
    // A random number: its bits are kept, not its value.
    let fields = object([("number", int(i64::from_ne_bytes(number.to_ne_bytes())))]);
    transaction.put(META, RecordIdKey::String(INCARNATION.into()), fields).await.map_err(store_error)?;
    Ok(number)
}
