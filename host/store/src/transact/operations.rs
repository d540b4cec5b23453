//! Bulk operations that have been over for long are removed, and behind them what the shards counted of what they put back.

use waybill_core::port::store::StoreError;
use waybill_core::port::transact::first_operation_id;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, RecordIdKey, Transaction, text_of};

use super::{OPERATIONS_PAGE, OPERATIONS_READS_MAX, ids_begin};
use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::{META, OPERATIONS, fates_range, fates_until, part_text, unsigned};

/// Removes what was over before an instant, at most `limit` operations and `limit` rows of counts; the larger of both counts.
pub(super) async fn purge(store: &SurrealStore, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
    let first = first_operation_id(before);
    let transaction = store.begin(true).await?;
    let worked = purge_over(transaction.as_ref(), before, &first, limit).await;
    let over = finish(transaction, worked).await?;
    // In a transaction of its own, which sees which operations are gone.
    let transaction = store.begin(true).await?;
    let worked = purge_counts(transaction.as_ref(), &first, limit).await;
    Ok(over.max(finish(transaction, worked).await?))
}

/// Those that still run stay, however old they are.
async fn purge_over(
    transaction: &dyn Transaction,
    before: UnixMillis,
    first: &str,
    limit: usize,
) -> Result<usize, StoreError> {
    let until = Bound::Excluded(RecordIdKey::String(first.into()));
    let (mut from, mut removed, mut reads) = (ids_begin(), 0, 0);
    while removed < limit && reads < OPERATIONS_READS_MAX {
        let rows = transaction.scan(OPERATIONS, from, until.clone(), OPERATIONS_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { break };
        from = Bound::Excluded(last.key.clone());
        reads += rows.len();
        for row in rows.iter().filter(|row| was_over(&row.fields, before)).take(limit - removed) {
            transaction.delete(OPERATIONS, row.key.clone()).await.map_err(store_error)?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn was_over(fields: &Object, before: UnixMillis) -> bool {
    let is_over = text_of(fields.get("state")).is_some_and(|state| state != "running");
    is_over && unsigned(fields.get("updated_at")).is_some_and(|at| at < before.0)
}

/// Goes from operation to operation, so those that stay cost a read each.
async fn purge_counts(transaction: &dyn Transaction, first: &str, limit: usize) -> Result<usize, StoreError> {
    let (begin, until) = fates_until(first);
    let (mut from, until) = (Bound::Included(begin), Bound::Excluded(until));
    let mut removed = 0;
    for _ in 0..OPERATIONS_READS_MAX {
        let next = transaction.scan(META, from, until.clone(), 1).await.map_err(store_error)?;
        let Some(operation) = next.first().and_then(|row| part_text(&row.key, 1)) else { break };
        let (begin, end) = fates_range(operation);
        let kept = transaction.get(OPERATIONS, RecordIdKey::String(operation.into())).await.map_err(store_error)?;
        if kept.is_none() {
            let counts = (Bound::Included(begin), Bound::Excluded(end.clone()));
            let rows = transaction.scan(META, counts.0, counts.1, limit - removed).await.map_err(store_error)?;
            for row in &rows {
                transaction.delete(META, row.key.clone()).await.map_err(store_error)?;
            }
            removed += rows.len();
            if removed >= limit {
                break;
            }
        }
        from = Bound::Included(end);
    }
    Ok(removed)
}
