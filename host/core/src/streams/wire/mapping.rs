//! An event as a message for a relay's transport.
//!
//! The message has the event's id, so that a broker which knows ids drops a repeat, and the headers of the source document. Its key is what
//! the relay keeps in order. What the transport writes besides (`x-tenant`, `x-event-type` and the like) it takes from the message as
//! from any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use thiserror::Error;

use super::broker::Broker;
use super::json::EnvelopeJson;
use super::template::{Template, TemplateError};
use crate::annotation::Annotation;
use crate::annotations::Annotations;
use crate::code::Code;
use crate::error::{InputError, InputResult};
use crate::ids::{Key, MessageId, Seq};
use crate::message::{Delivery, Headers, Message, Payload};
use crate::port::transport::Fault;
use crate::streams::envelope::{self, EnvelopeError};
use crate::streams::event::{Body, Event};
use crate::streams::name::StreamKey;
use crate::streams::relay::OrderBy;
use crate::streams::settings::{RelayBody, RelayPlan};

/// Attribute of a message: the exchange that it goes to, instead of the transport's own.
pub const EXCHANGE: &str = "exchange";
/// Media types of the two forms of a body.
const PROTOBUF: &str = "application/protobuf";
const JSON: &str = "application/json";
/// Header with the reason of an event, in words.
const CAUSE: &str = "cause";
/// Headers of every event, in the source document's order. An appender's of the same name is left out.
const HEADERS: [&str; 8] =
    ["event_id", "stream", "seq", "resource_type", "resource_id", "op", "schema_version", "ts_ms"];
/// Ends the name of a header whose value is bytes, or no text of one line: it holds unpadded base64.
const BYTES_SUFFIX: &str = "-bin";

/// How a relay's events become messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    template: Template,
    body: RelayBody,
    order_by: OrderBy,
}

/// Why an event can't be a message: it is refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("the event can't be read: {0}")]
    Envelope(#[from] EnvelopeError),
    /// Whoever reads events puts large payloads back before.
    #[error("the event's payload isn't in it")]
    PayloadElsewhere,
    #[error(transparent)]
    Input(#[from] InputError),
}

impl WireError {
    /// What its dead letter says.
    pub fn fault(&self) -> Fault {
        let code = match self {
            Self::Envelope(_) => Code::STORAGE_CORRUPT,
            Self::PayloadElsewhere => Code::UNKNOWN_INTERNAL,
            Self::Input(error) => error.code(),
        };
        Fault::new(code, self.to_string())
    }
}

impl Mapping {
    /// What a relay's section says, for a transport that speaks this.
    pub fn new(plan: &RelayPlan, broker: Broker) -> Result<Self, TemplateError> {
        let template = Template::parse(broker, plan.topic.as_deref())?;
        Ok(Self { template, body: plan.body, order_by: plan.order_by })
    }

    /// One attempt to send an event. `packed` is its stored envelope with the payload in it; `attempt` is 1 on the first, `epoch` the
    /// token of the shard's owner.
    pub fn delivery(
        &self,
        stream: &StreamKey,
        seq: u64,
        packed: &[u8],
        attempt: u32,
        epoch: u64,
    ) -> Result<Delivery, WireError> {
        let event = envelope::unpack(packed)?;
        let (payload, media) = self.payload(stream, seq, packed, &event)?;
        let place = self.template.place(stream, &event)?;
        let message = Message {
            id: MessageId::new(event.id.as_str())?,
            // Ids of the inbox's own messages mean something else on the wire; this one means what it says.
            caller_id: true,
            tenant: stream.tenant.clone(),
            topic: place.topic.clone(),
            key: self.key(stream, &event)?,
            headers: headers(stream, seq, &event),
            payload: Payload::Inline(payload.clone()),
            event_type: format!("{}.{}", event.resource_type, op(&event)),
            event_version: event.schema_version,
            annotations: annotations(&event, media),
            occurred_at: event.ts,
            created_at: event.ts,
            not_before: None,
            expires_at: None,
            statements: None,
            replays: 0,
            replayed_by: None,
        };
        Ok(Delivery {
            message: Arc::new(message),
            payload,
            destination: place.topic.subject().to_owned(),
            attempt,
            lease_epoch: epoch,
            seq: Seq(seq),
            attributes: place.exchange.map(|exchange| (EXCHANGE.to_owned(), exchange)).into_iter().collect(),
        })
    }

    fn payload(
        &self,
        stream: &StreamKey,
        seq: u64,
        packed: &[u8],
        event: &Event,
    ) -> Result<(Bytes, &'static str), WireError> {
        if matches!(event.body, Body::Blob { .. }) {
            return Err(WireError::PayloadElsewhere);
        }
        match self.body {
            RelayBody::Protobuf => Ok((envelope::wire(stream, seq, packed, None).into(), PROTOBUF)),
            RelayBody::Json => {
                let json = EnvelopeJson::of(stream, seq, event, None).ok_or(WireError::PayloadElsewhere)?;
                Ok((json.to_text(), JSON))
            }
        }
    }

    /// What the relay keeps in order within the stream, as the broker's key. An event without a node has none there.
    fn key(&self, stream: &StreamKey, event: &Event) -> InputResult<Option<Key>> {
        let text = match self.order_by {
            OrderBy::Resource => Some(event.resource_id.as_str()),
            OrderBy::Node => event.node_uuid.as_deref(),
            OrderBy::Stream => Some(stream.name.as_str()),
        };
        text.filter(|text| !text.is_empty()).map(Key::new).transpose()
    }
}

fn op(event: &Event) -> String {
    event.op.name().map_or_else(|| event.op.0.to_string(), str::to_owned)
}

fn headers(stream: &StreamKey, seq: u64, event: &Event) -> Headers {
    let values = [
        event.id.to_string(),
        stream.name.to_string(),
        seq.to_string(),
        event.resource_type.clone(),
        event.resource_id.clone(),
        op(event),
        event.schema_version.to_string(),
        event.ts.0.to_string(),
    ];
    let cause = event.cause.iter().map(|cause| (CAUSE.to_owned(), cause.clone()));
    let mut headers: Headers = HEADERS.iter().map(|name| (*name).to_owned()).zip(values).chain(cause).collect();
    let ours = headers.len();
    for (name, value) in &event.headers {
        if !headers.iter().take(ours).any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            headers.push(appenders_header(name, value));
        }
    }
    headers
}

fn appenders_header(name: &str, value: &str) -> (String, String) {
    if value.contains(['\r', '\n']) {
        return (format!("{name}{BYTES_SUFFIX}"), STANDARD_NO_PAD.encode(value));
    }
    (name.to_owned(), value.to_owned())
}

/// What the event that caused this one is called goes on as the message's, where a message can have it.
fn annotations(event: &Event, media: &'static str) -> Annotations {
    let mut annotations = Annotations::from([(Annotation::ContentType, media)]);
    annotations.inherit(Annotation::CorrelationId, event.correlation_id.as_deref());
    annotations.inherit(Annotation::CausationId, causation_id(&event.headers));
    annotations
}

/// What an appender says in the header `causation-id`.
fn causation_id(headers: &BTreeMap<String, String>) -> Option<&str> {
    let is_it = |name: &&String| name.eq_ignore_ascii_case(Annotation::CausationId.dashed());
    let name = headers.keys().find(is_it)?;
    headers.get(name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RelayName, Tenant};
    use crate::streams::event::Op;
    use crate::streams::event::tests::event;
    use crate::streams::name::{StreamName, StreamPattern};
    use crate::time::UnixMillis;

    fn stream() -> StreamKey {
        StreamKey { tenant: Tenant::new("acme").unwrap(), name: StreamName::new("task.node.1").unwrap() }
    }

    fn plan() -> RelayPlan {
        RelayPlan::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap(), "rabbit")
    }

    fn full() -> Event {
        let headers = [("causation-id", "cmd-7"), ("shop", "eu"), ("Seq", "99"), ("note", "two\nlines")];
        Event {
            node_uuid: Some("n-1".into()),
            correlation_id: Some("req-1".into()),
            cause: Some("health check".into()),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..event("e-1")
        }
    }

    fn sent(plan: &RelayPlan, broker: Broker, event: &Event) -> Delivery {
        let mapping = Mapping::new(plan, broker).unwrap();
        mapping.delivery(&stream(), 7, &envelope::pack(event), 2, 3).unwrap()
    }

    #[test]
    fn headers_are_the_source_documents_and_then_the_appenders() {
        let sent = sent(&plan(), Broker::Nats, &full());
        let headers: Vec<(&str, &str)> =
            sent.message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let wanted = [
            ("event_id", "e-1"),
            ("stream", "task.node.1"),
            ("seq", "7"),
            ("resource_type", "TASK"),
            ("resource_id", "t-1"),
            ("op", "UPDATE"),
            ("schema_version", "1"),
            ("ts_ms", "1700000000000"),
            ("cause", "health check"),
            ("causation-id", "cmd-7"),
            ("note-bin", "dHdvCmxpbmVz"),
            ("shop", "eu"),
        ];
        assert_eq!(headers, wanted);
        assert_eq!(sent.message.annotation(Annotation::CausationId), Some("cmd-7"));
        assert_eq!(sent.message.annotation(Annotation::CorrelationId), Some("req-1"));
    }

    #[test]
    fn a_message_has_the_events_id_its_time_and_its_type() {
        let sent = sent(&plan(), Broker::RabbitMq, &full());
        let message = &*sent.message;
        assert_eq!((message.id.as_str(), message.tenant.as_str()), ("e-1", "acme"));
        assert_eq!((message.event_type.as_str(), message.event_version), ("TASK.UPDATE", 1));
        assert_eq!((message.occurred_at, sent.seq), (UnixMillis(1_700_000_000_000), Seq(7)));
        assert_eq!((sent.attempt, sent.lease_epoch), (2, 3));
        assert_eq!(sent.destination, "TASK.n-1.t-1");
        assert_eq!(sent.attributes, [("exchange".to_owned(), "sms.events.v1".to_owned())]);
    }

    #[test]
    fn an_id_like_those_of_the_inbox_stays_what_it_is() {
        let mut named = event("in-3-9");
        named.headers.insert(crate::inbox::dlq::WIRE_ID_HEADER.into(), "another".into());
        let sent = sent(&plan(), Broker::Nats, &named);
        assert_eq!(crate::inbox::dlq::id_on_wire(&sent.message), "in-3-9");
    }

    #[test]
    fn a_body_is_the_envelope_in_either_form() {
        let event = full();
        let protobuf = sent(&plan(), Broker::Redis, &event);
        assert_eq!(protobuf.payload, envelope::wire(&stream(), 7, &envelope::pack(&event), None));
        assert_eq!(protobuf.message.annotation(Annotation::ContentType), Some("application/protobuf"));
        let json = sent(&RelayPlan { body: RelayBody::Json, ..plan() }, Broker::Redis, &event);
        assert_eq!(json.message.annotation(Annotation::ContentType), Some("application/json"));
        let read: EnvelopeJson = serde_json::from_slice(&json.payload).unwrap();
        assert_eq!(read.into_event(), Ok((stream(), 7, event)));
        assert_eq!(json.message.payload, Payload::Inline(json.payload.clone()));
    }

    #[test]
    fn the_key_is_what_the_relay_keeps_in_order() {
        let key = |order_by, event: &Event| {
            let sent = sent(&RelayPlan { order_by, ..plan() }, Broker::Nats, event);
            sent.message.key.as_ref().map(|key| key.as_str().to_owned())
        };
        assert_eq!(key(OrderBy::Resource, &full()).as_deref(), Some("t-1"));
        assert_eq!(key(OrderBy::Node, &full()).as_deref(), Some("n-1"));
        assert_eq!(key(OrderBy::Stream, &full()).as_deref(), Some("task.node.1"));
        assert_eq!(key(OrderBy::Node, &event("e-1")), None);
    }

    #[test]
    fn an_operation_without_a_name_goes_by_its_number() {
        let sent = sent(&plan(), Broker::Nats, &Event { op: Op(41), ..full() });
        assert_eq!(sent.message.event_type, "TASK.41");
        assert!(sent.message.headers.contains(&("op".to_owned(), "41".to_owned())));
    }

    #[test]
    fn what_can_not_be_sent_is_told_with_a_code() {
        let mapping = Mapping::new(&plan(), Broker::Nats).unwrap();
        let fault = |packed: &[u8]| mapping.delivery(&stream(), 7, packed, 1, 1).unwrap_err().fault();
        assert_eq!(fault(&[0xFF]).code, "STORAGE.CORRUPT");
        let blob = Body::Blob { bytes: 9, crc: 1, type_url: None };
        assert_eq!(fault(&envelope::pack(&Event { body: blob, ..full() })).code, "UNKNOWN.INTERNAL");
        let hook = RelayPlan { topic: Some("https://h.example/{resource_id}".into()), ..plan() };
        let hook = Mapping::new(&hook, Broker::Http).unwrap();
        let climbing = envelope::pack(&Event { resource_id: "..".into(), ..full() });
        assert_eq!(hook.delivery(&stream(), 7, &climbing, 1, 1).unwrap_err().fault().code, "OUTBOX.TOPIC");
    }
}
