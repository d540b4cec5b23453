//! What a saga step or an inbox handler leaves behind: messages to enqueue and events to append, in the same commit as its own
//! result. Only carried here: they are checked like any other message when they are committed.

use bytes::Bytes;

use crate::annotations::Annotations;
use crate::message::Headers;
use crate::time::UnixMillis;

/// A message that a step or a handler asks the host to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Stable id; none = derived from the idempotency key of the call and the position, so that a repeat enqueues nothing new.
    pub id: Option<String>,
    pub topic: String,
    pub key: Option<String>,
    pub headers: Headers,
    pub payload: Bytes,
    pub event_type: Option<String>,
    /// Its optional texts; a correlation id that is absent is inherited from what is being handled.
    pub annotations: Annotations,
    /// Not delivered before this instant.
    pub not_before: Option<UnixMillis>,
    pub attributes: Vec<(String, String)>,
}

/// An event that a step or a handler asks the host to append to a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// Name of the stream.
    pub stream: String,
    /// Kind of resource that changed.
    pub resource_type: String,
    pub resource_id: String,
    /// What happened to it.
    pub op: String,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
    pub headers: Headers,
    /// Registered extras: `schema-version`, `cause`, `expected-seq`, ...
    pub attributes: Vec<(String, String)>,
}
