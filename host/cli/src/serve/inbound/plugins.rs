//! The plugins of a host as operators know them: those of transports, handlers, participants and the retry policy, whose generations follow
//! each other in the fleet, and as `source.NAME` those of sources, which are closed in good order and opened again.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_api::plugin_outcomes::PluginShown;
use waybill_api::plugins::{
    Generation, PluginChanged, PluginLog, PluginLogAsked, PluginReload, PluginService, PluginUpload, Plugins,
    TransportPlugin,
};
use waybill_core::code::Code;
use waybill_core::port::plugins::PluginsError;
use waybill_core::port::source::SourcePlugin as _;
use waybill_engine::Engine;
use waybill_sandbox::{Fleet, Phase, World};

use super::InForce;
use super::opener::{ConfiguredSource, PREFIX};

/// All plugins that can be changed while the host runs.
pub struct HostPlugins {
    fleet: Fleet,
    in_force: InForce,
    engine: Arc<Engine>,
}

impl HostPlugins {
    pub fn new(fleet: Fleet, in_force: InForce, engine: Arc<Engine>) -> Self {
        Self { fleet, in_force, engine }
    }

    /// The source whose plugin is known by this name. That of a table that is published directly is changed with its settings only.
    fn source(&self, name: &str) -> Result<Option<Arc<ConfiguredSource>>, PluginsError> {
        let Some(source) = name.strip_prefix(PREFIX) else { return Ok(None) };
        let in_force = self.in_force.get();
        if in_force.direct.tables.iter().any(|table| table.source.as_str() == source) {
            let reason = format!(
                "source {source:?} is published directly, and its plugin isn't changed by itself: change [source.{source}] and reload \
                 the configuration, or restart the host"
            );
            return Err(refused(Code::PLUGIN_NOT_IN_FOLDER, reason));
        }
        Ok(in_force.plugins.into_iter().find(|known| known.name() == source))
    }

    async fn reload_source(
        &self,
        source: &ConfiguredSource,
        asked: PluginReload,
    ) -> Result<PluginChanged, PluginsError> {
        let tried = source.try_again(asked.sha256.as_deref(), asked.force).await;
        let Some(digest) = tried.map_err(|error| refused(error.code(), error.to_string()))? else {
            return Ok(PluginChanged { changed: false, plugin: view(source) });
        };
        match self.engine.reopen_source(source.name()).await {
            Some(Ok(())) if source.identity().digest == digest => {
                Ok(PluginChanged { changed: true, plugin: view(source) })
            }
            Some(Ok(())) => Err(refused(
                Code::PLUGIN_PROBE_FAILED,
                format!(
                    "source {:?} goes on with the plugin before: the new one was tried, and then didn't open",
                    source.name()
                ),
            )),
            Some(Err(error)) => Err(refused(
                Code::PLUGIN_OPEN_FAILED,
                format!("source {:?} didn't open: {}: {}", source.name(), error.fault.code, error.fault.reason),
            )),
            None => Err(refused(
                Code::PLUGIN_CLOSED,
                format!(
                    "source {:?} isn't open on this host: ask the one that has it; whoever opens it next reads its plugin anew",
                    source.name()
                ),
            )),
        }
    }
}

#[async_trait]
impl PluginService for HostPlugins {
    async fn plugins(&self) -> Plugins {
        let mut plugins = self.fleet.plugins().await;
        plugins.items.extend(self.in_force.get().plugins.iter().map(|source| view(source)));
        plugins.items.sort_by(|one, other| one.transport.cmp(&other.transport));
        plugins
    }

    async fn plugin(&self, name: &str) -> Result<PluginShown, PluginsError> {
        match self.source(name)? {
            Some(source) => Ok(PluginShown { plugin: view(&source), outcomes: Vec::new() }),
            None => PluginService::plugin(&self.fleet, name).await,
        }
    }

    async fn log(&self, name: &str, asked: PluginLogAsked) -> Result<PluginLog, PluginsError> {
        // Sources write into the same book.
        PluginService::log(&self.fleet, name, asked).await
    }

    async fn reload(&self, name: &str, asked: PluginReload, actor: &str) -> Result<PluginChanged, PluginsError> {
        match self.source(name)? {
            Some(source) => {
                tracing::info!(source = source.name(), %actor, force = asked.force, "a reload of the plugin is asked for");
                self.reload_source(&source, asked).await
            }
            None => PluginService::reload(&self.fleet, name, asked, actor).await,
        }
    }

    async fn roll_back(&self, name: &str, reason: &str, actor: &str) -> Result<PluginChanged, PluginsError> {
        match self.source(name)? {
            Some(_) => Err(refused(
                Code::PLUGIN_NO_PREVIOUS,
                format!("{name:?} keeps no earlier generation: put the component you want in its place and reload it"),
            )),
            None => PluginService::roll_back(&self.fleet, name, reason, actor).await,
        }
    }

    async fn upload(&self, name: &str, upload: PluginUpload, actor: &str) -> Result<PluginChanged, PluginsError> {
        match self.source(name)? {
            Some(_) => Err(refused(
                Code::PLUGIN_NOT_IN_FOLDER,
                format!("a component can't be handed over for {name:?}: put it in its file and reload it"),
            )),
            None => PluginService::upload(&self.fleet, name, upload, actor).await,
        }
    }
}

fn refused(code: Code, reason: String) -> PluginsError {
    PluginsError::Refused { code, reason }
}

fn view(source: &ConfiguredSource) -> TransportPlugin {
    let identity = source.identity();
    let phase = if source.is_on_trial() { Phase::Probing } else { Phase::Live };
    let live = Generation {
        generation: identity.generation,
        phase: phase.word().to_owned(),
        digest: identity.digest,
        plugin: Some(identity.plugin),
        version: Some(identity.version),
        signature: Some(source.signature()),
        since: source.since().into(),
        until: None,
        code: None,
        reason: None,
    };
    TransportPlugin {
        transport: source.plugin_name(),
        world: World::Source.to_string(),
        source: source.comes_from(),
        watch: source.file().is_some(),
        reload: source.reload().as_str().to_owned(),
        history: vec![live.clone()],
        live,
        previous: None,
        probation: None,
        refused: None,
        rolled_back: None,
        bad: Vec::new(),
        fallback: None,
    }
}
