//! What a step or a handler leaves behind: messages to enqueue and events to append, in the commit that records its result.

use serde::Serialize;

use crate::transport::bindings::waybill::plugin::types;

pub use types::{Outgoing, StreamEvent};

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";

impl Outgoing {
    /// A message with bytes for a topic, e.g. `bus:orders.reserved`. Without an id of its own it gets one that is the same
    /// whenever the call is repeated.
    pub fn new(topic: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: None,
            topic: topic.into(),
            key: None,
            headers: Vec::new(),
            content_type: None,
            payload: payload.into(),
            event_type: None,
            correlation_id: None,
            reply_to: None,
            not_before: None,
            attributes: Vec::new(),
        }
    }

    /// A message with JSON. What can't be written as JSON (a map with keys that are no texts) is `null`.
    pub fn json(topic: impl Into<String>, payload: &impl Serialize) -> Self {
        Self { content_type: Some(JSON.to_owned()), ..Self::new(topic, json(payload)) }
    }

    /// With a key: messages of one key are delivered in order.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header behind those it has; a name given twice is there twice.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl StreamEvent {
    /// An event with JSON: `op` happened to the resource (`kind`, `id`).
    pub fn json(
        stream: impl Into<String>,
        kind: impl Into<String>,
        id: impl Into<String>,
        op: impl Into<String>,
        payload: &impl Serialize,
    ) -> Self {
        Self {
            stream_name: stream.into(),
            resource_type: kind.into(),
            resource_id: id.into(),
            op: op.into(),
            content_type: Some(JSON.to_owned()),
            payload: json(payload),
            headers: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Says more of it by a registered attribute, such as `event-id`, `schema-version`, `node-uuid` or `causation-id`.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }
}

/// A value as JSON; `null` if it can't be written so.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}
