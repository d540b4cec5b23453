//! The protobuf of an envelope (`waybill.events.v1.EventEnvelope`).
//!
//! It is stored without tenant, stream and seq; with these three in front it is the wire form. Protobuf takes fields in any order, so
//! replay copies bytes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::event::{Body, Event, Op};
use super::name::StreamKey;
use super::proto::{Fields, ProtoError, put_bytes, put_number, put_text};
use crate::error::InputError;
use crate::ids::EventId;
use crate::time::UnixMillis;

const EVENT_ID: u32 = 1;
const TS_MS: u32 = 2;
const STREAM: u32 = 3;
const SEQ: u32 = 4;
const RESOURCE_TYPE: u32 = 5;
const RESOURCE_ID: u32 = 6;
const OP: u32 = 7;
const SCHEMA_VERSION: u32 = 8;
const NODE_UUID: u32 = 9;
const CORRELATION_ID: u32 = 10;
const CAUSE: u32 = 11;
const HEADERS: u32 = 12;
const CONTENT_TYPE: u32 = 13;
const PAYLOAD: u32 = 14;
const PAYLOAD_BYTES: u32 = 15;
const TENANT: u32 = 16;
const RESUME_TOKEN: u32 = 17;
/// Stored only: what is known of a payload that lies beside its chunk.
const BLOB: u32 = 1_000;

/// Why a stored envelope can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    #[error(transparent)]
    Proto(#[from] ProtoError),
    #[error(transparent)]
    Input(#[from] InputError),
}

/// An envelope as it is stored.
pub fn pack(event: &Event) -> Vec<u8> {
    let payload = if matches!(event.body, Body::Blob { .. }) { 0 } else { event.body.len() };
    let mut out = Vec::with_capacity(160 + payload);
    put_text(&mut out, EVENT_ID, event.id.as_str());
    put_number(&mut out, TS_MS, event.ts.0);
    put_content(&mut out, event);
    out
}

/// Everything but id and time.
fn put_content(out: &mut Vec<u8>, event: &Event) {
    put_text(out, RESOURCE_TYPE, &event.resource_type);
    put_text(out, RESOURCE_ID, &event.resource_id);
    // An enum is an int32, and a negative one has its sign in all 64 bits.
    put_number(out, OP, i64::from(event.op.0).cast_unsigned());
    put_number(out, SCHEMA_VERSION, u64::from(event.schema_version));
    put_text(out, NODE_UUID, event.node_uuid.as_deref().unwrap_or_default());
    put_text(out, CORRELATION_ID, event.correlation_id.as_deref().unwrap_or_default());
    put_text(out, CAUSE, event.cause.as_deref().unwrap_or_default());
    for (name, value) in &event.headers {
        let mut pair = Vec::with_capacity(name.len() + value.len() + 6);
        put_text(&mut pair, 1, name);
        put_text(&mut pair, 2, value);
        put_bytes(out, HEADERS, &pair);
    }
    put_text(out, CONTENT_TYPE, event.content_type.as_deref().unwrap_or_default());
    match &event.body {
        Body::None => {}
        Body::Any { type_url, value } => put_bytes(out, PAYLOAD, &any(type_url, value)),
        Body::Bytes(bytes) => put_bytes(out, PAYLOAD_BYTES, bytes),
        Body::Blob { bytes, crc, type_url } => {
            let mut place = Vec::new();
            put_number(&mut place, 1, u64::from(*crc));
            put_number(&mut place, 2, u64::from(*bytes));
            if let Some(type_url) = type_url {
                put_bytes(&mut place, 3, type_url.as_bytes());
            }
            put_bytes(out, BLOB, &place);
        }
    }
}

fn any(type_url: &str, value: &[u8]) -> Vec<u8> {
    let mut any = Vec::with_capacity(type_url.len() + value.len() + 12);
    put_text(&mut any, 1, type_url);
    if !value.is_empty() {
        put_bytes(&mut any, 2, value);
    }
    any
}

/// The wire form of a stored envelope; `resume_token` for readers whose cursor isn't the seq.
pub fn wire(stream: &StreamKey, seq: u64, packed: &[u8], resume_token: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(packed.len() + stream.name.as_str().len() + stream.tenant.as_str().len() + 24);
    put_text(&mut out, TENANT, stream.tenant.as_str());
    put_text(&mut out, STREAM, stream.name.as_str());
    put_number(&mut out, SEQ, seq);
    out.extend_from_slice(packed);
    put_text(&mut out, RESUME_TOKEN, resume_token.unwrap_or_default());
    out
}

/// What selectors, compaction and the relay go by, read without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHead<'a> {
    pub id: &'a str,
    pub resource_type: &'a str,
    pub resource_id: &'a str,
    pub op: Op,
    pub node_uuid: &'a str,
}

impl<'a> EventHead<'a> {
    pub fn of(packed: &'a [u8]) -> Result<Self, ProtoError> {
        let mut head = Self { id: "", resource_type: "", resource_id: "", op: Op::UNSPECIFIED, node_uuid: "" };
        for field in Fields(packed) {
            let (field, value) = field?;
            match field {
                EVENT_ID => head.id = value.text(field)?,
                RESOURCE_TYPE => head.resource_type = value.text(field)?,
                RESOURCE_ID => head.resource_id = value.text(field)?,
                OP => head.op = op(value.number(field)?),
                NODE_UUID => head.node_uuid = value.text(field)?,
                _ => {}
            }
        }
        Ok(head)
    }
}

fn op(number: u64) -> Op {
    // The low 32 bits are the number, as protobuf says.
    let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    Op(low.cast_signed())
}

/// A stored envelope as it was appended. Fields that aren't known are left out.
pub fn unpack(packed: &[u8]) -> Result<Event, EnvelopeError> {
    let mut id = None;
    let mut event = Event {
        // Replaced below: an envelope without an id is an error.
        id: EventId::new("none")?,
        ts: UnixMillis(0),
        resource_type: String::new(),
        resource_id: String::new(),
        op: Op::UNSPECIFIED,
        schema_version: 0,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: BTreeMap::new(),
        content_type: None,
        body: Body::None,
    };
    for field in Fields(packed) {
        let (field, value) = field?;
        match field {
            EVENT_ID => id = Some(EventId::new(value.text(field)?)?),
            TS_MS => event.ts = UnixMillis(value.number(field)?),
            RESOURCE_TYPE => event.resource_type = value.text(field)?.to_owned(),
            RESOURCE_ID => event.resource_id = value.text(field)?.to_owned(),
            OP => event.op = op(value.number(field)?),
            SCHEMA_VERSION => event.schema_version = u32::try_from(value.number(field)?).unwrap_or(u32::MAX),
            NODE_UUID => event.node_uuid = Some(value.text(field)?.to_owned()),
            CORRELATION_ID => event.correlation_id = Some(value.text(field)?.to_owned()),
            CAUSE => event.cause = Some(value.text(field)?.to_owned()),
            HEADERS => event.headers.extend([pair(value.bytes(field)?)?]),
            CONTENT_TYPE => event.content_type = Some(value.text(field)?.to_owned()),
            PAYLOAD => {
                let (type_url, value) = pair_of(value.bytes(field)?)?;
                event.body = Body::Any { type_url: text(type_url)?, value: Bytes::copy_from_slice(value) };
            }
            PAYLOAD_BYTES => event.body = Body::Bytes(Bytes::copy_from_slice(value.bytes(field)?)),
            BLOB => event.body = blob(value.bytes(field)?)?,
            _ => {}
        }
    }
    event.id = id.ok_or(InputError::Empty { field: "event_id" })?;
    Ok(event)
}

fn text(bytes: &[u8]) -> Result<String, ProtoError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| ProtoError::Text(1))
}

/// Fields 1 and 2 of a message of two.
fn pair_of(bytes: &[u8]) -> Result<(&[u8], &[u8]), ProtoError> {
    let mut found: (&[u8], &[u8]) = (&[], &[]);
    for field in Fields(bytes) {
        match field? {
            (1, value) => found.0 = value.bytes(1)?,
            (2, value) => found.1 = value.bytes(2)?,
            _ => {}
        }
    }
    Ok(found)
}

fn pair(bytes: &[u8]) -> Result<(String, String), ProtoError> {
    let (name, value) = pair_of(bytes)?;
    Ok((text(name)?, text(value)?))
}

fn blob(bytes: &[u8]) -> Result<Body, ProtoError> {
    let (mut crc, mut length, mut type_url) = (0, 0, None);
    for field in Fields(bytes) {
        match field? {
            (1, value) => crc = u32::try_from(value.number(1)?).unwrap_or(u32::MAX),
            (2, value) => length = u32::try_from(value.number(2)?).unwrap_or(u32::MAX),
            (3, value) => type_url = Some(value.text(3)?.to_owned()),
            _ => {}
        }
    }
    Ok(Body::Blob { bytes: length, crc, type_url })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Tenant;
    use crate::streams::event::tests::event;
    use crate::streams::name::StreamName;

    fn full() -> Event {
        Event {
            node_uuid: Some("n".into()),
            correlation_id: Some("c".into()),
            cause: Some("manual".into()),
            headers: BTreeMap::from([("a".into(), "1".into()), ("b".into(), String::new())]),
            ..event("01ARZ3NDEKTSV4RRFFQ69G5FAV")
        }
    }

    #[test]
    fn an_envelope_comes_back_with_every_body_and_an_unknown_operation() {
        let bodies = [
            Body::None,
            Body::Bytes(Bytes::new()),
            Body::Any { type_url: "type.googleapis.com/x".into(), value: Bytes::from_static(&[0, 255]) },
            Body::Blob { bytes: 70_000, crc: u32::MAX, type_url: None },
            Body::Blob { bytes: 70_000, crc: 0, type_url: Some(String::new()) },
        ];
        for body in bodies {
            for op in [Op::DELETE, Op(77), Op(-3)] {
                let event = Event { body: body.clone(), op, ..full() };
                assert_eq!(unpack(&pack(&event)), Ok(event));
            }
        }
    }

    #[test]
    fn its_head_is_read_without_the_rest() {
        let packed = pack(&full());
        let head = EventHead::of(&packed).unwrap();
        assert_eq!((head.id, head.resource_type, head.resource_id), ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "TASK", "t-1"));
        assert_eq!((head.op, head.node_uuid), (Op::UPDATE, "n"));
    }

    #[test]
    fn the_wire_form_is_three_fields_in_front_of_what_is_stored() {
        let stream = StreamKey { tenant: Tenant::unnamed(), name: StreamName::new("task").unwrap() };
        let packed = pack(&full());
        let wire = wire(&stream, 7, &packed, Some("tok"));
        assert!(wire.windows(packed.len()).any(|part| part == packed));
        let mut texts = BTreeMap::new();
        for field in Fields(&wire) {
            let (field, value) = field.unwrap();
            match field {
                STREAM | TENANT | RESUME_TOKEN => {
                    texts.insert(field, value.text(field).unwrap().to_owned());
                }
                SEQ => assert_eq!(value.number(field), Ok(7)),
                _ => {}
            }
        }
        assert_eq!(texts.into_values().collect::<Vec<_>>(), ["task", "default", "tok"]);
        assert_eq!(unpack(&wire), Ok(full()));
    }

    #[test]
    fn what_is_cut_is_an_error_or_lacks_fields_and_never_a_panic() {
        let packed = pack(&full());
        for cut in 0..packed.len() {
            let _either = (unpack(&packed[..cut]), EventHead::of(&packed[..cut]));
        }
        assert!(unpack(&[]).is_err());
    }
}
