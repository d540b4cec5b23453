//! What the inbox of a host is given: its sources, their consumers, and what they are called through.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::{ConsumerName, SourceName, Tenant};
use waybill_core::inbox::intake::{FieldNames, MissingId};
use waybill_core::inbox::limits::{
    CONCURRENCY_DEFAULT, DEDUP_WINDOW_DEFAULT, HANDLER_TIMEOUT_DEFAULT, KEEP_DONE_DEFAULT, MAX_ATTEMPTS_DEFAULT,
    STORED_MAX_DEFAULT, WINDOW_BYTES_DEFAULT, WINDOW_DEFAULT,
};
use waybill_core::inbox::settings::{AcknowledgeRows, OnReusedId};
use waybill_core::limits::PAYLOAD_BYTES_MAX_DEFAULT;
use waybill_core::port::handler::Handler;
use waybill_core::port::http_handler::{BodyReader, HttpHandlers};
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::source::SourcePlugin;
use waybill_core::route::Pattern;

/// Bytes of a handler's answer that are read, by default.
const ANSWER_BYTES_MAX_DEFAULT: usize = 1024 * 1024;

/// The inbox of a host. Whoever puts another one in force gives the same `Arc`s for what stays: a plugin or a handler that is another
/// one is opened or called anew, and where bounds differ a shard is taken over anew.
#[derive(Clone)]
pub struct InboundConfig {
    /// Where it is kept; none = this host has no inbox. It is as at the start.
    pub store: Option<Arc<dyn InboxStore>>,
    pub sources: Vec<Arc<SourceConfig>>,
    pub consumers: Vec<Arc<ConsumerConfig>>,
    /// How long, in owned time, an id is remembered after its message was finished.
    pub dedup_window: Duration,
    /// How long the history for operators is kept.
    pub keep_done: Duration,
    /// Bytes of the largest payload that is taken.
    pub payload_bytes_max: usize,
    /// Bytes of a handler's answer that are read.
    pub answer_bytes_max: usize,
    /// Reads what HTTP handlers answer and sagas are replied; none = such bodies are refused.
    pub bodies: Option<Arc<dyn BodyReader>>,
}

impl InboundConfig {
    /// Handlers that are components, with their consumers.
    pub(crate) fn components(&self) -> impl Iterator<Item = (&Arc<ConsumerConfig>, &Arc<dyn Handler>)> {
        self.consumers.iter().filter_map(|consumer| match &consumer.target {
            ConsumerTarget::Component(handler) => Some((consumer, handler)),
            ConsumerTarget::Topic(_) | ConsumerTarget::Saga | ConsumerTarget::Http { .. } => None,
        })
    }
}

impl Default for InboundConfig {
    fn default() -> Self {
        Self {
            store: None,
            sources: Vec::new(),
            consumers: Vec::new(),
            dedup_window: DEDUP_WINDOW_DEFAULT,
            keep_done: KEEP_DONE_DEFAULT,
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            answer_bytes_max: ANSWER_BYTES_MAX_DEFAULT,
            bodies: None,
        }
    }
}

/// A source whose messages go through the inbox.
#[derive(Clone)]
pub struct SourceConfig {
    pub name: SourceName,
    /// What its order and its seen set belong to: it hashes to a shard for ever.
    pub home: String,
    /// Context of its messages; none = the first token of the subject.
    pub context: Option<String>,
    /// Tenants of its messages; with several each message names one.
    pub tenants: Vec<Tenant>,
    /// Deliveries that may be unsettled, over all instances.
    pub window: u32,
    pub window_bytes: u32,
    /// Instances, each with its part of the window.
    pub instances: u32,
    /// How long a place in the order waits for its message after a crash; none = twice the source's `settle-within`.
    pub orphan_wait: Option<Duration>,
    pub missing_id: MissingId,
    /// The seen set files its ids by when they happened.
    pub id_time_occurred: bool,
    /// Where parts of a message stand, if not where the plugin looks.
    pub names: FieldNames,
    pub plugin: Arc<dyn SourcePlugin>,
}

impl SourceConfig {
    /// A source of tenant `default` with every bound at its default and a home of its own.
    pub fn new(name: SourceName, plugin: Arc<dyn SourcePlugin>) -> Self {
        Self {
            home: name.to_string(),
            name,
            context: None,
            tenants: vec![Tenant::unnamed()],
            window: WINDOW_DEFAULT,
            window_bytes: WINDOW_BYTES_DEFAULT,
            instances: 1,
            orphan_wait: None,
            missing_id: MissingId::default(),
            id_time_occurred: false,
            names: FieldNames::default(),
            plugin,
        }
    }
}

/// What happens with a consumer's messages.
#[derive(Clone)]
pub enum ConsumerTarget {
    /// They go on to a topic, which may hold `{names}`.
    Topic(String),
    /// Replies and signals for sagas.
    Saga,
    Http {
        url: Arc<str>,
        client: Arc<dyn HttpHandlers>,
    },
    Component(Arc<dyn Handler>),
}

impl fmt::Debug for ConsumerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(topic) => f.debug_tuple("Topic").field(topic).finish(),
            Self::Saga => f.write_str("Saga"),
            Self::Http { url, .. } => f.debug_tuple("Http").field(url).finish(),
            Self::Component(handler) => f.debug_tuple("Component").field(&handler.name()).finish(),
        }
    }
}

/// A consumer with its handler, or with where it forwards.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    pub name: ConsumerName,
    /// Sources that feed it; they share a home.
    pub sources: Vec<SourceName>,
    /// Subjects as topics (`bus:<subject>`) that it takes; empty = all.
    pub matches: Vec<Pattern>,
    pub target: ConsumerTarget,
    /// Where its dead letters leave a message; none = nowhere.
    pub dlq_subject: Option<String>,
    /// Calls at once.
    pub concurrency: u32,
    /// Rows, past which its sources wait.
    pub stored_max: usize,
    pub retry: RetryPolicy,
    pub handler_timeout: Duration,
    pub on_reused_id: OnReusedId,
    pub acknowledge_rows: AcknowledgeRows,
    /// False: every delivery is handled, whether its id was seen or not.
    pub idempotent: bool,
}

impl ConsumerConfig {
    /// A consumer of all that one source brings, with every bound at its default and no DLQ.
    pub fn new(name: ConsumerName, source: SourceName, target: ConsumerTarget) -> Self {
        Self {
            name,
            sources: vec![source],
            matches: Vec::new(),
            target,
            dlq_subject: None,
            concurrency: CONCURRENCY_DEFAULT,
            stored_max: STORED_MAX_DEFAULT,
            retry: RetryPolicy { max_attempts: MAX_ATTEMPTS_DEFAULT, ..RetryPolicy::default() },
            handler_timeout: HANDLER_TIMEOUT_DEFAULT,
            on_reused_id: OnReusedId::default(),
            acknowledge_rows: AcknowledgeRows::default(),
            idempotent: true,
        }
    }
}
