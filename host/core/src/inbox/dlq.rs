//! The message that a dead letter leaves for others (source document 5, CMD-052 and EVT-047-002).

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::records::InboxDead;
use super::settings::{ConsumerSettings, SourceSettings};
use crate::annotation::Annotation;
use crate::annotations::Annotations;
use crate::ids::{MessageId, ShardId};
use crate::json_text::readable;
use crate::limits::ID_BYTES_MAX;
use crate::message::{Message, Payload};
use crate::time::UnixMillis;
use crate::topic::Topic;

/// Subject of a DLQ message where configuration says no other.
pub const SUBJECT_DEFAULT: &str = "{context}.dlq.{subject}";
/// What the subject of a DLQ message holds.
const DLQ_PART: &str = ".dlq.";
pub const EVENT_TYPE: &str = "MessageDeadLettered";

#[derive(Serialize)]
struct Body<'a> {
    message_id: &'a str,
    original_subject: &'a str,
    reason: &'a str,
    code: &'a str,
    attempts: u32,
    consumer: &'a str,
    /// As it came where it is JSON, else base64 under `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Bytes of a payload that was too large to carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_omitted_bytes: Option<u64>,
}

/// The DLQ message of a dead letter of this shard; none where the consumer leaves none, and none of a DLQ message. Its id in the outbox is ours, the one on the
/// wire is in the header [`WIRE_ID_HEADER`].
pub fn message(
    dead: &InboxDead,
    source: Option<&SourceSettings>,
    consumer: &ConsumerSettings,
    shard: ShardId,
    now: UnixMillis,
) -> Option<Arc<Message>> {
    // In a stream that its own source reads, one would follow the other for as long as a subject may be.
    if is_dlq_message(dead) {
        return None;
    }
    let subject = subject(consumer.dlq_subject.as_deref()?, dead);
    // A subject that no route can take would fail the whole commit: then the dead letter alone has to do.
    let topic = Topic::parse(&format!("bus:{subject}")).ok()?;
    // A replay dies at another place, so no id comes twice.
    let id = MessageId::new(format!("{DEAD}{shard}-{}", dead.seq)).ok()?;
    let wire_id = wire_id(dead, source.map_or(1, |source| source.consumers.len()));
    let from = &dead.message;
    let body = body(dead)?;
    let mut annotations = Annotations::from([(Annotation::ContentType, "application/json")]);
    annotations.set(Annotation::CorrelationId, from.correlation_id.as_deref());
    annotations.set(Annotation::CausationId, Some(from.id.as_str()).filter(|id| id.len() <= ID_BYTES_MAX));
    Some(Arc::new(Message {
        id,
        caller_id: false,
        tenant: from.tenant.clone(),
        topic,
        key: from.key.clone(),
        headers: vec![(WIRE_ID_HEADER.to_owned(), wire_id)],
        payload: Payload::Inline(body),
        event_type: EVENT_TYPE.to_owned(),
        event_version: 1,
        annotations,
        occurred_at: dead.died_at,
        created_at: now,
        not_before: None,
        expires_at: None,
        statements: None,
        replays: 0,
        replayed_by: None,
    }))
}

/// Header of a forwarded message or a DLQ message: the id that it has on the wire, instead of the outbox's.
pub const WIRE_ID_HEADER: &str = "waybill-wire-id";

/// The id that a message has on the wire: its own, but for what the inbox left, which carries its sender's. In a message of anybody else
/// that header is one like others.
pub fn id_on_wire(message: &Message) -> &str {
    let id = message.id.as_str();
    let is_left = !message.caller_id && (id.starts_with(FORWARDED) || id.starts_with(DEAD));
    let carried = message.headers.iter().find(|(name, _)| is_left && name == WIRE_ID_HEADER);
    carried.map_or(id, |(_, carried)| carried)
}

/// What the ids of messages begin with that the inbox leaves in the outbox; those of callers and of the outbox's owner are of another kind.
pub const FORWARDED: &str = "in-";
const DEAD: &str = "dlq-";

/// Id of a DLQ message on the wire: that of its message, with the consumer's name where a source has several, for a broker would
/// drop the second.
pub fn wire_id(dead: &InboxDead, consumers: usize) -> String {
    let id = dead.message.id.as_str();
    if consumers > 1 { format!("{id}.{}", dead.consumer) } else { id.to_owned() }
}

/// Whether what died is itself the message of a dead letter, of this host or another.
fn is_dlq_message(dead: &InboxDead) -> bool {
    dead.message.subject.contains(DLQ_PART) || dead.message.event_type.as_deref() == Some(EVENT_TYPE)
}

fn subject(template: &str, dead: &InboxDead) -> String {
    template.replace("{context}", &dead.message.context).replace("{subject}", &dead.message.subject)
}

fn body(dead: &InboxDead) -> Option<Bytes> {
    let message = &dead.message;
    let json = readable(&message.payload);
    let base64 = || base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &message.payload);
    let body = Body {
        message_id: message.id.as_str(),
        original_subject: &message.subject,
        reason: &dead.reason,
        code: &dead.code,
        attempts: dead.attempts,
        consumer: dead.consumer.as_str(),
        payload: json,
        payload_base64: (json.is_none() && message.omitted.is_none()).then(base64),
        payload_omitted_bytes: message.omitted,
    };
    serde_json::to_vec(&body).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::ids::{ConsumerName, InboundId, Seq, SourceName, Tenant};
    use crate::inbox::message::InboundMessage;
    use crate::inbox::settings::{ConsumerId, Target};
    use crate::outbox::records::DeadState;

    fn dead(payload: &'static str) -> InboxDead {
        InboxDead {
            seq: Seq(17),
            consumer: ConsumerName::new("ship").unwrap(),
            fingerprint: Default::default(),
            digest: Default::default(),
            message: Arc::new(InboundMessage {
                id: InboundId::new("m-1").unwrap(),
                source: SourceName::new("shop").unwrap(),
                tenant: Tenant::unnamed(),
                subject: "sales.event.order_paid.v1".into(),
                context: "sales".into(),
                key: None,
                headers: Vec::new(),
                content_type: None,
                payload: Bytes::from_static(payload.as_bytes()),
                event_type: None,
                event_version: None,
                correlation_id: None,
                causation_id: None,
                reply_to: None,
                occurred_at: None,
                received_at: UnixMillis(5),
                position: None,
                attributes: Vec::new(),
                omitted: None,
            }),
            code: "HTTP.422".into(),
            reason: "no such order".into(),
            attempts: 1,
            died_at: UnixMillis(9),
            state: DeadState::Dead,
        }
    }

    fn made(payload: &'static str, subject: Option<&str>, consumers: u16) -> Option<(Arc<Message>, serde_json::Value)> {
        let mut consumer = ConsumerSettings::new(ConsumerName::new("ship").unwrap(), Target::Handler);
        consumer.dlq_subject = subject.map(str::to_owned);
        let consumers = (0..consumers).map(ConsumerId).collect();
        let source = SourceSettings { consumers, ..SourceSettings::new(SourceName::new("shop").unwrap()) };
        let made = message(&dead(payload), Some(&source), &consumer, ShardId(3), UnixMillis(10))?;
        let Payload::Inline(body) = &made.payload else { panic!("not inline") };
        let body = serde_json::from_slice(body).unwrap();
        Some((made, body))
    }

    #[test]
    fn a_dead_letter_leaves_its_message_on_the_dlq_subject() {
        let (message, body) = made(r#"{"order": 7}"#, Some(SUBJECT_DEFAULT), 1).unwrap();
        assert_eq!(message.topic.as_str(), "bus:sales.dlq.sales.event.order_paid.v1");
        assert_eq!(message.headers, [(WIRE_ID_HEADER.to_owned(), "m-1".to_owned())]);
        assert_eq!((body["message_id"].as_str(), body["attempts"].as_u64()), (Some("m-1"), Some(1)));
        assert_eq!(body["original_subject"], "sales.event.order_paid.v1");
        assert_eq!(body["payload"]["order"], 7);
    }

    #[test]
    fn a_payload_that_is_no_json_goes_as_base64() {
        let (_, body) = made("<xml/>", Some("dead"), 1).unwrap();
        assert_eq!(body["payload_base64"], "PHhtbC8+");
        assert!(body.get("payload").is_none());
    }

    #[test]
    fn only_what_the_inbox_left_has_another_id_on_the_wire() {
        let (left, _) = made("{}", Some("dead"), 1).unwrap();
        assert_eq!((left.id.as_str(), id_on_wire(&left)), ("dlq-3-17", "m-1"));
        let callers = Message { caller_id: true, ..(*left).clone() };
        assert_eq!(id_on_wire(&callers), "dlq-3-17");
    }

    #[test]
    fn with_several_consumers_the_wire_id_names_the_one() {
        let (message, _) = made("{}", Some("dead"), 2).unwrap();
        assert_eq!(message.headers, [(WIRE_ID_HEADER.to_owned(), "m-1.ship".to_owned())]);
    }

    #[test]
    fn a_dlq_message_that_dies_leaves_no_other() {
        let mut consumer = ConsumerSettings::new(ConsumerName::new("ship").unwrap(), Target::Handler);
        consumer.dlq_subject = Some(SUBJECT_DEFAULT.to_owned());
        let left = |change: &dyn Fn(&mut InboundMessage)| {
            let mut dead = dead("{}");
            let mut from = (*dead.message).clone();
            change(&mut from);
            dead.message = Arc::new(from);
            message(&dead, None, &consumer, ShardId(3), UnixMillis(10))
        };
        let first = left(&|_| {}).unwrap();
        let subject = first.topic.as_str().strip_prefix("bus:").unwrap().to_owned();
        assert!(left(&|from| from.subject.clone_from(&subject)).is_none());
        assert!(left(&|from| from.event_type = Some(EVENT_TYPE.to_owned())).is_none(), "with a subject of its own");
        assert!(left(&|from| from.subject = "sales.event.dlq_emptied.v1".into()).is_some());
    }

    #[test]
    fn a_consumer_without_a_dlq_leaves_nothing() {
        assert!(made("{}", None, 1).is_none());
    }
}
