//! What a consumer without a handler makes of a message: another one for a topic, or a signal or reply for a saga.

use std::sync::Arc;

use super::dlq::{FORWARDED, WIRE_ID_HEADER};
use super::message::InboundMessage;
use super::records::SagaDoorItem;
use crate::annotation::{Annotation, Carried};
use crate::annotations::Annotations;
use crate::code::Code;
use crate::ids::{MessageId, Seq, ShardId, Tenant};
use crate::limits::TEXT_BYTES_MAX;
use crate::message::Message;
use crate::new_message::NewMessage;
use crate::port::saga::{ReplyFailure, StepReply};
use crate::port::transport::Fault;
use crate::saga::call::output_json;
use crate::saga::event::StepDirection;
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::time::UnixMillis;

/// Header or property that names a saga and a signal: `SAGA/NAME`.
pub const SIGNAL: &str = "saga-signal";
/// Media type of a reply that tells of an output or a failure; any other payload is the output itself.
pub const REPLY_TYPE: &str = "application/vnd.waybill.reply+json";
/// Header of a `bus:` step's message, which whoever replies may send back: which attempt it answers.
pub const ATTEMPT: &str = "waybill-saga-attempt";

/// A topic with names of what a message has: `bus:audit.{subject}`.
pub fn topic(template: &str, message: &InboundMessage) -> Result<String, Fault> {
    let mut topic = String::with_capacity(template.len() + message.subject.len());
    let mut rest = template;
    while let Some((before, inside)) = rest.split_once('{') {
        let (name, after) = inside.split_once('}').unwrap_or((inside, ""));
        topic.push_str(before);
        let value = value_of(name, message);
        let absent =
            || Fault::new(Code::INVALID_OUTBOX, format!("it has no {name:?}, which its topic {template:?} names"));
        topic.push_str(&value.filter(|value| !value.is_empty()).ok_or_else(absent)?);
        rest = after;
    }
    topic.push_str(rest);
    Ok(topic)
}

/// A part of a message by its name: one of its fields, else a property, else a header.
fn value_of(name: &str, message: &InboundMessage) -> Option<String> {
    match name {
        "subject" | "routing_key" | "topic" => Some(message.subject.clone()),
        "context" => Some(message.context.clone()),
        "tenant" => Some(message.tenant.to_string()),
        "source" => Some(message.source.to_string()),
        "id" | "message_id" => Some(message.id.to_string()),
        "key" => message.key.as_ref().map(ToString::to_string),
        "event_type" | "type" => message.event_type.clone(),
        "event_version" => message.event_version.map(|version| version.to_string()),
        _ => {
            let annotated = Annotation::named(name).and_then(|annotation| text_of(annotation, message));
            annotated.or_else(|| property(name, message)).map(str::to_owned)
        }
    }
}

/// One of its optional texts: its own, or what a property or a header of the name says.
fn text_of(annotation: Annotation, message: &InboundMessage) -> Option<&str> {
    match annotation.carried() {
        Carried::Member => message.annotation(annotation),
        Carried::Header | Carried::Attribute => {
            annotation.among(&message.attributes).or_else(|| annotation.among(&message.headers))
        }
    }
}

fn property<'m>(name: &str, message: &'m InboundMessage) -> Option<&'m str> {
    let of = |pairs: &'m [(String, String)]| {
        pairs.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    };
    of(&message.attributes).or_else(|| of(&message.headers))
}

/// The message that goes on to a topic. Its id in the outbox is ours and made of its place, so that two consumers may pass on the same
/// message; the sender's id is the one on the wire.
pub fn message(
    template: &str,
    from: &InboundMessage,
    place: (ShardId, Seq),
    now: UnixMillis,
    payload_bytes_max: usize,
) -> Result<Arc<Message>, Fault> {
    let refused = |error: crate::error::InputError| Fault::new(error.code(), error.to_string());
    let id = MessageId::new(format!("{FORWARDED}{}-{}", place.0, place.1)).map_err(refused)?;
    let mut headers = from.headers.clone();
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case(WIRE_ID_HEADER) && !name.eq_ignore_ascii_case("traceparent"));
    headers.push((WIRE_ID_HEADER.to_owned(), from.id.to_string()));
    let is_short = |text: &&str| !text.is_empty() && text.len() <= TEXT_BYTES_MAX;
    let draft = NewMessage {
        topic: topic(template, from)?,
        payload: from.payload.clone(),
        tenant: Some(from.tenant.to_string()),
        key: from.key.as_ref().map(ToString::to_string),
        headers,
        // What is ahead of our clock isn't refused here: it was taken.
        occurred_at: from.occurred_at.map(|at| at.min(now)),
        event_type: from.event_type.as_deref().filter(is_short).map(str::to_owned),
        event_version: from.event_version,
        annotations: annotations(from),
        ..NewMessage::default()
    };
    Ok(draft.check(now, payload_bytes_max).map_err(refused)?.finish(|| id))
}

/// The optional texts that go on. What a message can't have is left out instead of refused: the message was taken with it.
fn annotations(from: &InboundMessage) -> Annotations {
    let mut annotations = Annotations::default();
    for annotation in Annotation::ALL {
        annotations.inherit(annotation, text_of(annotation, from));
    }
    annotations
}

/// What the payload of a reply of [`REPLY_TYPE`] tells: the output, or a failure; or why it can't be read.
pub type ReplyReader<'a> = &'a dyn Fn(&[u8]) -> Result<Result<Json, ReplyFailure>, String>;

/// What a message is for a saga of its tenant: a signal that it names, or the reply to the step in its correlation id.
pub fn to_saga(from: &InboundMessage, read: ReplyReader<'_>) -> Result<SagaDoorItem, Fault> {
    if let Some(named) = property(SIGNAL, from) {
        let (saga, name) =
            named.rsplit_once('/').ok_or_else(|| refused(format!("{SIGNAL} is {named:?}, not SAGA/NAME")))?;
        let id = SagaId::new(saga).map_err(|error| refused(error.to_string()))?;
        if name.is_empty() {
            return Err(refused(format!("{SIGNAL} is {named:?}: it names no signal")));
        }
        let key = SagaKey { tenant: from.tenant.clone(), id };
        let data = output_json(&from.payload, from.content_type.as_deref());
        let by = format!("message {} of source {}", from.id, from.source);
        return Ok(SagaDoorItem::Signal { key, name: name.to_owned(), data, by });
    }
    let correlation = from.correlation_id.as_deref().unwrap_or_default();
    let (id, step, way) = step_of(&from.tenant, correlation)?;
    let is_told = from.content_type.as_deref().is_some_and(|media| media.split(';').next() == Some(REPLY_TYPE));
    let result = if is_told {
        read(&from.payload).map_err(refused)?
    } else {
        Ok(output_json(&from.payload, from.content_type.as_deref()))
    };
    let attempt = property(ATTEMPT, from).and_then(|text| text.parse().ok());
    let reply = StepReply { id, step, way, attempt, result };
    Ok(SagaDoorItem::Reply { tenant: from.tenant.clone(), reply: Box::new(reply) })
}

/// Reads the idempotency key of a step, which its message carries as correlation id.
fn step_of(tenant: &Tenant, correlation: &str) -> Result<(SagaId, String, StepDirection), Fault> {
    let other = |why: &str| refused(format!("its correlation id {correlation:?} {why}"));
    let (named, key) = match correlation.strip_prefix('~').and_then(|rest| rest.split_once('/')) {
        Some((named, key)) => (named, key),
        None => (Tenant::UNNAMED, correlation),
    };
    if named != tenant.as_str() {
        return Err(other("is of another tenant's saga"));
    }
    let parts = key.rsplit_once('/').and_then(|(step, way)| {
        let (saga, step) = step.rsplit_once('/')?;
        let way = match way {
            "execute" => StepDirection::Execute,
            "compensate" => StepDirection::Compensate,
            _ => return None,
        };
        Some((SagaId::new(saga).ok()?, step.to_owned(), way))
    });
    parts.ok_or_else(|| other("isn't that of a step (SAGA/STEP/execute), and it names no signal"))
}

fn refused(reason: String) -> Fault {
    Fault::new(Code::INBOX_NO_SAGA, reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use bytes::Bytes;

    use super::*;
    use crate::ids::{InboundId, Key, SourceName};

    fn inbound() -> InboundMessage {
        InboundMessage {
            id: InboundId::new("m-1").unwrap(),
            source: SourceName::new("shop").unwrap(),
            tenant: Tenant::unnamed(),
            subject: "orders.paid".into(),
            context: "orders".into(),
            key: Some(Key::new("order-7").unwrap()),
            headers: vec![("Region".into(), "eu".into())],
            content_type: Some("application/json".into()),
            payload: Bytes::from_static(b"{\"n\":1}"),
            event_type: None,
            event_version: None,
            correlation_id: None,
            causation_id: None,
            reply_to: None,
            occurred_at: Some(UnixMillis(900)),
            received_at: UnixMillis(5),
            position: None,
            attributes: Vec::new(),
            omitted: None,
        }
    }

    #[test]
    fn a_topic_is_filled_with_what_the_message_has() {
        let made = |template: &str| topic(template, &inbound());
        assert_eq!(made("bus:audit.{subject}.{region}").unwrap(), "bus:audit.orders.paid.eu");
        assert_eq!(made("bus:plain").unwrap(), "bus:plain");
        assert_eq!(made("bus:{event_type}").unwrap_err().code, "INVALID_OUTBOX");
        let attributes = vec![("aggregate-type".to_owned(), "order".to_owned())];
        let of_aggregate = InboundMessage { attributes, ..inbound() };
        assert_eq!(topic("bus:{aggregate_type}", &of_aggregate).unwrap(), "bus:order");
    }

    #[test]
    fn what_goes_on_has_an_id_of_ours_and_the_senders_on_the_wire() {
        let made = message("bus:{subject}", &inbound(), (ShardId(3), Seq(9)), UnixMillis(100), 1_000).unwrap();
        assert_eq!((made.id.as_str(), made.caller_id, made.occurred_at), ("in-3-9", false, UnixMillis(100)));
        assert!(made.headers.contains(&(WIRE_ID_HEADER.to_owned(), "m-1".to_owned())));
        assert_eq!(made.key.as_ref().map(Key::as_str), Some("order-7"));
    }

    #[test]
    fn a_correlation_id_names_a_step_of_the_same_tenant() {
        let item = |tenant: &str, correlation: &str| {
            let tenant = Tenant::new(tenant).unwrap();
            let from = InboundMessage { tenant, correlation_id: Some(correlation.to_owned()), ..inbound() };
            to_saga(&from, &|_| Err("not asked".to_owned()))
        };
        let SagaDoorItem::Reply { reply, .. } = item("default", "order-7/charge/execute").unwrap() else { panic!() };
        assert_eq!((reply.id.as_str(), reply.step.as_str(), reply.way), ("order-7", "charge", StepDirection::Execute));
        assert_eq!(reply.result.unwrap().as_str(), "{\"n\":1}");
        assert!(item("acme", "~acme/order-7/charge/compensate").is_ok());
        for (tenant, correlation) in [("acme", "order-7/charge/execute"), ("default", "x"), ("default", "a/b/c")] {
            assert_eq!(item(tenant, correlation).unwrap_err().code, "INBOX.NO_SAGA", "{correlation}");
        }
    }

    #[test]
    fn a_signal_is_named_in_a_header_and_a_failure_in_the_body() {
        let mut from = inbound();
        from.headers.push(("Saga-Signal".into(), "order-7/paid".into()));
        let SagaDoorItem::Signal { key, name, .. } = to_saga(&from, &|_| Err(String::new())).unwrap() else { panic!() };
        assert_eq!((key.id.as_str(), name.as_str()), ("order-7", "paid"));
        let mut from = InboundMessage { correlation_id: Some("o/s/execute".into()), ..inbound() };
        from.content_type = Some(REPLY_TYPE.into());
        assert_eq!(to_saga(&from, &|_| Err("no".into())).unwrap_err().reason, "no");
    }
}
