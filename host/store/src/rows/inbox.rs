//! The inbox: shard records, stopped messages, dead letters. Their plain columns are for people and filters; the host reads the encoded
//! fields beside them.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, Seq};
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::{InboxDead, InboxRow, InboxShardRecord, TakeRecord};
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::inbox_store::SagaDoorRow;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Object, RecordIdKey, Row, bytes, bytes_of, int, int_of, millis, object, text, text_of};

use super::columns::error_text;
use super::segment::INLINE_DATA_BYTES_MAX;
use super::{encoded, lacks, unreadable};
use crate::codec::inbox::{
    Head, InboxState, decode_dead, decode_head, decode_inbound, decode_saga_door, decode_state, decode_takes,
    encode_dead, encode_head, encode_inbound, encode_state,
};
use crate::quarantine::refuse_held;
use crate::tables::{
    INBOX, INBOX_CONSUMER, INBOX_DEAD, INBOX_SHARD, INBOX_TAKEN, SAGA_DOOR, number, part, part_shard, parts,
    saga_door as saga_door_place, unsigned,
};

/// Of a shard record. `stored` and `taken` tell people how much it holds.
pub fn of_shard(record: &InboxShardRecord) -> Result<Object, StoreError> {
    let stored: u64 = record.contexts.values().map(|context| context.count).sum();
    let taken: usize = record.open.values().map(|seqs| seqs.len()).sum();
    Ok(object([
        ("token", number(record.token)),
        ("beat", number(record.beat)),
        // A random number: its bits are kept, not its value.
        ("nonce", int(i64::from_ne_bytes(record.nonce.to_ne_bytes()))),
        ("last", number(record.last.0)),
        ("age", number(record.age.0)),
        ("secret", bytes(record.secret.0.to_be_bytes().to_vec())),
        ("stored", number(stored)),
        ("taken", int(taken as i64)),
        ("state", bytes(encoded(encode_state(record))?)),
    ]))
}

/// The secret in a shard record, or where it is kept besides.
pub fn secret(fields: &Object) -> Option<HashSecret> {
    let bytes = bytes_of(fields.get("secret"))?;
    <[u8; 16]>::try_from(bytes.as_ref()).ok().map(|bytes| HashSecret(u128::from_be_bytes(bytes)))
}

pub fn of_secret(secret: HashSecret) -> Object {
    object([("secret", bytes(secret.0.to_be_bytes().to_vec()))])
}

pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<InboxShardRecord, StoreError> {
    let field = |name: &str| unsigned(fields.get(name)).ok_or_else(|| lacks(INBOX_SHARD, key, name));
    let nonce = int_of(fields.get("nonce")).ok_or_else(|| lacks(INBOX_SHARD, key, "nonce"))?;
    let state = bytes_of(fields.get("state")).ok_or_else(|| lacks(INBOX_SHARD, key, "state"))?;
    let InboxState { open, suspicion, contexts, positions } =
        decode_state(&state).map_err(|error| unreadable(INBOX_SHARD, key, error))?;
    Ok(InboxShardRecord {
        token: field("token")?,
        beat: field("beat")?,
        nonce: u64::from_ne_bytes(nonce.to_ne_bytes()),
        last: Seq(field("last")?),
        age: OwnedAge(field("age")?),
        secret: secret(fields).ok_or_else(|| lacks(INBOX_SHARD, key, "secret"))?,
        open,
        suspicion,
        contexts,
        positions,
    })
}

/// The columns of a message. Absent fields are left out, and so is the payload, which lies in the encoded message.
fn of_message(consumer: &ConsumerName, message: &InboundMessage) -> Object {
    let mut columns = object([
        ("message_id", text(message.id.as_str())),
        ("consumer_name", text(consumer.as_str())),
        ("source", text(message.source.as_str())),
        ("tenant", text(message.tenant.as_str())),
        ("subject", text(&message.subject)),
        ("context", text(&message.context)),
        ("received_at", millis(message.received_at.0)),
        ("payload_bytes", int(message.payload.len() as i64)),
    ]);
    let mut optional = |name: &'static str, value: Option<&str>| {
        if let Some(value) = value {
            columns.insert(name, text(value));
        }
    };
    optional("dispatch_key", message.key.as_ref().map(|key| key.as_str()));
    optional("event_type", message.event_type.as_deref());
    optional("correlation_id", message.correlation_id.as_deref());
    optional("position", message.position.as_deref());
    columns
}

/// The two records of a stopped message.
pub struct InboxRecords {
    pub row: Object,
    /// The message, if it lies apart.
    pub data: Option<Object>,
}

pub fn of_row(row: &InboxRow) -> Result<InboxRecords, StoreError> {
    let mut fields = of_message(&row.consumer, &row.message);
    fields.insert("attempts", int(i64::from(row.attempts)));
    fields.insert("due", millis(row.due.0));
    if let Some(error) = &row.last_error {
        fields.insert("last_error", error_text(&error.code, &error.reason));
    }
    fields.insert("head", bytes(encoded(encode_head(&Head::of(row)))?));
    let message = encoded(encode_inbound(&row.message))?;
    if message.len() <= INLINE_DATA_BYTES_MAX {
        fields.insert("data", bytes(message));
        return Ok(InboxRecords { row: fields, data: None });
    }
    Ok(InboxRecords { row: fields, data: Some(object([("data", bytes(message))])) })
}

/// The seq in a key of two parts.
fn seq(table: &str, key: &RecordIdKey) -> Result<Seq, StoreError> {
    match (part_shard(key), part(key, 1), parts(key).len()) {
        (Some(_), Some(seq), 2) => Ok(Seq(seq)),
        _ => Err(lacks(table, key, "id")),
    }
}

/// A stopped message without its message.
pub fn head(row: &Row) -> Result<Head, StoreError> {
    let seq = seq(INBOX, &row.key)?;
    let head = bytes_of(row.fields.get("head")).ok_or_else(|| lacks(INBOX, &row.key, "head"))?;
    decode_head(seq, &head).map_err(|error| unreadable(INBOX, &row.key, error))
}

/// The encoded message in a record, if it lies there.
pub fn message_bytes(fields: &Object) -> Option<Bytes> {
    bytes_of(fields.get("data"))
}

/// A stopped message with its message; `data` is what lies in the row or apart.
pub fn stopped(row: &Row, data: Option<Bytes>) -> Result<Arc<InboxRow>, StoreError> {
    let head = head(row)?;
    let data = data.ok_or_else(|| lacks(INBOX, &row.key, "data"))?;
    let message = decode_inbound(&data).map_err(|error| unreadable(INBOX, &row.key, error))?;
    Ok(Arc::new(head.with(message)))
}

/// Of a dead letter; with the columns of the source's `dead_letters` table beside those of its message.
pub fn of_dead(dead: &InboxDead) -> Result<Object, StoreError> {
    let mut fields = of_message(&dead.consumer, &dead.message);
    fields.insert("kind", text("inbox"));
    fields.insert("ref_id", text(dead.message.id.as_str()));
    fields.insert("error_code", text(&dead.code));
    fields.insert("message", text(&dead.reason));
    fields.insert("last_error", error_text(&dead.code, &dead.reason));
    fields.insert("attempts", int(i64::from(dead.attempts)));
    fields.insert("died_at", millis(dead.died_at.0));
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

pub fn dead(row: &Row) -> Result<Arc<InboxDead>, StoreError> {
    let seq = seq(INBOX_DEAD, &row.key)?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(INBOX_DEAD, &row.key, "data"))?;
    let dead = decode_dead(seq, &data).map_err(|error| unreadable(INBOX_DEAD, &row.key, error))?;
    // No host writes one; a row of another's may say it.
    if dead.died_at < dead.message.received_at {
        let code = Code::INVALID_TIMESTAMP.as_str();
        return Err(StoreError::Corrupt(format!("{INBOX_DEAD}:{:?}: {code}: it died before it was received", row.key)));
    }
    Ok(Arc::new(dead))
}

/// The takes of one commit.
pub fn takes(row: &Row) -> Result<TakeRecord, StoreError> {
    let (Some(_), Some(beat), 2) = (part_shard(&row.key), part(&row.key, 1), parts(&row.key).len()) else {
        return Err(lacks(INBOX_TAKEN, &row.key, "id"));
    };
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(INBOX_TAKEN, &row.key, "data"))?;
    decode_takes(beat, &data).map_err(|error| unreadable(INBOX_TAKEN, &row.key, error))
}

/// What was left for a saga.
pub fn saga_door(row: &Row) -> Result<SagaDoorRow, StoreError> {
    let key = saga_door_place(&row.key).ok_or_else(|| lacks(SAGA_DOOR, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(SAGA_DOOR, &row.key, "data"))?;
    let item = decode_saga_door(&data).map_err(|error| unreadable(SAGA_DOOR, &row.key, error))?;
    Ok(SagaDoorRow { key, item })
}

/// The home that a consumer is bound to.
pub fn home(key: &RecordIdKey, fields: &Object) -> Result<String, StoreError> {
    refuse_held(INBOX_CONSUMER, key, fields)?;
    text_of(fields.get("home")).map(str::to_owned).ok_or_else(|| lacks(INBOX_CONSUMER, key, "home"))
}
