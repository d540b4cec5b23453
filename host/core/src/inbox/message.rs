//! A message that a source brought, as every consumer of it sees it.

use bytes::Bytes;

use crate::annotation::Annotation;
use crate::ids::{InboundId, Key, SourceName, Tenant};
use crate::message::Headers;
use crate::time::UnixMillis;

/// A received message, checked. Immutable: what changes lives beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// The sender's, else its position with its incarnation; one of ours where it has neither (`missing_id = "row"`).
    pub id: InboundId,
    pub source: SourceName,
    pub tenant: Tenant,
    /// Subject, topic or routing key it came on.
    pub subject: String,
    /// First token of the subject, or the source's setting.
    pub context: String,
    /// Messages of one (consumer, tenant, key) are handled one at a time, in order.
    pub key: Option<Key>,
    pub headers: Headers,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
    pub event_type: Option<String>,
    pub event_version: Option<u32>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When it happened, as the sender or the broker says.
    pub occurred_at: Option<UnixMillis>,
    /// When this host had it first.
    pub received_at: UnixMillis,
    /// Where it lay at its source; the same at a redelivery.
    pub position: Option<String>,
    pub attributes: Vec<(String, String)>,
    /// Bytes of a payload that was too large to carry; then `payload` is empty.
    pub omitted: Option<u64>,
}

impl InboundMessage {
    /// One of the optional texts that a received message may have too.
    pub fn annotation(&self, annotation: Annotation) -> Option<&str> {
        match annotation {
            Annotation::ContentType => self.content_type.as_deref(),
            Annotation::CorrelationId => self.correlation_id.as_deref(),
            Annotation::CausationId => self.causation_id.as_deref(),
            Annotation::ReplyTo => self.reply_to.as_deref(),
            Annotation::AggregateType | Annotation::AggregateId | Annotation::EnvelopeId | Annotation::Traceparent => {
                None
            }
        }
    }

    /// Bytes it is counted with against memory and commits: its payload, its headers and an allowance for the rest.
    pub fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        self.payload.len() + headers + self.subject.len() + self.id.as_str().len() + 256
    }
}

/// Context of a subject: its first token.
pub fn context_of(subject: &str) -> &str {
    subject.split(['.', '/']).next().filter(|context| !context.is_empty()).unwrap_or(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_the_first_token() {
        assert_eq!(context_of("vibespro.event.vibe_created.v1"), "vibespro");
        assert_eq!(context_of("home/kitchen/light"), "home");
        assert_eq!(context_of("orders"), "orders");
        assert_eq!(context_of(".orders"), ".orders");
    }
}
