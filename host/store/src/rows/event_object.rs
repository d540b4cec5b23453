//! Events as `fn::waybill::append` writes them: plain objects. They are checked like any other input, since anybody who may write to the
//! database may have made them. And what the function is told of the settings.

use std::collections::BTreeMap;

use waybill_core::ids::{EventId, Tenant};
use waybill_core::outbox::records::DoorKey;
use waybill_core::streams::chunk::{Chunk, StoredEvent};
use waybill_core::streams::event::{Body, Event, EventLimits, NewEvent, Op};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::records::Append;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Value, array, bool_of, int, int_of, millis_of, object, text, text_of};

use crate::codec::CodecError;
use crate::tables::{part_text, unsigned};

const NO_LIMITS: EventLimits = EventLimits { payload_bytes_max: usize::MAX, schema_versions: None, is_stored: true };

fn damaged(reason: &str) -> CodecError {
    CodecError::Damaged(reason.to_owned())
}

/// The event in a row, where it lies there as an object.
pub fn object_in(fields: &Object) -> Option<&Object> {
    match fields.get("event") {
        Some(Value::Object(event)) => Some(event),
        _ => None,
    }
}

/// An append as the function puts it on a doorstep. Where its event says no time, it happened then.
pub fn append(key: &DoorKey, fields: &Object, of_event: &Object) -> Result<Append, CodecError> {
    let word = |name: &str| text_of(fields.get(name)).unwrap_or_default();
    let stream = StreamKey { tenant: Tenant::new(word("tenant"))?, name: StreamName::new(word("stream"))? };
    let event = event(of_event, UnixMillis(key.nanos / 1_000_000))?;
    let is_indexed = bool_of(fields.get("caller_id")).unwrap_or(true);
    let events = vec![admitted(event, &stream.name, is_indexed)?];
    Ok(Append::new(stream, events))
}

/// A chunk as the function puts it at the end of a stream, with one event.
pub fn chunk(key: &RecordIdKey, last: u64, fields: &Object, of_event: &Object) -> Result<Chunk, CodecError> {
    let number =
        |name: &str| unsigned(fields.get(name)).ok_or_else(|| damaged("it lacks where it begins, or its total"));
    let at = millis_of(fields.get("at")).map(UnixMillis).ok_or_else(|| damaged("it lacks its time"))?;
    let name = StreamName::new(part_text(key, 1).unwrap_or_default())?;
    let from = number("from")?;
    if from.checked_add(1) != Some(last) {
        return Err(damaged("it is one event and covers others"));
    }
    let events =
        vec![StoredEvent { seq: last, pos: 0, packed: admitted(event(of_event, at)?, &name, true)?.packed, apart: 0 }];
    Ok(Chunk { from, last, total: number("total")?, at, events })
}

/// The limits of the day were held by the function: what lies there may not be refused any more.
fn admitted(event: Event, stream: &StreamName, is_indexed: bool) -> Result<NewEvent, CodecError> {
    event.admit(stream, &NO_LIMITS, is_indexed).map_err(|error| CodecError::Damaged(error.to_string()))
}

fn event(fields: &Object, at: UnixMillis) -> Result<Event, CodecError> {
    let word = |name: &str| text_of(fields.get(name)).map(str::to_owned);
    let number = |name: &str| int_of(fields.get(name));
    let time = number("ts_ms").map(u64::try_from).transpose().map_err(|_| damaged("its ts_ms is before 1970"))?;
    let op = number("op").and_then(|op| i32::try_from(op).ok()).ok_or_else(|| damaged("its op isn't a number"))?;
    let version = number("schema_version").and_then(|version| u32::try_from(version).ok());
    Ok(Event {
        id: EventId::new(word("event_id").unwrap_or_default())?,
        ts: time.map_or(at, UnixMillis),
        resource_type: word("resource_type").unwrap_or_default(),
        resource_id: word("resource_id").unwrap_or_default(),
        op: Op(op),
        schema_version: version.ok_or_else(|| damaged("its schema_version isn't a number from 1 to 4294967295"))?,
        node_uuid: word("node_uuid"),
        correlation_id: word("correlation_id"),
        cause: word("cause"),
        headers: headers(fields.get("headers"))?,
        content_type: word("content_type"),
        body: body(fields)?,
    })
}

fn headers(value: Option<&Value>) -> Result<BTreeMap<String, String>, CodecError> {
    let wrong = || damaged("its headers aren't an object of texts");
    match value {
        None | Some(Value::None | Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(headers)) => {
            let pairs = headers.0.iter();
            let pairs = pairs.map(|(name, value)| Some((name.as_str().to_owned(), text_of(Some(value))?.to_owned())));
            pairs.collect::<Option<_>>().ok_or_else(wrong)
        }
        Some(_) => Err(wrong()),
    }
}

fn body(fields: &Object) -> Result<Body, CodecError> {
    let bytes = match fields.get("payload") {
        None | Some(Value::None) => None,
        Some(Value::Bytes(bytes)) => Some(bytes.0.clone()),
        Some(_) => return Err(damaged("its payload isn't bytes")),
    };
    Ok(match (text_of(fields.get("type_url")), bytes) {
        (Some(type_url), value) => Body::Any { type_url: type_url.to_owned(), value: value.unwrap_or_default() },
        (None, Some(bytes)) => Body::Bytes(bytes),
        (None, None) => Body::None,
    })
}

/// What the function has to know of the settings: how large payloads may be, and which versions of their schemas streams take. The first
/// pattern that matches decides, so those before the last one that names versions are told, too.
pub fn of_event_limits(settings: &StreamsSettings) -> Object {
    let told =
        settings.patterns.iter().rposition(|pattern| pattern.schema_versions.is_some()).map_or(0, |last| last + 1);
    let patterns = settings.patterns.iter().take(told).map(|settings| {
        let mut taken = object([("pattern", text(settings.pattern.regex()))]);
        if let Some((first, last)) = settings.schema_versions {
            taken.insert("first", int(i64::from(first)));
            taken.insert("last", int(i64::from(last)));
        }
        Value::Object(taken)
    });
    let payload_bytes_max = i64::try_from(settings.events.payload_bytes_max).unwrap_or(i64::MAX);
    object([("payload_bytes_max", int(payload_bytes_max)), ("patterns", array(patterns))])
}
