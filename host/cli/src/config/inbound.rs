//! Sources, consumers and the inbox as the rest of the program uses them: closed types, every value checked.

use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_core::ids::{ConsumerName, SourceName, Tenant};
use waybill_core::inbox::intake::{FieldNames, MissingId};
use waybill_core::inbox::settings::{AcknowledgeRows, OnReusedId};
use waybill_core::port::source::Overtaken;
use waybill_core::route::Pattern;
use waybill_core::topic::Topic;

/// `[inbox]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxSettings {
    /// How long, in time that somebody owned the shard, an id is remembered after its message was finished. Not shorter than dead
    /// letters are kept, or a replayed one would be handled twice.
    pub dedup_window: Duration,
    /// Bytes of filters over ids that have neither a time nor a counter.
    pub dedup_memory: usize,
    /// How long the history for operators is kept.
    pub keep_done: Duration,
    /// Bytes of the largest payload taken.
    pub max_payload_bytes: usize,
}

/// `[source.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub name: SourceName,
    /// Its plugin, with what it may do.
    pub endpoint: EndpointSettings,
    /// It reads an outbox table, whose rows can be published directly.
    pub is_table: bool,
    /// What its order and its seen set belong to: it hashes to a shard for ever.
    pub home: String,
    /// Context of its messages; none = the first token of the subject.
    pub context: Option<String>,
    /// Tenants of its messages; with several each message names one.
    pub tenants: Vec<Tenant>,
    /// Deliveries that may be unsettled.
    pub window: u32,
    pub window_bytes: u32,
    pub on_overtaken: Overtaken,
    /// How long a place in the order waits for its message after a crash; none = twice the source's `settle-within`.
    pub orphan_wait: Option<Duration>,
    pub missing_id: MissingId,
    /// The seen set files its ids by when they happened.
    pub id_time_occurred: bool,
    /// Where parts of a message stand in its headers and properties, if not where the plugin looks.
    pub map: FieldNames,
}

/// `[consumer.NAME]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    pub name: ConsumerName,
    pub sources: Vec<String>,
    /// Subjects as topics (`bus:<subject>`) that it takes; empty = all.
    pub matches: Vec<Pattern>,
    pub target: Target,
    pub publish: Publish,
    pub dlq: Dlq,
    /// Calls at once.
    pub concurrency: u32,
    /// Stored messages, past which its sources wait.
    pub stored_max: usize,
    /// Backoff between failures, with the number of attempts in all.
    pub retry: RetryPolicy,
    pub handler_timeout: Duration,
    pub on_reused_id: OnReusedId,
    pub acknowledge_rows: AcknowledgeRows,
    /// False: every delivery is handled, whether its id was seen or not.
    pub idempotent: bool,
}

/// What happens with a consumer's messages.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "there is one a consumer")]
pub enum Target {
    /// They go on to a topic, which may hold `{names}`.
    Topic(String),
    /// Replies and signals for sagas.
    Saga,
    /// They are posted to a URL.
    Http { url: Topic, grants: Grants },
    /// A component handles them.
    Component { endpoint: Box<EndpointSettings> },
}

/// How messages leave that go on to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Through the inbox and the outbox.
    Stored,
    /// From their table to the transport, marked there.
    Direct(Direct),
}

/// Bounds of publishing directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Transactions side by side.
    pub lanes: u32,
    /// Rows of one transaction.
    pub batch: u32,
    /// After this time in a transaction no send begins.
    pub timeout: Duration,
}

/// Whether dead letters leave a message behind, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dlq {
    Off,
    /// Where a route takes this subject.
    IfRouted(String),
    On(String),
}
