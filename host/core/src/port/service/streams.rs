//! Event streams as a service: what the surfaces (HTTP, SSE, gRPC, command line) ask of the engine.
//!
//! It speaks of stored events, not of JSON: a surface writes them as its wire wants them. Which streams a caller may append to and read
//! is the surface's to check, each event of a selector of many streams, too: what it leaves out still moves the cursor.

mod error;
mod relays;
mod stats;

pub use error::StreamError;
pub use relays::{RelayDetail, RelayLag, RelayState, RelayStreamView, RelayView, SeekRequest, SeekTo};
pub use stats::StreamStats;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use super::ServiceError;
use crate::code::Code;
use crate::ids::{EventId, RelayName, ShardId, Tenant};
use crate::port::query::Page;
use crate::streams::dead::OvertakenRange;
use crate::streams::envelope;
use crate::streams::event::{Body, Event, Op};
use crate::streams::name::{StreamKey, StreamName};
use crate::streams::reading::Selector;
use crate::time::UnixMillis;

/// What a reader that the ring has passed is told, word for word.
pub const LAGGED: &str = "watch lagged; resync required";

/// An event as it is handed over: id and time are the host's to give where they are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventInput {
    /// With one, the same append again is recognized.
    pub id: Option<EventId>,
    pub ts: Option<UnixMillis>,
    pub resource_type: String,
    pub resource_id: String,
    pub op: Op,
    pub schema_version: u32,
    pub node_uuid: Option<String>,
    pub correlation_id: Option<String>,
    /// Why it happened, in words.
    pub cause: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub content_type: Option<String>,
    pub body: Body,
}

impl EventInput {
    /// With what the host gives where the caller left it out.
    pub fn into_event(self, made_id: impl FnOnce() -> EventId, now: UnixMillis) -> Event {
        Event {
            id: self.id.unwrap_or_else(made_id),
            ts: self.ts.unwrap_or(now),
            resource_type: self.resource_type,
            resource_id: self.resource_id,
            op: self.op,
            schema_version: self.schema_version,
            node_uuid: self.node_uuid,
            correlation_id: self.correlation_id,
            cause: self.cause,
            headers: self.headers,
            content_type: self.content_type,
            body: self.body,
        }
    }
}

/// Events of one stream to append, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendRequest {
    pub stream: StreamKey,
    pub events: Vec<EventInput>,
    /// Only if the stream ends at this number; 0 = it has never had an event.
    pub expected_seq: Option<u64>,
    /// Trace context of who asks, for the commit's span: it isn't stored.
    pub traceparent: Option<Arc<str>>,
}

/// What became of an append. Either way it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Numbered {
        /// In the order of the request.
        ids: Vec<EventId>,
        seqs: Vec<u64>,
        /// Places in the request of events that were there already with the same content.
        duplicates: Vec<usize>,
    },
    /// They will be numbered; nobody had done it in time.
    Accepted { ids: Vec<EventId> },
}

/// An event as it is read. Its payload is in it, wherever it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPiece {
    pub stream: StreamKey,
    pub seq: u64,
    /// Its envelope without tenant, stream and seq ([`crate::streams::envelope::unpack`]).
    pub packed: Bytes,
    /// Where a reader goes on behind it: the text of an SSE id, and `resume_token`. Empty for one of a prefix that began behind numbers and
    /// isn't past those streams: it goes on behind the numbers that it has.
    pub cursor: Arc<str>,
}

impl EventPiece {
    /// The protobuf of `EventEnvelope`.
    pub fn proto(&self) -> Vec<u8> {
        envelope::wire(&self.stream, self.seq, &self.packed, Some(&self.cursor))
    }
}

/// A page of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage {
    pub events: Vec<EventPiece>,
    /// The first and the last number that is kept; `last + 1` and `last` of an empty one.
    pub first: u64,
    pub last: u64,
    /// Behind which cursor the next page begins. Who began with nothing isn't taken for one that lacks the deletes dropped before that.
    pub next_after: Arc<str>,
    /// It goes up to the end as it is now.
    pub is_end: bool,
}

/// A page of many streams, by name and number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsPage {
    pub events: Vec<EventPiece>,
    /// None = there is nothing else now.
    pub next_cursor: Option<String>,
}

/// A stream as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    pub stream: StreamKey,
    /// The first number that is kept, and the highest given out.
    pub first: u64,
    pub last: u64,
    /// Bytes of all events that it ever had.
    pub bytes: u64,
    /// Who reads it by name, at this host.
    pub readers: u64,
}

/// A stream by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamDetail {
    pub summary: StreamSummary,
    pub shard: ShardId,
    /// This host numbers it.
    pub is_owned_here: bool,
    /// Up to where the feed names its events.
    pub named_to: u64,
    /// The highest number of a delete that compaction dropped; 0 = none.
    pub purged: u64,
    /// Pattern of the `[[stream]]` section that it goes by; none = the defaults.
    pub settings: Option<String>,
    /// Relays that take it, with the number up to which they are done.
    pub relays: Vec<(RelayName, u64)>,
}

/// What a subscription reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// These, in any order among each other; at most [`crate::streams::limits::NAMED_STREAMS_MAX`].
    Streams(Vec<StreamName>),
    Many(Selector),
}

/// Where a subscription begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the earliest that is kept.
    Earliest,
    /// With what comes from now on.
    Latest,
    /// Behind these numbers; streams that aren't here begin with the earliest. For named streams and prefixes.
    Positions(BTreeMap<StreamName, u64>),
    /// Behind the [`EventPiece::cursor`] of an event.
    Cursor(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscribeRequest {
    pub tenant: Tenant,
    pub what: Subscribed,
    pub start: Start,
    /// Most events of one page of replay; 0 = `events.replay_max_batch`.
    pub replay_events: u64,
}

/// How a subscription ends.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SubscriptionEnd {
    /// The ring has passed it; it resumes with its last cursor.
    #[error("{}", LAGGED)]
    Lagged,
    /// It took nothing for `events.stall_timeout`; it resumes with its last cursor.
    #[error("nothing was taken for {0:?}: the subscription was cut off, resume it with its last cursor")]
    Stalled(Duration),
    /// What comes next isn't kept any more, can't be read, or the host or its store isn't there.
    #[error(transparent)]
    Failed(#[from] ServiceError),
}

impl SubscriptionEnd {
    pub fn code(&self) -> Code {
        match self {
            Self::Lagged => Code::EVENT_LAGGED,
            Self::Stalled(_) => Code::EVENT_STALLED,
            Self::Failed(error) => error.code(),
        }
    }
}

/// A subscription: what is stored first, then what is new. Dropped, it is over.
#[async_trait]
pub trait Subscription: Send {
    /// The next events in order, one at least and about 32 KiB at most; waits for them. It may be dropped while it waits, and nothing is
    /// lost. Who takes nothing for a second holds no memory: what he was to have is read again. After an end there is nothing.
    async fn next(&mut self) -> Result<Vec<EventPiece>, SubscriptionEnd>;

    /// The cursor behind what [`Self::next`] gave last; none before it is known where it begins.
    fn cursor(&self) -> Option<Arc<str>>;

    /// Waits until the subscription is cut off because nothing was taken for `events.stall_timeout`: for a surface that hangs in a write.
    fn cut(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// An event with the number that it had elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportEvent {
    pub seq: u64,
    /// With id and time.
    pub event: EventInput,
}

/// What an act on a stream would do, or did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamActed {
    /// Events that go, or went: those of whole chunks from the front.
    pub events: u64,
    /// The first number that is kept afterwards.
    pub first: u64,
    pub last: u64,
    /// Numbers that an import left free between events: what compaction took where these come from, deletes perhaps among it.
    pub left_out: u64,
}

/// What an operator does, and why; it is audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAct {
    pub stream: StreamKey,
    /// It says what it would do, and does nothing.
    pub is_plan: bool,
    pub actor: String,
    pub reason: String,
}

/// Event streams of this host. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait StreamService: Send + Sync + 'static {
    /// Appends. Without `expected_seq` it waits up to 5 s for the numbers. Repeated with the same ids it does nothing twice.
    async fn append(&self, request: AppendRequest) -> Result<Appended, ServiceError>;
    /// Imports a part of a stream that is kept elsewhere, with its numbers, ids and times: into a stream that has never had an event, or
    /// behind the part that was imported before.
    async fn import(&self, act: &StreamAct, events: Vec<ImportEvent>) -> Result<StreamActed, ServiceError>;

    /// A page of a stream behind a cursor: [`StreamPage::next_after`], that of an event, or just a number; none = from the earliest that is
    /// kept. `limit` 0 = `events.replay_max_batch`. A stream that never had an event isn't found.
    async fn read_stream(
        &self,
        stream: &StreamKey,
        after: Option<&str>,
        limit: u64,
    ) -> Result<StreamPage, ServiceError>;
    /// A page of many streams, by name and number.
    async fn read_many(
        &self,
        tenant: &Tenant,
        selector: &Selector,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<EventsPage, ServiceError>;
    /// Streams of a tenant by name, those that begin with `prefix`.
    async fn streams(
        &self,
        tenant: &Tenant,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StreamSummary>, ServiceError>;
    async fn stream(&self, stream: &StreamKey) -> Result<StreamDetail, ServiceError>;
    async fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, ServiceError>;

    /// Takes away what is before a number, or all; whole chunks go, and nothing that a holding relay lacks.
    async fn purge(&self, act: &StreamAct, before: Option<u64>) -> Result<StreamActed, ServiceError>;
    /// Takes away all events. The stream goes on with the next number when it is appended to again.
    async fn delete(&self, act: &StreamAct) -> Result<StreamActed, ServiceError>;

    async fn relays(&self) -> Result<Vec<RelayView>, ServiceError>;
    async fn relay(&self, name: &RelayName) -> Result<RelayDetail, ServiceError>;
    /// Lets what is under way end, and sends nothing more. Paused again it is no error.
    async fn pause_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Result<RelayView, ServiceError>;
    /// Goes on with a relay that was paused, or that stopped by itself.
    async fn resume_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Result<RelayView, ServiceError>;
    /// Lets what is under way in the stream end, and goes on elsewhere. Below what is kept it is refused; what it skips is audited.
    async fn seek_relay(&self, request: SeekRequest) -> Result<RelayStreamView, ServiceError>;

    /// What retention took before a relay had it, by tenant, stream and number; of this tenant, or of all. A cursor names the place of
    /// the last one shown, so it is for whoever may see that.
    async fn overtaken(
        &self,
        name: &RelayName,
        tenant: Option<&Tenant>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<OvertakenRange>, ServiceError>;

    async fn stream_stats(&self) -> Result<StreamStats, ServiceError>;
}
