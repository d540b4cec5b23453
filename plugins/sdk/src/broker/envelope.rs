//! What a message says of itself beside its payload and its caller's headers: the same headers at every broker.

use crate::annotation::ANNOTATIONS;
use crate::source::Delivery;
use crate::time::{parse_rfc3339, rfc3339};
use crate::transport::Message;

/// Names of the envelope's headers beside the annotations', sorted. `content-type` is the caller's where the message has none.
const NAMES: [&str; 11] = [
    "x-attempt",
    "x-created-at",
    "x-event-type",
    "x-expires-at",
    "x-key",
    "x-lease-epoch",
    "x-occurred-at",
    "x-replay",
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
    let placed = [
        ("x-seq", message.attribute("seq")),
        ("x-replay", message.attribute("replay")),
        ("content-type", message.content_type.as_deref()),
    ];
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
    is_envelope_name(&name) && (name != "content-type" || message.content_type.is_some())
}

/// Whether this header, in lower case, is one of the envelope's.
pub fn is_envelope_name(name: &str) -> bool {
    name == "content-type"
        || NAMES.binary_search(&name).is_ok()
        || ANNOTATIONS.iter().any(|annotation| annotation.header == name)
}

/// Takes one header of a message that comes in: what [`envelope`] wrote, or a sender who goes by the same names, fills in its
/// part of the delivery. Other names, and values that can't be read, change nothing. The header itself stays one.
pub fn read_envelope(delivery: &mut Delivery, name: &str, value: &str) {
    let text = || Some(value.to_owned());
    match name.to_ascii_lowercase().as_str() {
        "x-tenant" => delivery.tenant = text(),
        "x-key" => delivery.key = text(),
        "x-event-type" => delivery.event_type = text(),
        "x-event-version" => delivery.event_version = value.parse().ok(),
        "x-correlation-id" => delivery.correlation_id = text(),
        "x-causation-id" => delivery.causation_id = text(),
        "x-reply-to" => delivery.reply_to = text(),
        "x-occurred-at" => delivery.occurred_at = parse_rfc3339(value).or(delivery.occurred_at),
        "content-type" => delivery.content_type = text(),
        _ => {}
    }
}

/// Adds a header of a message that comes in, and reads it if it is the envelope's. A value that is no text of one line becomes
/// `NAME-bin` with its bytes as unpadded Base64; a name that is no text is left out.
pub fn push_header(delivery: &mut Delivery, name: &[u8], value: &[u8]) {
    let Ok(name) = std::str::from_utf8(name) else { return };
    match std::str::from_utf8(value) {
        Ok(value) if !value.contains(['\r', '\n']) => {
            read_envelope(delivery, name, value);
            delivery.headers.push((name.to_owned(), value.to_owned()));
        }
        _ => delivery.headers.push((format!("{name}-bin"), base64(value))),
    }
}

/// Unpadded Base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().chain(&[0, 0]).take(3).fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        for place in 0..=chunk.len() {
            let letter = group >> (18 - 6 * place) & 63;
            text.push(LETTERS.get(letter as usize).copied().map_or('A', char::from));
        }
    }
    text
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
                .chain(["seq", "replay"])
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

    #[test]
    fn what_was_written_is_read_back_into_a_delivery() {
        let message = message();
        let mut delivery = Delivery::new(*b"t", "orders.created", *b"{}");
        envelope(&message, |name, part| {
            let value = match part {
                Part::Text(text) => text.to_owned(),
                Part::Number(number) => number.to_string(),
            };
            push_header(&mut delivery, name.as_bytes(), value.as_bytes());
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-1")));
        assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(1)));
        assert_eq!(delivery.correlation_id.as_deref(), Some("cor-1"));
        assert_eq!(delivery.causation_id.as_deref(), Some("cau-1"));
        assert_eq!((delivery.reply_to.as_deref(), delivery.occurred_at), (Some("answers"), Some(0)));
        assert_eq!(delivery.content_type.as_deref(), Some("application/json"));
        assert_eq!(delivery.headers.len(), NAMES.len() + ANNOTATIONS.len() + 1);
    }

    #[test]
    fn a_header_of_bytes_is_named_so() {
        for (bytes, expected) in [(&b"\xff"[..], "/w"), (b"a\nb", "YQpi"), (b"\xfb\xef\xbe\xff", "++++/w")] {
            let mut delivery = Delivery::new(*b"t", "a", *b"");
            push_header(&mut delivery, b"x-key", bytes);
            assert_eq!(delivery.headers, [("x-key-bin".to_owned(), expected.to_owned())]);
            assert_eq!(delivery.key, None);
        }
    }
}
