//! The audit trail. A cursor is a text that sorts as the line it names.

use waybill_core::audit::AuditQuery;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::time::UnixMillis;

use super::tables::Tables;

/// Digits before the kind of a line in its cursor.
const INSTANT_DIGITS: usize = 20;

pub(super) fn lines(
    tables: &Tables,
    query: &AuditQuery,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page<AuditEvent>, StoreError> {
    if cursor.is_some_and(|cursor| cursor.find('/') != Some(INSTANT_DIGITS)) {
        return Err(StoreError::Statement("the cursor isn't one of this list: begin without one".into()));
    }
    let mut all: Vec<(String, AuditEvent)> = Vec::new();
    for ((at, number), event) in &tables.audit {
        all.push((format!("{:020}/1/{number:020}", at.0), event.clone()));
    }
    for record in tables.tx_events.values().filter(|_| query.wants_tx_events()) {
        let key = record.key;
        let of = key.of.number();
        for (index, event) in record.events.iter().enumerate() {
            let place = format!("{:05}.{of}.{:020}.{:05}.{index:05}", key.shard.0, key.beat, key.part);
            all.push((format!("{:020}/0/{place}", key.at.0), record.view(event)));
        }
    }
    all.retain(|(place, event)| query.takes(event) && cursor.is_none_or(|cursor| place.as_str() < cursor));
    all.sort_by(|one, other| other.0.cmp(&one.0));
    let is_cut = all.len() > limit;
    all.truncate(limit);
    let next_cursor = all.last().filter(|_| is_cut).map(|(place, _)| place.clone());
    Ok(Page { items: all.into_iter().map(|(_, event)| event).collect(), next_cursor })
}

pub(super) fn purge(tables: &mut Tables, before: UnixMillis, limit: usize) -> usize {
    let acts: Vec<_> = tables.audit.keys().take_while(|key| key.0 < before).take(limit).copied().collect();
    let records: Vec<_> = tables.tx_events.keys().take_while(|key| key.at < before).take(limit).copied().collect();
    acts.iter().for_each(|key| drop(tables.audit.remove(key)));
    records.iter().for_each(|key| drop(tables.tx_events.remove(key)));
    acts.len().max(records.len())
}
