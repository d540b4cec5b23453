//! Doorstep rows: packed groups that a host wrote, and plain objects that `fn::waybill::enqueue` wrote.
//!
//! A plain object is checked like any other input, since anybody who may write to the database may have made it. One that
//! doesn't pass is reported as malformed with what could be saved of it, and becomes a dead letter.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;
use waybill_core::error::InputError;
use waybill_core::ids::MessageId;
use waybill_core::message::{Headers, Message};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::{DoorKey, DoorRow, Malformed};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, Row, Value, bool_of, bytes_of, int_of, millis_of, object, text_of, to_json};

use super::{encoded, lacks, unreadable};
use crate::codec::{CodecError, decode_door, encode_door};
use crate::tables::{DOOR, door_stamp_in};

/// Messages of one packed row, in bytes of their weight: a larger group is cut, so that a page of rows stays bounded.
pub const GROUP_BYTES_MAX: usize = 1024 * 1024;

pub fn of_group(messages: &[Arc<Message>]) -> Result<Object, StoreError> {
    Ok(object([
        ("messages", waybill_surreal::int(messages.len() as i64)),
        ("data", waybill_surreal::bytes(encoded(encode_door(messages))?)),
    ]))
}

/// A group cut into rows of at most [`GROUP_BYTES_MAX`].
pub fn cut(messages: &[Arc<Message>]) -> Vec<&[Arc<Message>]> {
    let mut rows = Vec::new();
    let mut rest = messages;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|message| {
            bytes += message.weight();
            bytes <= GROUP_BYTES_MAX
        });
        let (row, later) = rest.split_at(fitting.count().max(1));
        rows.push(row);
        rest = later;
    }
    rows
}

pub fn door(row: Row) -> Result<DoorRow, StoreError> {
    let Row { key: record, fields } = row;
    let key = door_stamp_in(&record).ok_or_else(|| lacks(DOOR, &record, "id"))?;
    let content = match bytes_of(fields.get("data")) {
        Some(data) => match decode_door(&data) {
            Ok(messages) => Ok(messages),
            Err(CodecError::Damaged(reason)) => Err(Malformed { reason, raw: raw(fields) }),
            Err(newer @ CodecError::Newer(_)) => return Err(unreadable(DOOR, &record, newer)),
        },
        None => {
            plain(&key, &fields).map(|message| vec![message]).map_err(|reason| Malformed { reason, raw: raw(fields) })
        }
    };
    Ok(DoorRow { key, content })
}

/// The row as JSON text, with bytes in base64.
pub(super) fn raw(fields: Object) -> String {
    match to_json(Value::Object(fields)) {
        Ok(json) => json.to_string(),
        Err(fault) => format!("(it can't be shown: {fault})"),
    }
}

/// A message that is a plain object.
fn plain(key: &DoorKey, fields: &Object) -> Result<Arc<Message>, String> {
    let text = |name: &str| text_of(fields.get(name)).map(str::to_owned);
    let instant = |name: &str| millis_of(fields.get(name)).map(UnixMillis);
    let (payload, json) = payload(fields.get("payload"))?;
    let id = text("message_id").ok_or("it has no message_id")?;
    let given = Annotation::ALL.into_iter().filter_map(|annotation| Some((annotation, text(annotation.name())?)));
    let mut annotations: Annotations = given.collect();
    if json && annotations.get(Annotation::ContentType).is_none() {
        annotations.set(Annotation::ContentType, Some("application/json"));
    }
    let version = int_of(fields.get("event_version")).map(u32::try_from).transpose();
    let new = NewMessage {
        topic: text("topic").ok_or("it has no topic")?,
        payload,
        id: None,
        tenant: text("tenant"),
        key: text("dispatch_key"),
        headers: headers(fields.get("headers"))?,
        not_before: instant("not_before"),
        expires_at: instant("expires_at"),
        occurred_at: instant("occurred_at"),
        event_type: text("event_type"),
        event_version: version.map_err(|_| "its event_version isn't a number from 0 to 4294967295")?,
        annotations,
    };
    // The size was checked against the limit of its day when it was written; it may not be refused any more.
    let draft =
        new.check(UnixMillis(key.nanos / 1_000_000), usize::MAX).map_err(|error: InputError| error.to_string())?;
    // The id was given, so it is the message's already, also one that a caller of the API may not choose.
    let mut message = Arc::unwrap_or_clone(draft.message);
    message.id = MessageId::new(id).map_err(|error| error.to_string())?;
    message.caller_id = bool_of(fields.get("caller_id")).unwrap_or(true);
    Ok(Arc::new(message))
}

/// Payload bytes, and whether they are JSON.
fn payload(value: Option<&Value>) -> Result<(Bytes, bool), String> {
    match value {
        None | Some(Value::None) => Err("it has no payload".into()),
        Some(Value::Bytes(bytes)) => Ok((bytes.0.clone(), false)),
        Some(value) => {
            let json = to_json(value.clone()).map_err(|fault| fault.to_string())?;
            Ok((Bytes::from(json.to_string()), true))
        }
    }
}

/// Headers as an object or as a list of pairs.
fn headers(value: Option<&Value>) -> Result<Headers, String> {
    let wrong = || "its headers aren't an object of texts or a list of [name, value]".to_owned();
    match value {
        None | Some(Value::None | Value::Null) => Ok(Headers::new()),
        Some(Value::Object(fields)) => {
            let pairs =
                fields.0.iter().map(|(name, value)| Some((name.as_str().to_owned(), text_of(Some(value))?.to_owned())));
            pairs.collect::<Option<Headers>>().ok_or_else(wrong)
        }
        Some(Value::Array(pairs)) => {
            let pairs = pairs.0.iter().map(|pair| match pair {
                Value::Array(pair) => Some((text_of(pair.0.first())?.to_owned(), text_of(pair.0.get(1))?.to_owned())),
                _ => None,
            });
            pairs.collect::<Option<Headers>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}
