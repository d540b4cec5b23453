//! Streams and relays as the surfaces see them. What is stored is read, so that it doesn't matter which host has the shard; what only its
//! owner can do is asked of it, if this host has it.
//!
//! | file | holds |
//! |---|---|
//! | `append` | appends: at once, over the doorstep, at an expected number |
//! | `joint` | events that commit with something else |
//! | `import` | streams that come from elsewhere |
//! | `read` | pages, lists, subscriptions |
//! | `operate` | purging and deleting |
//! | `dead` | dead letters, and what relays never had |
//! | `relays` | relays shown, paused, sought |
//! | `stats` | how streams do at this host |
//! | `trail` | what operators do, in the audit trail |

mod append;
mod dead;
mod import;
mod joint;
mod operate;
mod read;
mod relays;
mod stats;
mod trail;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::task::JoinHandle;
use waybill_api::status::{Check, CheckStatus};
use waybill_core::ids::{RelayName, Tenant};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{
    AppendRequest, Appended, EventsPage, ImportEvent, RelayDetail, RelayState, RelayStreamView, RelayView, SeekRequest,
    StreamAct, StreamActed, StreamDetail, StreamPage, StreamService, StreamStats, StreamSummary, SubscribeRequest,
    Subscription,
};
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamStore;
use waybill_core::saga::id::SagaKey;
use waybill_core::streams::dead::OvertakenRange;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::settings::StreamsSettings;
use waybill_core::time::UnixMillis;

use super::histories::{Histories, HistorySource};
use super::meter::StreamMeter;
use super::readers::{Readers, sweep};
use super::relay::{RelayStates, follow_notes, tell_stops};
use super::rings::Rings;
use super::{Shared, StreamHandle, StreamsConfig, follow};
use crate::admission::Admission;
use crate::commit::Condition;
use crate::shard::{Context, DoorBell, ShardHandle};
use trail::OperatorAct;

/// The streams of this host. Clones share all of it.
#[derive(Clone)]
pub(crate) struct Streams {
    shared: Arc<Shared>,
    shards: Vec<StreamHandle>,
    admission: Arc<Admission>,
}

impl Streams {
    /// Starts the tasks of all shards. They take their shards over as this host comes to own them.
    pub fn start(
        context: &Arc<Context>,
        config: &StreamsConfig,
        store: Arc<dyn StreamStore>,
        outbox: &[ShardHandle],
    ) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let shared = Arc::new(Shared {
            context: Arc::clone(context),
            store,
            incarnation: config.incarnation,
            brokers: config.brokers.clone(),
            settings: ArcSwap::new(Arc::clone(&config.settings)),
            bell: DoorBell::default(),
            rings: Rings::default(),
            readers: Readers::new(&config.settings.events),
            histories: HistorySource::default(),
            relays: RelayStates::default(),
            meter: StreamMeter::new(),
        });
        let started = outbox.iter().map(|shard| StreamHandle::start(shard, Arc::clone(&shared)));
        let (shards, tasks) = started.unzip();
        let admission = Admission::new(context.config.waiting_messages_max, context.config.waiting_bytes_max);
        (Arc::new(Self { shared, shards, admission }), tasks)
    }

    /// Background work: what other hosts publish, who takes nothing, and what operators said at other hosts. It ends with the engine.
    pub fn background(&self) {
        let context = &self.shared.context;
        let follow = {
            let (shared, shards) = (Arc::clone(&self.shared), self.shards.clone());
            move || follow::run(Arc::clone(&shared), shards.clone())
        };
        context.supervisor.run("following streams", context.stop.clone(), follow);
        let sweep = {
            let shared = Arc::clone(&self.shared);
            move || sweep(Arc::clone(&shared))
        };
        context.supervisor.run("readers of streams", context.stop.clone(), sweep);
        let notes = {
            let (shared, shards) = (Arc::clone(&self.shared), self.shards.clone());
            move || follow_notes(Arc::clone(&shared), shards.clone())
        };
        context.supervisor.run("pauses of relays", context.stop.clone(), notes);
    }

    /// Goes by other settings; the same ones again change nothing.
    pub fn reconfigured(&self, settings: Arc<StreamsSettings>) {
        self.shared.settings.store(settings);
        self.shards.iter().for_each(StreamHandle::reconfigured);
    }

    /// Sends nothing more, numbers what was taken, and gives the shards back.
    pub async fn drain(&self, timeout: Duration) {
        futures::future::join_all(self.shards.iter().map(|shard| shard.release(timeout))).await;
        if let Err(error) = tell_stops(&self.shared).await {
            tracing::warn!(code = error.code().as_str(), %error, "can't note which relays have stopped");
        }
    }

    /// A transaction of this process may have left events on a doorstep.
    pub fn wake_doors(&self) {
        self.shards.iter().for_each(StreamHandle::wake_door);
    }

    /// The sagas of this host are there, and with them their histories.
    pub fn begin_histories(&self, histories: &Arc<dyn Histories>) {
        self.shared.histories.begin(histories);
    }

    /// A commit moved a saga: whoever reads its history looks.
    pub fn saga_moved(&self, saga: &SagaKey) {
        self.shared.rings.call_history(saga);
    }

    /// How the streams of this host are, for readiness.
    pub fn readiness(&self) -> Vec<Check> {
        let check = |name: String, status, detail| Check { name, status, detail };
        let trouble = self.shards.iter().find_map(|shard| match shard.condition() {
            Condition::Trouble { error, .. } => Some(format!("{}: {error}", error.code())),
            _ => None,
        });
        let owned = self.shards.iter().filter(|shard| shard.is_owned()).count();
        let mut checks = vec![match trouble {
            Some(trouble) => check("streams".to_owned(), CheckStatus::Fail, trouble),
            None => {
                let detail = format!("numbers those of {owned} of {} shards", self.shards.len());
                check("streams".to_owned(), CheckStatus::Ok, detail)
            }
        }];
        for plan in &self.shared.settings().relays {
            let state = self.shared.relays.of(&plan.name);
            let overtaken = state.overtaken.load(Ordering::Acquire);
            let lost = (overtaken > 0).then(|| format!("retention took {overtaken} events before it had sent them"));
            let reason = state.reason().map(|reason| match state.state() {
                RelayState::Stopped => format!("it has stopped: {reason}"),
                RelayState::Paused | RelayState::Running => reason,
            });
            let found: Vec<String> = lost.into_iter().chain(reason).collect();
            if !found.is_empty() {
                checks.push(check(format!("relay {}", plan.name), CheckStatus::Warn, found.join("; ")));
            }
        }
        checks
    }

    fn store(&self) -> &dyn StreamStore {
        self.shared.store.as_ref()
    }

    /// The clock that never goes back.
    fn steady_now(&self) -> UnixMillis {
        self.shared.context.steady_now()
    }

    /// Forgets about `limit` ids that are older than they are kept, as far as the wall clock says so, too.
    pub async fn forget_ids(&self, wall: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        let keep = u64::try_from(self.shared.settings().events.keep_ids.as_millis()).unwrap_or(u64::MAX);
        let before = self.steady_now().min(wall).0.saturating_sub(keep);
        self.store().forget_ids(UnixMillis(before), limit).await
    }

    /// Whoever numbers a stream; of a saga's history, who writes the saga is the same host.
    fn shard_of(&self, stream: &StreamKey) -> Result<&StreamHandle, ServiceError> {
        let shards = self.shared.shards();
        let saga = stream.name.saga_id().map(|id| SagaKey { tenant: stream.tenant.clone(), id });
        let shard = saga.map_or_else(|| stream.shard(shards), |saga| saga.shard(shards));
        let missing = || ServiceError::Unavailable(format!("shard {shard} isn't one of this host's"));
        self.shards.get(usize::from(shard.0)).ok_or_else(missing)
    }
}

#[async_trait]
impl StreamService for Streams {
    async fn append(&self, request: AppendRequest) -> Result<Appended, ServiceError> {
        self.append_events(request).await
    }

    async fn import(&self, act: &StreamAct, events: Vec<ImportEvent>) -> Result<StreamActed, ServiceError> {
        self.import_events(act, events).await
    }

    async fn read_stream(
        &self,
        stream: &StreamKey,
        after: Option<&str>,
        limit: u64,
    ) -> Result<StreamPage, ServiceError> {
        self.page_of(stream, after, limit).await
    }

    async fn read_many(
        &self,
        tenant: &Tenant,
        selector: &Selector,
        cursor: Option<&str>,
        limit: u64,
    ) -> Result<EventsPage, ServiceError> {
        self.page_of_many(tenant, selector, cursor, limit).await
    }

    async fn streams(
        &self,
        tenant: &Tenant,
        prefix: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StreamSummary>, ServiceError> {
        self.list(tenant, prefix, cursor, limit).await
    }

    async fn stream(&self, stream: &StreamKey) -> Result<StreamDetail, ServiceError> {
        self.show(stream).await
    }

    async fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, ServiceError> {
        self.begin_reading(request).await
    }

    async fn purge(&self, act: &StreamAct, before: Option<u64>) -> Result<StreamActed, ServiceError> {
        self.take_away(OperatorAct::Purge, act, before).await
    }

    async fn delete(&self, act: &StreamAct) -> Result<StreamActed, ServiceError> {
        self.take_away(OperatorAct::Delete, act, None).await
    }

    async fn relays(&self) -> Result<Vec<RelayView>, ServiceError> {
        Ok(self.relay_views().await)
    }

    async fn relay(&self, name: &RelayName) -> Result<RelayDetail, ServiceError> {
        self.relay_detail(name).await
    }

    async fn pause_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Result<RelayView, ServiceError> {
        self.set_paused(name, true, actor, reason).await
    }

    async fn resume_relay(&self, name: &RelayName, actor: &str, reason: &str) -> Result<RelayView, ServiceError> {
        self.set_paused(name, false, actor, reason).await
    }

    async fn seek_relay(&self, request: SeekRequest) -> Result<RelayStreamView, ServiceError> {
        self.seek(request).await
    }

    async fn overtaken(
        &self,
        name: &RelayName,
        tenant: Option<&Tenant>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<OvertakenRange>, ServiceError> {
        self.overtaken_page(name, tenant, cursor, limit).await
    }

    async fn stream_stats(&self) -> Result<StreamStats, ServiceError> {
        Ok(self.stats())
    }
}
