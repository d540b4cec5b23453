//! The inbox of a configuration: sources with their plugins, consumers with their handlers, tables that are published directly.
//!
//! | file | holds |
//! |---|---|
//! | `opener` | a source's plugin, opened by whoever owns its home |
//! | `watch` | plugin files that change |
//! | `plugins` | plugins as operators know them, those of sources among them |
//! | `parts` | which parts a configuration has |
//! | `next` | what another configuration of a running host brings |

mod next;
mod opener;
mod parts;
mod plugins;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::endpoint::PluginLimits;
use waybill_core::port::handler::Handler;
use waybill_core::port::http_handler::HttpHandlers;
use waybill_core::port::source::SourceWants;
use waybill_core::port::transport::ErrorKind;
use waybill_engine::{
    ConsumerConfig, ConsumerTarget, DirectConfig, InboundConfig, InboundHomes, SourceConfig, TableConfig,
};
use waybill_sandbox::{
    EndpointSpec, Fleet, ForStart, HttpHandlerClient, SandboxError, TransportSpec, WasmTable, World,
};
use waybill_server::json::handled::ApiBodies;
use waybill_store::SurrealStore;

use super::compose::{self, host_name, of_sandbox};
use crate::config::inbound::{Consumer, Dlq, Publish, Source, Target};
use crate::config::{Config, is_routed};
use crate::exit::CliError;
use crate::plugins::inbound::{PreparedHandler, PreparedSource, publisher};
pub use next::{Begun, Running, next};
use opener::ConfiguredSource;
use parts::{Makes, Published};
pub use plugins::HostPlugins;
pub use watch::watch;

/// Bytes of a handler's answer that are read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Between two looks at an idle table, where its plugin's `poll_every` says nothing else: that key's default.
const POLL_EVERY_DEFAULT: Duration = Duration::from_millis(250);
/// What was started and isn't wanted after all gets this long to end.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the engine is given of the inbox.
#[derive(Clone)]
pub struct Inbound {
    pub inbox: Arc<InboundConfig>,
    pub direct: DirectConfig,
    /// Plugins of the sources that go through the inbox.
    pub plugins: Vec<Arc<ConfiguredSource>>,
}

/// The same of a running host, as it is in force. Cheap to clone.
#[derive(Clone)]
pub struct InForce(Arc<Mutex<Inbound>>);

impl InForce {
    pub fn new(inbound: Inbound) -> Self {
        Self(Arc::new(Mutex::new(inbound)))
    }
    pub fn get(&self) -> Inbound {
        self.0.lock().clone()
    }
    pub fn set(&self, inbound: Inbound) {
        *self.0.lock() = inbound;
    }
}

/// Starts handlers and tables. Sources are opened by the engine, when it has their homes. Without any the host has an inbox all the same:
/// what a source that was taken out of the configuration left there is shown, counted, replayed and kept in time.
pub async fn inbound(
    config: &Config,
    sources: Vec<PreparedSource>,
    handlers: Vec<PreparedHandler>,
    fleet: &Fleet,
    store: &Arc<SurrealStore>,
) -> Result<Inbound, CliError> {
    for prepared in handlers {
        component(config, prepared, fleet, store).await?;
    }
    parts::all(config, sources, store, Starting { config, fleet, store }).await
}

/// What a host does at its start: nothing is there yet.
struct Starting<'a> {
    config: &'a Config,
    fleet: &'a Fleet,
    store: &'a Arc<SurrealStore>,
}

impl Makes for Starting<'_> {
    type Error = CliError;

    async fn table(
        &mut self,
        published: Published<'_>,
        prepared: PreparedSource,
    ) -> Result<Arc<TableConfig>, CliError> {
        table(self.config, published, prepared, self.store).await.map(Arc::new)
    }

    async fn source(
        &mut self,
        source: &Source,
        prepared: PreparedSource,
    ) -> Result<(Arc<SourceConfig>, Arc<ConfiguredSource>), CliError> {
        let plugin = Arc::new(plugin_of(self.config, source, prepared, self.fleet, self.store));
        Ok((Arc::new(source_of(source, Arc::clone(&plugin))), plugin))
    }

    fn consumer(&mut self, consumer: &Consumer) -> Result<Arc<ConsumerConfig>, CliError> {
        consumer_of(self.config, consumer, None, self.fleet).map(Arc::new)
    }
}

/// Where all lives that a configuration receives.
pub fn homes(config: &Config) -> InboundHomes {
    let is_table = |source: &&Source| publisher(config, source).is_some();
    let (tables, pulled): (Vec<&Source>, Vec<&Source>) = config.sources.iter().partition(is_table);
    let stored = config.consumers.iter().filter(|consumer| consumer.publish == Publish::Stored);
    let consumers = stored.filter_map(|consumer| {
        let feeds = |source: &&&Source| consumer.sources.iter().any(|name| name == source.name.as_str());
        Some((consumer.name.clone(), pulled.iter().find(feeds)?.home.clone()))
    });
    InboundHomes {
        consumers: consumers.collect(),
        sources: pulled.iter().map(|source| (source.name.clone(), source.home.clone())).collect(),
        tables: tables.into_iter().map(|source| source.name.clone()).collect(),
    }
}

fn inbox_of(
    config: &Config,
    sources: Vec<Arc<SourceConfig>>,
    consumers: Vec<Arc<ConsumerConfig>>,
    store: &Arc<SurrealStore>,
) -> InboundConfig {
    let settings = &config.inbox;
    InboundConfig {
        store: Some(Arc::clone(store) as _),
        sources,
        consumers,
        dedup_window: settings.dedup_window,
        keep_done: settings.keep_done,
        payload_bytes_max: settings.max_payload_bytes,
        answer_bytes_max: ANSWER_BYTES_MAX,
        bodies: Some(Arc::new(ApiBodies)),
    }
}

fn direct_of(tables: Vec<Arc<TableConfig>>, store: &Arc<SurrealStore>) -> DirectConfig {
    // By the machine's name: it is the same after a restart.
    DirectConfig { store: Some(Arc::clone(store) as _), host: host_name(), tables }
}

fn endpoint(
    config: &Config,
    settings: waybill_core::endpoint::EndpointSettings,
    store: &Arc<SurrealStore>,
) -> EndpointSpec {
    EndpointSpec { kv: Some(compose::kv(config, store)), host_id: host_name(), ..EndpointSpec::new(settings) }
}

fn plugin_of(
    config: &Config,
    source: &Source,
    prepared: PreparedSource,
    fleet: &Fleet,
    store: &Arc<SurrealStore>,
) -> ConfiguredSource {
    let instances = prepared.settings.instances;
    let wants = SourceWants {
        window: (source.window / instances.max(1)).max(1),
        window_bytes: (source.window_bytes / instances.max(1)).max(1),
        on_overtaken: source.on_overtaken,
        resume_after: None,
    };
    let limits =
        PluginLimits { max_batch: source.window, max_batch_bytes: source.window_bytes, ..PluginLimits::default() };
    let spec = EndpointSpec { limits, ..endpoint(config, prepared.settings, store) };
    ConfiguredSource::new(fleet.clone(), prepared.from, prepared.plugin, spec, wants)
}

fn source_of(source: &Source, plugin: Arc<ConfiguredSource>) -> SourceConfig {
    SourceConfig {
        home: source.home.clone(),
        context: source.context.clone(),
        tenants: source.tenants.clone(),
        window: source.window,
        window_bytes: source.window_bytes,
        instances: source.endpoint.instances,
        orphan_wait: source.orphan_wait,
        missing_id: source.missing_id,
        id_time_occurred: source.id_time_occurred,
        names: source.map.clone(),
        ..SourceConfig::new(source.name.clone(), plugin)
    }
}

/// `known`: the handler component that it has had so far.
fn consumer_of(
    config: &Config,
    consumer: &Consumer,
    known: Option<&Arc<dyn Handler>>,
    fleet: &Fleet,
) -> Result<ConsumerConfig, CliError> {
    let target = match &consumer.target {
        Target::Topic(topic) => ConsumerTarget::Topic(topic.clone()),
        Target::Saga => ConsumerTarget::Saga,
        Target::Http { url, grants } => {
            let (name, calls) = (consumer.name.as_str(), consumer.concurrency as usize);
            let own = fleet.sandbox().own_listeners();
            let client = HttpHandlerClient::new(name, grants, calls, ANSWER_BYTES_MAX, own);
            let client: Arc<dyn HttpHandlers> = Arc::new(client.map_err(|error| of_sandbox(&error))?);
            ConsumerTarget::Http { url: Arc::from(url.subject()), client }
        }
        Target::Component { .. } => {
            let started = || fleet.handler(consumer.name.as_str()).map(|slot| Arc::new(slot) as Arc<dyn Handler>);
            match known.cloned().or_else(started) {
                Some(handler) => ConsumerTarget::Component(handler),
                None => {
                    let what = format!("the handler of consumer {} wasn't started", consumer.name);
                    return Err(CliError::usage(what, "report this: the configuration was checked"));
                }
            }
        }
    };
    let sources =
        config.sources.iter().filter(|source| consumer.sources.iter().any(|name| name == source.name.as_str()));
    Ok(ConsumerConfig {
        name: consumer.name.clone(),
        sources: sources.map(|source| source.name.clone()).collect(),
        matches: consumer.matches.clone(),
        target,
        dlq_subject: dlq_subject(config, consumer),
        concurrency: consumer.concurrency,
        stored_max: consumer.stored_max,
        retry: consumer.retry,
        handler_timeout: consumer.handler_timeout,
        on_reused_id: consumer.on_reused_id,
        acknowledge_rows: consumer.acknowledge_rows,
        idempotent: consumer.idempotent,
    })
}

/// Where dead letters of a consumer leave a message, if they do.
fn dlq_subject(config: &Config, consumer: &Consumer) -> Option<String> {
    match &consumer.dlq {
        Dlq::Off => None,
        Dlq::On(subject) => Some(subject.clone()),
        Dlq::IfRouted(subject) => is_routed(&config.routes, &format!("bus:{subject}")).then(|| subject.clone()),
    }
}

/// A prepared handler as the fleet takes it, and its plugin.
pub fn handler_spec(
    config: &Config,
    prepared: PreparedHandler,
    store: &Arc<SurrealStore>,
) -> (TransportSpec, ForStart) {
    let PreparedHandler { settings, from, loaded, .. } = prepared;
    (TransportSpec { source: from, endpoint: endpoint(config, settings, store) }, loaded)
}

/// Starts a handler component. One that doesn't open is kept and tried again: its consumer is held meanwhile.
pub async fn component(
    config: &Config,
    prepared: PreparedHandler,
    fleet: &Fleet,
    store: &Arc<SurrealStore>,
) -> Result<(), CliError> {
    let consumer = prepared.consumer.clone();
    let (spec, loaded) = handler_spec(config, prepared, store);
    let (handler, opened) = fleet.start_handler(spec, loaded).await.map_err(|error| of_sandbox(&error))?;
    if let Err(error) = opened {
        if is_for_good(&error) {
            handler.close(CLOSE_TIMEOUT).await;
            fleet.remove(World::Handler, consumer.as_str());
            return Err(of_sandbox(&error));
        }
        tracing::warn!(%consumer, code = error.code().as_str(), %error, "a handler isn't open yet: its messages wait while it is tried again");
    }
    Ok(())
}

/// Starts a table. One whose database doesn't answer is kept and tried again.
async fn table(
    config: &Config,
    published: Published<'_>,
    prepared: PreparedSource,
    store: &Arc<SurrealStore>,
) -> Result<TableConfig, CliError> {
    use waybill_core::port::table::Table as _;
    let Published { source, consumer, direct } = published;
    let idle_pause = poll_every(&prepared.settings.config).unwrap_or(POLL_EVERY_DEFAULT);
    let claims = direct.lanes.div_ceil(prepared.settings.instances.max(1));
    let limits =
        PluginLimits { max_batch: direct.batch, max_batch_bytes: config.outbox.batch_bytes, ..PluginLimits::default() };
    let spec = EndpointSpec { limits, ..endpoint(config, prepared.settings, store) };
    let started = WasmTable::start_supervised(prepared.plugin, spec, claims).await;
    let (table, opened) = started.map_err(|error| of_sandbox(&error))?;
    if let Err(error) = opened {
        if is_for_good(&error) {
            table.close(CLOSE_TIMEOUT).await;
            return Err(of_sandbox(&error));
        }
        tracing::warn!(source = %source.name, code = error.code().as_str(), %error, "a table isn't open yet: its rows wait while it is tried again");
    }
    Ok(TableConfig {
        tenants: source.tenants.clone(),
        context: source.context.clone(),
        lanes: u16::try_from(direct.lanes).unwrap_or(u16::MAX),
        batch: direct.batch as usize,
        direct_timeout: direct.timeout,
        retry: consumer.retry,
        idle_pause,
        ..TableConfig::new(source.name.clone(), consumer.name.clone(), table)
    })
}

/// How often an idle table is looked at, as its plugin takes it: a duration, or milliseconds. The host claims, so the host rests.
fn poll_every(config: &serde_json::Value) -> Option<Duration> {
    let written = config.get("poll_every")?;
    let time = match written.as_u64() {
        Some(ms) => Duration::from_millis(ms),
        None => humantime::parse_duration(written.as_str()?).ok()?,
    };
    Some(time).filter(|time| !time.is_zero())
}

/// Trying again won't help.
fn is_for_good(error: &SandboxError) -> bool {
    matches!(error, SandboxError::Open { kind: ErrorKind::InvalidConfig, .. })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_idle_table_is_looked_at_as_often_as_its_plugin_is_told() {
        let of = |every: serde_json::Value| poll_every(&json!({ "poll_every": every }));
        assert_eq!(of(json!(1_500)), Some(Duration::from_millis(1_500)));
        assert_eq!(
            (of(json!("20ms")), of(json!("2 s"))),
            (Some(Duration::from_millis(20)), Some(Duration::from_secs(2)))
        );
        assert_eq!((of(json!(0)), of(json!("soon")), poll_every(&json!({}))), (None, None, None));
    }
}
