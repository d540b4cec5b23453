//! Adapters of a configuration: sandbox, store, transports, retry policy, and the engine over them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use waybill_core::code::Code;
use waybill_core::endpoint::PluginLimits;
use waybill_core::ids::Tenant;
use waybill_core::port::backoff::BackoffPolicy;
use waybill_core::port::kv::KvStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::TokenStore;
use waybill_core::port::trace::Tracer;
use waybill_core::port::transact::TransactStore;
use waybill_core::port::transport::{ErrorKind, Transport};
use waybill_core::saga::limits::SagaLimits;
use waybill_engine::{
    ChangeFeed, Engine, EngineConfig, Participants, Retries, SagaConfig, Stores, StreamsConfig, Supervisor,
    SystemClock, bounded_kv, bounded_tokens, bounded_transact,
};
use waybill_sandbox::grants::OwnListeners;
use waybill_sandbox::{
    EndpointSpec, Fleet, FleetOptions, ForStart, HttpStepClient, Sandbox, SandboxError, SandboxOptions, TransportSpec,
    World,
};
use waybill_server::approval::ApprovalLinks;
use waybill_server::oidc::{Oidc, OidcConfig};
use waybill_server::tls::{Encryption, Tls};
use waybill_store::{OpenError, StoreConfig, SurrealStore};

use super::inbound::{CLOSE_TIMEOUT, Inbound};
use super::{disk, steps};
use crate::compile::{compiler, open_with_or_without};
use crate::config::{Config, OnDead, StoreKind, TlsSettings, broker_of, cache_folder};
use crate::data;
use crate::exit::{CliError, Exit};
use crate::plugins::{self, Plugins, Prepared};
use crate::term::Term;

/// A call of the store is given up after so many times the longest run of one statement.
const STORE_TIMEOUT_TIMES: u32 = 2;
/// What plugins leave for the next start lies in this folder of the compile cache.
const STATE_FOLDER: &str = "generations";

/// Builds the plugin host and the fleet of its transports, with none in it yet.
///
/// The key that seals what is cached lies with the data. In the folder of an embedded store the host itself makes it, once it has
/// opened the store; who just looks (`watched` is none) does without a cache until then.
pub fn fleet(config: &Config, watched: Option<&Watched>, term: &Term) -> Result<Fleet, SandboxError> {
    let serves = watched.is_some();
    let settings = &config.plugins;
    let compiler = compiler(plugins::compile_limits(settings), term);
    let cache = settings.cache.as_ref().filter(|_| serves || data::seal_is_ours(config));
    let options = SandboxOptions {
        cache_dir: cache.cloned(),
        seal_key: data::seal_key(config),
        compiler,
        tasks: watched.map(|watched| Arc::clone(&watched.supervisor) as _),
        changes: watched.map(|watched| Arc::clone(&watched.changes) as _),
        ..SandboxOptions::default()
    };
    let bundled = waybill_bundled::all().iter().map(|bundled| bundled.component).collect();
    let (trust, folder) = (plugins::trust(settings), settings.folder.clone());
    let of_fleet = FleetOptions { trust, folder, bundled, state: None };
    open_with_or_without(options, |options| {
        let state = options.cache_dir.as_ref().map(|cache| cache.join(STATE_FOLDER));
        let sandbox = Sandbox::new(options)?;
        if !serves {
            sandbox.keep_seal()?;
        }
        Fleet::new(sandbox, FleetOptions { state, ..of_fleet.clone() })
    })
}

/// Closes folders that an earlier version left open to others, so far as they are this user's: the data folder, and the compile
/// cache where Waybill chose its place, beside the store of `--data` or the platform's. One that was named may have other uses.
pub fn close_folders(config: &Config) {
    let data = match &config.store.kind {
        StoreKind::Disk(data) => Some(data.as_path()),
        _ => None,
    };
    if let Some(data) = data {
        close_own(data);
    }
    // What isn't there needs no closing.
    let real = |folder: PathBuf| std::fs::canonicalize(folder).ok();
    let Some(cache) = config.plugins.cache.clone().and_then(real) else { return };
    let beside = data.filter(|data| data.ends_with("store")).and_then(Path::parent).map(|folder| folder.join("cache"));
    if [beside, cache_folder()].into_iter().flatten().filter_map(real).any(|chosen| chosen == cache) {
        close_own(&cache);
        close_own(&cache.join(STATE_FOLDER));
    }
}

fn close_own(folder: &Path) {
    if data::is_this_users(folder) {
        waybill_store::close_ahead(folder);
    }
}

pub fn of_sandbox(error: &SandboxError) -> CliError {
    CliError::Host { code: error.code(), what: error.to_string(), exit: Exit::Usage }
}

/// Opens the store and brings its schema up to date.
pub async fn store(config: &Config, term: &Term) -> Result<Arc<SurrealStore>, CliError> {
    let settings = &config.store;
    let password = settings.password.as_deref().map(|reference| secret(reference, term)).transpose()?;
    let store = SurrealStore::open(StoreConfig {
        namespace: settings.namespace.clone(),
        database: settings.database.clone(),
        user: settings.user.clone().zip(password),
        database_user: settings.database_user,
        memtable_bytes: settings.memtable,
        block_cache_bytes: settings.block_cache,
        shards: config.outbox.shards,
        payload_bytes_max: config.outbox.max_payload_bytes,
        streams: config.streams.clone(),
        dedup_memory: config.inbox.dedup_memory,
        indexes: config.indexes.clone(),
        query_timeout: settings.query_timeout,
        ..StoreConfig::new(settings.url.clone())
    })
    .await
    .map_err(|error| of_store(&error))?;
    Ok(Arc::new(store))
}

/// A call of the store is given up after this.
fn store_timeout(config: &Config) -> Duration {
    config.store.query_timeout * STORE_TIMEOUT_TIMES
}

/// The state of plugins.
pub fn kv(config: &Config, store: &Arc<SurrealStore>) -> Arc<dyn KvStore> {
    bounded_kv(Arc::clone(store) as _, store_timeout(config))
}

/// Where acts that don't go through the engine are written to the audit trail.
pub fn trail(config: &Config, store: &Arc<SurrealStore>) -> Arc<dyn TransactStore> {
    bounded_transact(Arc::clone(store) as _, store_timeout(config))
}

/// Tokens that are made while the host runs.
pub fn tokens(config: &Config, store: &Arc<SurrealStore>) -> Arc<dyn TokenStore> {
    bounded_tokens(Arc::clone(store) as _, store_timeout(config))
}

/// What was to be read at the start can't be.
pub fn of_read(error: &StoreError) -> CliError {
    CliError::Host { code: error.code(), what: error.to_string(), exit: Exit::Failed }
}

fn of_store(error: &OpenError) -> CliError {
    let exit = match (error, error.code()) {
        (OpenError::Locked { .. }, _) => Exit::Conflict,
        (_, code) if code.as_str().starts_with("CONFIG.") => Exit::Usage,
        (_, Code::PROVIDER_UNAVAILABLE) => Exit::Unreachable,
        _ => Exit::Failed,
    };
    CliError::Host { code: error.code(), what: error.to_string(), exit }
}

/// Reads the secret behind a reference that the configuration has checked.
pub fn secret(reference: &str, term: &Term) -> Result<String, CliError> {
    let text = match reference.split_once(':') {
        Some(("env", name)) => term.env.get(name).cloned(),
        Some(("file", path)) => Some(std::fs::read_to_string(path).map_err(CliError::io(format!("reading {path}")))?),
        _ => None,
    };
    text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
        .ok_or_else(|| CliError::usage(format!("{reference} isn't there"), "set it for the host's process"))
}

/// What keeps tokens and messages from being read on their way to this host.
pub fn encryption(config: &Config) -> Result<Encryption, CliError> {
    match &config.server.tls {
        Some(TlsSettings { cert, key }) => Tls::load(cert, key).map(Encryption::Tls).map_err(super::of_server),
        None if config.server.behind_tls_proxy => Ok(Encryption::Proxy),
        None => Ok(Encryption::None),
    }
}

/// What signs links for approvals; none where no key is configured. Without a public address links lead to `listen`.
pub fn approvals(
    config: &Config,
    listen: SocketAddr,
    encryption: &Encryption,
    term: &Term,
) -> Result<Option<ApprovalLinks>, CliError> {
    let Some(reference) = &config.saga.approval_key else { return Ok(None) };
    let key = secret(reference, term)?;
    let url = config.saga.public_url.clone().unwrap_or_else(|| format!("{}://{listen}", encryption.public_scheme()));
    ApprovalLinks::new(key.as_bytes(), &url).map(Some).map_err(super::of_server)
}

/// Where people sign in at the page; none where no provider is configured. Without a public address it leads back to `listen`.
pub fn oidc(
    config: &Config,
    listen: SocketAddr,
    encryption: &Encryption,
    term: &Term,
) -> Result<Option<Oidc>, CliError> {
    let Some(settings) = config.auth.oidc.clone() else { return Ok(None) };
    let own = || format!("{}://{listen}", encryption.public_scheme());
    let config = OidcConfig {
        secret: secret(&settings.secret, term)?,
        issuer: settings.issuer,
        client_id: settings.client_id,
        name: settings.name,
        scopes: settings.scopes,
        mapping: settings.mapping,
        public_url: settings.public_url.unwrap_or_else(own),
        ca: settings.ca,
    };
    Oidc::new(config).map(Some).map_err(super::of_server)
}

/// What watches a host as a whole.
#[derive(Clone, Default)]
pub struct Watched {
    /// Background tasks that fail.
    pub supervisor: Arc<Supervisor>,
    pub changes: Arc<ChangeFeed>,
    /// Makes spans; none = there are none.
    pub tracer: Option<Arc<dyn Tracer>>,
}

/// Starts transports and the engine over them and the participants.
pub async fn engine(
    config: &Config,
    plugins: Plugins,
    participants: &Arc<Participants>,
    inbound: Inbound,
    fleet: &Fleet,
    store: &Arc<SurrealStore>,
    watched: &Watched,
) -> Result<Engine, CliError> {
    let mut transports: Vec<Arc<dyn Transport>> = Vec::new();
    for prepared in plugins.transports {
        transports.push(transport(config, prepared, fleet, store).await?);
    }
    let policy = match plugins.backoff {
        Some(backoff) => Some(steps::retry_policy(backoff, fleet).await?),
        None => None,
    };
    let stores = Stores {
        owner: Arc::clone(store) as _,
        query: Arc::clone(store) as _,
        transact: Arc::clone(store) as _,
        dedup: Arc::clone(store) as _,
        idempotency: Arc::clone(store) as _,
    };
    let own = fleet.sandbox().own_listeners();
    let store_of_sagas = Some(Arc::clone(store) as _);
    let sagas =
        SagaConfig { store: store_of_sagas, participants: Arc::clone(participants), ..saga_settings(config, own)? };
    let Watched { supervisor, changes, tracer } = watched.clone();
    let Inbound { inbox, direct, .. } = inbound;
    let settings = engine_config(config, store, transports, policy);
    let incarnation = store.incarnation().await.map_err(|error| of_read(&error))?;
    let streams = StreamsConfig {
        store: Some(Arc::clone(store) as _),
        incarnation,
        brokers: config.transports.iter().map(|transport| (transport.name.clone(), broker_of(transport))).collect(),
        ..settings.streams.clone()
    };
    let settings = EngineConfig { sagas, inbound: inbox, direct, streams, supervisor, changes, tracer, ..settings };
    Ok(Engine::start(settings, stores, Arc::new(SystemClock)))
}

/// What a reload may change of sagas: bounds, how long they are kept, and which peers `http:` steps reach. `own` is where the
/// host listens.
pub fn saga_settings(config: &Config, own: &OwnListeners) -> Result<SagaConfig, CliError> {
    let settings = &config.saga;
    let limits = SagaLimits {
        input_bytes_max: settings.max_input_bytes,
        output_bytes_max: settings.max_output_bytes,
        running_max: settings.max_running,
        running_bytes_max: settings.max_running_bytes,
        rest_after: settings.rest_after,
        ..SagaLimits::default()
    };
    let http = HttpStepClient::new(&settings.grants, settings.max_calls, limits.output_bytes_max, own)
        .map_err(|error| of_sandbox(&error))?;
    Ok(SagaConfig {
        limits,
        calls_max: settings.max_calls,
        calls_per_tenant_max: settings.max_calls_per_tenant,
        keep_done: settings.keep_done,
        default_retry: settings.default_retry,
        http: Some(Arc::new(http)),
        ..SagaConfig::default()
    })
}

/// The engine's settings by a configuration, with these transports.
pub fn engine_config(
    config: &Config,
    store: &SurrealStore,
    transports: Vec<Arc<dyn Transport>>,
    component: Option<Arc<dyn BackoffPolicy>>,
) -> EngineConfig {
    let outbox = &config.outbox;
    EngineConfig {
        exclusive: store.is_embedded(),
        shards: store.shards(),
        batch: outbox.batch,
        batch_bytes: outbox.batch_bytes,
        send_timeout: outbox.send_timeout,
        payload_bytes_max: outbox.max_payload_bytes,
        owner_ttl: outbox.owner_ttl,
        poll_interval: outbox.poll_interval,
        keep_done: outbox.keep_done,
        keep_dead: config.dead.keep,
        dead_holds_key: config.dead.on_dead == OnDead::HoldKey,
        dead_alert_at: config.dead.alert_at,
        alerts: config.alert.clone(),
        machine: host_name(),
        disk: disk::of_store(config),
        tx_events: config.audit.messages,
        keep_audit: config.audit.keep,
        store_timeout: store_timeout(config),
        durability: store.durability().to_string(),
        retries: Retries { policy: outbox.backoff.policy, component, retry_after_max: outbox.retry_after_max },
        limits: config.limits.scheduler,
        parked_per_tenant: config.limits.parked_per_tenant,
        waiting_messages_max: config.limits.waiting_messages,
        waiting_bytes_max: config.limits.waiting_bytes,
        weights: config
            .tenants
            .iter()
            .filter_map(|tenant| Some((Tenant::new(&tenant.name).ok()?, tenant.weight)))
            .collect(),
        rates: config
            .tenants
            .iter()
            .filter_map(|tenant| Some((Tenant::new(&tenant.name).ok()?, tenant.rate?)))
            .collect(),
        routes: config.routes.clone(),
        transports,
        endpoints: config.transports.clone(),
        idempotency: config.idempotency,
        streams: StreamsConfig { settings: Arc::new(config.streams.clone()), ..StreamsConfig::default() },
        ..EngineConfig::new(format!("{}-{}", host_name(), std::process::id()))
    }
}

/// Starts a transport. One whose peer doesn't answer is kept and tried again.
pub async fn transport(
    config: &Config,
    prepared: Prepared,
    fleet: &Fleet,
    store: &Arc<SurrealStore>,
) -> Result<Arc<dyn Transport>, CliError> {
    let (spec, loaded) = spec(config, prepared, store);
    let name = spec.endpoint.settings.name.clone();
    let (slot, opened) = fleet.start(spec, loaded).await.map_err(|error| of_sandbox(&error))?;
    if let Err(error) = opened {
        if matches!(error, SandboxError::Open { kind: ErrorKind::InvalidConfig, .. }) {
            slot.close(CLOSE_TIMEOUT).await;
            fleet.remove(World::Transport, &name);
            return Err(of_sandbox(&error));
        }
        tracing::warn!(transport = %name, code = error.code().as_str(), %error, "a transport isn't open yet: its messages wait while it is tried again");
    }
    Ok(Arc::new(slot))
}

/// A prepared transport as the fleet takes it, and its plugin.
pub fn spec(config: &Config, prepared: Prepared, store: &Arc<SurrealStore>) -> (TransportSpec, ForStart) {
    let Prepared { mut settings, source, loaded } = prepared;
    // `send_timeout` is the engine's. A version that is rolled back would bring an earlier one back, and cut calls at it.
    settings.grants.limits.call_time = None;
    let (max_batch, max_batch_bytes) = (config.outbox.batch, config.outbox.batch_bytes);
    let endpoint = EndpointSpec {
        kv: Some(kv(config, store)),
        host_id: host_name(),
        limits: PluginLimits { max_batch, max_batch_bytes, ..PluginLimits::default() },
        ..EndpointSpec::new(settings)
    };
    (TransportSpec { source, endpoint }, loaded)
}

/// Name of this machine.
pub fn host_name() -> String {
    let read =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    match read {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => std::env::var("HOSTNAME").unwrap_or_else(|_| "host".to_owned()),
    }
}
