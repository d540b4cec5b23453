//! The audit trail: keys are `[milliseconds, order, ulid]`, so that the newest are read from the end.

use std::sync::atomic::{AtomicI64, Ordering};

use ulid::Ulid;
use waybill_core::audit_filter::AuditFilter;
use waybill_core::ids::Tenant;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;
use waybill_surreal::{Bound, int, key, text, text_of};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::small;
use crate::store::{SurrealStore, finish};
use crate::tables::{AUDIT, number};

/// Events read in one page.
const PAGE: usize = 200;
/// Events looked at for one answer: those of a quiet tenant may lie deep.
const READS_MAX: usize = 20_000;

/// Tells events of one millisecond apart in the order they were written by this process.
static ORDER: AtomicI64 = AtomicI64::new(0);

pub async fn append(store: &SurrealStore, event: &AuditEvent) -> Result<(), StoreError> {
    let fields = small::of_json(event)?;
    let order = ORDER.fetch_add(1, Ordering::Relaxed);
    let id = key([number(event.at.0), int(order), text(Ulid::new().to_string())]);
    let transaction = store.begin(true).await?;
    let worked = transaction.create(AUDIT, id, fields).await.map_err(store_error);
    finish(transaction, worked).await
}

/// Latest events that match, newest first.
pub async fn tail(
    store: &SurrealStore,
    tenant: Option<&Tenant>,
    filter: &AuditFilter,
    limit: usize,
) -> Result<Vec<AuditEvent>, StoreError> {
    let transaction = store.begin(false).await?;
    let (mut events, mut spoilt) = (Vec::new(), Spoilt::default());
    // Keys begin with the instant: nothing outside of the span is read.
    let from = Bound::Included(key([number(filter.after.map_or(0, |after| after.0))]));
    let mut until = match filter.before {
        Some(before) => Bound::Excluded(key([number(before.0)])),
        None => Bound::Included(key([int(i64::MAX)])),
    };
    let mut reads = 0;
    while events.len() < limit && reads < READS_MAX {
        let rows = transaction.scan_back(AUDIT, from.clone(), until, PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { break };
        until = Bound::Excluded(last.key.clone());
        reads += rows.len();
        let wanted = rows
            .into_iter()
            .filter(|row| tenant.is_none_or(|tenant| text_of(row.fields.get("tenant")) == Some(tenant.as_str())));
        for row in wanted {
            let event: Option<AuditEvent> = spoilt.sift(AUDIT, &row.key, small::json(AUDIT, row.fields))?;
            events.extend(event.filter(|event| filter.takes(event)));
            if events.len() == limit {
                break;
            }
        }
    }
    store.set_aside(spoilt).await;
    Ok(events)
}
