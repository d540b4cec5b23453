//! What lies in quarantine.

use std::collections::BTreeMap;

use async_trait::async_trait;
use base64::Engine as _;
use serde_json::{Map, Value as Json};
use waybill_core::port::quarantine::{
    QuarantineStore, QuarantinedContent, QuarantinedCounts, QuarantinedRow, Restored,
};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Value, text_of, to_json};

use super::entry::Entry;
use super::{read, restore, sagas, weight};
use crate::fault::store_error;
use crate::store::SurrealStore;
use crate::tables::{INBOX_SEEN, INBOX_SEEN_DUE, QUARANTINE, RELAY_AT, RELAY_OVERTAKEN, parts};

/// Rows of one page of a walk. They are read with all they hold: a segment, or a whole commit of sagas.
const WALK_PAGE: usize = 8;
/// Most rows looked at for one page of a list.
const PAGE_READS_MAX: usize = 2_000;
const COUNTED_MAX: usize = 10_000;
/// Bytes after which no further page is read, of a list or to count.
const READ_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Name of a row in quarantine.
fn id_of(key: &RecordIdKey) -> Option<&str> {
    match key {
        RecordIdKey::String(id) => Some(id.as_str()),
        _ => None,
    }
}

/// Before and behind all names: they are ULIDs.
fn all() -> (Bound, Bound) {
    (Bound::Included(RecordIdKey::String("".into())), Bound::Excluded(RecordIdKey::String("~".into())))
}

/// The columns as JSON. Bytes are texts in base64.
fn shown(row: &Object) -> Json {
    Json::Object(
        row.0.iter().map(|(name, value)| (name.as_str().to_owned(), shown_value(value))).collect::<Map<_, _>>(),
    )
}

fn shown_value(value: &Value) -> Json {
    match value {
        Value::Bytes(bytes) => Json::String(base64::engine::general_purpose::STANDARD.encode(&bytes.0)),
        Value::Object(fields) => shown(fields),
        Value::Array(items) => Json::Array(items.0.iter().map(shown_value).collect()),
        other => to_json(other.clone()).unwrap_or_else(|fault| Json::String(format!("(it can't be shown: {fault})"))),
    }
}

/// Tables of which a row is of all tenants: the first text of its key names a consumer.
const OF_CONSUMERS: [&str; 2] = [INBOX_SEEN, INBOX_SEEN_DUE];

/// Tables whose keys name a relay before the tenant.
const OF_RELAYS: [&str; 2] = [RELAY_AT, RELAY_OVERTAKEN];

/// Whose a row is: as its columns say, or its key.
fn tenant_of(entry: &Entry) -> Option<String> {
    let column = text_of(entry.row.get("tenant"));
    let table = entry.table_name.as_str();
    let key = entry.key.as_ref().filter(|_| !OF_CONSUMERS.contains(&table));
    let texts_before = usize::from(OF_RELAYS.contains(&table));
    let in_key = || parts(key?).iter().filter_map(|part| text_of(Some(part))).nth(texts_before);
    column.or_else(in_key).map(str::to_owned)
}

pub(super) fn summary(id: &str, entry: &Entry) -> QuarantinedRow {
    let key = match &entry.key {
        Some(RecordIdKey::Array(parts)) => shown_value(&Value::Array(parts.clone())),
        Some(RecordIdKey::Number(number)) => Json::from(*number),
        Some(RecordIdKey::String(name)) => Json::from(name.as_str()),
        Some(RecordIdKey::Object(fields)) => shown(fields),
        _ => Json::Null,
    };
    QuarantinedRow {
        id: id.to_owned(),
        table: entry.table_name.clone(),
        key,
        tenant: tenant_of(entry),
        reason: entry.reason.clone(),
        at: entry.at.map(UnixMillis),
    }
}

#[async_trait]
impl QuarantineStore for SurrealStore {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, StoreError> {
        let transaction = self.begin(false).await?;
        let (first, until) = all();
        let mut from = cursor.map_or(first, |cursor| Bound::Excluded(RecordIdKey::String(cursor.into())));
        let (mut items, mut reads, mut read, mut last) = (Vec::new(), 0, 0, None);
        loop {
            let rows = transaction.scan(QUARANTINE, from, until.clone(), WALK_PAGE).await.map_err(store_error)?;
            let Some(end) = rows.last() else { return Ok(Page { items, next_cursor: None }) };
            from = Bound::Excluded(end.key.clone());
            for Row { key, fields } in &rows {
                if items.len() == limit || reads == PAGE_READS_MAX || read >= READ_BYTES_MAX {
                    return Ok(Page { items, next_cursor: last });
                }
                let Some(id) = id_of(key) else { continue };
                reads += 1;
                read += weight(fields, None);
                last = Some(id.to_owned());
                let entry = Entry::of(fields);
                if table.is_none_or(|table| entry.table_name == table) {
                    items.push(summary(id, &entry));
                }
            }
        }
    }

    async fn quarantined_counts(&self) -> Result<QuarantinedCounts, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut from, until) = all();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let (mut counted, mut read, mut at_least) = (0, 0, true);
        while counted < COUNTED_MAX && read < READ_BYTES_MAX {
            let rows = transaction.scan(QUARANTINE, from, until.clone(), WALK_PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else {
                at_least = false;
                break;
            };
            from = Bound::Excluded(last.key.clone());
            counted += rows.len();
            for row in &rows {
                read += weight(&row.fields, None);
                let table = text_of(row.fields.get("table")).unwrap_or("").to_owned();
                *counts.entry(table).or_default() += 1;
            }
        }
        Ok(QuarantinedCounts { tables: counts.into_iter().collect(), at_least })
    }

    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError> {
        let transaction = self.begin(false).await?;
        let found = transaction.get(QUARANTINE, RecordIdKey::String(id.into())).await.map_err(store_error)?;
        let Some(entry) = found.map(|fields| Entry::of(&fields)) else { return Ok(None) };
        let mut columns = shown(&entry.row);
        if let (Some(apart), Json::Object(columns)) = (&entry.apart, &mut columns) {
            columns.insert("data".to_owned(), shown_value(&waybill_surreal::bytes(apart.clone())));
        }
        if let (Some(journal), Json::Object(columns)) = (&entry.journal, &mut columns) {
            columns.insert("journal".to_owned(), shown_value(&waybill_surreal::bytes(journal.clone())));
        }
        let unreadable = match (sagas::unrestorable(transaction.as_ref(), id, &entry).await?, entry.table, &entry.key) {
            (Some(saga), ..) => saga,
            (None, Some(table), Some(key)) => {
                let row = Row { key: key.clone(), fields: entry.row.clone() };
                read::row(table, &row, entry.apart.clone()).err().map(|error| error.to_string())
            }
            _ => Some("this host doesn't know its table or its key".to_owned()),
        };
        Ok(Some(QuarantinedContent { row: summary(id, &entry), columns, unreadable }))
    }

    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
        restore::restore(self, id).await
    }

    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
        restore::drop_row(self, id).await
    }
}
