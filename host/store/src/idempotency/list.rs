//! Lists of keys, in order of tenant and key.

use waybill_core::idempotency::{EntryFilter, EntryKey};
use waybill_core::ids::Tenant;
use waybill_core::port::idempotency::FoundEntry;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Transaction, array, key, text};

use super::row::{self, entry_key};
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::tables::IDEMPOTENCY;

/// Rows read at once.
const ROWS_PAGE: usize = 500;
/// Most rows looked at for one page.
const PAGE_READS_MAX: usize = 2_000;

pub async fn entries(
    transaction: &dyn Transaction,
    tenant: Option<&Tenant>,
    filter: &EntryFilter,
    now: UnixMillis,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<Page<FoundEntry>, StoreError> {
    let bad = || StoreError::Statement("the cursor isn't one of this list: begin without one".into());
    let after = cursor.map(|cursor| EntryKey::from_cursor(cursor).ok_or_else(bad)).transpose()?;
    // A list comes behind all texts: the end of a tenant, and of all of them.
    let (first, end) = match tenant {
        Some(tenant) => (key([text(tenant.as_str()), text("")]), key([text(tenant.as_str()), array([])])),
        None => (key([text("")]), key([array([])])),
    };
    let mut from = match &after {
        // Only within the tenant asked for.
        Some(after) if tenant.is_none_or(|tenant| after.tenant == *tenant) => Bound::Excluded(entry_key(after)),
        Some(_) => return Err(bad()),
        None => Bound::Included(first),
    };
    let (mut items, mut reads, mut last) = (Vec::new(), 0, None);
    loop {
        let rows = transaction.scan(IDEMPOTENCY, from, Bound::Excluded(end.clone()), ROWS_PAGE);
        let rows = rows.await.map_err(store_error)?;
        let Some(row) = rows.last() else { return Ok(Page { items, next_cursor: None }) };
        from = Bound::Excluded(row.key.clone());
        for row in rows {
            if items.len() == limit || reads == PAGE_READS_MAX {
                return Ok(Page { items, next_cursor: last.as_ref().map(EntryKey::to_cursor) });
            }
            let Some(of) = row::of_row(&row.key) else {
                spoilt.note(IDEMPOTENCY, &row.key);
                continue;
            };
            reads += 1;
            let entry = spoilt.sift(IDEMPOTENCY, &row.key, row::entry(&row.key, &row.fields))?;
            if let Some(entry) = entry.filter(|entry| !entry.is_over(now) && filter.takes(&of, entry)) {
                items.push(FoundEntry { of: of.clone(), entry });
            }
            last = Some(of);
        }
    }
}
