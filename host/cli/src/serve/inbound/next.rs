//! What another configuration of a running host brings: what stays as it is keeps its plugin, its handler or its table, what is new or
//! changed is tried beside it.

use std::sync::Arc;

use waybill_api::configuration::ReloadRefused;
use waybill_core::port::handler::Handler as _;
use waybill_core::port::table::Table;
use waybill_core::port::transport::Health;
use waybill_engine::{ConsumerConfig, ConsumerTarget, SourceConfig, TableConfig};
use waybill_sandbox::{Fleet, SwapError, World};
use waybill_store::SurrealStore;

use super::opener::ConfiguredSource;
use super::parts::{self, Makes, Published};
use super::{CLOSE_TIMEOUT, Inbound, consumer_of, dlq_subject, is_for_good, plugin_of, source_of, table};
use crate::config::Config;
use crate::config::inbound::{Consumer, Source};
use crate::exit::CliError;
use crate::plugins::inbound::{PreparedSource, publisher};
use crate::serve::reload::{of_cli, of_swap};

/// What was started for a configuration that may still be refused.
#[derive(Default)]
pub struct Begun {
    /// Consumers whose handlers are new.
    pub handlers: Vec<String>,
    tables: Vec<Arc<dyn Table>>,
}

impl Begun {
    /// The configuration is refused.
    pub async fn give_up(self, fleet: &Fleet) {
        for name in self.handlers {
            if let Some(handler) = fleet.handler(&name) {
                handler.close(CLOSE_TIMEOUT).await;
            }
            fleet.remove(World::Handler, &name);
        }
        for table in self.tables {
            table.close(CLOSE_TIMEOUT).await;
        }
    }
}

/// A host that runs, and what is in force of its inbox.
#[derive(Clone, Copy)]
pub struct Running<'a> {
    pub config: &'a Config,
    pub inbound: &'a Inbound,
    pub fleet: &'a Fleet,
    pub store: &'a Arc<SurrealStore>,
}

/// The inbox by another configuration, whose handlers are started or staged already. What is started for it is noted in `begun`.
pub async fn next(
    running: Running<'_>,
    config: &Config,
    sources: Vec<PreparedSource>,
    begun: &mut Begun,
) -> Result<Inbound, ReloadRefused> {
    parts::all(config, sources, running.store, Following { running, config, begun }).await
}

/// What is in force stays where it is the same.
struct Following<'a> {
    running: Running<'a>,
    config: &'a Config,
    begun: &'a mut Begun,
}

impl Makes for Following<'_> {
    type Error = ReloadRefused;

    async fn table(
        &mut self,
        published: Published<'_>,
        prepared: PreparedSource,
    ) -> Result<Arc<TableConfig>, ReloadRefused> {
        let table = self.running.table(self.config, published, prepared, self.begun).await;
        table.map_err(|error| of_cli(&error))
    }

    async fn source(
        &mut self,
        source: &Source,
        prepared: PreparedSource,
    ) -> Result<(Arc<SourceConfig>, Arc<ConfiguredSource>), ReloadRefused> {
        self.running.source(self.config, source, prepared).await
    }

    fn consumer(&mut self, consumer: &Consumer) -> Result<Arc<ConsumerConfig>, ReloadRefused> {
        self.running.consumer(self.config, consumer).map_err(|error| of_cli(&error))
    }
}

impl Running<'_> {
    fn has(&self, source: &Source) -> bool {
        self.config.sources.contains(source)
    }

    async fn source(
        &self,
        config: &Config,
        source: &Source,
        prepared: PreparedSource,
    ) -> Result<(Arc<SourceConfig>, Arc<ConfiguredSource>), ReloadRefused> {
        let mut known = self.inbound.inbox.sources.iter().zip(&self.inbound.plugins);
        let known = known.find(|(known, _)| known.name == source.name);
        if let Some((known, plugin)) = known.filter(|_| self.has(source)) {
            return Ok((Arc::clone(known), Arc::clone(plugin)));
        }
        // What only the host goes by needs no other plugin.
        let before = self.config.sources.iter().find(|before| before.name == source.name);
        let opens_alike = |before: &Source| {
            before.endpoint == source.endpoint
                && (before.window, before.window_bytes) == (source.window, source.window_bytes)
                && before.on_overtaken == source.on_overtaken
        };
        if let Some((_, plugin)) = known.filter(|_| before.is_some_and(opens_alike)) {
            return Ok((Arc::new(source_of(source, Arc::clone(plugin))), Arc::clone(plugin)));
        }
        let plugin = plugin_of(config, source, prepared, self.fleet, self.store);
        let plugin = Arc::new(if known.is_some() { plugin.in_place_of_another() } else { plugin });
        let tried = try_out(&plugin, source, known.is_none()).await;
        tried.map_err(|error| of_swap(&format!("source.{}", source.name), &error))?;
        Ok((Arc::new(source_of(source, Arc::clone(&plugin))), plugin))
    }

    async fn table(
        &self,
        config: &Config,
        published: Published<'_>,
        prepared: PreparedSource,
        begun: &mut Begun,
    ) -> Result<Arc<TableConfig>, CliError> {
        let Published { source, consumer, .. } = published;
        let is_same = self.has(source)
            && publisher(self.config, source) == Some(consumer)
            && self.config.outbox.batch_bytes == config.outbox.batch_bytes;
        let known = self.inbound.direct.tables.iter().find(|known| known.source == source.name);
        if let Some(known) = known.filter(|_| is_same) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(table(config, published, prepared, self.store).await?);
        begun.tables.push(Arc::clone(&made.table));
        Ok(made)
    }

    fn consumer(&self, config: &Config, consumer: &Consumer) -> Result<Arc<ConsumerConfig>, CliError> {
        let known = self.inbound.inbox.consumers.iter().find(|known| known.name == consumer.name);
        let is_same = |known: &&Arc<ConsumerConfig>| {
            self.config.consumers.contains(consumer) && known.dlq_subject == dlq_subject(config, consumer)
        };
        if let Some(known) = known.filter(is_same) {
            return Ok(Arc::clone(known));
        }
        // Whatever its settings are, its slot stays the same.
        let component = known.and_then(|known| match &known.target {
            ConsumerTarget::Component(handler) => Some(handler),
            ConsumerTarget::Topic(_) | ConsumerTarget::Saga | ConsumerTarget::Http { .. } => None,
        });
        consumer_of(config, consumer, component, self.fleet).map(Arc::new)
    }
}

/// Opens a source on trial. One that is new may find its peer later; what takes another one's place has to be as good.
async fn try_out(plugin: &ConfiguredSource, source: &Source, is_new: bool) -> Result<(), SwapError> {
    match plugin.probe().await {
        Ok(report) if report.health == Health::Down && !is_new => Err(plugin.down(report)),
        Ok(_) => Ok(()),
        Err(error) if is_new && !is_for_good(&error) => {
            tracing::warn!(source = %source.name, code = error.code().as_str(), %error, "a new source finds no peer yet: it is tried again");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
