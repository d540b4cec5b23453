//! The inbox and its sources as the API sees them. What is in memory is asked of the shard's owner, if this host has it; what is
//! stored, seen or dead is read, so that what other hosts have is there too.
//!
//! | file | holds |
//! |---|---|
//! | `status` | stored messages listed, one message or id looked up |
//! | `stats` | how much waits |
//! | `sources` | sources shown, paused, provisioned |
//! | `tables` | sources that publish their tables directly |
//! | `dead` | dead letters of received messages |

mod dead;
mod sources;
mod stats;
mod status;
mod tables;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use waybill_api::inbox::{InboxMessageView, InboxService, InboxStats, InboxStatusView, StoredOrder};
use waybill_api::status::{Check, CheckStatus};
use waybill_core::ids::{ConsumerName, InboundId, ShardId, SourceName, Tenant};
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::port::handler::Handler;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::port::transport::CallError;
use waybill_core::time::UnixMillis;

use super::actor::RECONFIGURE_TIMEOUT;
use super::change::{InboundHomes, Refusal};
use super::config::{ConsumerConfig, InboundConfig, SourceConfig};
use super::meter::InboxMeter;
use super::sources::{Seats, close_within};
use super::{InboxHandle, Shared, change, tidy};
use crate::commit::Condition;
use crate::direct::DirectConfig;
use crate::engine::CLOSE_TIMEOUT;
use crate::saga::service::Sagas;
use crate::service;
use crate::shard::{Context, ShardHandle};
use crate::streams::service::Streams;
pub(crate) use dead::DeadOf;
pub(crate) use tables::TableSources;

/// How often it is asked whether the calls of a handler have ended that is in force no more.
const END_PAUSE: Duration = Duration::from_millis(20);

/// The inbox of this host.
pub(crate) struct Inbox {
    pub(in crate::inbox) shared: Arc<Shared>,
    pub(in crate::inbox) shards: Vec<InboxHandle>,
    /// Sources whose tables are published directly; they have no part in the rest.
    tables: OnceLock<Arc<dyn TableSources>>,
    /// When dead letters were looked through for old ones.
    walked_at: Mutex<Option<Instant>>,
    /// Dead letters by consumer, and when they were counted.
    dead_counted: AsyncMutex<Option<(Instant, BTreeMap<ConsumerName, u64>)>>,
}

impl Inbox {
    /// Starts the tasks of all shards. They take their shards over as this host comes to own them.
    pub fn start(
        context: &Arc<Context>,
        config: Arc<InboundConfig>,
        store: Arc<dyn InboxStore>,
        outbox: &[ShardHandle],
        (sagas, streams): (Option<Arc<Sagas>>, Option<Arc<Streams>>),
    ) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let shared = Arc::new(Shared {
            context: Arc::clone(context),
            store,
            config: ArcSwap::new(config),
            seats: Seats::default(),
            meter: InboxMeter::new(Arc::clone(&context.counts)),
            outbox: outbox.to_vec(),
            sagas,
            streams,
        });
        let started = outbox.iter().map(|shard| InboxHandle::start(shard, Arc::clone(&shared)));
        let (shards, tasks) = started.unzip();
        (
            Arc::new(Self {
                shared,
                shards,
                tables: OnceLock::new(),
                walked_at: Mutex::default(),
                dead_counted: AsyncMutex::default(),
            }),
            tasks,
        )
    }

    /// Background work: tidying.
    pub fn background(self: &Arc<Self>) -> JoinHandle<()> {
        let context = &self.shared.context;
        let begin = {
            let inbox = Arc::clone(self);
            move || tidy::run(Arc::clone(&inbox))
        };
        context.supervisor.run("tidying of the inbox", context.stop.clone(), begin)
    }

    /// Sources that publish their tables directly are shown, paused and provisioned through it.
    pub fn with_tables(&self, tables: Arc<dyn TableSources>) {
        // Once at the start: a second one would be a mistake of the engine's.
        let _set_before = self.tables.set(tables);
    }

    /// Goes by another configuration; the same one again changes nothing. Handlers that are in it no more are closed when their calls
    /// have ended.
    pub fn reconfigured(&self, config: Arc<InboundConfig>) {
        let before = self.shared.config.swap(Arc::clone(&config));
        self.shards.iter().for_each(InboxHandle::reconfigured);
        for (consumer, handler) in before.components() {
            if config.components().any(|(_, stays)| Arc::ptr_eq(stays, handler)) {
                continue;
            }
            let (consumer, handler) = (Arc::clone(consumer), Arc::clone(handler));
            let stop = self.shared.context.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(end(consumer, handler)).await });
        }
    }

    /// Whether a source is one of those that go through the inbox.
    pub fn pulls(&self, source: &SourceName) -> bool {
        self.config().sources.iter().any(|pulled| pulled.name == *source)
    }

    /// Whether something of a source may still be under way, also of one that was taken out: it isn't closed yet.
    pub fn may_pull(&self, source: &SourceName) -> bool {
        self.shared.seats.is_taken(source)
    }

    /// Why another configuration can't follow the one in force, if so.
    pub fn refusal(&self, next: &InboundHomes) -> Option<Refusal> {
        change::other_home(&InboundHomes::of(&self.config(), &DirectConfig::default()), next)
    }

    /// Pulls and calls nothing more, waits for calls under way at most `timeout`, and closes the sources and then the handlers in what is
    /// left of it.
    pub async fn drain(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        futures::future::join_all(self.shards.iter().map(|shard| shard.release(timeout))).await;
        let config = self.config();
        let handlers = config.components().map(|(_, handler)| handler.close(close_within(until)));
        futures::future::join_all(handlers).await;
    }

    /// Closes a source in good order and opens it again, by the plugin that its opener has now. None = it isn't open here.
    pub async fn reopen(&self, source: &str) -> Option<Result<(), CallError>> {
        let config = self.config();
        let found = config.sources.iter().find(|known| known.name.as_str() == source)?;
        self.home_of(found).ok()?.reopen(source.to_owned(), false).await
    }

    /// How the inbox of this host is, for readiness.
    pub fn readiness(&self) -> Vec<Check> {
        let check = |name: &str, status, detail| Check { name: name.to_owned(), status, detail };
        let mut checks = Vec::new();
        for shard in &self.shards {
            if let Condition::Trouble { error, .. } = shard.condition() {
                checks.push(check("inbox", CheckStatus::Fail, format!("{}: {error}", error.code())));
                break;
            }
        }
        if checks.is_empty() {
            let written = self.shards.iter().filter(|shard| shard.is_written()).count();
            checks.push(check(
                "inbox",
                CheckStatus::Ok,
                format!("writes that of {written} of {} shards", self.shards.len()),
            ));
        }
        for source in &self.config().sources {
            let seat = self.shared.seats.of(&source.name);
            let figures = seat.figures();
            let shortfall = figures.shortfall().map(str::to_owned);
            let trouble = seat.refused().or(figures.trouble);
            let trouble = trouble.map(|fault| format!("{}: {}", fault.code, fault.reason));
            if let Some(detail) = trouble.or(shortfall) {
                checks.push(check(&format!("source {}", source.name), CheckStatus::Warn, detail));
            }
        }
        checks
    }

    fn config(&self) -> Arc<InboundConfig> {
        self.shared.config.load_full()
    }

    fn store(&self) -> &dyn InboxStore {
        self.shared.store.as_ref()
    }

    fn now(&self) -> UnixMillis {
        self.shared.context.clock.now().wall
    }

    fn shard(&self, shard: ShardId) -> Result<&InboxHandle, ServiceError> {
        let missing = || ServiceError::Unavailable(format!("shard {shard} isn't one of this host's"));
        self.shards.get(usize::from(shard.0)).ok_or_else(missing)
    }

    /// The shard that has a source's home.
    fn home_of(&self, source: &SourceConfig) -> Result<&InboxHandle, ServiceError> {
        self.shard(ShardId::of_home(&source.home, self.shared.context.config.shards))
    }

    /// The home of a configured consumer.
    fn home_of_consumer<'c>(
        &self,
        config: &'c InboundConfig,
        consumer: &ConsumerConfig,
    ) -> Option<&'c Arc<SourceConfig>> {
        config.sources.iter().find(|source| consumer.sources.contains(&source.name))
    }

    /// Whether all that a consumer takes is of one tenant.
    fn is_of(&self, config: &InboundConfig, consumer: &ConsumerConfig, tenant: &Tenant) -> bool {
        let mut sources = config.sources.iter().filter(|source| consumer.sources.contains(&source.name));
        sources.all(|source| source.tenants.iter().all(|of| of == tenant))
    }

    fn event(&self, kind: &str, actor: &str, tenant: Option<&Tenant>, object: &str, detail: Value) -> AuditEvent {
        AuditEvent {
            at: self.now(),
            kind: kind.to_owned(),
            actor: actor.to_owned(),
            tenant: tenant.map(ToString::to_string),
            object: object.to_owned(),
            detail,
        }
    }

    /// Writes to the audit trail what has been done. It ends whether or not anybody waits.
    async fn audit(&self, event: AuditEvent) {
        let context = Arc::clone(&self.shared.context);
        let _ended = tokio::spawn(async move { service::audit(&context, &event).await }).await;
    }
}

/// Closes the handler of a consumer that is in force no more. Each of its calls holds the consumer as it was.
async fn end(consumer: Arc<ConsumerConfig>, handler: Arc<dyn Handler>) {
    let until = Instant::now() + RECONFIGURE_TIMEOUT + consumer.handler_timeout;
    while Arc::strong_count(&consumer) > 1 && Instant::now() < until {
        tokio::time::sleep(END_PAUSE).await;
    }
    handler.close(CLOSE_TIMEOUT).await;
    tracing::info!(consumer = consumer.name.as_str(), "its handler was closed");
}

#[async_trait]
impl InboxService for Inbox {
    async fn stored(
        &self,
        filter: &StoredFilter,
        order: StoredOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<InboxMessageView>, ServiceError> {
        self.list_stored(filter, order, cursor, limit).await
    }
    async fn status_of(
        &self,
        tenant: Option<&Tenant>,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<InboxStatusView, ServiceError> {
        self.show_status(tenant, consumer, id).await
    }
    async fn inbox_stats(&self, tenant: Option<&Tenant>) -> Result<InboxStats, ServiceError> {
        self.count_all(tenant).await
    }
}
