//! A message on its way: what was enqueued, and what one delivery of it is.

use std::sync::Arc;

use bytes::Bytes;

use crate::annotation::Annotation;
use crate::annotations::Annotations;
use crate::ids::{Key, MessageId, Seq, Tenant};
use crate::time::UnixMillis;
use crate::topic::Topic;

/// Ordered name and value pairs; a name may repeat.
pub type Headers = Vec<(String, String)>;

/// What a message carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Inline(Bytes),
    /// Kept in the blob table under this name (`outbox_blob`), because it is larger than
    /// [`crate::limits::INLINE_PAYLOAD_BYTES_MAX`].
    Blob {
        /// Key of the blob record.
        blob: String,
        bytes: u32,
    },
}

impl Payload {
    /// Bytes of the payload, wherever they lie.
    pub fn len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Blob { bytes, .. } => *bytes as usize,
        }
    }

    /// The bytes, unless they lie beside the message.
    pub fn inline(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            Self::Blob { .. } => None,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A validated message (`semantics.md` §1, Row). Once committed nothing of it changes but `replays` and `replayed_by`; what else changes lives beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Stable id on the wire: made by the host or the caller's.
    pub id: MessageId,
    /// The caller chose the id, so it is indexed and repeated enqueues of it are recognised.
    pub caller_id: bool,
    /// Whose message it is.
    pub tenant: Tenant,
    /// Where to, as enqueued.
    pub topic: Topic,
    /// Messages of one (tenant, key) are delivered one at a time, in commit order.
    pub key: Option<Key>,
    pub headers: Headers,
    /// The bytes to deliver.
    pub payload: Payload,
    pub event_type: String,
    /// Version of the event type, 1 by default.
    pub event_version: u32,
    /// Its optional texts: media type, ids of the business operation, trace context and the like.
    pub annotations: Annotations,
    /// When the thing happened, by the caller.
    pub occurred_at: UnixMillis,
    /// When it reached the outbox.
    pub created_at: UnixMillis,
    /// Not delivered before this instant; none = at once.
    pub not_before: Option<UnixMillis>,
    /// Of no use after this instant.
    pub expires_at: Option<UnixMillis>,
    /// Digest of the statements that it was committed with ([`crate::port::transact::statements_digest`]); none = it came
    /// without any.
    pub statements: Option<Box<[u8; 32]>>,
    /// How often it was put back from the dead letters: attempts begin anew then, and its receiver has to tell those apart.
    pub replays: u32,
    /// The bulk operation that put it back last; none = nobody did, or by its id alone.
    pub replayed_by: Option<Arc<str>>,
}

impl Message {
    /// One of its optional texts.
    pub fn annotation(&self, annotation: Annotation) -> Option<&str> {
        self.annotations.get(annotation)
    }

    /// The message as it goes on from the dead letters, put back by a bulk operation or by its id alone.
    #[must_use]
    pub fn replayed(&self, by: Option<&Arc<str>>) -> Self {
        Self { replays: self.replays.saturating_add(1), replayed_by: by.cloned(), ..self.clone() }
    }

    /// Bytes this message is counted with against memory and commit bounds: payload kept inline plus an allowance for
    /// the rest.
    pub fn weight(&self) -> usize {
        let payload = match &self.payload {
            Payload::Inline(bytes) => bytes.len(),
            Payload::Blob { .. } => 64,
        };
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        payload + headers + self.topic.as_str().len() + self.key.as_ref().map_or(0, |key| key.as_str().len()) + 200
    }
}

/// One attempt to deliver a message, as handed to a transport.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub message: Arc<Message>,
    pub payload: Bytes,
    /// The topic after the route's mapping, without scheme: subject, routing key or URL.
    pub destination: String,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// The owner's token: grows whenever the lease changes hands.
    pub lease_epoch: u64,
    /// Place in the shard's order; of an event, its number in its stream.
    pub seq: Seq,
    /// Registered extras of this delivery, besides what the message says of itself.
    pub attributes: Vec<(String, String)>,
}
