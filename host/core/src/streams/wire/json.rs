//! The envelope as JSON: what `data:` lines and pages of the API hold, what relays with `body = "json"` send, what is imported.
//!
//! Fields have their protobuf names. Numbers are numbers, an operation is its name (a number where it has none), bytes are base64, and what
//! is absent isn't there. So it comes back as it was, whatever the payload.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{InputError, InputResult};
use crate::ids::{EventId, Tenant};
use crate::seq_json::SeqJson;
use crate::streams::event::{Body, Event, Op};
use crate::streams::name::{StreamKey, StreamName};
use crate::time::UnixMillis;

/// Standard alphabet, padded or not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An event with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventEnvelope)]
pub struct EnvelopeJson<'a> {
    /// A ULID, or what its sender chose.
    #[schema(value_type = String)]
    pub event_id: Cow<'a, str>,
    /// When it happened, in milliseconds since 1970.
    pub ts_ms: u64,
    /// Name of its stream.
    #[schema(value_type = String)]
    pub stream: Cow<'a, str>,
    /// Its number there, from 1.
    pub seq: SeqJson,
    /// Kind of what changed.
    #[schema(value_type = String)]
    pub resource_type: Cow<'a, str>,
    /// Which of its kind.
    #[schema(value_type = String)]
    pub resource_id: Cow<'a, str>,
    pub op: OpJson,
    /// Version of the payload's schema.
    pub schema_version: u32,
    /// Node that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub node_uuid: Option<Cow<'a, str>>,
    /// Ties it to a request or an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub correlation_id: Option<Cow<'a, str>>,
    /// Why it happened, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub cause: Option<Cow<'a, str>>,
    /// Names with their texts.
    #[serde(default, skip_serializing_if = "HeadersMapJson::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub headers: HeadersMapJson<'a>,
    /// Media type of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub content_type: Option<Cow<'a, str>>,
    /// A payload that names its own type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AnyJson<'static>>)]
    pub payload: Option<AnyJson<'a>>,
    /// Any other payload, of the kind in `content_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub payload_bytes: Option<Base64Json<'a>>,
    /// Whose it is; `default` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub tenant: Option<Cow<'a, str>>,
    /// Where a subscription goes on behind it; only in what a subscription is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub resume_token: Option<Cow<'a, str>>,
}

/// A protobuf message with its type, as `google.protobuf.Any`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AnyPayload)]
pub struct AnyJson<'a> {
    /// `type.googleapis.com/` and the full name of the message's type, up to 512 bytes without control characters.
    #[schema(value_type = String)]
    pub type_url: Cow<'a, str>,
    /// The message's protobuf in base64; empty if absent.
    #[serde(default)]
    #[schema(value_type = String, format = Byte)]
    pub value: Base64Json<'a>,
}

impl<'a> EnvelopeJson<'a> {
    /// An event whose payload is in it. None where it lies elsewhere still.
    pub fn of(stream: &'a StreamKey, seq: u64, event: &'a Event, resume_token: Option<&'a str>) -> Option<Self> {
        let text = |text: &'a Option<String>| text.as_deref().map(Cow::Borrowed);
        let (payload, payload_bytes) = match &event.body {
            Body::None => (None, None),
            Body::Any { type_url, value } => (Some(AnyJson { type_url: type_url.into(), value: value.into() }), None),
            Body::Bytes(bytes) => (None, Some(bytes.into())),
            Body::Blob { .. } => return None,
        };
        Some(Self {
            event_id: event.id.as_str().into(),
            ts_ms: event.ts.0,
            stream: stream.name.as_str().into(),
            seq: seq.into(),
            resource_type: event.resource_type.as_str().into(),
            resource_id: event.resource_id.as_str().into(),
            op: OpJson(event.op),
            schema_version: event.schema_version,
            node_uuid: text(&event.node_uuid),
            correlation_id: text(&event.correlation_id),
            cause: text(&event.cause),
            headers: HeadersMapJson(Cow::Borrowed(&event.headers)),
            content_type: text(&event.content_type),
            payload,
            payload_bytes,
            tenant: Some(stream.tenant.as_str().into()),
            resume_token: resume_token.map(Cow::Borrowed),
        })
    }

    /// The event, and its place.
    pub fn into_event(self) -> InputResult<(StreamKey, u64, Event)> {
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        let tenant = self.tenant.as_deref().map_or_else(|| Ok(Tenant::unnamed()), Tenant::new)?;
        let event = Event {
            id: EventId::new(&self.event_id)?,
            ts: UnixMillis(self.ts_ms),
            resource_type: self.resource_type.into_owned(),
            resource_id: self.resource_id.into_owned(),
            op: self.op.0,
            schema_version: self.schema_version,
            node_uuid: owned(self.node_uuid),
            correlation_id: owned(self.correlation_id),
            cause: owned(self.cause),
            headers: self.headers.into_map(),
            content_type: owned(self.content_type),
            body: AnyJson::body(self.payload, self.payload_bytes)?,
        };
        Ok((StreamKey { tenant, name: StreamName::new(&self.stream)? }, self.seq.into(), event))
    }

    /// As text of one line.
    pub fn to_text(&self) -> Bytes {
        // Texts, numbers and maps with texts for keys: there is nothing that can't be written.
        Bytes::from(serde_json::to_vec(self).unwrap_or_default())
    }
}

impl AnyJson<'_> {
    /// The payload of one of the two fields that may hold it.
    pub fn body(any: Option<AnyJson<'_>>, bytes: Option<Base64Json<'_>>) -> InputResult<Body> {
        match (any, bytes) {
            (None, None) => Ok(Body::None),
            (Some(any), None) => Ok(Body::Any { type_url: any.type_url.into_owned(), value: any.value.into_bytes() }),
            (None, Some(bytes)) => Ok(Body::Bytes(bytes.into_bytes())),
            (Some(_), Some(_)) => {
                let cause = "both payload and payload_bytes are given: give one of them".to_owned();
                Err(InputError::Payload { cause })
            }
        }
    }
}

/// Names of operations, in the order of their numbers.
fn op_names() -> impl Iterator<Item = &'static str> {
    (0..).map_while(|number| Op(number).name())
}

/// An operation: its name, or the number of one that isn't known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpJson(pub Op);

impl Serialize for OpJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.name() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.serialize_i32(self.0.0),
        }
    }
}

impl<'de> Deserialize<'de> for OpJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OpVisitor;
        impl Visitor<'_> for OpVisitor {
            type Value = OpJson;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an operation: {}, or the number of another", op_names().collect::<Vec<_>>().join(", "))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OpJson, E> {
                Op::of(text).map(OpJson).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<OpJson, E> {
                let op = i32::try_from(number).map(|number| OpJson(Op(number)));
                op.map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<OpJson, E> {
                let op = i32::try_from(number).map(|number| OpJson(Op(number)));
                op.map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
            }
        }
        deserializer.deserialize_any(OpVisitor)
    }
}

impl PartialSchema for OpJson {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(op_names()));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
            .minimum(Some(i32::MIN))
            .maximum(Some(i32::MAX));
        OneOfBuilder::new()
            .item(name)
            .item(number)
            .description(Some("What happened to it; the number of an operation without a name."))
            .into()
    }
}

impl ToSchema for OpJson {
    fn name() -> Cow<'static, str> {
        "EventOp".into()
    }
}

/// Bytes as base64; read with its padding or without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base64Json<'a>(Cow<'a, [u8]>);

impl Base64Json<'_> {
    pub fn into_bytes(self) -> Bytes {
        Bytes::from(self.0.into_owned())
    }
}

impl<'a> From<&'a Bytes> for Base64Json<'a> {
    fn from(bytes: &'a Bytes) -> Self {
        Self(Cow::Borrowed(bytes))
    }
}

impl Serialize for Base64Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64Json<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Base64Visitor;
        impl Visitor<'_> for Base64Visitor {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes in base64")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
                BASE64.decode(text).map_err(|error| E::custom(format_args!("it isn't base64: {error}")))
            }
        }
        deserializer.deserialize_str(Base64Visitor).map(|bytes| Self(Cow::Owned(bytes)))
    }
}

/// Headers of an event. A name stands there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadersMapJson<'a>(Cow<'a, BTreeMap<String, String>>);

impl HeadersMapJson<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn into_map(self) -> BTreeMap<String, String> {
        self.0.into_owned()
    }
}

impl Serialize for HeadersMapJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HeadersMapJson<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeadersVisitor;
        impl<'de> Visitor<'de> for HeadersVisitor {
            type Value = BTreeMap<String, String>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of header names and texts")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut headers = BTreeMap::new();
                while let Some((name, text)) = map.next_entry::<String, String>()? {
                    if headers.contains_key(&name) {
                        return Err(de::Error::custom(format_args!("header {name:?} is given twice")));
                    }
                    headers.insert(name, text);
                }
                Ok(headers)
            }
        }
        deserializer.deserialize_map(HeadersVisitor).map(|headers| Self(Cow::Owned(headers)))
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
