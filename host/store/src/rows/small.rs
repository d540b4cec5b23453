//! Records of the id index, operations and the audit trail.

use serde::Serialize;
use serde::de::DeserializeOwned;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{IdOrigin, IdRecord, IdState};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Value, bytes, bytes_of, from_json, int, int_of, object, to_json};

use super::lacks;
use crate::quarantine::refuse_held;
use crate::tables::{ID, number, unsigned};

/// Of a row of the id index.
pub fn of_id(record: &IdRecord) -> Object {
    let mut fields = match &record.state {
        IdState::At(place) => object([
            ("shard", int(i64::from(place.shard.0))),
            ("segment", number(place.segment.0)),
            ("index", int(i64::from(place.index))),
        ]),
        IdState::Scheduled { shard, due } => object([("shard", int(i64::from(shard.0))), ("due", number(due.0))]),
    };
    if let Some(content) = record.content {
        fields.insert("content", bytes(content.to_vec()));
    }
    match record.origin {
        IdOrigin::Unknown => {}
        IdOrigin::Alone => drop(fields.insert("statements", bytes(Vec::new()))),
        IdOrigin::Transaction(digest) => drop(fields.insert("statements", bytes(digest.to_vec()))),
    }
    fields
}

/// A row of the id index.
pub fn id(tenant: &Tenant, id: &MessageId, key: &RecordIdKey, fields: &Object) -> Result<IdRecord, StoreError> {
    refuse_held(ID, key, fields)?;
    let small = |name: &str| int_of(fields.get(name)).and_then(|number| u16::try_from(number).ok());
    let shard = ShardId(small("shard").ok_or_else(|| lacks(ID, key, "shard"))?);
    let state = match (unsigned(fields.get("segment")), small("index"), unsigned(fields.get("due"))) {
        (Some(segment), Some(index), _) => IdState::At(Place { shard, segment: Seq(segment), index }),
        (_, _, Some(due)) => IdState::Scheduled { shard, due: UnixMillis(due) },
        _ => return Err(lacks(ID, key, "segment")),
    };
    let content = bytes_of(fields.get("content")).and_then(|bytes| <[u8; 32]>::try_from(bytes.as_ref()).ok());
    let origin = match bytes_of(fields.get("statements")) {
        None => IdOrigin::Unknown,
        Some(digest) => <[u8; 32]>::try_from(digest.as_ref()).map_or(IdOrigin::Alone, IdOrigin::Transaction),
    };
    Ok(IdRecord { tenant: tenant.clone(), id: id.clone(), state, content, origin })
}

/// Of something that has JSON fields.
pub fn of_json<T: Serialize>(value: &T) -> Result<Object, StoreError> {
    let json = serde_json::to_value(value)
        .map_err(|error| StoreError::Other(format!("a record can't be encoded: {error}")))?;
    match from_json(json) {
        Value::Object(fields) => Ok(fields),
        _ => Err(StoreError::Other("a record isn't an object".into())),
    }
}

/// Something that has JSON fields.
pub fn json<T: DeserializeOwned>(table: &str, fields: Object) -> Result<T, StoreError> {
    let corrupt = |cause: String| StoreError::Corrupt(format!("a record of {table}: {cause}"));
    // What can't be JSON isn't what was written.
    let json = to_json(Value::Object(fields)).map_err(|fault| corrupt(fault.to_string()))?;
    serde_json::from_value(json).map_err(|error| corrupt(error.to_string()))
}
