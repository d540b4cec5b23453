//! What a message says of itself beside its payload and its caller's headers: the same headers at every broker.

use crate::annotation::ANNOTATIONS;
use crate::time::rfc3339;
use crate::transport::Message;

/// Names of the envelope's headers beside the annotations', sorted. `content-type` is the caller's where the message has none.
const NAMES: [&str; 10] = [
    "x-attempt",
    "x-created-at",
    "x-event-type",
    "x-expires-at",
    "x-key",
    "x-lease-epoch",
    "x-occurred-at",
    "x-seq",
    "x-tenant",
    "x-topic",
];

/// A value of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text; instants are RFC 3339.
    Text(&'a str),
    /// A count, written as a number where the broker has numbers in headers.
    Number(u32),
}

/// Hands over each part that a message has, with its header's name. The id isn't among them: every broker has its own place for it.
///
/// # Errors
/// The first that `each` answers.
pub fn envelope<E>(message: &Message, mut each: impl FnMut(&'static str, Part<'_>) -> Result<(), E>) -> Result<(), E> {
    let addressed = [
        ("x-tenant", Some(message.tenant.as_str())),
        ("x-topic", Some(message.topic.as_str())),
        ("x-key", message.key.as_deref()),
        ("x-event-type", message.event_type.as_deref()),
    ];
    let annotated = ANNOTATIONS.iter().map(|annotation| (annotation.header, annotation.of(message)));
    let placed = [("x-seq", message.attribute("seq")), ("content-type", message.content_type.as_deref())];
    for (name, value) in addressed.into_iter().chain(annotated).chain(placed) {
        if let Some(value) = value {
            each(name, Part::Text(value))?;
        }
    }
    each("x-occurred-at", Part::Text(&rfc3339(message.occurred_at)))?;
    each("x-created-at", Part::Text(&rfc3339(message.created_at)))?;
    if let Some(expires) = message.expires_at {
        each("x-expires-at", Part::Text(&rfc3339(expires)))?;
    }
    each("x-attempt", Part::Number(message.attempt))?;
    each("x-lease-epoch", Part::Number(message.lease_epoch))
}

/// Whether a caller's header would take the place of the envelope's.
pub fn is_envelope(message: &Message, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    (message.content_type.is_some() && name == "content-type")
        || NAMES.binary_search(&name.as_str()).is_ok()
        || ANNOTATIONS.iter().any(|annotation| annotation.header == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn message() -> Message {
        Message {
            id: "m1".to_owned(),
            tenant: "acme".to_owned(),
            topic: "bus:orders.created".to_owned(),
            destination: "orders.created".to_owned(),
            key: Some("order-1".to_owned()),
            headers: Vec::new(),
            content_type: Some("application/json".to_owned()),
            payload: b"{}".to_vec(),
            event_type: Some("order.created".to_owned()),
            envelope_id: Some("env-1".to_owned()),
            correlation_id: Some("cor-1".to_owned()),
            causation_id: Some("cau-1".to_owned()),
            reply_to: Some("answers".to_owned()),
            occurred_at: 0,
            created_at: 1,
            expires_at: Some(2),
            attempt: 2,
            lease_epoch: 7,
            attributes: ANNOTATIONS
                .iter()
                .map(|annotation| annotation.name)
                .chain(["seq"])
                .map(|name| (name.to_owned(), "1".to_owned()))
                .collect(),
        }
    }

    #[test]
    fn no_header_of_a_caller_takes_the_place_of_a_part() {
        assert!(NAMES.is_sorted());
        let (message, mut count) = (message(), 0);
        let named = envelope(&message, |name, _| {
            assert!(is_envelope(&message, &name.to_ascii_uppercase()), "{name}");
            count += 1;
            Ok::<_, ()>(())
        });
        assert_eq!((named, count), (Ok(()), NAMES.len() + ANNOTATIONS.len() + 1));
        let without = Message { content_type: None, ..message };
        assert!(!is_envelope(&without, "Content-Type") && !is_envelope(&without, "x-shop"));
    }
}
