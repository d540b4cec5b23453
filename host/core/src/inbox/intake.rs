//! What a source delivered, read into the message that its consumers see: whose it is, what names it, what it is ordered by.

use std::sync::Arc;

use bytes::Bytes;

use super::message::{InboundMessage, context_of};
use super::owner::Arrival;
use super::settings::ConsumerId;
use crate::code::Code;
use crate::ids::{InboundId, Key, SourceName, Tenant};
use crate::new_message::event_of_subject;
use crate::port::source::SourceDelivery;
use crate::port::transport::Fault;
use crate::time::UnixMillis;

/// Attribute of a delivery that can't be a message: why. It becomes a dead letter, and its source hears of it when that is kept.
const INVALID: &str = "invalid";

/// What stands in for an id where sender and source have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingId {
    /// It is stored under an id of ours: handled at least once, nothing can be told apart.
    #[default]
    Row,
    /// A hash of the payload: equal payloads are one message.
    Content,
    /// It is a dead letter.
    Dead,
}

/// Names of headers and properties that hold parts of a message; none = as the plugin has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    pub id: Option<String>,
    pub key: Option<String>,
    pub tenant: Option<String>,
    /// Event type.
    pub kind: Option<String>,
    pub correlation: Option<String>,
    pub causation: Option<String>,
    /// When it happened: RFC 3339 text or milliseconds since 1970.
    pub time: Option<String>,
}

/// How the deliveries of a source are read.
#[derive(Clone, Debug)]
pub struct Intake {
    pub source: SourceName,
    /// Context of its messages; none = the first token of the subject.
    pub context: Option<String>,
    /// Tenants of its messages. One: all are its. With several each message names one of them.
    pub tenants: Vec<Tenant>,
    pub missing_id: MissingId,
    pub names: FieldNames,
    /// Bytes of the largest payload that is taken.
    pub payload_bytes_max: usize,
}

/// What a delivery can't say of itself.
#[derive(Clone, Copy)]
pub struct IntakeContext<'a> {
    pub now: UnixMillis,
    /// Names a message that nobody named. Fresh and unique.
    pub fresh_id: &'a dyn Fn() -> String,
    /// Stands for a payload: equal ones have the same.
    pub content_id: &'a dyn Fn(&[u8]) -> String,
    /// Who takes messages of a subject, in order of the configuration.
    pub consumers: &'a dyn Fn(&str) -> Vec<ConsumerId>,
}

impl Intake {
    /// Reads a delivery. What nobody may handle comes with the reason ([`Arrival::refusal`]).
    pub fn read(&self, mut delivery: SourceDelivery, context: &IntakeContext<'_>) -> Arrival {
        delivery.position.take_if(|position| position.is_empty());
        let mut refusal = invalid(&mut delivery);
        let (id, anonymous) = self.id(&delivery, context, &mut refusal);
        let tenant = self.tenant(&delivery, &mut refusal);
        let key = self.key(&delivery, &mut refusal);
        let subject_event = event_of_subject(&delivery.topic);
        let named = |name: &Option<String>| name.as_ref().and_then(|name| found(&delivery, name));
        let kind = named(&self.names.kind).or_else(|| delivery.event_type.clone());
        let correlation_id = named(&self.names.correlation).or_else(|| delivery.correlation_id.clone());
        let causation_id = named(&self.names.causation).or_else(|| delivery.causation_id.clone());
        let time = named(&self.names.time).and_then(|text| instant(&text));
        let is_too_large = delivery.omitted.is_some() || delivery.payload.len() > self.payload_bytes_max;
        let omitted = is_too_large.then(|| delivery.omitted.map_or(delivery.payload.len() as u64, u64::from));
        if let Some(bytes) = omitted {
            let most = self.payload_bytes_max;
            let reason = format!("its payload has {bytes} bytes, at most {most} are taken: it stays where it was");
            refusal.get_or_insert(Fault::new(Code::INBOX_PAYLOAD_TOO_LARGE, reason));
        }
        let message = InboundMessage {
            id,
            source: self.source.clone(),
            tenant,
            context: self.context.clone().unwrap_or_else(|| context_of(&delivery.topic).to_owned()),
            key,
            event_version: delivery.event_version.or(subject_event.as_ref().map(|(_, version)| *version)),
            event_type: kind.or(subject_event.map(|(name, _)| name)),
            correlation_id,
            causation_id,
            reply_to: delivery.reply_to,
            occurred_at: time.or(delivery.occurred_at),
            received_at: context.now,
            position: delivery.position,
            attributes: delivery.attributes,
            headers: delivery.headers,
            content_type: delivery.content_type,
            payload: if is_too_large { Bytes::new() } else { delivery.payload },
            omitted,
            subject: delivery.topic,
        };
        let consumers = (context.consumers)(&message.subject);
        Arrival {
            token: delivery.token,
            group: delivery.group,
            settle_within: delivery.settle_within,
            deliveries_left: delivery.deliveries_left,
            redelivered: delivery.redelivered || delivery.delivery_count.is_some_and(|count| count > 1),
            message: Arc::new(message),
            anonymous,
            consumers,
            refusal,
        }
    }

    /// The id, and whether it is one of ours.
    fn id(
        &self,
        delivery: &SourceDelivery,
        context: &IntakeContext<'_>,
        refusal: &mut Option<Fault>,
    ) -> (InboundId, bool) {
        let named = self.names.id.as_ref().and_then(|name| found(delivery, name));
        let given = named.or_else(|| delivery.id.clone()).filter(|id| !id.is_empty());
        let fresh = || InboundId::new((context.fresh_id)());
        let content = || InboundId::new((context.content_id)(&delivery.payload));
        let id = match given.or_else(|| delivery.position.clone()) {
            Some(text) => match InboundId::new(&text) {
                Ok(id) => return (id, false),
                Err(error) => {
                    refusal.get_or_insert(Fault::new(Code::INBOX_MISSING_ID, format!("its id can't be one: {error}")));
                    // Under the same name when it comes again, so that it is refused once.
                    content()
                }
            },
            None => match self.missing_id {
                MissingId::Row => return (fresh().unwrap_or_else(|_| InboundId::unnamed()), true),
                MissingId::Content => content(),
                MissingId::Dead => {
                    let reason = "neither its sender nor its source names it (missing_id = \"dead\")";
                    refusal.get_or_insert(Fault::new(Code::INBOX_MISSING_ID, reason));
                    content()
                }
            },
        };
        (id.unwrap_or_else(|_| InboundId::unnamed()), false)
    }

    fn tenant(&self, delivery: &SourceDelivery, refusal: &mut Option<Fault>) -> Tenant {
        let first = self.tenants.first().cloned().unwrap_or_else(Tenant::unnamed);
        if self.tenants.len() <= 1 {
            return first;
        }
        let named = self.names.tenant.as_ref().and_then(|name| found(delivery, name));
        let named = named.or_else(|| delivery.tenant.clone());
        if let Some(tenant) = self.tenants.iter().find(|tenant| Some(tenant.as_str()) == named.as_deref()) {
            return tenant.clone();
        }
        let reason = match named {
            Some(named) => format!("its sender names tenant {named:?}, which isn't one of the source's"),
            None => "its sender names no tenant, and the source has several".to_owned(),
        };
        refusal.get_or_insert(Fault::new(Code::INBOX_TENANT, reason));
        first
    }

    fn key(&self, delivery: &SourceDelivery, refusal: &mut Option<Fault>) -> Option<Key> {
        let named = self.names.key.as_ref().and_then(|name| found(delivery, name));
        let text = named.or_else(|| delivery.key.clone()).filter(|key| !key.is_empty())?;
        match Key::new(&text) {
            Ok(key) => Some(key),
            Err(error) => {
                refusal.get_or_insert(Fault::new(error.code(), error.to_string()));
                None
            }
        }
    }
}

/// Why a source says that it is no message. Handlers of a replay see no such attribute: somebody decided otherwise.
fn invalid(delivery: &mut SourceDelivery) -> Option<Fault> {
    let place = delivery.attributes.iter().position(|(name, _)| name == INVALID)?;
    let (_, why) = delivery.attributes.swap_remove(place);
    Some(Fault::new(Code::INVALID_OUTBOX, why))
}

/// RFC 3339 text, or milliseconds since 1970.
fn instant(text: &str) -> Option<UnixMillis> {
    if let Ok(ms) = text.parse() {
        return Some(UnixMillis(ms));
    }
    let instant: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(instant.as_millisecond()).ok().map(UnixMillis)
}

/// A header by name, however it is written, else a property.
fn found(delivery: &SourceDelivery, name: &str) -> Option<String> {
    let header = delivery.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let value = header.or_else(|| delivery.attributes.iter().find(|(known, _)| known == name));
    value.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn intake() -> Intake {
        Intake {
            source: SourceName::new("shop").unwrap(),
            context: None,
            tenants: vec![Tenant::unnamed()],
            missing_id: MissingId::Row,
            names: FieldNames::default(),
            payload_bytes_max: 8,
        }
    }

    fn read(intake: &Intake, change: impl FnOnce(&mut SourceDelivery)) -> Arrival {
        let mut delivery = SourceDelivery::new("t", "sales.event.order_paid.v2", "{}");
        change(&mut delivery);
        let context = IntakeContext {
            now: UnixMillis(7),
            fresh_id: &|| "fresh".to_owned(),
            content_id: &|payload| format!("content-{}", payload.len()),
            consumers: &|_| vec![ConsumerId(0)],
        };
        intake.read(delivery, &context)
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn an_id_is_the_senders_else_the_position_and_never_the_content_unasked() {
        let id = |arrival: Arrival| (arrival.message.id.to_string(), arrival.anonymous);
        let mut of = intake();
        assert_eq!(id(read(&of, |d| (d.id, d.position) = (text("m-1"), text("p-1")))), ("m-1".into(), false));
        assert_eq!(id(read(&of, |d| d.position = text("p-1"))), ("p-1".into(), false));
        assert_eq!(id(read(&of, |_| {})), ("fresh".into(), true));
        of.missing_id = MissingId::Content;
        assert_eq!(id(read(&of, |_| {})), ("content-2".into(), false));
        of.missing_id = MissingId::Dead;
        assert_eq!(read(&of, |_| {}).refusal.unwrap().code, "INBOX.MISSING_ID");
        assert_eq!(read(&of, |d| d.id = Some("x".repeat(513))).refusal.unwrap().code, "INBOX.MISSING_ID");
        of.names.id = text("Order-Id");
        let named = |d: &mut SourceDelivery| {
            (d.id, d.headers) = (text("m-1"), vec![("order-id".into(), "o-7".into())]);
        };
        assert_eq!(id(read(&of, named)), ("o-7".into(), false));
    }

    #[test]
    fn with_several_tenants_the_senders_has_to_be_one_of_them() {
        let mut of = intake();
        assert_eq!(read(&of, |d| d.tenant = text("acme")).message.tenant.as_str(), "default");
        of.tenants = vec![Tenant::new("a").unwrap(), Tenant::new("b").unwrap()];
        assert_eq!(read(&of, |d| d.tenant = text("b")).message.tenant.as_str(), "b");
        for named in [text("c"), None] {
            assert_eq!(read(&of, |d| d.tenant = named).refusal.unwrap().code, "INBOX.TENANT");
        }
    }

    #[test]
    fn what_its_source_calls_invalid_is_refused_for_that_before_anything_else() {
        let told = |d: &mut SourceDelivery| {
            d.attributes = vec![("aggregate-id".into(), "9".into()), ("invalid".into(), "its payload is NULL".into())];
            (d.omitted, d.position) = (Some(1_000), text("16384/7"));
        };
        let arrival = read(&intake(), told);
        let fault = arrival.refusal.unwrap();
        assert_eq!((fault.code.as_str(), fault.reason.as_str()), ("INVALID_OUTBOX", "its payload is NULL"));
        assert_eq!((arrival.message.id.as_str(), arrival.message.omitted), ("16384/7", Some(1_000)));
        assert_eq!(arrival.message.attributes, [("aggregate-id".to_owned(), "9".to_owned())]);
    }

    #[test]
    fn what_is_too_large_keeps_its_size_and_loses_its_payload() {
        let large = read(&intake(), |d| d.payload = Bytes::from_static(b"123456789"));
        assert_eq!(large.refusal.unwrap().code, "INBOX.PAYLOAD_TOO_LARGE");
        assert_eq!((large.message.omitted, large.message.payload.len()), (Some(9), 0));
        assert_eq!(read(&intake(), |d| d.omitted = Some(1_000)).message.omitted, Some(1_000));
    }

    #[test]
    fn type_version_and_context_come_from_the_subject_where_nobody_says_more() {
        let message = read(&intake(), |_| {}).message;
        assert_eq!((message.event_type.as_deref(), message.event_version), (Some("order_paid"), Some(2)));
        assert_eq!(message.context, "sales");
        let message = read(&intake(), |d| (d.topic, d.event_type) = ("plain".into(), text("t"))).message;
        assert_eq!((message.event_type.as_deref(), message.event_version), (Some("t"), None));
    }
}
