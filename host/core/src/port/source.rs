//! The source port: one configured plugin that brings messages in from the outside, for the inbox.
//!
//! A delivery can only be settled by the instance that brought it. Instances are replaced after a trap or a missed deadline, so
//! each `pull` names its session; what is settled in a session that has ended is [`Settled::Lost`], and the peer delivers it again.
//! The contract is `wit/inbound/source.wit`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::provision::{ProvisionChange, ProvisionError};
use super::transport::{CallError, Fault, HealthReport, PluginIdentity};
use crate::endpoint::ReloadPolicy;
use crate::message::Headers;
use crate::time::UnixMillis;

/// What to do when messages were removed at the broker before they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overtaken {
    /// The source fails with [`Code::SOURCE_OVERTAKEN`](crate::code::Code::SOURCE_OVERTAKEN) until somebody decides.
    #[default]
    Stop,
    /// It goes on at the earliest that is kept, and says how many are missing.
    GoOn,
}

/// What the host wants of each instance of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceWants {
    /// Most deliveries unsettled at once, those the plugin fetches ahead included.
    pub window: u32,
    /// Most payload bytes of them.
    pub window_bytes: u32,
    pub on_overtaken: Overtaken,
    /// Position behind which a consumer begins that has no place of its own at the broker; none = at the earliest that is kept.
    pub resume_after: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDelivery {
    pub token: Bytes,
    /// The sender's message id; none = `position` stands for it.
    pub id: Option<String>,
    /// Where it lies; the same at a redelivery, another when the stream or topic was made anew.
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
    /// The payload isn't here: it has this many bytes, more than a pull hands over.
    pub omitted: Option<u32>,
    /// Tenant as the sender said.
    pub tenant: Option<String>,
    pub event_type: Option<String>,
    /// Version of the event type's schema.
    pub event_version: Option<u32>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When the broker or the sender stamped it.
    pub occurred_at: Option<UnixMillis>,
    /// 1 at the first delivery; none = the broker doesn't count.
    pub delivery_count: Option<u32>,
    /// How often the broker would deliver it again before it gives it up; none = no limit, or unknown.
    pub deliveries_left: Option<u32>,
    /// The broker says that it was delivered before.
    pub redelivered: bool,
    /// The broker redelivers unless settled or extended in this time.
    pub settle_within: Option<Duration>,
    pub attributes: Vec<(String, String)>,
}

impl SourceDelivery {
    /// A delivery with nothing but a token, a topic and a payload.
    pub fn new(token: impl Into<Bytes>, topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            token: token.into(),
            id: None,
            position: None,
            group: None,
            topic: topic.into(),
            key: None,
            headers: Headers::new(),
            content_type: None,
            payload: payload.into(),
            omitted: None,
            tenant: None,
            event_type: None,
            event_version: None,
            correlation_id: None,
            causation_id: None,
            reply_to: None,
            occurred_at: None,
            delivery_count: None,
            deliveries_left: None,
            redelivered: false,
            settle_within: None,
            attributes: Vec::new(),
        }
    }
}

/// What an instance told between deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Groups this instance no longer owns: none of their deliveries may be settled, and what isn't in a call is dropped.
    pub revoked: Vec<String>,
    /// Deliveries that can't be settled any more: they come again.
    pub lost: Vec<Bytes>,
    /// Something new waits.
    pub waiting: bool,
    /// Registered extras: `lag`, `overtaken`, ...
    pub attributes: Vec<(String, String)>,
}

impl Notices {
    /// Takes in what was told after this. Of two attributes of one name the later counts.
    pub fn then(&mut self, later: Self) {
        self.revoked.extend(later.revoked);
        self.lost.extend(later.lost);
        self.waiting |= later.waiting;
        self.attributes.retain(|(name, _)| later.attributes.iter().all(|(other, _)| other != name));
        self.attributes.extend(later.attributes);
    }
}

/// Notices with who told them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneNotices {
    pub lane: u32,
    /// The instance that told them; they say nothing of what another session brought.
    pub session: u64,
    pub notices: Notices,
}

/// What one `pull` brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The instance that brought it; `settle` needs it.
    pub session: u64,
    /// What happened before; it says nothing of these deliveries.
    pub notices: Notices,
    /// Deliveries, in order within each group.
    pub deliveries: Vec<SourceDelivery>,
    /// Nothing more was waiting.
    pub caught_up: bool,
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
    /// Calls one lane runs at once. At 1, a pull that waits holds up what is to be settled.
    pub calls_per_lane: u32,
    /// Abilities by registered name that every open instance has: `nack`, `nack-delay`, `extend`, `reject`,
    /// `ordered-groups`, `delivery-count`, `replays-in-order`, `resumes`, `ordered-acks`. What isn't named, the host does itself.
    pub features: Vec<String>,
    /// The longest `settle-within` that an open instance told of its deliveries; none = none told any.
    pub settle_within: Option<Duration>,
}

impl SourceFacts {
    /// Whether every open instance has this ability.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|name| name == feature)
    }
}

/// How a source is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenSource {
    /// This once it goes on at the earliest that is kept, whatever its configuration says: somebody decided so. When it has brought
    /// something it is opened anew without this, so that the next time it is overtaken somebody decides again.
    pub go_on: bool,
}

/// A configured source that can be opened. Only the host that has its home has it open: who fetches ahead without being asked holds
/// messages back from whoever handles them.
#[async_trait]
pub trait SourcePlugin: Send + Sync + 'static {
    /// Name from the configuration.
    fn name(&self) -> &str;
    /// The plugin that serves, or would.
    fn identity(&self) -> PluginIdentity;
    /// How a new opening takes over from the one before.
    fn reload(&self) -> ReloadPolicy {
        ReloadPolicy::StopStart
    }
    /// Opens it, however its first instances go: what finds no peer is tried again by itself. With `stop-start` it is called again
    /// only after the one before was closed; with `overlap` also beside it, and what was opened so is pulled only when the one before
    /// has closed. A plugin that was replaced meanwhile is opened then, or the old one if that doesn't open. Errors when it can
    /// never serve.
    async fn open(&self, how: OpenSource) -> Result<Arc<dyn Source>, CallError>;
    /// Whatever is opened from now on begins behind this position, if it has no place of its own at the peer; none = at the earliest
    /// that is kept. One that has a place needn't care.
    fn resume_after(&self, _position: Option<String>) {}
    /// What is missing at the peer; with `apply` it is created. One call at a time, whether it is open or not.
    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError>;
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
    /// What an instance told besides, as soon as one tells it; what is told before a pull and not taken comes with that pull.
    /// Nothing is lost when it isn't awaited to its end. Between deliveries an implementation calls its instances as often
    /// as they ask for it.
    async fn next_notices(&self) -> LaneNotices;
    /// From now on, instances that are opened begin behind this position, if they have no place of their own at the broker.
    fn resume_after(&self, position: String);
    /// Fetches no more and gives back what wasn't handed over, within `timeout`. Settling goes on; pulls fail.
    async fn quiesce(&self, timeout: Duration) -> Result<(), CallError>;
    async fn health(&self) -> HealthReport;
    /// Ends all instances in good order, within `timeout`. Everything is settled or released by then.
    async fn close(&self, timeout: Duration);
}
