//! What a caller asks to enqueue, and the one place where it becomes a [`Message`].

use std::sync::Arc;

use bytes::Bytes;

use crate::annotation::check_text;
use crate::annotations::Annotations;
use crate::error::{InputError, InputResult};
use crate::ids::{Key, MessageId, Tenant, check_chosen};
use crate::limits::{FUTURE_SKEW_MAX, HEADER_BYTES_MAX, HEADERS_MAX, TEXT_BYTES_MAX};
use crate::message::{Headers, Message, Payload};
use crate::time::UnixMillis;
use crate::topic::{Scheme, Topic};

/// A message as a caller gives it (`surface.md`, Message object), decoded but not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    pub topic: String,
    pub payload: Bytes,
    pub id: Option<String>,
    /// Tenant; none = `default`.
    pub tenant: Option<String>,
    pub key: Option<String>,
    pub headers: Headers,
    /// Not before this instant.
    pub not_before: Option<UnixMillis>,
    /// Of no use after this instant.
    pub expires_at: Option<UnixMillis>,
    /// When it happened; none = now.
    pub occurred_at: Option<UnixMillis>,
    /// Event type; none = derived from the topic.
    pub event_type: Option<String>,
    /// Version of the event type; none = from the topic's `.v{n}`, else 1.
    pub event_version: Option<u32>,
    /// Optional texts; the edge sets a media type where there is none.
    pub annotations: Annotations,
}

/// A checked message whose id may still be open: the shard's owner makes it with the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// All but the id; `message.id` is a placeholder while `needs_id`. Shared, so that a request that waits for its commit
    /// and the segment made of it hold one message.
    pub message: Arc<Message>,
    /// The owner has to make the id.
    pub needs_id: bool,
}

impl Draft {
    /// The finished message with this id if it still needs one.
    pub fn finish(mut self, id: impl FnOnce() -> MessageId) -> Arc<Message> {
        self.name(id)
    }

    /// The same while the draft is kept: it may have to be named again, when the commit didn't go in.
    pub fn name(&mut self, id: impl FnOnce() -> MessageId) -> Arc<Message> {
        if self.needs_id {
            Arc::make_mut(&mut self.message).id = id();
        }
        Arc::clone(&self.message)
    }
}

impl NewMessage {
    /// Checks everything that can be checked without routes and store (`semantics.md` §1). `now` is the store's clock.
    pub fn check(self, now: UnixMillis, payload_bytes_max: usize) -> InputResult<Draft> {
        self.check_after(None, now, payload_bytes_max)
    }

    /// The same for a message that follows another in one request: what both have in common is read and kept once.
    pub fn check_after(self, before: Option<&Draft>, now: UnixMillis, payload_bytes_max: usize) -> InputResult<Draft> {
        let before = before.map(|draft| &*draft.message);
        if self.payload.len() > payload_bytes_max {
            return Err(InputError::PayloadTooLarge { bytes: self.payload.len(), bytes_max: payload_bytes_max });
        }
        let alike = before.filter(|before| before.topic.is_written(&self.topic));
        let topic = alike.map_or_else(|| Topic::parse(&self.topic), |before| Ok(before.topic.clone()))?;
        check_headers(&self.headers)?;
        let occurred_at = self.occurred_at.unwrap_or(now);
        if occurred_at.since(now) > FUTURE_SKEW_MAX {
            return Err(InputError::FutureEvent { ahead: occurred_at.since(now), ahead_max: FUTURE_SKEW_MAX });
        }
        if self.expires_at.is_some_and(|end| end <= now || self.not_before.is_some_and(|start| end <= start)) {
            return Err(InputError::Expired);
        }
        self.annotations.check()?;
        let (derived_type, derived_version) = event_of(&topic);
        if self.event_type.as_deref().is_some_and(str::is_empty) {
            return Err(InputError::NoEventType);
        }
        if let Some(text) = &self.event_type {
            check_text("event_type", text)?;
        }
        let event_type = self.event_type.unwrap_or(derived_type);
        self.id.as_deref().map_or(Ok(()), check_chosen)?;
        let id = self.id.map(MessageId::new).transpose()?;
        let needs_id = id.is_none();
        let message = Message {
            caller_id: !needs_id,
            id: match id {
                Some(id) => id,
                None => before
                    .filter(|before| !before.caller_id)
                    .map_or_else(|| MessageId::new("-"), |before| Ok(before.id.clone()))?,
            },
            tenant: read_tenant(self.tenant, before)?,
            topic,
            key: self.key.map(Key::new).transpose()?,
            headers: self.headers,
            payload: Payload::Inline(self.payload),
            event_type,
            event_version: self.event_version.unwrap_or(derived_version),
            annotations: self.annotations,
            occurred_at,
            created_at: now,
            not_before: self.not_before.filter(|start| *start > now),
            expires_at: self.expires_at,
            statements: None,
            replays: 0,
            replayed_by: None,
        };
        Ok(Draft { message: Arc::new(message), needs_id })
    }
}

/// The tenant, shared with the message before when it is the same.
fn read_tenant(name: Option<String>, before: Option<&Message>) -> InputResult<Tenant> {
    let before = before.map(|before| &before.tenant);
    match (name, before) {
        (Some(name), Some(before)) if before.as_str() == name => Ok(before.clone()),
        (Some(name), _) => Tenant::new(name),
        (None, Some(before)) if before.as_str() == Tenant::UNNAMED => Ok(before.clone()),
        (None, _) => Ok(Tenant::unnamed()),
    }
}

/// Whether headers stay within their bounds and can be sent as such.
pub fn check_headers(headers: &Headers) -> InputResult<()> {
    let refuse = |cause: String| Err(InputError::Headers { cause });
    if headers.len() > HEADERS_MAX {
        return refuse(format!("{} headers, at most {HEADERS_MAX} are taken", headers.len()));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADER_BYTES_MAX {
        return refuse(format!("{bytes} bytes of names and values, at most {HEADER_BYTES_MAX} are taken"));
    }
    for (name, value) in headers {
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return refuse(format!("{name:?} isn't a header name (letters, digits, - and _)"));
        }
        if value.chars().any(char::is_control) {
            return refuse(format!("the value of {name:?} holds a control character"));
        }
    }
    Ok(())
}

/// Event type of a message to a URL for which the caller names none: a URL says where, not what.
pub const PLAIN_EVENT_TYPE: &str = "waybill.message";

/// Event type where neither the caller nor a subject says one: the topic, but [`PLAIN_EVENT_TYPE`] for a URL.
pub fn usual_event_type(topic: &Topic) -> &str {
    match topic.scheme() {
        Scheme::Http => PLAIN_EVENT_TYPE,
        Scheme::Bus | Scheme::Custom => topic.as_str(),
    }
}

/// Event type and version of a subject shaped `{context}.event.{name}.v{n}` (source document 5), else the usual type and 1.
pub fn event_of(topic: &Topic) -> (String, u32) {
    if topic.scheme() == Scheme::Bus
        && let Some(event) = event_of_subject(topic.subject())
    {
        return event;
    }
    let mut text = usual_event_type(topic).to_owned();
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (text, 1)
}

/// Event type and version of a subject shaped `{context}.event.{name}.v{n}` (source document 5); none = it is shaped otherwise.
pub fn event_of_subject(subject: &str) -> Option<(String, u32)> {
    let parts: Vec<&str> = subject.split('.').collect();
    let [_, "event", name @ .., version] = parts.as_slice() else { return None };
    let version = version.strip_prefix('v')?.parse().ok()?;
    (!name.is_empty()).then(|| (name.join("."), version))
}

/// Whether a text is a W3C trace context, of at most [`TEXT_BYTES_MAX`] bytes.
pub fn is_traceparent(text: &str) -> bool {
    if text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        return false;
    }
    let hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts.as_slice() {
        [version, trace, parent, flags, ..] => {
            hex(version, 2)
                && *version != "ff"
                && hex(trace, 32)
                && trace.bytes().any(|b| b != b'0')
                && hex(parent, 16)
                && parent.bytes().any(|b| b != b'0')
                && hex(flags, 2)
                && (parts.len() == 4 || *version != "00")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::annotation::Annotation;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn order() -> NewMessage {
        NewMessage {
            topic: "bus:shop.event.order_placed.v2".into(),
            payload: Bytes::from_static(b"{}"),
            ..NewMessage::default()
        }
    }

    #[test]
    fn event_type_and_version_come_from_the_subject() {
        let draft = order().check(NOW, 100).unwrap();
        assert_eq!((draft.message.event_type.as_str(), draft.message.event_version), ("order_placed", 2));
        let plain = NewMessage { topic: "bus:orders".into(), ..order() }.check(NOW, 100).unwrap();
        assert_eq!((plain.message.event_type.as_str(), plain.message.event_version), ("bus:orders", 1));
        for topic in ["https://shop.example/hook?token=s3cret", "http:https://shop.example/hook"] {
            let to_url = NewMessage { topic: topic.into(), ..order() };
            let chosen = NewMessage { event_type: Some("order.created".into()), ..to_url.clone() };
            assert_eq!(to_url.check(NOW, 100).unwrap().message.event_type, "waybill.message", "{topic}");
            assert_eq!(chosen.check(NOW, 100).unwrap().message.event_type, "order.created", "{topic}");
        }
    }

    #[test]
    fn an_event_of_the_future_is_refused_past_a_minute() {
        let ahead = |ms| {
            NewMessage { occurred_at: Some(NOW.plus(std::time::Duration::from_millis(ms))), ..order() }.check(NOW, 100)
        };
        assert!(ahead(60_000).is_ok());
        assert_eq!(ahead(60_001).unwrap_err().code().as_str(), "FUTURE_EVENT");
    }

    #[test]
    fn a_large_payload_is_refused_with_the_limit() {
        let error = order().check(NOW, 1).unwrap_err();
        assert!(error.is_too_large() && error.to_string().contains("outbox.max_payload_bytes"));
    }

    #[test]
    fn bad_headers_trace_and_expiry_are_refused() {
        for bad in [
            NewMessage { headers: vec![("a b".into(), "x".into())], ..order() },
            NewMessage { headers: vec![("a".into(), "x\r\ny".into())], ..order() },
            NewMessage { annotations: [(Annotation::Traceparent, "00-abc")].into(), ..order() },
            NewMessage { annotations: [(Annotation::ReplyTo, "x".repeat(513))].into(), ..order() },
            NewMessage { expires_at: Some(NOW), ..order() },
            NewMessage { tenant: Some(String::new()), ..order() },
            NewMessage { id: Some("..".into()), ..order() },
            NewMessage { event_type: Some("x".repeat(513)), ..order() },
        ] {
            assert_eq!(bad.check(NOW, 100).unwrap_err().code().as_str(), "SCHEMA.VALIDATION_FAILED");
        }
    }
}
