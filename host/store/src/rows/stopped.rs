//! Messages that stopped: parked, scheduled, dead.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::outbox::records::{DeadLetter, DeadState, Parked, Scheduled};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, Value, bytes, bytes_of, int, millis, text};

use super::columns::{error_text, last_error, of_message};
use super::{encoded, lacks, unreadable};
use crate::codec::{decode_dead, decode_parked, decode_scheduled, encode_dead, encode_parked, encode_scheduled};
use crate::tables::{DEAD, PARKED, SCHEDULED, part, part_shard, parts};

/// Of a parked message.
pub fn of_parked(parked: &Parked) -> Result<Object, StoreError> {
    let mut fields = of_message(&parked.message);
    fields.insert("status", text(if parked.claimed { "leased" } else { "pending" }));
    fields.insert("attempts", int(i64::from(parked.attempts)));
    fields.insert("not_before", millis(parked.due.0));
    if let Some(error) = last_error(&parked.history) {
        fields.insert("last_error", error);
    }
    fields.insert("data", bytes(encoded(encode_parked(parked))?));
    Ok(fields)
}

/// Of a scheduled message.
pub fn of_scheduled(scheduled: &Scheduled) -> Result<Object, StoreError> {
    let mut fields = of_message(&scheduled.message);
    fields.insert("status", text("pending"));
    fields.insert("attempts", int(0));
    fields.insert("not_before", millis(scheduled.due.0));
    fields.insert("data", bytes(encoded(encode_scheduled(scheduled))?));
    Ok(fields)
}

/// Of a dead letter; with the columns of the source's `dead_letters` table beside those of its message.
pub fn of_dead(dead: &DeadLetter) -> Result<Object, StoreError> {
    let mut fields = of_message(&dead.message);
    fields.insert("kind", text("outbox"));
    fields.insert("ref_id", text(dead.message.id.as_str()));
    fields.insert("error_code", text(&dead.code));
    fields.insert("message", text(&dead.reason));
    fields.insert("last_error", error_text(&dead.code, &dead.reason));
    fields.insert("attempts", int(i64::from(dead.attempts)));
    fields.insert("suspect", int(i64::from(dead.suspect)));
    fields.insert("died_at", millis(dead.died_at.0));
    fields.insert("holds_key", Value::Bool(dead.holds_key));
    match &dead.state {
        DeadState::Dead => {
            fields.insert("status", text("dead"));
        }
        DeadState::Quarantined { note, at } => {
            fields.insert("status", text("quarantined"));
            fields.insert("note", text(note));
            fields.insert("quarantined_at", millis(at.0));
        }
    }
    fields.insert("data", bytes(encoded(encode_dead(dead))?));
    Ok(fields)
}

fn data(table: &str, key: &RecordIdKey, fields: &Object) -> Result<Bytes, StoreError> {
    bytes_of(fields.get("data")).ok_or_else(|| lacks(table, key, "data"))
}

pub fn parked(row: &Row) -> Result<Arc<Parked>, StoreError> {
    let shard = part_shard(&row.key).ok_or_else(|| lacks(PARKED, &row.key, "id"))?;
    let decoded = decode_parked(shard, &data(PARKED, &row.key, &row.fields)?);
    decoded.map(Arc::new).map_err(|error| unreadable(PARKED, &row.key, error))
}

pub fn scheduled(row: &Row) -> Result<Arc<Scheduled>, StoreError> {
    let shard = part_shard(&row.key).ok_or_else(|| lacks(SCHEDULED, &row.key, "id"))?;
    let due = part(&row.key, 1).map(UnixMillis).ok_or_else(|| lacks(SCHEDULED, &row.key, "id"))?;
    let decoded = decode_scheduled(shard, due, &data(SCHEDULED, &row.key, &row.fields)?);
    decoded.map(Arc::new).map_err(|error| unreadable(SCHEDULED, &row.key, error))
}

pub fn dead(row: &Row) -> Result<Arc<DeadLetter>, StoreError> {
    let place = (part_shard(&row.key), part(&row.key, 1), parts(&row.key).len());
    let (Some(shard), Some(_), 2) = place else { return Err(lacks(DEAD, &row.key, "id")) };
    let decoded = decode_dead(shard, &data(DEAD, &row.key, &row.fields)?);
    decoded.map(Arc::new).map_err(|error| unreadable(DEAD, &row.key, error))
}
