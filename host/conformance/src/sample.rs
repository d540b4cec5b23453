//! Messages of the suites.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{Key, MessageId, Seq, Tenant};
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;
use waybill_core::topic::Topic;

use crate::case::{CaseMessage, at_peer};

/// An instant long ago, so that nothing depends on today.
const OCCURRED: UnixMillis = UnixMillis(1_700_000_000_000);

/// A case's message on its way, with `number` telling it from the others. None if an id, key or topic can't be one.
pub(crate) fn delivery(template: &CaseMessage, number: u64, peer: &str) -> Option<Delivery> {
    let id = template.id.clone().unwrap_or_else(|| format!("suite-message-{number}"));
    let payload = Bytes::from(template.payload.clone().unwrap_or_else(|| format!("{{\"number\":{number}}}")));
    let topic = template.topic.as_deref().unwrap_or("bus:suite.messages");
    let destination = template.destination.as_deref().unwrap_or("suite.messages");
    let message = Message {
        id: MessageId::new(id).ok()?,
        caller_id: true,
        tenant: Tenant::new("suite").ok()?,
        topic: Topic::parse(topic).ok()?,
        key: Some(Key::new(template.key.clone().unwrap_or_else(|| format!("key-{number}"))).ok()?),
        headers: template.headers.iter().map(|(name, value)| (name.clone(), at_peer(value, peer))).collect(),
        payload: Payload::Inline(payload.clone()),
        event_type: template.event_type.clone().unwrap_or_else(|| "suite.message".to_owned()),
        event_version: 1,
        annotations: [(Annotation::ContentType, template.content_type.as_deref().unwrap_or("application/json"))].into(),
        occurred_at: OCCURRED,
        created_at: OCCURRED,
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    };
    Some(Delivery {
        message: Arc::new(message),
        payload,
        destination: at_peer(destination, peer),
        attempt: template.attempt.unwrap_or(1),
        lease_epoch: 1,
        seq: Seq(number),
        attributes: Vec::new(),
    })
}

/// The same message with another payload.
pub(crate) fn with_payload(mut delivery: Delivery, payload: Vec<u8>) -> Delivery {
    delivery.payload = Bytes::from(payload);
    let mut message = Message::clone(&delivery.message);
    message.payload = Payload::Inline(delivery.payload.clone());
    delivery.message = Arc::new(message);
    delivery
}

/// The same message with another key.
pub(crate) fn with_key(mut delivery: Delivery, key: &Key) -> Delivery {
    let mut message = Message::clone(&delivery.message);
    message.key = Some(key.clone());
    delivery.message = Arc::new(message);
    delivery
}

/// A fault in one line.
pub(crate) fn describe(fault: &Fault) -> String {
    format!("{}: {}", fault.code, fault.reason)
}
