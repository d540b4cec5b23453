//! What shards count of the messages that a bulk operation put back: a row an operation and shard, written by that shard's owner alone.

use waybill_core::fates::{Death, Fates};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Transaction, object, text, text_of};

use crate::fault::store_error;
use crate::tables::{META, fates_range, number, unsigned};

/// Most rows of one operation: there are no more shards.
const SHARDS_MAX: usize = 10_000;

/// Adds to a row, inside the commit that makes it so.
pub async fn add(transaction: &dyn Transaction, key: RecordIdKey, more: Fates) -> Result<(), StoreError> {
    let stored = transaction.get(META, key.clone()).await.map_err(store_error)?;
    let mut sum = stored.as_ref().map(fates).unwrap_or_default();
    sum.add(&more);
    transaction.put(META, key, of_fates(&sum)).await.map_err(store_error)
}

/// The sum of an operation's rows.
pub async fn sum(transaction: &dyn Transaction, operation: &str) -> Result<Fates, StoreError> {
    let (from, until) = fates_range(operation);
    let rows = transaction.scan(META, Bound::Included(from), Bound::Excluded(until), SHARDS_MAX).await;
    Ok(rows.map_err(store_error)?.iter().fold(Fates::default(), |mut sum, row| {
        sum.add(&fates(&row.fields));
        sum
    }))
}

fn of_fates(fates: &Fates) -> Object {
    let mut fields = object([
        ("put_back", number(fates.put_back)),
        ("delivered", number(fates.delivered)),
        ("died", number(fates.died)),
        ("ended", number(fates.ended)),
    ]);
    if let Some(death) = &fates.first_death {
        fields.insert("death_id", text(&death.id));
        fields.insert("death_code", text(&death.code));
    }
    fields
}

/// What can't be read of it counts nothing: a commit never fails for a count.
fn fates(fields: &Object) -> Fates {
    let count = |name: &str| unsigned(fields.get(name)).unwrap_or(0);
    let word = |name: &str| text_of(fields.get(name)).map(str::to_owned);
    Fates {
        put_back: count("put_back"),
        delivered: count("delivered"),
        died: count("died"),
        ended: count("ended"),
        first_death: word("death_id").zip(word("death_code")).map(|(id, code)| Death { id, code }),
    }
}
