//! The source port: one configured plugin that brings messages in from the outside, for the inbox.
//!
//! A delivery can only be settled by the instance that brought it. Instances are replaced after a trap or a missed deadline, so
//! each `pull` names its session; what is settled in a session that has ended is [`Settled::Lost`], and the peer delivers it again.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::transport::{CallError, Fault, HealthReport, PluginIdentity};
use crate::message::Headers;
use crate::time::UnixMillis;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDelivery {
    pub token: Bytes,
    /// The sender's message id; none = derived from `position`, or from the content if there is none either.
    pub id: Option<String>,
    /// Where it lies; the same at a redelivery.
    pub position: Option<String>,
    /// What is ordered and revoked together; none = no order.
    pub group: Option<String>,
    /// Subject, topic or routing key it came on.
    pub topic: String,
    pub key: Option<String>,
    pub headers: Headers,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
    /// Tenant as the sender said.
    pub tenant: Option<String>,
    pub event_type: Option<String>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When the broker or the sender stamped it.
    pub occurred_at: Option<UnixMillis>,
    /// 1 at the first delivery; none = the broker doesn't count.
    pub delivery_count: Option<u32>,
    /// The broker redelivers unless settled or extended in this time.
    pub settle_within: Option<Duration>,
    pub attributes: Vec<(String, String)>,
}

/// What one `pull` brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The instance that brought it; `settle` needs it.
    pub session: u64,
    /// Deliveries, in order within each group.
    pub deliveries: Vec<SourceDelivery>,
    /// Groups this instance no longer owns: none of their deliveries may be settled.
    pub revoked: Vec<String>,
    /// Nothing more was waiting.
    pub caught_up: bool,
    /// Registered extras: `lag`, ...
    pub attributes: Vec<(String, String)>,
}

/// What to do with a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    Ack,
    /// Deliver again, after this time. Feature `nack`, with a time `nack-delay`.
    Nack(Option<Duration>),
    /// Never again. Feature `reject`.
    Reject(Fault),
    /// Still at work. Feature `extend`.
    Extend,
    /// Not tried: give back at once.
    Release,
}

/// One order to settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSettlement {
    pub token: Bytes,
    pub disposition: Disposition,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The broker has it, or it was sent.
    Done,
    /// No longer ours: delivered elsewhere, or the instance that brought it is gone.
    Lost,
    /// Failed; may be repeated until `settle_within`.
    Failed(Fault),
}

/// What a source is and can, as its instances told at `open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFacts {
    pub lanes: u32,
    /// Abilities by registered name that every open instance has: `nack`, `nack-delay`, `extend`, `reject`,
    /// `ordered-groups`, `delivery-count`. What isn't named, the host does itself.
    pub features: Vec<String>,
}

#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Name from the configuration.
    fn name(&self) -> &str;
    fn identity(&self) -> PluginIdentity;
    /// What it is and can.
    fn facts(&self) -> SourceFacts;
    /// Up to `max` deliveries and `max_bytes` of payload through `lane`; waits up to `wait` for the first. Not calling it is
    /// how a source is paused.
    async fn pull(&self, lane: u32, max: u32, max_bytes: u32, wait: Duration) -> Result<Pulled, CallError>;
    /// One result an item, in order, within `timeout`. `session` is the one of the `pull` that brought them.
    async fn settle(
        &self,
        lane: u32,
        session: u64,
        items: Vec<SourceSettlement>,
        timeout: Duration,
    ) -> Result<Vec<Settled>, CallError>;
    async fn health(&self) -> HealthReport;
    /// Ends all instances in good order, within `timeout`. Everything is settled or released by then.
    async fn close(&self, timeout: Duration);
}
