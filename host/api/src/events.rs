//! Events of streams: as they are appended, and what is answered. As they are read they are
//! [`EnvelopeJson`](waybill_core::streams::wire::EnvelopeJson)s.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::error::{InputError, InputResult};
use waybill_core::ids::EventId;
use waybill_core::port::service::streams::{AppendRequest, Appended, EventInput, StreamError};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::event::Op;
use waybill_core::streams::limits::COMMIT_EVENTS_MAX;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::wire::{AnyJson, Base64Json, HeadersMapJson, OpJson};

use crate::instant::Instant;

/// Most events of one append: they get their numbers in one commit.
pub const APPEND_EVENTS_MAX: usize = COMMIT_EVENTS_MAX;

/// Events to append to one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Append)]
pub struct AppendBody {
    /// 1 to 4,096, all or nothing. They get consecutive numbers in this order.
    #[serde(deserialize_with = "events")]
    #[schema(min_items = 1, max_items = 4096)]
    pub events: Vec<NewEventBody>,
    /// Append only if the stream ends at this number; 0 = it has never had an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_seq: Option<SeqJson>,
    /// Whose stream; the credential's only tenant, else `default`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// An event to append: an envelope without what the host gives it, its stream and its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
pub struct NewEventBody {
    /// Id of your choice (up to 128 bytes): the same event appended again then changes nothing. A ULID is made if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub event_id: Option<EventId>,
    /// When it happened; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts_ms: Option<Instant>,
    /// Kind of what changed, up to 255 bytes: `TASK`, `NODE`, ...
    pub resource_type: String,
    /// Which one, up to 255 bytes.
    pub resource_id: String,
    /// What happened. It has to be said: neither `OP_UNSPECIFIED` nor 0.
    #[serde(deserialize_with = "op")]
    pub op: OpJson,
    /// Version of the payload's schema, from 1.
    #[schema(minimum = 1)]
    pub schema_version: u32,
    /// Node that it belongs to; taken from a stream's name `*.node.{uuid}` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_uuid: Option<String>,
    /// Ties it to a request or an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Why it happened, in words: `manual`, `scheduling`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Names and texts, at most 64 and together 16 KiB. What led to the event goes on to receivers as `causation-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<HeadersMapJson<'static>>,
    /// Media type of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// A payload that names its own type; not beside `payload_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AnyJson>)]
    pub payload: Option<AnyJson<'static>>,
    /// Any other payload in base64, of the kind in `content_type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub payload_bytes: Option<Base64Json<'static>>,
}

impl AppendBody {
    /// The request to append to a stream. Its events are checked further when they are appended.
    pub fn into_request(self, stream: StreamKey) -> Result<AppendRequest, StreamError> {
        let numbered = self.events.into_iter().enumerate();
        let events = numbered.map(|(index, event)| {
            let refused = |error: InputError| StreamError::Event { index, error: error.into() };
            event.into_input().map_err(refused)
        });
        Ok(AppendRequest {
            stream,
            events: events.collect::<Result<_, _>>()?,
            expected_seq: self.expected_seq.map(u64::from),
            traceparent: None,
        })
    }
}

impl NewEventBody {
    pub(crate) fn into_input(self) -> InputResult<EventInput> {
        Ok(EventInput {
            id: self.event_id,
            ts: self.ts_ms.map(|at| at.0),
            resource_type: self.resource_type,
            resource_id: self.resource_id,
            op: self.op.0,
            schema_version: self.schema_version,
            node_uuid: self.node_uuid,
            correlation_id: self.correlation_id,
            cause: self.cause,
            headers: self.headers.map(HeadersMapJson::into_map).unwrap_or_default(),
            content_type: self.content_type,
            body: AnyJson::body(self.payload, self.payload_bytes)?,
        })
    }
}

/// Wants one event at least.
fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NewEventBody>, D::Error> {
    let events = bounded(deserializer)?;
    if events.is_empty() { Err(de::Error::custom("there is no event: give one at least")) } else { Ok(events) }
}

/// Stops reading at the bound of one append.
pub fn bounded<'de, D: Deserializer<'de>, E: Deserialize<'de>>(deserializer: D) -> Result<Vec<E>, D::Error> {
    struct EventsVisitor<E>(PhantomData<E>);
    impl<'de, E: Deserialize<'de>> Visitor<'de> for EventsVisitor<E> {
        type Value = Vec<E>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of events")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut events = Vec::new();
            while let Some(event) = seq.next_element()? {
                if events.len() >= APPEND_EVENTS_MAX {
                    let text = format_args!("there are more than {APPEND_EVENTS_MAX} events: split the request");
                    return Err(de::Error::custom(text));
                }
                events.push(event);
            }
            Ok(events)
        }
    }
    deserializer.deserialize_seq(EventsVisitor(PhantomData))
}

/// An event says what happened.
fn op<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OpJson, D::Error> {
    let op = OpJson::deserialize(deserializer)?;
    if op.0 == Op::UNSPECIFIED {
        return Err(de::Error::custom("it is unspecified: say what happened, e.g. \"UPDATE\""));
    }
    Ok(op)
}

/// Events that were appended. Either way they are durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Appended)]
pub struct AppendedView {
    /// Ids in the order of the request.
    pub ids: Vec<String>,
    /// Their numbers, in the same order. Absent with 202: they will be numbered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seqs: Option<Vec<SeqJson>>,
    /// Those of the ids that were there before with the same content. Absent with 202.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<Vec<String>>,
}

impl From<Appended> for AppendedView {
    fn from(appended: Appended) -> Self {
        let texts = |ids: Vec<EventId>| ids.into_iter().map(String::from).collect::<Vec<_>>();
        match appended {
            Appended::Numbered { ids, seqs, duplicates } => {
                let ids = texts(ids);
                let duplicates = duplicates.into_iter().filter_map(|place| ids.get(place).cloned()).collect();
                Self { ids, seqs: Some(seqs.into_iter().map(SeqJson).collect()), duplicates: Some(duplicates) }
            }
            Appended::Accepted { ids } => Self { ids: texts(ids), seqs: None, duplicates: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::{Value, json};
    use waybill_core::ids::Tenant;
    use waybill_core::streams::event::{Body, Event};
    use waybill_core::streams::name::StreamName;
    use waybill_core::streams::wire::EnvelopeJson;
    use waybill_core::time::UnixMillis;

    fn stream() -> StreamKey {
        StreamKey { tenant: Tenant::unnamed(), name: StreamName::new("task").unwrap() }
    }

    fn event() -> Value {
        json!({"resource_type": "TASK", "resource_id": "t-1", "op": "update", "schema_version": 1})
    }

    fn with(field: &str, value: Value) -> Value {
        let mut event = event();
        event[field] = value;
        event
    }

    fn read(body: &Value) -> Result<AppendRequest, String> {
        let body: AppendBody = serde_json::from_str(&body.to_string()).map_err(|error| error.to_string())?;
        body.into_request(stream()).map_err(|error| error.to_string())
    }

    fn one(event: Value) -> Result<EventInput, String> {
        read(&json!({"events": [event]})).map(|request| request.events[0].clone())
    }

    #[test]
    fn an_event_needs_four_fields() {
        let input = one(event()).unwrap();
        assert_eq!((input.id, input.ts, input.op, input.schema_version), (None, None, Op::UPDATE, 1));
        assert_eq!((input.body, input.headers.len(), input.content_type), (Body::None, 0, None));
        for field in ["resource_type", "resource_id", "op", "schema_version"] {
            let mut event = event();
            event.as_object_mut().unwrap().remove(field);
            assert!(one(event).unwrap_err().contains(&format!("missing field `{field}`")), "{field}");
        }
    }

    #[test]
    fn faults_name_the_field_and_the_remedy() {
        for (field, value, words) in [
            ("seq", json!(7), "unknown field `seq`"),
            ("stream", json!("task"), "unknown field `stream`"),
            ("tenant", json!("acme"), "unknown field `tenant`"),
            ("op", json!("PURGE"), "STATE_TRANSITION"),
            ("op", json!(0), "say what happened"),
            ("op", json!("OP_UNSPECIFIED"), "say what happened"),
            ("op", json!(1.5), "an operation"),
            ("schema_version", json!("1"), "u32"),
            ("event_id", json!("x".repeat(129)), "event_id has 129 bytes, at most 128"),
            ("event_id", json!(""), "event_id is empty"),
            ("ts_ms", json!(1_700_000_000), "multiply by 1000"),
            ("headers", json!({"a": ["1", "2"]}), "expected a string"),
            ("headers", json!([]), "header names and texts"),
            ("payload", json!({"order": 7}), "unknown field `order`"),
            ("payload_bytes", json!({"order": 7}), "bytes in base64"),
            ("payload_bytes", json!("%"), "isn't base64"),
            ("resource_id", json!(7), "expected a string"),
        ] {
            let error = one(with(field, value)).unwrap_err();
            assert!(error.contains(words), "{field}: {error}");
        }
        let mut both = with("payload", json!({"type_url": "t"}));
        both["payload_bytes"] = json!("");
        let error = read(&json!({"events": [event(), both]})).unwrap_err();
        assert!(error.contains("event 1") && error.contains("give one of them"), "{error}");
    }

    #[test]
    fn a_list_of_events_is_bounded_and_not_empty() {
        let body = |count: usize| json!({"events": vec![event(); count], "expected_seq": 0});
        let request = read(&body(APPEND_EVENTS_MAX)).unwrap();
        assert_eq!((request.events.len(), request.expected_seq), (APPEND_EVENTS_MAX, Some(0)));
        assert!(read(&body(APPEND_EVENTS_MAX + 1)).unwrap_err().contains("more than 4096"));
        assert!(read(&body(0)).unwrap_err().contains("no event"));
        assert!(read(&json!({})).unwrap_err().contains("missing field `events`"));
        assert!(read(&json!({"events": event()})).unwrap_err().contains("a list of events"));
        assert!(read(&json!({"events": [event()], "expected_seq": -1})).unwrap_err().contains("as text like"));
        assert!(read(&json!({"events": [event()], "expect": 1})).unwrap_err().contains("`expect`"));
    }

    #[test]
    fn what_was_read_can_be_appended_elsewhere() {
        let bodies = [
            Body::None,
            Body::Bytes("{\"a\":1}".into()),
            Body::Any { type_url: "type.googleapis.com/x".into(), value: vec![0, 255].into() },
        ];
        for body in bodies {
            let event = Event {
                id: EventId::new("e-1").unwrap(),
                ts: UnixMillis(1_700_000_000_123),
                resource_type: "TASK".into(),
                resource_id: "t-1".into(),
                op: Op(41),
                schema_version: 3,
                node_uuid: Some("n".into()),
                correlation_id: Some("c".into()),
                cause: Some("manual".into()),
                headers: BTreeMap::from([("causation-id".into(), "cmd".into())]),
                content_type: Some("application/json".into()),
                body,
            };
            let text = EnvelopeJson::of(&stream(), 9, &event, None).unwrap().to_text();
            let mut envelope: Value = serde_json::from_slice(&text).unwrap();
            for given in ["stream", "seq", "tenant"] {
                assert!(envelope.as_object_mut().unwrap().remove(given).is_some(), "{given}");
            }
            let input = one(envelope.clone()).unwrap();
            assert_eq!(input.into_event(|| EventId::new("made").unwrap(), UnixMillis(0)), event);
            let written: AppendBody = serde_json::from_value(json!({"events": [envelope]})).unwrap();
            let again: AppendBody = serde_json::from_str(&serde_json::to_string(&written).unwrap()).unwrap();
            assert_eq!(again, written);
        }
    }

    #[test]
    fn an_answer_has_numbers_where_they_are_known() {
        let ids = || vec![EventId::new("a").unwrap(), EventId::new("b").unwrap()];
        let numbered = Appended::Numbered { ids: ids(), seqs: vec![8, 3], duplicates: vec![1] };
        let json = |appended: Appended| serde_json::to_value(AppendedView::from(appended)).unwrap();
        assert_eq!(json(numbered), json!({"ids": ["a", "b"], "seqs": ["8", "3"], "duplicates": ["b"]}));
        assert_eq!(json(Appended::Accepted { ids: ids() }), json!({"ids": ["a", "b"]}));
    }
}
