//! Event streams. Numbers that SurrealQL needs are plain columns; what only the host reads is encoded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{EventId, Tenant};
use waybill_core::outbox::records::{DeadState, Malformed};
use waybill_core::port::store::StoreError;
use waybill_core::streams::chunk::{Chunk, ChunkError, StoredChunk};
use waybill_core::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use waybill_core::streams::envelope::EventHead;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::{
    Append, Checkpoint, DoorContent, EventIdRecord, FeedRecord, StreamDead, StreamDoorRow, StreamHead, StreamRest,
    StreamShardRecord,
};
use waybill_core::time::UnixMillis;
use waybill_surreal::{
    Object, RecordIdKey, Row, Value, array, bool_of, bytes, bytes_of, int, int_of, millis, millis_of, object, text,
    text_of,
};

use super::columns::error_text;
use super::door::raw;
use super::{encoded, event_object, lacks, unreadable};
use crate::codec::CodecError;
use crate::codec::streams::{
    decode_append, decode_dead, decode_feed, decode_marks, decode_settled, digest, encode_append, encode_dead,
    encode_feed, encode_marks, encode_settled,
};
use crate::quarantine::refuse_held;
use crate::streams::keys::{chunk_last, feed_pos};
use crate::tables::{
    EVENT, EVENT_ID, EVENT_ID_DUE, RELAY_AT, RELAY_OVERTAKEN, STREAM, STREAM_DEAD, STREAM_DOOR, STREAM_FEED,
    STREAM_REST, STREAM_SHARD, door_stamp_in, number, part, unsigned,
};

fn field(table: &str, key: &RecordIdKey, fields: &Object, name: &str) -> Result<u64, StoreError> {
    unsigned(fields.get(name)).ok_or_else(|| lacks(table, key, name))
}

pub fn of_head(head: &StreamHead) -> Object {
    object([("last", number(head.last)), ("fed", number(head.fed)), ("bytes", number(head.bytes))])
}

pub fn head(key: &RecordIdKey, fields: &Object) -> Result<StreamHead, StoreError> {
    refuse_held(STREAM, key, fields)?;
    let field = |name: &str| field(STREAM, key, fields, name);
    Ok(StreamHead { last: field("last")?, fed: field("fed")?, bytes: field("bytes")? })
}

pub fn of_rest(rest: &StreamRest) -> Object {
    object([
        ("first", number(rest.first)),
        ("fed", number(rest.fed)),
        ("purged", number(rest.purged)),
        ("gone", number(rest.gone)),
        // 0 = none.
        ("due", number(rest.due.map_or(0, |due| due.0))),
        ("indexed", number(rest.indexed)),
    ])
}

pub fn rest(key: &RecordIdKey, fields: &Object) -> Result<StreamRest, StoreError> {
    refuse_held(STREAM_REST, key, fields)?;
    let field = |name: &str| field(STREAM_REST, key, fields, name);
    let due = Some(UnixMillis(field("due")?)).filter(|due| due.0 > 0);
    let [first, fed, purged, gone] = [field("first")?, field("fed")?, field("purged")?, field("gone")?];
    // A stream that nobody indexed yet is read as it is.
    let indexed = unsigned(fields.get("indexed")).unwrap_or(0);
    Ok(StreamRest { first, fed, purged, gone, due, indexed })
}

pub fn of_chunk(chunk: &Chunk) -> Object {
    object([("data", bytes(chunk.pack()))])
}

/// Of a payload that lies beside its chunk.
pub fn of_blob(payload: &Bytes) -> Object {
    object([("data", bytes(payload.clone()))])
}

/// A chunk, or why it can't be decoded: then it stays where it is, for readers are to hear of it at its range.
pub fn chunk(row: &Row) -> Result<StoredChunk, StoreError> {
    let last = chunk_last(&row.key).ok_or_else(|| lacks(EVENT, &row.key, "id"))?;
    let Some(data) = bytes_of(row.fields.get("data")) else {
        let chunk = match event_object::object_in(&row.fields) {
            Some(event) => event_object::chunk(&row.key, last, &row.fields, event).map_err(|error| error.to_string()),
            None => Err("it has neither packed events nor one as an object".to_owned()),
        };
        return Ok(StoredChunk { last, chunk: chunk.map(Arc::new) });
    };
    match Chunk::unpack(&data) {
        Ok(chunk) => Ok(StoredChunk { last, chunk: Ok(Arc::new(chunk)) }),
        Err(ChunkError::Newer(version)) => Err(unreadable(EVENT, &row.key, CodecError::Newer(version))),
        Err(error) => Ok(StoredChunk { last, chunk: Err(error.to_string()) }),
    }
}

pub fn of_append(append: &Append) -> Result<Object, StoreError> {
    Ok(object([("events", int(append.events.len() as i64)), ("data", bytes(encoded(encode_append(append))?))]))
}

/// Of a row that says: an exact append was made here.
pub fn of_note(stream: &StreamKey) -> Object {
    object([
        ("adopt", Value::Bool(true)),
        ("tenant", text(stream.tenant.as_str())),
        ("stream", text(stream.name.as_str())),
    ])
}

pub fn of_door(content: &DoorContent) -> Result<Object, StoreError> {
    match content {
        DoorContent::Append(append) => of_append(append),
        DoorContent::Look(stream) => Ok(of_note(stream)),
    }
}

pub fn door(row: Row) -> Result<StreamDoorRow, StoreError> {
    let Row { key: record, fields } = row;
    let key = door_stamp_in(&record).ok_or_else(|| lacks(STREAM_DOOR, &record, "id"))?;
    let content = match bytes_of(fields.get("data")) {
        Some(data) => decode_append(&data).map(|append| DoorContent::Append(Arc::new(append))),
        None if bool_of(fields.get("adopt")) == Some(true) => note(&fields).map(DoorContent::Look),
        None => match event_object::object_in(&fields) {
            Some(event) => {
                event_object::append(&key, &fields, event).map(|append| DoorContent::Append(Arc::new(append)))
            }
            None => Err(CodecError::Damaged("it has neither an event nor a stream to adopt in".to_owned())),
        },
    };
    match content {
        Ok(content) => Ok(StreamDoorRow { key, content: Ok(content) }),
        Err(CodecError::Damaged(reason)) => {
            Ok(StreamDoorRow { key, content: Err(Malformed { reason, raw: raw(fields) }) })
        }
        Err(newer @ CodecError::Newer(_)) => Err(unreadable(STREAM_DOOR, &record, newer)),
    }
}

fn note(fields: &Object) -> Result<StreamKey, CodecError> {
    let text = |name: &str| text_of(fields.get(name)).unwrap_or_default();
    Ok(StreamKey { tenant: Tenant::new(text("tenant"))?, name: StreamName::new(text("stream"))? })
}

pub fn of_shard(record: &StreamShardRecord) -> Result<Object, StoreError> {
    let mut fields = object([
        ("token", number(record.token)),
        ("beat", number(record.beat)),
        // A random number: its bits are kept, not its value.
        ("nonce", int(i64::from_ne_bytes(record.nonce.to_ne_bytes()))),
        ("pos", number(record.pos)),
    ]);
    if !record.marks.is_empty() {
        fields.insert("marks", bytes(encoded(encode_marks(&record.marks))?));
    }
    if !record.starts.is_empty() {
        fields.insert("starts", bytes(encoded(encode_marks(&record.starts))?));
    }
    Ok(fields)
}

pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<StreamShardRecord, StoreError> {
    let field = |name: &str| field(STREAM_SHARD, key, fields, name);
    let nonce = int_of(fields.get("nonce")).ok_or_else(|| lacks(STREAM_SHARD, key, "nonce"))?;
    let places = |name: &str| match (fields.get(name), bytes_of(fields.get(name))) {
        (None, _) => Ok(BTreeMap::new()),
        (Some(_), None) => Err(lacks(STREAM_SHARD, key, name)),
        (Some(_), Some(data)) => decode_marks(&data).map_err(|error| unreadable(STREAM_SHARD, key, error)),
    };
    Ok(StreamShardRecord {
        token: field("token")?,
        beat: field("beat")?,
        nonce: u64::from_ne_bytes(nonce.to_ne_bytes()),
        pos: field("pos")?,
        marks: places("marks")?,
        starts: places("starts")?,
    })
}

/// Token and beat alone: what the guard of a commit looks at.
pub fn token_and_beat(fields: &Object) -> Option<(u64, u64)> {
    Some((unsigned(fields.get("token"))?, unsigned(fields.get("beat"))?))
}

pub fn of_feed(record: &FeedRecord) -> Result<Object, StoreError> {
    Ok(object([("data", bytes(encoded(encode_feed(record))?))]))
}

pub fn feed(row: &Row) -> Result<FeedRecord, StoreError> {
    let pos = feed_pos(&row.key).ok_or_else(|| lacks(STREAM_FEED, &row.key, "id"))?;
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(STREAM_FEED, &row.key, "data"))?;
    decode_feed(pos, &data).map_err(|error| unreadable(STREAM_FEED, &row.key, error))
}

pub fn of_event_id(record: &EventIdRecord) -> Object {
    object([
        ("stream", text(record.stream.name.as_str())),
        ("seq", number(record.seq)),
        ("digest", bytes(record.digest.0.to_vec())),
        ("at", millis(record.at.0)),
    ])
}

/// What the index has of an id; its tenant is in the key.
pub fn event_id(tenant: &Tenant, key: &RecordIdKey, fields: &Object) -> Result<EventIdRecord, StoreError> {
    refuse_held(EVENT_ID, key, fields)?;
    let name = text_of(fields.get("stream")).and_then(|name| StreamName::new(name).ok());
    let name = name.ok_or_else(|| lacks(EVENT_ID, key, "stream"))?;
    let kept = bytes_of(fields.get("digest")).ok_or_else(|| lacks(EVENT_ID, key, "digest"))?;
    Ok(EventIdRecord {
        stream: StreamKey { tenant: tenant.clone(), name },
        seq: field(EVENT_ID, key, fields, "seq")?,
        digest: digest(&kept).map_err(|error| unreadable(EVENT_ID, key, error))?,
        at: millis_of(fields.get("at")).map(UnixMillis).ok_or_else(|| lacks(EVENT_ID, key, "at"))?,
    })
}

/// Which ids a commit put there.
pub fn of_recorded_ids(tenant: &Tenant, ids: &[EventId]) -> Object {
    object([("tenant", text(tenant.as_str())), ("ids", array(ids.iter().map(|id| text(id.as_str()))))])
}

pub fn recorded_ids(row: &Row) -> Result<(Tenant, Vec<EventId>), StoreError> {
    part(&row.key, 0).ok_or_else(|| lacks(EVENT_ID_DUE, &row.key, "id"))?;
    let tenant = text_of(row.fields.get("tenant")).and_then(|tenant| Tenant::new(tenant).ok());
    let tenant = tenant.ok_or_else(|| lacks(EVENT_ID_DUE, &row.key, "tenant"))?;
    let ids: Option<Vec<EventId>> = match row.fields.get("ids") {
        Some(Value::Array(ids)) => ids.0.iter().map(|id| EventId::new(text_of(Some(id))?).ok()).collect(),
        _ => None,
    };
    Ok((tenant, ids.ok_or_else(|| lacks(EVENT_ID_DUE, &row.key, "ids"))?))
}

pub fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Object, StoreError> {
    let mut fields = object([("upto", number(checkpoint.upto)), ("generation", number(checkpoint.generation))]);
    if !checkpoint.done.is_empty() {
        fields.insert("done", bytes(encoded(encode_settled(checkpoint.upto, &checkpoint.done))?));
    }
    Ok(fields)
}

pub fn checkpoint(key: &RecordIdKey, fields: &Object) -> Result<Checkpoint, StoreError> {
    let field = |name: &str| field(RELAY_AT, key, fields, name);
    let upto = field("upto")?;
    let done = match (fields.get("done"), bytes_of(fields.get("done"))) {
        (None, _) => BTreeSet::new(),
        (Some(_), None) => return Err(lacks(RELAY_AT, key, "done")),
        (Some(_), Some(data)) => decode_settled(upto, &data).map_err(|error| unreadable(RELAY_AT, key, error))?,
    };
    Ok(Checkpoint { upto, done, generation: field("generation")? })
}

/// Of a dead letter, with the columns that those of the outbox have; `at` is when it is written.
pub fn of_dead(dead: &StreamDead, at: u64) -> Result<Object, StoreError> {
    let (stream, packed, why) = match dead {
        StreamDead::Door { stream, event, why, .. } => (stream, &event.packed, why),
        StreamDead::Relay { stream, packed, why, .. } => (stream, packed, why),
    };
    let mut fields = object([
        ("kind", text("event")),
        ("tenant", text(stream.tenant.as_str())),
        ("stream", text(stream.name.as_str())),
        ("error_code", text(&why.code)),
        ("message", text(&why.reason)),
        ("last_error", error_text(&why.code, &why.reason)),
        ("died_at", millis(at)),
        ("status", text("dead")),
        ("data", bytes(encoded(encode_dead(dead))?)),
    ]);
    if let Ok(head) = EventHead::of(packed) {
        fields.insert("ref_id", text(head.id));
    }
    if let StreamDead::Relay { relay, seq, .. } = dead {
        fields.insert("relay", text(relay.as_str()));
        fields.insert("seq", number(*seq));
    }
    Ok(fields)
}

pub fn dead(row: &Row) -> Result<StreamDead, StoreError> {
    let data = bytes_of(row.fields.get("data")).ok_or_else(|| lacks(STREAM_DEAD, &row.key, "data"))?;
    decode_dead(&data).map_err(|error| unreadable(STREAM_DEAD, &row.key, error))
}

/// The same with its place and its condition.
pub fn stored_dead(place: StreamDeadPlace, row: &Row) -> Result<StoredDead, StoreError> {
    let instant = |name: &str| millis_of(row.fields.get(name)).map(UnixMillis);
    let state = match text_of(row.fields.get("status")) {
        Some("quarantined") => DeadState::Quarantined {
            note: text_of(row.fields.get("note")).unwrap_or_default().to_owned(),
            at: instant("quarantined_at").unwrap_or_default(),
        },
        _ => DeadState::Dead,
    };
    let died_at = instant("died_at").ok_or_else(|| lacks(STREAM_DEAD, &row.key, "died_at"))?;
    Ok(StoredDead { place, dead: dead(row)?, state, died_at })
}

/// Writes the condition of a dead letter into its row.
pub fn put_dead_state(fields: &mut Object, state: &DeadState) {
    fields.insert("status", text(state.word()));
    if let DeadState::Quarantined { note, at } = state {
        fields.insert("note", text(note));
        fields.insert("quarantined_at", millis(at.0));
    }
}

/// Of a range that a relay didn't get before retention took it.
pub fn of_overtaken(to: u64, at: u64) -> Object {
    object([("to", number(to)), ("at", millis(at))])
}

/// The last number of such a range.
pub fn overtaken(row: &Row) -> Result<u64, StoreError> {
    field(RELAY_OVERTAKEN, &row.key, &row.fields, "to")
}

/// Such a range with the place in its key.
pub fn overtaken_range((stream, from): (StreamKey, u64), row: &Row) -> Result<OvertakenRange, StoreError> {
    let at = millis_of(row.fields.get("at")).ok_or_else(|| lacks(RELAY_OVERTAKEN, &row.key, "at"))?;
    Ok(OvertakenRange { stream, from, to: overtaken(row)?, at: UnixMillis(at) })
}
