//! The engine as a whole: start, service, drain.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use waybill_core::history::History;
use waybill_core::ids::{ShardId, SourceName};
use waybill_core::outbox::lone_trials::LoneTrials;
use waybill_core::outbox::rates::Rates;
use waybill_core::port::service::streams::StreamService;
use waybill_core::port::step_needs::StepNeeds;
use waybill_core::port::transport::CallError;

use crate::admission::Admission;
use crate::alerts::{self, Alerts};
use crate::bounded::{bounded, bounded_inbox, bounded_sagas, bounded_streams};
use crate::clock::{Clock, Clocks};
use crate::commit::Commits;
use crate::config::{EngineConfig, Stores};
use crate::direct::PublishedTables;
use crate::history::{self, Counts};
use crate::idempotency::Idempotency;
use crate::inbox::InboundConfig;
use crate::inbox::change::{InboundHomes, Refusal};
use crate::inbox::service::Inbox;
use crate::janitor;
use crate::live::{Live, TransportEntry};
use crate::meter::Meter;
use crate::saga::service::Sagas;
use crate::service::Outbox;
use crate::service::operations::{self, Operations};
use crate::shard::{Context, DoorBell, ShardHandle};
use crate::streams::histories::Histories;
use crate::streams::service::Streams;

/// Shards get at least this long to be given back, also when the sagas took the whole drain time.
const RELEASE_MIN: Duration = Duration::from_secs(1);
/// Background work gets this long to come to a safe point when the host drains.
const BACKGROUND_TIMEOUT: Duration = Duration::from_secs(5);
/// Who gives shards back ends by itself when the drain time is over; one that is this much late waits for the store.
const RELEASE_GRACE: Duration = Duration::from_secs(2);
/// Whatever has instances gets this long to end in good order: a transport, a table, a source, a handler.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Shards get this long to say that they go by another configuration.
const REROUTE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a removed transport is asked whether its calls have ended.
const END_PAUSE: Duration = Duration::from_millis(20);

/// A running engine. Dropping it ends it where it is, as a crash would: what was being sent is sent again at the next start.
/// [`Engine::drain`] ends it in good order.
pub struct Engine {
    outbox: Arc<Outbox>,
    sagas: Option<Arc<Sagas>>,
    tables: Arc<PublishedTables>,
    inbox: Option<Arc<Inbox>>,
    streams: Option<Arc<Streams>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
    background: Mutex<Vec<JoinHandle<()>>>,
    /// Held while another configuration is put in force: one at a time.
    reconfiguring: AsyncMutex<()>,
}

impl Engine {
    /// Starts the actors of all shards and the background work. Returns at once; readiness tells when shards are owned.
    pub fn start(mut config: EngineConfig, stores: Stores, clock: Arc<dyn Clock>) -> Self {
        let shards = config.shards.max(1);
        config.sagas.limits.outbox_shards = shards;
        config.sagas.limits.message_bytes_max = config.payload_bytes_max;
        let admission = Admission::new(config.waiting_messages_max, config.waiting_bytes_max);
        let stores = bounded(stores, config.store_timeout);
        config.sagas.store = config.sagas.store.map(|store| bounded_sagas(store, config.store_timeout));
        let inbound = Arc::clone(&config.inbound);
        // Handlers are closed when nobody holds their consumers any more, so what is kept from the start is the store alone.
        config.inbound = Arc::new(InboundConfig { store: inbound.store.clone(), ..InboundConfig::default() });
        let live = Live::new(config.clone());
        let stop = CancellationToken::new();
        let supervisor = Arc::clone(&config.supervisor);
        let clock = Clocks::new(clock);
        let rates = Rates::default();
        let began = clock.now();
        rates.configure(live.rates(), began.mono);
        config.changes.begin(began.wall);
        let counts = Arc::new(Counts::default());
        let context = Arc::new(Context {
            host: Arc::from(config.host.as_str()),
            meter: Meter::new(Arc::clone(&counts)),
            counts,
            config,
            stores,
            in_force: ArcSwap::from_pointee(live),
            clock,
            steady: Default::default(),
            door: DoorBell::default(),
            fates: watch::Sender::new(0),
            commits: Commits::default(),
            trials: LoneTrials::default(),
            rates: Arc::new(rates),
            supervisor,
            closing: CancellationToken::new(),
            stop,
        });
        let mut tasks = Vec::new();
        let mut handles = Vec::new();
        for shard in 0..shards {
            let (handle, task) = ShardHandle::start(ShardId(shard), Arc::clone(&context));
            handles.push(handle);
            tasks.push(task);
        }
        let streams = context.config.streams.store.clone().map(|store| {
            let store = bounded_streams(store, context.config.store_timeout);
            let (streams, running) = Streams::start(&context, &context.config.streams, store, &handles);
            tasks.extend(running);
            streams
        });
        let sagas = context.config.sagas.store.as_ref();
        let sagas = sagas.map(|store| Sagas::start(&context, store, &handles, streams.clone()));
        let sagas = sagas.map(|(sagas, running)| {
            tasks.extend(running);
            sagas
        });
        if let (Some(streams), Some(sagas)) = (&streams, &sagas) {
            streams.begin_histories(&(Arc::clone(sagas) as Arc<dyn Histories>));
        }
        let inbox = inbound.store.clone().map(|store| {
            let store = bounded_inbox(store, context.config.store_timeout);
            let (inbox, running) = Inbox::start(&context, inbound, store, &handles, (sagas.clone(), streams.clone()));
            tasks.extend(running);
            inbox
        });
        let tables = PublishedTables::start(&context);
        if let Some(inbox) = &inbox {
            inbox.with_tables(Arc::clone(&tables) as _);
        }
        let outbox = Arc::new(Outbox {
            idempotency: Idempotency::start(Arc::clone(&context)),
            context: Arc::clone(&context),
            sagas: sagas.clone(),
            inbox: inbox.clone(),
            streams: streams.clone(),
            shards: handles,
            admission,
            operations: Arc::new(Operations::default()),
            history: Mutex::new(History::new(began.mono)),
            history_fronts: janitor::HistoryFronts::default(),
            quarantine: Arc::default(),
            dead_counted: Mutex::default(),
            alerts: Alerts::default(),
            spread: std::sync::atomic::AtomicU64::new(0),
            draining: std::sync::atomic::AtomicBool::new(false),
        });
        let mut background = janitor::start(&outbox);
        background.push(operations::start(&outbox));
        background.push(history::start(&outbox));
        background.push(alerts::start(&outbox));
        background.extend(inbox.iter().map(Inbox::background));
        streams.iter().for_each(|streams| streams.background());
        Self {
            outbox,
            sagas,
            inbox,
            streams,
            tables,
            tasks: Mutex::new(tasks),
            background: Mutex::new(background),
            reconfiguring: AsyncMutex::default(),
        }
    }

    /// The outbox as a service.
    pub fn outbox(&self) -> Arc<dyn waybill_api::OutboxService> {
        Arc::clone(&self.outbox) as Arc<dyn waybill_api::OutboxService>
    }

    /// Sagas as a service; none = this host has none.
    pub fn sagas(&self) -> Option<Arc<dyn waybill_api::sagas::SagaService>> {
        self.sagas.clone().map(|sagas| sagas as Arc<dyn waybill_api::sagas::SagaService>)
    }

    /// What running sagas still call of participants; none = this host has no sagas.
    pub fn step_needs(&self) -> Option<Arc<dyn StepNeeds>> {
        self.sagas.clone().map(|sagas| sagas as Arc<dyn StepNeeds>)
    }

    /// The inbox and its sources as a service; none = this host has none.
    pub fn inbound(&self) -> Option<Arc<dyn waybill_api::InboundService>> {
        self.inbox.clone().map(|inbox| inbox as Arc<dyn waybill_api::InboundService>)
    }

    /// Event streams as a service; none = this host has none.
    pub fn streams(&self) -> Option<Arc<dyn StreamService>> {
        self.streams.clone().map(|streams| streams as Arc<dyn StreamService>)
    }

    /// Closes a source in good order and opens it again, by what its opener has now: how a plugin is replaced. None = it isn't open
    /// here, and is opened so when this host comes to have its home.
    pub async fn reopen_source(&self, source: &str) -> Option<Result<(), CallError>> {
        self.inbox.as_ref()?.reopen(source).await
    }

    /// Idempotency keys as a service.
    pub fn idempotency(&self) -> Arc<dyn waybill_api::idempotency::IdempotencyService> {
        Arc::clone(&self.outbox.idempotency) as _
    }

    /// Says that a doorstep commit of this process ended that didn't go through the service (the Rust library's
    /// `enqueue_in_tx`).
    pub fn wake_door(&self) {
        self.outbox.wake_door();
    }

    /// Puts another configuration in force, from each transport's next batch on: routes, transports, retries, weights, times for
    /// calls and keeping; sources, consumers and tables; of sagas their bounds, how long they are kept and the client of `http:` steps
    /// (none = the one before). The rest of it is as at the start (shards, bounds of memory, the host's name);
    /// participants are exchanged by themselves ([`crate::Participants::replace`]). A transport that is
    /// in it no more ends what it has, and is closed then; one of the same name is taken to be the same one. Returns when every shard goes by it, or hasn't answered in time.
    pub async fn reconfigure(&self, mut config: EngineConfig) {
        let _alone = self.reconfiguring.lock().await;
        let context = &self.outbox.context;
        let live = context.live();
        config.sagas = live.config.sagas.next(config.sagas);
        let (next, left) = live.next(config);
        self.pause_again(&next).await;
        context.rates.configure(next.rates(), context.clock.now().mono);
        context.in_force.store(Arc::new(next));
        if let Some(sagas) = &self.sagas {
            sagas.reconfigured();
        }
        if let Some(inbox) = &self.inbox {
            inbox.reconfigured(Arc::clone(&context.live().config.inbound));
        }
        if let Some(streams) = &self.streams {
            streams.reconfigured(Arc::clone(&context.live().config.streams.settings));
        }
        self.tables.publish(&context.live().config.direct.tables);
        let told = self.outbox.shards.iter().map(ShardHandle::reroute);
        if tokio::time::timeout(REROUTE_TIMEOUT, futures::future::join_all(told)).await.is_err() {
            tracing::warn!("a shard is busy; it goes by the new routes when it comes to it");
        }
        for entry in left {
            let stop = context.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(end(entry)).await });
        }
    }

    /// Why these sources, consumers and tables can't be put in force while this host runs, if so. [`Self::reconfigure`] takes it that
    /// they can.
    pub fn refusal(&self, next: &InboundHomes) -> Option<Refusal> {
        let inbox = self.inbox.as_ref()?;
        let becomes_table = next.tables.iter().find(|source| inbox.pulls(source));
        let is_table = |source: &&SourceName| self.tables.find(source.as_str()).is_some();
        if let Some(source) = becomes_table.or_else(|| next.sources.keys().find(is_table)) {
            return Some(Refusal::published_otherwise(source));
        }
        let was_pulled = next.tables.iter().find(|source| inbox.may_pull(source));
        let was_table = || next.sources.keys().find(|source| self.tables.publishes(source.as_str()));
        match was_pulled.or_else(was_table) {
            Some(source) => Some(Refusal::still_under_way(source)),
            None => inbox.refusal(next),
        }
    }

    /// Has what operators paused stay paused, also a transport that comes back: told to the shards before they hear of it.
    async fn pause_again(&self, next: &Live) {
        let context = &self.outbox.context;
        let paused = match context.stores.transact.paused().await {
            Ok(paused) => paused,
            Err(error) => {
                tracing::warn!(code = error.code().as_str(), %error, "can't read which transports are paused");
                Vec::new()
            }
        };
        for (id, entry) in next.iter() {
            if paused.iter().any(|name| **name == *entry.name) {
                entry.state.paused.store(true, Ordering::Release);
            }
            if next.is_paused(id) {
                self.outbox.shards.iter().for_each(|shard| shard.pause(id, true));
            }
        }
    }

    /// Readiness fails from now on; messages are still taken until [`Engine::drain`].
    pub fn begin_drain(&self) {
        self.outbox.draining.store(true, std::sync::atomic::Ordering::Release);
    }

    /// Stops taking and sending messages and calling steps of sagas, waits for sends and calls under way at most `timeout`, gives the shards back, and
    /// closes the transports. True when everything ended in good order.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.begin_drain();
        self.outbox.context.closing.cancel();
        // Bulk operations note how far they are; the next start goes on with them.
        let background: Vec<JoinHandle<()>> = self.background.lock().drain(..).collect();
        let _late = tokio::time::timeout(BACKGROUND_TIMEOUT, futures::future::join_all(background)).await;
        let deadline = tokio::time::Instant::now() + timeout;
        let mut orderly = true;
        let sagas = async {
            let mut orderly = true;
            if let Some(inbox) = &self.inbox {
                // Before the sagas, to whose doorstep it may leave something.
                orderly &= tokio::time::timeout(timeout + RELEASE_GRACE, inbox.drain(timeout)).await.is_ok();
            }
            if let Some(sagas) = &self.sagas {
                // Before the shards: one that another host takes over takes its sagas with it.
                let left = left_of(deadline);
                orderly &= tokio::time::timeout(left + RELEASE_GRACE, sagas.drain(left)).await.is_ok();
            }
            orderly
        };
        let streams = async {
            match &self.streams {
                Some(streams) => tokio::time::timeout(timeout + RELEASE_GRACE, streams.drain(timeout)).await.is_ok(),
                None => true,
            }
        };
        let (sagas, tables, streams) = tokio::join!(sagas, self.tables.drain(timeout + RELEASE_GRACE), streams);
        orderly &= sagas && tables && streams;
        let left = left_of(deadline);
        let releases = futures::future::join_all(self.outbox.shards.iter().map(|shard| shard.release(left)));
        orderly &= tokio::time::timeout(left + RELEASE_GRACE, releases).await.is_ok();
        let tasks: Vec<JoinHandle<()>> = self.tasks.lock().drain(..).collect();
        orderly &= tokio::time::timeout(BACKGROUND_TIMEOUT, futures::future::join_all(tasks)).await.is_ok();
        if !orderly {
            tracing::warn!("a task waits for the store and doesn't end: it is cut off, as a crash would");
            self.outbox.context.stop.cancel();
        }
        let context = &self.outbox.context;
        // What is still being sent can't be settled any more.
        let close = deadline.saturating_duration_since(tokio::time::Instant::now()).min(CLOSE_TIMEOUT);
        let live = context.live();
        let closes = futures::future::join_all(live.iter().map(|(_, entry)| entry.transport.close(close)));
        orderly &= tokio::time::timeout(close + RELEASE_GRACE, closes).await.is_ok();
        orderly && live.iter().all(|(_, entry)| entry.state.in_flight.load(Ordering::Acquire) == 0)
    }
}

/// What is left of the drain time, and a moment more.
fn left_of(deadline: tokio::time::Instant) -> Duration {
    deadline.saturating_duration_since(tokio::time::Instant::now()).max(RELEASE_MIN)
}

/// Closes a transport that was removed, when its calls have ended.
async fn end(entry: Arc<TransportEntry>) {
    let until = tokio::time::Instant::now() + entry.send_timeout + CLOSE_TIMEOUT;
    while entry.state.in_flight.load(Ordering::Acquire) > 0 && tokio::time::Instant::now() < until {
        tokio::time::sleep(END_PAUSE).await;
    }
    entry.transport.close(CLOSE_TIMEOUT).await;
    tracing::info!(transport = &*entry.name, "removed");
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.outbox.context.closing.cancel();
        self.outbox.context.stop.cancel();
    }
}
