//! A row as it lies in quarantine: `outbox_quarantine:<ulid>`, with the table and the key it comes from, its columns and bytes, and
//! why it could not be read.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ulid::Ulid;
use waybill_core::port::store::StoreError;
use waybill_surreal::{
    Array, Bound, Engine, Object, RecordIdKey, Transaction, Value, array, bytes, bytes_of, int, key, millis, object,
    text, text_of,
};

use super::sagas;
use crate::fault::store_error;
use crate::query::{end_key, first_key};
use crate::store::finish;
use crate::tables::{
    DATA, EVENT_ID, ID, IDEMPOTENCY, INBOX, INBOX_CONSUMER, INBOX_DATA, KV, OUTBOX, OWN, QUARANTINE, SAGA,
    SAGA_DEFINITION, SAGA_DEFINITION_HASH, SAGA_DONE, SAGA_QUARANTINE, SAGA_START, SAGA_TREE, STREAM, STREAM_REST,
    parts,
};

/// Tables in which a marker stays in the place of a row: without it an id would be new again, a request would be executed
/// again, a plugin would begin from nothing, an older definition would be the latest, a consumer would be at home elsewhere without what it
/// has seen, a stream would be in no list, an event would be numbered again. The marker of a saga's row lies in
/// `saga_start`, see [`sagas::marker_of`].
const HELD: [&str; 10] = [
    ID,
    IDEMPOTENCY,
    INBOX_CONSUMER,
    KV,
    SAGA_DEFINITION,
    SAGA_DEFINITION_HASH,
    SAGA_START,
    STREAM,
    STREAM_REST,
    EVENT_ID,
];
/// Field of a marker: the row's name in quarantine.
pub const MARK: &str = "quarantined";
/// Rows of an earlier version taken over in one transaction.
const ADOPTED_AT_ONCE: usize = 100;

/// A row in quarantine.
pub struct Entry {
    /// The table it was in; none = of a table that this host doesn't know.
    pub table: Option<&'static str>,
    /// The name of that table.
    pub table_name: String,
    pub key: Option<RecordIdKey>,
    pub row: Object,
    /// The part of it that lay in another table.
    pub apart: Option<Bytes>,
    /// Of a saga: what the journal held of it.
    pub journal: Option<Bytes>,
    /// Of a saga: the row of it that came here before this one.
    pub before: Option<String>,
    /// Why it could not be read.
    pub reason: String,
    /// Since when it lies here.
    pub at: Option<u64>,
}

impl Entry {
    /// Reads as much as there is.
    pub fn of(fields: &Object) -> Self {
        let name = text_of(fields.get("table")).unwrap_or("");
        let row = match fields.get("row") {
            Some(Value::Object(row)) => row.clone(),
            _ => Object::default(),
        };
        Self {
            table: OWN.into_iter().find(|table| *table == name),
            table_name: name.to_owned(),
            key: fields.get("key").and_then(to_key),
            row,
            apart: bytes_of(fields.get("apart")),
            journal: bytes_of(fields.get("journal")),
            before: text_of(fields.get("before")).map(str::to_owned),
            reason: text_of(fields.get("reason")).unwrap_or("").to_owned(),
            at: waybill_surreal::millis_of(fields.get("at")),
        }
    }
}

/// A key as a value, so that it can lie in a field.
pub fn of_key(key: &RecordIdKey) -> Value {
    match key {
        RecordIdKey::Number(number) => int(*number),
        RecordIdKey::String(name) => text(name.as_str()),
        RecordIdKey::Array(parts) => Value::Array(parts.clone()),
        RecordIdKey::Object(fields) => Value::Object(fields.clone()),
        // No table of ours has such keys.
        other => text(format!("{other:?}")),
    }
}

fn to_key(value: &Value) -> Option<RecordIdKey> {
    Some(match value {
        Value::Array(parts) => RecordIdKey::Array(Array(parts.0.clone())),
        Value::String(name) => RecordIdKey::String(name.as_str().into()),
        Value::Object(fields) => RecordIdKey::Object(fields.clone()),
        value => RecordIdKey::Number(waybill_surreal::int_of(Some(value))?),
    })
}

/// Moves a row to quarantine: writes it there, and removes it from its table, or leaves a marker. The row was read before; of a
/// saga's row it reads the marker that stands.
pub async fn put(
    transaction: &dyn Transaction,
    table: &'static str,
    at: &RecordIdKey,
    row: Object,
    apart: Option<Bytes>,
    reason: &str,
) -> Result<(), StoreError> {
    tracing::error!(table, key = ?at, reason, "a stored row can't be read and is moved to quarantine");
    let mut fields = kept(table, of_key(at), row, apart, reason);
    let marker = match table {
        SAGA | SAGA_DONE => sagas::marker_of(table, at),
        _ => None,
    };
    if let Some(marker) = &marker {
        let noted = transaction.get(SAGA_START, marker.clone()).await.map_err(store_error)?;
        if let Some(before) = noted.as_ref().and_then(held_by) {
            fields.insert("before", text(before));
        }
    }
    let id = keep(transaction, fields).await?;
    if let Some((part, key)) = apart_key(table, at) {
        transaction.delete(part, key).await.map_err(store_error)?;
    }
    if let Some(marker) = marker {
        transaction.put(SAGA_START, marker, object([(MARK, text(&id))])).await.map_err(store_error)?;
    }
    let done = if HELD.contains(&table) {
        transaction.put(table, at.clone(), object([(MARK, text(id))])).await
    } else {
        transaction.delete(table, at.clone()).await
    };
    done.map_err(store_error)
}

/// What is kept of a row that comes here now.
pub fn kept(table: &str, at: Value, row: Object, apart: Option<Bytes>, reason: &str) -> Object {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut fields = kept_since_then(table, at, row, reason);
    fields.insert("at", millis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX)));
    if let Some(apart) = apart {
        fields.insert("apart", bytes(apart));
    }
    fields
}

/// The same of one that came here at a time that nobody noted.
fn kept_since_then(table: &str, at: Value, row: Object, reason: &str) -> Object {
    object([("table", text(table)), ("key", at), ("row", Value::Object(row)), ("reason", text(reason))])
}

/// Writes what is kept of a row; answers its name here.
pub async fn keep(transaction: &dyn Transaction, fields: Object) -> Result<String, StoreError> {
    let id = Ulid::new().to_string();
    let done = transaction.put(QUARANTINE, RecordIdKey::String(id.as_str().into()), fields).await;
    done.map_err(store_error).map(|()| id)
}

/// Where the other part of a row may lie.
pub fn apart_key(table: &'static str, at: &RecordIdKey) -> Option<(&'static str, RecordIdKey)> {
    match table {
        OUTBOX => Some((DATA, at.clone())),
        INBOX => Some((INBOX_DATA, at.clone())),
        SAGA | SAGA_DONE => {
            let ended = int(i64::from(table == SAGA_DONE));
            Some((SAGA_TREE, key(parts(at).iter().cloned().chain([ended]))))
        }
        _ => None,
    }
}

/// The other part of a row, if it has one.
pub async fn apart(
    transaction: &dyn Transaction,
    table: &'static str,
    at: &RecordIdKey,
) -> Result<Option<Bytes>, StoreError> {
    let Some((part, key)) = apart_key(table, at) else { return Ok(None) };
    let found = transaction.get(part, key).await.map_err(store_error)?;
    Ok(found.and_then(|fields| bytes_of(fields.get("data"))))
}

/// Removes what is kept of a row.
pub async fn forget(transaction: &dyn Transaction, id: &str) -> Result<(), StoreError> {
    transaction.delete(QUARANTINE, RecordIdKey::String(id.into())).await.map_err(store_error)
}

/// The name in quarantine of the row that this is the marker of.
pub fn held_by(fields: &Object) -> Option<&str> {
    text_of(fields.get(MARK))
}

/// Whether a row is the marker of one that lies in quarantine.
pub fn is_held(fields: &Object) -> bool {
    fields.get(MARK).is_some()
}

/// Refuses the marker of a row that lies in quarantine.
pub fn refuse_held(table: &str, at: &RecordIdKey, fields: &Object) -> Result<(), StoreError> {
    match held_by(fields) {
        Some(id) => Err(StoreError::Corrupt(format!(
            "{table}:{at:?} lies in quarantine: `waybill quarantine show {id}` shows it; put it back or drop it"
        ))),
        None => Ok(()),
    }
}

/// Takes over what earlier versions put into quarantine: segments under their own keys, records of sagas in a table of
/// their own.
pub async fn adopt_earlier(engine: &dyn Engine) -> Result<(), StoreError> {
    let segments = (Bound::Included(first_key()), Bound::Excluded(end_key()));
    let sagas = (Bound::Included(key([text("")])), Bound::Excluded(key([array([])])));
    for (table, (from, until)) in [(QUARANTINE, segments), (SAGA_QUARANTINE, sagas)] {
        loop {
            let transaction = engine.begin(true).await.map_err(store_error)?;
            let worked = adopt(transaction.as_ref(), table, from.clone(), until.clone()).await;
            match finish(transaction, worked).await {
                Ok(0) => break,
                // Another host starts at the same moment and does the same.
                Ok(_) | Err(StoreError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

async fn adopt(
    transaction: &dyn Transaction,
    table: &'static str,
    from: Bound,
    until: Bound,
) -> Result<usize, StoreError> {
    let rows = transaction.scan(table, from, until, ADOPTED_AT_ONCE).await.map_err(store_error)?;
    let count = rows.len();
    for row in rows {
        let mut fields = row.fields;
        let reason = text_of(fields.get("reason")).unwrap_or("").to_owned();
        fields.remove("reason");
        let (name, at) = match parts(&row.key) {
            [Value::String(name), rest @ ..] => (name.as_str().to_owned(), array(rest.iter().cloned())),
            rest => (OUTBOX.to_owned(), array(rest.iter().cloned())),
        };
        keep(transaction, kept_since_then(&name, at, fields, &reason)).await?;
        transaction.delete(table, row.key).await.map_err(store_error)?;
    }
    Ok(count)
}
