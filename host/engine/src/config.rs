//! What the engine is given.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::alert::AlertSettings;
use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::idempotency;
use waybill_core::ids::Tenant;
use waybill_core::limits::{RETRY_AFTER_MAX_DEFAULT, SchedulerLimits};
use waybill_core::outbox::rates::Rate;
use waybill_core::outbox::suspicion::Caution;
use waybill_core::port::backoff::BackoffPolicy;
use waybill_core::port::dedup::DedupStore;
use waybill_core::port::disk::Disk;
use waybill_core::port::idempotency::IdempotencyStore;
use waybill_core::port::query::QueryStore;
use waybill_core::port::saga::HttpSteps;
use waybill_core::port::saga_store::SagaStore;
use waybill_core::port::store::OwnerStore;
use waybill_core::port::trace::Tracer;
use waybill_core::port::transact::TransactStore;
use waybill_core::port::transport::Transport;
use waybill_core::route::Routes;
use waybill_core::saga::definition::default_retry;
use waybill_core::saga::limits::SagaLimits;
use waybill_core::time::AHEAD_CONFIRMED;

use crate::changes::ChangeFeed;
use crate::direct::DirectConfig;
use crate::inbox::InboundConfig;
use crate::participants::Participants;
use crate::streams::StreamsConfig;
use crate::supervisor::Supervisor;

/// Twice what one statement may take by default.
const STORE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// The store behind its ports.
#[derive(Clone)]
pub struct Stores {
    /// For the shards' owners.
    pub owner: Arc<dyn OwnerStore>,
    /// For people and the API.
    pub query: Arc<dyn QueryStore>,
    /// For business transactions, operations and the audit.
    pub transact: Arc<dyn TransactStore>,
    pub dedup: Arc<dyn DedupStore>,
    pub idempotency: Arc<dyn IdempotencyStore>,
}

#[derive(Clone)]
pub struct Retries {
    /// The built-in formula and the number of attempts.
    pub policy: RetryPolicy,
    /// A policy component that decides instead.
    pub component: Option<Arc<dyn BackoffPolicy>>,
    /// Longest wish of a peer that is honoured.
    pub retry_after_max: Duration,
}

#[derive(Clone)]
pub struct SagaConfig {
    /// Where they are kept; none = this host has none.
    pub store: Option<Arc<dyn SagaStore>>,
    /// Bounds of each shard's sagas. `message_bytes_max` and `outbox_shards` are put by the engine.
    pub limits: SagaLimits,
    /// Calls of steps at once, over all sagas of this host. Others wait their turn.
    pub calls_max: usize,
    /// The same of one tenant.
    pub calls_per_tenant_max: usize,
    /// How long ended sagas are kept.
    pub keep_done: Duration,
    /// Retries of steps whose definitions don't say, for sagas that begin: those that run keep what they began with.
    pub default_retry: RetryPolicy,
    /// Components that decide about a step's retries, by the name of their plugin. That of the outbox counts too.
    pub policies: BTreeMap<String, Arc<dyn BackoffPolicy>>,
    /// What `fn:` steps are called through.
    pub participants: Arc<Participants>,
    /// What `http:` steps are called through; none = they wait, blocked.
    pub http: Option<Arc<dyn HttpSteps>>,
}

impl Default for SagaConfig {
    fn default() -> Self {
        Self {
            store: None,
            limits: SagaLimits::default(),
            calls_max: 256,
            calls_per_tenant_max: 128,
            keep_done: Duration::from_secs(7 * 24 * 3600),
            default_retry: default_retry(),
            policies: BTreeMap::new(),
            participants: Arc::default(),
            http: None,
        }
    }
}

impl SagaConfig {
    /// As another configuration has it, but for what stays as at the start: the store, participants and policies. Without a
    /// client for `http:` steps of its own it goes on with this one's.
    pub(crate) fn next(&self, next: Self) -> Self {
        let limits = SagaLimits {
            message_bytes_max: self.limits.message_bytes_max,
            outbox_shards: self.limits.outbox_shards,
            ..next.limits
        };
        let http = next.http.or_else(|| self.http.clone());
        let (store, participants) = (self.store.clone(), Arc::clone(&self.participants));
        Self { store, limits, participants, http, policies: self.policies.clone(), ..next }
    }
}

/// Settings of the engine.
#[derive(Clone)]
pub struct EngineConfig {
    /// Name of this host: in shard records, attempts and the audit.
    pub host: String,
    /// Name of the machine, the same after a restart: alerts name it.
    pub machine: String,
    /// Nobody else can open this store (an embedded one, locked): shards are taken over at once and the doorstep is
    /// watched in memory.
    pub exclusive: bool,
    /// Shards, at least 1.
    pub shards: u16,
    /// Most messages of one call.
    pub batch: u32,
    /// Most payload bytes of one call.
    pub batch_bytes: u32,
    /// Time for one call to a transport.
    pub send_timeout: Duration,
    /// Largest payload taken, in bytes.
    pub payload_bytes_max: usize,
    /// Sends stop this long after the start of the last good commit; observers wait 1.5 times as long.
    pub owner_ttl: Duration,
    /// How long a shard's owner is cautious after a crash.
    pub caution: Caution,
    /// How often a shared store's doorstep is looked at.
    pub poll_interval: Duration,
    /// How long finished messages are kept.
    pub keep_done: Duration,
    /// How long dead letters are kept.
    pub keep_dead: Duration,
    /// Nothing is retired before this long after the start, unless it is kept for less: as long as a jump ahead of the wall clock
    /// has to stand before it counts, because the first reading of it is believed.
    pub retire_after: Duration,
    /// A dead letter keeps its key.
    pub dead_holds_key: bool,
    /// Commits write audit events of messages, received messages and sagas. It is as at the start.
    pub tx_events: bool,
    /// How long the audit trail is kept.
    pub keep_audit: Duration,
    /// Dead letters from which readiness warns; 0 = never.
    pub dead_alert_at: u64,
    /// What there are alerts of, and where they go; none = there are none.
    pub alerts: Option<AlertSettings>,
    /// The disk of an embedded store; none = it isn't known. It is as at the start.
    pub disk: Option<Arc<dyn Disk>>,
    /// Every call of the store is given up after this; a walk over a whole table, or a transaction of many statements, after a
    /// multiple of it.
    pub store_timeout: Duration,
    /// How durable a commit is, in words, for `/readyz`.
    pub durability: String,
    pub retries: Retries,
    /// Bounds of each shard's scheduler.
    pub limits: SchedulerLimits,
    /// Parked messages of one tenant past which none of its fresh ones are sent.
    pub parked_per_tenant: usize,
    /// Messages that may wait for a commit, over all callers.
    pub waiting_messages_max: usize,
    /// Bytes of the messages that may wait for a commit, over all callers.
    pub waiting_bytes_max: usize,
    pub weights: BTreeMap<Tenant, u32>,
    /// What tenants may send a second. Those of transports stand in `endpoints`.
    pub rates: BTreeMap<Tenant, Rate>,
    pub routes: Routes,
    pub transports: Vec<Arc<dyn Transport>>,
    /// What the operator says of transports, by their names: bounds that differ from `send_timeout` and `batch`.
    pub endpoints: Vec<EndpointSettings>,
    pub sagas: SagaConfig,
    /// Outbox tables of applications that are published directly. They are as at the start.
    pub direct: DirectConfig,
    /// Sources and consumers of the inbox.
    pub inbound: Arc<InboundConfig>,
    /// Event streams and their relays.
    pub streams: StreamsConfig,
    pub idempotency: idempotency::Settings,
    /// Watches background tasks; give it also to the parts beside the engine. It is as at the start.
    pub supervisor: Arc<Supervisor>,
    /// Keeps what changed; give it also to the parts beside the engine. It is as at the start.
    pub changes: Arc<ChangeFeed>,
    /// Makes spans; none = there are none. It is as at the start.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl EngineConfig {
    /// Defaults for everything that has one; no routes, no transports.
    pub fn new(host: impl Into<String>) -> Self {
        let host = host.into();
        Self {
            machine: host.clone(),
            host,
            exclusive: true,
            shards: 1,
            batch: 50,
            batch_bytes: 4 * 1024 * 1024,
            send_timeout: Duration::from_secs(30),
            payload_bytes_max: waybill_core::limits::PAYLOAD_BYTES_MAX_DEFAULT,
            owner_ttl: Duration::from_secs(10),
            caution: Caution::default(),
            poll_interval: Duration::from_millis(250),
            keep_done: Duration::from_secs(24 * 3600),
            keep_dead: Duration::from_secs(30 * 24 * 3600),
            retire_after: AHEAD_CONFIRMED,
            dead_holds_key: false,
            tx_events: true,
            keep_audit: Duration::from_secs(90 * 24 * 3600),
            dead_alert_at: 0,
            alerts: None,
            disk: None,
            store_timeout: STORE_TIMEOUT_DEFAULT,
            durability: "unknown".to_owned(),
            retries: Retries {
                policy: RetryPolicy::default(),
                component: None,
                retry_after_max: RETRY_AFTER_MAX_DEFAULT,
            },
            limits: SchedulerLimits::default(),
            parked_per_tenant: 5_000,
            waiting_messages_max: 50_000,
            waiting_bytes_max: 128 * 1024 * 1024,
            weights: BTreeMap::new(),
            rates: BTreeMap::new(),
            routes: Routes::default(),
            transports: Vec::new(),
            endpoints: Vec::new(),
            sagas: SagaConfig::default(),
            direct: DirectConfig::default(),
            inbound: Arc::default(),
            streams: StreamsConfig::default(),
            idempotency: idempotency::Settings::default(),
            supervisor: Arc::default(),
            changes: Arc::default(),
            tracer: None,
        }
    }

    /// How often a host that shares the store looks whether a shard's owner is gone.
    pub fn rival_interval(&self) -> Duration {
        self.owner_ttl / 8
    }
}
