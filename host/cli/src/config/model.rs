//! The configuration as the rest of the program uses it: closed types, every value checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use waybill_core::alert::AlertSettings;
use waybill_core::backoff::RetryPolicy;
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_core::idempotency;
use waybill_core::limits::SchedulerLimits;
use waybill_core::outbox::index::Index;
use waybill_core::outbox::rates::Rate;
use waybill_core::route::Routes;
use waybill_core::streams::access::StreamRole;
use waybill_core::streams::settings::StreamsSettings;
use waybill_sandbox::PublicKey;
use waybill_server::auth::Role;
use waybill_server::oidc::Mapping;
use waybill_server::ui::Environment;
use waybill_telemetry::{Protocol, Signal};

use super::inbound::{Consumer, InboxSettings, Source};
use super::reader::{KeyInfo, Shown};

#[derive(Clone, Debug)]
pub struct Config {
    /// The file they come from; none = defaults, environment and flags only.
    pub file: Option<PathBuf>,
    pub store: StoreSettings,
    pub server: ServerSettings,
    pub outbox: OutboxSettings,
    pub dead: DeadSettings,
    pub audit: AuditSettings,
    /// `[alert]`; none = there are no alerts.
    pub alert: Option<AlertSettings>,
    pub saga: SagaSettings,
    pub idempotency: idempotency::Settings,
    pub inbox: InboxSettings,
    pub plugins: PluginSettings,
    /// `[transport.NAME]`, in the order of the file.
    pub transports: Vec<EndpointSettings>,
    /// `[participant.NAME]`, in the order of the file.
    pub participants: Vec<EndpointSettings>,
    /// `[source.NAME]`, in the order of the file.
    pub sources: Vec<Source>,
    /// `[consumer.NAME]`, in the order of the file.
    pub consumers: Vec<Consumer>,
    /// `[events]`, `[[stream]]` and `[relay.NAME]`.
    pub streams: StreamsSettings,
    pub routes: Routes,
    pub tenants: Vec<TenantSettings>,
    /// `[[index]]`, in the order of the file.
    pub indexes: Vec<Index>,
    pub auth: AuthSettings,
    /// Which host the page says it is; none = there is no page.
    pub ui: Option<Environment>,
    pub limits: LimitSettings,
    pub log: LogSettings,
    /// What is exported to an OpenTelemetry collector; none = nothing.
    pub otel: Option<OtelSettings>,
    /// Every setting in effect with its origin.
    pub shown: Vec<Shown>,
    /// Every key that was asked for.
    pub keys: Vec<KeyInfo>,
    /// What has no effect or looks wrong, but isn't an error.
    pub warnings: Vec<String>,
}

/// Where messages are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In memory, gone at exit.
    Memory,
    /// In a folder, embedded.
    Disk(PathBuf),
    /// On a SurrealDB server.
    Server,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Connection string: `mem://`, `surrealkv://DIR` (absolute) or `ws://`, `wss://`.
    pub url: String,
    /// Kind, from the connection string.
    pub kind: StoreKind,
    pub namespace: String,
    pub database: String,
    /// User at a SurrealDB server.
    pub user: Option<String>,
    /// Reference to that user's password.
    pub password: Option<String>,
    /// The user belongs to the database, not to the whole server.
    pub database_user: bool,
    /// Longest run of one statement.
    pub query_timeout: Duration,
    /// Memtable of the embedded store, in bytes.
    pub memtable: u64,
    /// Block cache of the embedded store, in bytes.
    pub block_cache: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Address of the API.
    pub listen: SocketAddr,
    /// A proxy in front speaks TLS, and nobody else reaches the address.
    pub behind_tls_proxy: bool,
    /// Origins whose pages may subscribe to events.
    pub cors_origins: Vec<String>,
    /// `[server.tls]`; none = in clear text.
    pub tls: Option<TlsSettings>,
    /// Time for one request, its body included.
    pub request_timeout: Duration,
    /// Requests at work at once; more are told to come back.
    pub max_requests: u64,
    /// Time for which a connection may be idle.
    pub idle_timeout: Duration,
    /// Time in which the peer of a connection takes something of an answer.
    pub write_timeout: Duration,
    /// Open connections; more are turned away.
    pub max_connections: u64,
    /// Open connections of one peer; more are turned away.
    pub max_connections_per_peer: u64,
    /// Time to finish what is under way at the end.
    pub drain_timeout: Duration,
    /// Read the configuration again when its file has changed.
    pub watch: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// File of the certificate chain.
    pub cert: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OutboxSettings {
    /// Most messages of one call to a transport.
    pub batch: u32,
    /// Most payload bytes of one call to a transport.
    pub batch_bytes: u32,
    /// Largest payload, in bytes.
    pub max_payload_bytes: usize,
    /// How long finished messages are kept.
    pub keep_done: Duration,
    /// How long an owner may send after its last good commit.
    pub owner_ttl: Duration,
    /// Shards; none = 1 for an embedded store, 16 for a server.
    pub shards: Option<u16>,
    /// How often a shared store's doorstep is looked at when nothing wakes the owner.
    pub poll_interval: Duration,
    /// Time for one call to a transport.
    pub send_timeout: Duration,
    /// Longest Retry-After that is honoured.
    pub retry_after_max: Duration,
    /// What follows a failure.
    pub backoff: BackoffSettings,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BackoffSettings {
    /// The built-in formula, with `outbox.max_attempts`.
    pub policy: RetryPolicy,
    /// A policy component that decides instead.
    pub plugin: Option<EndpointSettings>,
}

/// What a dead letter does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDead {
    /// The next message of the key goes on.
    FreeKey,
    /// The key waits for an operator.
    HoldKey,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadSettings {
    /// How long dead letters are kept.
    pub keep: Duration,
    /// What a dead letter does to its key.
    pub on_dead: OnDead,
    /// Dead letters from which `/readyz` warns; 0 = never.
    pub alert_at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Commits write events of messages, received messages and sagas.
    pub messages: bool,
    /// How long the audit trail is kept.
    pub keep: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSettings {
    /// Folder for compiled components; none = compile at every start.
    pub cache: Option<PathBuf>,
    /// Folder of components that are named without a path.
    pub folder: Option<PathBuf>,
    /// Keys whose signatures count, by name.
    pub trusted_keys: Vec<(String, PublicKey)>,
    /// A component that isn't bundled must be signed by one of them.
    pub require_signature: bool,
    /// CPU time of one compilation.
    pub compile_cpu: Duration,
    /// Address space of one compilation, in bytes.
    pub compile_memory: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SagaSettings {
    /// Folder of definitions that are stored at start and on reload.
    pub definitions: Option<PathBuf>,
    /// How long ended sagas are kept.
    pub keep_done: Duration,
    /// Largest input of a saga and of a step, in bytes.
    pub max_input_bytes: usize,
    /// Largest output of a step, in bytes.
    pub max_output_bytes: usize,
    /// Sagas in memory: running, waiting, paused or stuck.
    pub max_running: usize,
    /// Their inputs and outputs, in bytes.
    pub max_running_bytes: usize,
    /// A saga that waits at least this long gets a row of its own.
    pub rest_after: Duration,
    /// Calls of steps at once.
    pub max_calls: usize,
    /// The same of one tenant.
    pub max_calls_per_tenant: usize,
    /// Retries of a step that says nothing about them.
    pub default_retry: RetryPolicy,
    /// What `http:` steps may reach.
    pub grants: Grants,
    /// Reference to the key that signs links for approvals; none = none are made.
    pub approval_key: Option<String>,
    /// Address under which people reach this host, for those links; none = the one it listens on.
    pub public_url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantSettings {
    pub name: String,
    /// Turns it gets for each turn of a tenant with weight 1.
    pub weight: u32,
    /// Messages of it that are sent a second.
    pub rate: Option<Rate>,
}

/// `[auth]`: whether callers are asked who they are, and who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// Whoever calls is asked who they are, however many tokens there are.
    pub required: bool,
    /// It is written; else it goes by where the host listens and by what else is in `[auth]`.
    pub is_said: bool,
    /// `[auth.oidc]`; none = people sign in at the page by tokens alone.
    pub oidc: Option<OidcSettings>,
    /// `[[auth.token]]`, in the order of the file.
    pub tokens: Vec<AuthToken>,
}

/// `[[auth.token]]`. The token itself is never kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthToken {
    /// Name, for the audit.
    pub name: String,
    /// sha-256 of the token.
    pub sha256: [u8; 32],
    /// Tenants it may use; none = all.
    pub tenants: Option<Vec<String>>,
    /// What it may do.
    pub roles: Vec<Role>,
    /// Streams that it may append to and read, besides.
    pub streams: Vec<StreamRole>,
}

/// `[auth.oidc]`: where people sign in for the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// Address of the provider, as its ID tokens have it.
    pub issuer: String,
    pub client_id: String,
    /// Reference to the client's secret.
    pub secret: String,
    /// What the link on the page calls the provider.
    pub name: String,
    /// What the provider is asked for; `openid` is among it.
    pub scopes: Vec<String>,
    /// Which claims give which roles and tenants.
    pub mapping: Mapping,
    /// Address under which browsers reach this host; none = the one it listens on.
    pub public_url: Option<String>,
    /// File of certificates to trust besides the platform's.
    pub ca: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Of each shard's scheduler.
    pub scheduler: SchedulerLimits,
    /// Messages of one tenant waiting for a retry past which none of its fresh ones are sent.
    pub parked_per_tenant: usize,
    /// Messages that may wait for their commit.
    pub waiting_messages: usize,
    /// Bytes of all messages that may wait for their commit.
    pub waiting_bytes: usize,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Level or filter directives.
    pub level: String,
    pub format: LogFormat,
}

/// `[otel]`; what is none is as the environment's `OTEL_` names say.
#[derive(Clone, Debug, PartialEq)]
pub struct OtelSettings {
    /// Base address of the collector.
    pub endpoint: Option<String>,
    pub protocol: Option<Protocol>,
    /// Names of headers, with references to their values.
    pub headers: Vec<(String, String)>,
    /// What is exported.
    pub signals: Vec<Signal>,
    /// Share of traces that begin here and are recorded.
    pub sample_ratio: Option<f64>,
    pub service_name: Option<String>,
    /// How often metrics are exported.
    pub metrics_interval: Option<Duration>,
}
