//! The message object (`surface.md`), read straight into the core's [`NewMessage`].

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use waybill_api::headers::HeadersJson;
use waybill_api::instant::Instant;
use waybill_core::annotation::{Annotation, Kind};
use waybill_core::new_message::NewMessage;

use super::scalars::{Base64, Identity, Json};
use crate::aliases::{Field, Meaning, resolve};

/// Fields of a message object, checked for what the object alone can tell.
#[derive(Debug, Default)]
pub struct MessageFields {
    pub(super) message: NewMessage,
    /// Bits of the fields given with a value.
    pub(super) given: u64,
    /// Bits of the fields given as null.
    pub(super) cleared: u64,
}

impl MessageFields {
    pub(super) fn has(&self, field: Field) -> bool {
        self.given & field.bit() != 0
    }

    /// Reads the value of one field.
    pub fn take<'de, A: MapAccess<'de>>(
        &mut self,
        field: Field,
        meaning: Meaning,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if (self.given | self.cleared) & field.bit() != 0 {
            return refuse(map, format!("{} is given twice, perhaps under another of its names", field.name()));
        }
        if matches!(field, Field::Payload | Field::PayloadBase64)
            && (self.has(Field::Payload) || self.has(Field::PayloadBase64))
        {
            return refuse(map, "both payload and payload_base64 are given: give one of them".to_owned());
        }
        let message = &mut self.message;
        let some = match field {
            Field::Payload => {
                message.payload = map.next_value::<Json>()?.0;
                true
            }
            Field::PayloadBase64 => put(&mut message.payload, map.next_value::<Option<Base64>>()?.map(|bytes| bytes.0)),
            Field::Topic => {
                let prefix = match meaning {
                    Meaning::Same => "",
                    Meaning::Subject => "bus:",
                    Meaning::Target => "custom:",
                };
                let topic = map.next_value::<Option<String>>()?;
                put(
                    &mut message.topic,
                    topic.map(|topic| if prefix.is_empty() { topic } else { format!("{prefix}{topic}") }),
                )
            }
            Field::Headers => {
                put(&mut message.headers, map.next_value::<Option<HeadersJson>>()?.map(|headers| headers.0))
            }
            Field::EventVersion => keep(&mut message.event_version, map.next_value()?),
            Field::NotBefore => instant(&mut message.not_before, map)?,
            Field::ExpiresAt => instant(&mut message.expires_at, map)?,
            Field::OccurredAt => instant(&mut message.occurred_at, map)?,
            Field::Id => identity(&mut message.id, map)?,
            Field::Key => identity(&mut message.key, map)?,
            Field::Tenant => identity(&mut message.tenant, map)?,
            Field::EventType => keep(&mut message.event_type, map.next_value()?),
            Field::Annotation(annotation) => {
                let text = match annotation.kind() {
                    Kind::Id => map.next_value::<Option<Identity>>()?.map(|identity| identity.0),
                    Kind::Text | Kind::TraceContext => map.next_value()?,
                };
                let is_given = text.is_some();
                message.annotations.set(annotation, text);
                is_given
            }
        };
        if some {
            self.given |= field.bit();
        } else {
            self.cleared |= field.bit();
        }
        Ok(())
    }

    /// The message of a request that has all it needs.
    pub fn finish(mut self) -> Result<NewMessage, &'static str> {
        if !self.has(Field::Topic) {
            return Err("topic is missing: say where the message goes, e.g. \"topic\": \"https://shop.example/hook\"");
        }
        if !self.has(Field::Payload) && !self.has(Field::PayloadBase64) {
            return Err("payload is missing: give payload (any JSON, null too) or payload_base64");
        }
        self.default_content_type();
        Ok(self.message)
    }

    pub(super) fn default_content_type(&mut self) {
        if self.message.annotations.get(Annotation::ContentType).is_none() {
            let media = if self.has(Field::PayloadBase64) { "application/octet-stream" } else { "application/json" };
            self.message.annotations.set(Annotation::ContentType, Some(media));
        }
    }
}

/// Sets a slot that has a default; tells whether there was a value.
fn put<T>(slot: &mut T, value: Option<T>) -> bool {
    value.map(|value| *slot = value).is_some()
}

/// Sets an optional slot; tells whether there was a value.
fn keep<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    *slot = value;
    slot.is_some()
}

fn instant<'de, A: MapAccess<'de>>(
    slot: &mut Option<waybill_core::time::UnixMillis>,
    map: &mut A,
) -> Result<bool, A::Error> {
    Ok(keep(slot, map.next_value::<Option<Instant>>()?.map(|instant| instant.0)))
}

fn identity<'de, A: MapAccess<'de>>(slot: &mut Option<String>, map: &mut A) -> Result<bool, A::Error> {
    Ok(keep(slot, map.next_value::<Option<Identity>>()?.map(|identity| identity.0)))
}

/// Fails at the place of a member's value, so that the fault has the member's path.
fn refuse<'de, A: MapAccess<'de>>(map: &mut A, fault: String) -> Result<(), A::Error> {
    struct Refused(String);
    impl<'de> DeserializeSeed<'de> for Refused {
        type Value = ();
        fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
            Err(de::Error::custom(self.0))
        }
    }
    map.next_value_seed(Refused(fault))
}

/// A member's name in a message object or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A field, and how its value is taken.
    Field(Field, Meaning),
    Messages,
}

/// Reads a name; `messages` only where it may stand.
#[derive(Clone, Copy)]
pub(super) struct NameSeed {
    pub(super) messages: bool,
}

impl<'de> DeserializeSeed<'de> for NameSeed {
    type Value = Name;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Name, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameSeed {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
        if let Some((field, meaning)) = resolve(name) {
            return Ok(Name::Field(field, meaning));
        }
        if !self.messages {
            return Err(E::unknown_field(name, Field::NAMES));
        }
        if name == "messages" { Ok(Name::Messages) } else { Err(E::unknown_field(name, Field::NAMES_OR_MESSAGES)) }
    }
}

/// Reads the fields of one object.
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = MessageFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessageFields, A::Error> {
        let mut fields = MessageFields::default();
        while let Some(name) = map.next_key_seed(NameSeed { messages: false })? {
            if let Name::Field(field, meaning) = name {
                fields.take(field, meaning, &mut map)?;
            }
        }
        Ok(fields)
    }
}

impl<'de> Deserialize<'de> for MessageFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A complete message object.
pub struct MessageIn(pub NewMessage);

impl<'de> Deserialize<'de> for MessageIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MessageFields::deserialize(deserializer)?.finish().map(MessageIn).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::decode;
    use crate::limits::JSON_DEPTH_MAX;
    use bytes::Bytes;
    use waybill_core::annotations::Annotations;

    fn read(text: &str) -> Result<NewMessage, crate::problem::Problem> {
        decode::value::<MessageIn>(text).map(|message| message.0)
    }

    #[test]
    fn a_payload_keeps_the_callers_bytes() {
        let message =
            read(r#"{"topic":"bus:a","payload": {"z": 1.10, "a": 12345678901234567890123, "b": 2} }"#).unwrap();
        assert_eq!(message.payload, r#"{"z": 1.10, "a": 12345678901234567890123, "b": 2}"#);
        assert_eq!(message.annotations.get(Annotation::ContentType), Some("application/json"));
        let message = read(r#"{"payload_base64":"AAEC/w==","topic":"bus:a"}"#).unwrap();
        assert_eq!(message.payload.as_ref(), [0, 1, 2, 255]);
        assert_eq!(message.annotations.get(Annotation::ContentType), Some("application/octet-stream"));
        assert_eq!(read(r#"{"topic":"bus:a","payload":null}"#).unwrap().payload, "null");
    }

    #[test]
    fn names_of_the_source_documents_are_taken() {
        let message = read(
            r#"{"routing_key":"orders.created","dispatch_key":17,"outbox_id":4,"available_at":1700000000000,"payload_md":"x"}"#,
        )
        .unwrap();
        assert_eq!(message.topic, "bus:orders.created");
        assert_eq!((message.key.as_deref(), message.id.as_deref()), (Some("17"), Some("4")));
        assert!(message.not_before.is_some());
        assert_eq!(read(r#"{"target_space":"memory","payload":1}"#).unwrap().topic, "custom:memory");
    }

    #[test]
    fn every_field_lands_in_its_slot() {
        let text = r#"{"topic":"t","payload":1,"key":"k","tenant":"n","headers":{"h":["1","2"]},"id":"i","not_before":1700000000001,
            "expires_at":1700000000002,"envelope_id":"e","correlation_id":"c","causation_id":"s","reply_to":"r","content_type":"m",
            "occurred_at":1700000000003,"event_type":"v","event_version":4,"aggregate_type":"a","aggregate_id":"g","traceparent":"p"}"#;
        let text_of = |text: &str| Some(text.to_owned());
        let at = |ms| Some(waybill_core::time::UnixMillis(ms));
        assert_eq!(
            read(text).unwrap(),
            NewMessage {
                topic: "t".into(),
                payload: Bytes::from_static(b"1"),
                id: text_of("i"),
                tenant: text_of("n"),
                key: text_of("k"),
                headers: vec![("h".into(), "1".into()), ("h".into(), "2".into())],
                not_before: at(1_700_000_000_001),
                expires_at: at(1_700_000_000_002),
                occurred_at: at(1_700_000_000_003),
                event_type: text_of("v"),
                event_version: Some(4),
                annotations: Annotations::from([
                    (Annotation::AggregateType, "a"),
                    (Annotation::AggregateId, "g"),
                    (Annotation::EnvelopeId, "e"),
                    (Annotation::CorrelationId, "c"),
                    (Annotation::CausationId, "s"),
                    (Annotation::ReplyTo, "r"),
                    (Annotation::Traceparent, "p"),
                    (Annotation::ContentType, "m"),
                ]),
            }
        );
    }

    #[test]
    fn faults_name_the_field_and_the_remedy() {
        for (text, path, words) in [
            (r#"{"topik":"a"}"#, Some("topik"), "did you mean \"topic\"?"),
            (r#"{"topic":"a","payload":1,"status":"pending"}"#, Some("status"), "kept by the host"),
            (r#"{"topic":"a","payload":1,"topic":"b"}"#, Some("topic"), "twice"),
            (r#"{"topic":"a","payload":1,"routing_key":"b"}"#, Some("routing_key"), "twice"),
            (r#"{"topic":"a","payload":1,"payload_base64":""}"#, Some("payload_base64"), "one of them"),
            (r#"{"topic":"a","payload_base64":"%"}"#, Some("payload_base64"), "isn't base64"),
            (r#"{"topic":"a","payload":[1e999]}"#, Some("payload"), "1e999 is out of range"),
            (r#"{"topic":"a","payload":"\ud800"}"#, Some("payload"), "half of a surrogate pair"),
            (r#"{"topic":"a","payload":{"n":1,"n":2}}"#, Some("payload"), "\"n\" stands twice"),
            (r#"{"topic":"a","payload":{"n":1,"n":2}}"#, Some("payload"), "payload_base64"),
            (r#"{"topic":7,"payload":1}"#, Some("topic"), "string"),
            (r#"{"topic":"a","payload":1,"not_before":170}"#, Some("not_before"), "multiply by 1000"),
            (r#"{"topic":"a","payload":1,"headers":{"x":5}}"#, Some("headers.x"), "a text"),
            (r#"{"topic":"a","payload":1,"event_version":-1}"#, Some("event_version"), "a whole number, 0 or more"),
            (r#"{"payload":1}"#, None, "topic is missing"),
            (r#"{"topic":null,"payload":1}"#, None, "topic is missing"),
            (r#"{"topic":"a"}"#, None, "payload is missing"),
        ] {
            let problem = read(text).unwrap_err();
            assert_eq!(problem.code.as_str(), "SCHEMA.VALIDATION_FAILED", "{text}");
            assert_eq!(problem.at.path.as_deref(), path, "{text}: {problem:?}");
            assert!(problem.detail.contains(words), "{text}: {}", problem.detail);
        }
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_texts_do_not_count() {
        let nested =
            |depth: usize| format!("{{\"topic\":\"a\",\"payload\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(JSON_DEPTH_MAX)).is_ok());
        assert!(read(&nested(JSON_DEPTH_MAX + 1)).unwrap_err().detail.contains("payload_base64"));
        assert!(read(&nested(100_000)).is_err());
        let texts = format!("{{\"topic\":\"a\",\"payload\":\"{}\\\"\"}}", "[{".repeat(500));
        assert!(read(&texts).is_ok());
        let wide = format!("{{\"topic\":\"a\",\"payload\":[{}[]]}}", "[],".repeat(500));
        assert!(read(&wide).is_ok());
    }
}
