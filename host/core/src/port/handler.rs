//! The handler port: one configured plugin that handles inbox messages. De-duplication is done before the call.
//!
//! An implementation supervises its instances like a transport does: after a trap or a missed deadline it opens a fresh one.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::followup::{Outgoing, StreamEvent};
use super::transport::{CallError, Fault, HealthReport, PluginIdentity};
use crate::message::Headers;
use crate::time::UnixMillis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    pub id: String,
    pub consumer: String,
    pub source: String,
    pub tenant: String,
    /// Subject, topic or routing key.
    pub topic: String,
    /// Ordering key. A call never holds two messages of one (tenant, key).
    pub key: Option<String>,
    pub headers: Headers,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
    pub event_type: Option<String>,
    /// Version of the event type's schema.
    pub event_version: Option<u32>,
    pub envelope_id: Option<String>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When it happened, as far as known.
    pub occurred_at: Option<UnixMillis>,
    /// When the host received it.
    pub received_at: UnixMillis,
    /// 1 on the first try of this handler.
    pub attempt: u32,
    /// A handler may have had it before, whole or in part. Set too often, never too seldom.
    pub maybe_handled: bool,
    /// Registered extras: `position`, `group`, ...
    pub attributes: Vec<(String, String)>,
}

/// A signal to a saga of the message's tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SagaSignal {
    /// Id of the saga.
    pub saga: String,
    pub name: String,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
}

/// What a handled message leaves behind, in the commit that marks it processed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    pub messages: Vec<Outgoing>,
    pub events: Vec<StreamEvent>,
    pub signals: Vec<SagaSignal>,
    /// Registered extras.
    pub attributes: Vec<(String, String)>,
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Processed(Handled),
    /// The handler's own records say that it was done before.
    Duplicate,
    /// Never processable: dead letter.
    Poison(Fault),
    /// Failed this time; the attempt counts.
    Retry(Fault),
    /// Too much at once: the consumer pauses for the fault's `after`. The attempt doesn't count.
    Busy(Fault),
    /// What the handler needs is down or refuses: the consumer is held until a probe succeeds. The attempt doesn't count.
    Blocked {
        /// What stops; empty = the whole consumer.
        scope: String,
        /// Why; `after` = when another try makes sense.
        fault: Fault,
    },
}

/// What a handler takes, as its instances told at `open`, within the host's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerLimits {
    /// Independent instances. Messages of one key always go to one of them.
    pub lanes: u32,
    /// Calls one lane runs at once.
    pub calls_per_lane: u32,
    /// Most messages in one call.
    pub max_batch: u32,
    /// Most payload bytes in one call; a single larger message still goes alone.
    pub max_batch_bytes: u32,
}

/// Takes early verdicts of a batch. First told counts.
pub trait VerdictSink: Send + Sync {
    /// Tells the verdict on message `index` of the batch. Never blocks.
    fn settled(&self, index: usize, verdict: Verdict);
}

#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Name from the configuration.
    fn name(&self) -> &str;
    fn identity(&self) -> PluginIdentity;
    /// What it takes now.
    fn limits(&self) -> HandlerLimits;
    /// Number of the plugin that serves, among those that have served here: another one has lanes of its own.
    fn generation(&self) -> u32 {
        self.identity().generation
    }
    /// Who serves the next calls, held fast: its lanes and limits are those of exactly the plugin that `handle` on it reaches,
    /// whatever is swapped meanwhile, and it counts as under way until it is dropped. None: this handler's plugin never changes,
    /// call it as it is.
    fn serving(&self) -> Option<Arc<dyn Handler>> {
        None
    }
    /// Handles a batch through `lane`, within `timeout`: one verdict a message, in order. An error says nothing of those whose
    /// verdict the sink wasn't told; a caller with several repeats these one by one.
    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError>;
    /// How it is, without calling a guest.
    fn health(&self) -> HealthReport;
    /// Ends all instances in good order, within `timeout`.
    async fn close(&self, timeout: Duration);
}
