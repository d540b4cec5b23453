//! Plugins of a configuration: found, loaded, and checked against what the configuration says of them.

pub mod inbound;
pub mod service;

use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::endpoint::{EndpointSettings, PluginRef};
use waybill_sandbox::{
    CompileLimits, ComponentSource, Fleet, ForStart, LoadedPlugin, SandboxError, SwapError, Trust, World, check_config,
    check_grants, participant_steps,
};

use crate::config::{Config, PluginSettings};
use crate::exit::{CliError, Exit};
use inbound::{PreparedHandler, PreparedSource};

/// What one compilation may take.
pub fn compile_limits(settings: &PluginSettings) -> CompileLimits {
    CompileLimits { cpu: settings.compile_cpu, memory_bytes: settings.compile_memory }
}

/// A plugin can't be used where the configuration names it.
#[derive(Debug, Error)]
#[error("{}: {endpoint}: {cause}", .cause.code())]
pub struct PluginError {
    pub endpoint: String,
    pub cause: SwapError,
}

/// A transport whose plugin is loaded and whose settings fit it.
pub struct Prepared {
    pub settings: EndpointSettings,
    /// Where its plugin comes from.
    pub source: ComponentSource,
    pub loaded: ForStart,
}

/// A participant whose plugin is loaded, whose settings fit it, and whose steps can be served.
pub struct PreparedParticipant {
    pub settings: EndpointSettings,
    /// Where its plugin comes from.
    pub source: ComponentSource,
    pub loaded: ForStart,
}

/// A retry policy whose plugin is loaded and whose settings fit it.
pub struct PreparedBackoff {
    pub settings: EndpointSettings,
    /// Where its plugin comes from.
    pub source: ComponentSource,
    pub loaded: ForStart,
}

/// All plugins of a configuration.
pub struct Plugins {
    /// Transports, in the order of the file.
    pub transports: Vec<Prepared>,
    /// Participants, in the order of the file.
    pub participants: Vec<PreparedParticipant>,
    /// Retry policy, if one is configured.
    pub backoff: Option<PreparedBackoff>,
    /// Sources, in the order of the file.
    pub sources: Vec<PreparedSource>,
    /// Handlers that are components, in the order of the file.
    pub handlers: Vec<PreparedHandler>,
}

/// Where a plugin's component comes from.
pub fn source(plugin: &PluginRef) -> Result<ComponentSource, SandboxError> {
    match plugin {
        PluginRef::File(path) => Ok(ComponentSource::File(path.clone())),
        PluginRef::Bundled(name) => match waybill_bundled::find(name) {
            Some(bundled) => Ok(ComponentSource::Bundled { name: name.clone(), component: bundled.component }),
            // The configuration has only names that are bundled.
            None => Err(SandboxError::Read { path: name.clone(), cause: "it isn't bundled".into() }),
        },
    }
}

pub fn trust(settings: &PluginSettings) -> Trust {
    Trust { keys: settings.trusted_keys.iter().cloned().collect(), required: settings.require_signature }
}

/// Loads every plugin of a configuration and checks its settings; all that is wrong is answered.
pub async fn prepare(fleet: &Fleet, config: &Config) -> Result<Plugins, Vec<PluginError>> {
    let mut errors = Vec::new();
    let mut transports = Vec::new();
    for settings in &config.transports {
        match prepare_one(fleet, settings).await {
            Ok(prepared) => transports.push(prepared),
            Err(cause) => errors.push(PluginError { endpoint: format!("[transport.{}]", settings.name), cause }),
        }
    }
    let mut participants = Vec::new();
    for settings in &config.participants {
        match prepare_participant(fleet, settings).await {
            Ok(prepared) => participants.push(prepared),
            Err(cause) => errors.push(PluginError { endpoint: format!("[participant.{}]", settings.name), cause }),
        }
    }
    let mut backoff = None;
    if let Some(settings) = &config.outbox.backoff.plugin {
        match prepare_backoff(fleet, settings).await {
            Ok(prepared) => backoff = Some(prepared),
            Err(cause) => errors.push(PluginError { endpoint: settings.name.clone(), cause }),
        }
    }
    let (sources, handlers) = inbound::prepare(fleet, config, &mut errors).await;
    if errors.is_empty() { Ok(Plugins { transports, participants, backoff, sources, handlers }) } else { Err(errors) }
}

async fn prepare_backoff(fleet: &Fleet, settings: &EndpointSettings) -> Result<PreparedBackoff, SwapError> {
    let (source, loaded) = load_for_start(fleet, settings, World::Backoff).await?;
    check_config(loaded.plugin.manifest(), &settings.name, &settings.config)?;
    Ok(PreparedBackoff { settings: settings.clone(), source, loaded })
}

/// Loads what is to serve by these settings from its source, or the last good one in its place.
pub(super) async fn load_for_start(
    fleet: &Fleet,
    settings: &EndpointSettings,
    world: World,
) -> Result<(ComponentSource, ForStart), SwapError> {
    let source = source(&settings.plugin)?;
    let loaded = fleet.load_for_start(world, &settings.name, &source, settings.sha256.as_deref()).await?;
    let loaded = fitting(fleet, settings, &source, world, loaded).await?;
    Ok((source, loaded))
}

/// Loads the plugin of one transport and checks its settings.
pub async fn prepare_one(fleet: &Fleet, settings: &EndpointSettings) -> Result<Prepared, SwapError> {
    let (source, loaded) = load_for_start(fleet, settings, World::Transport).await?;
    let plugin = &loaded.plugin;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    if settings.provision && !plugin.provisions() {
        let (endpoint, plugin) = (settings.name.clone(), plugin.manifest().name.clone());
        return Err(SandboxError::NoProvisioning { endpoint, plugin }.into());
    }
    let section = format!("transport.{}", settings.name);
    check_grants(plugin.manifest(), &section, &settings.grants, settings.instances)?;
    Ok(Prepared { settings: settings.clone(), source, loaded })
}

/// What was loaded for a start, or what lies at its source where the configuration doesn't fit the last good one.
async fn fitting(
    fleet: &Fleet,
    settings: &EndpointSettings,
    source: &ComponentSource,
    world: World,
    loaded: ForStart,
) -> Result<ForStart, SwapError> {
    if let Some(fallback) = &loaded.fallback
        && let Err(error) = check_config(loaded.plugin.manifest(), &settings.name, &settings.config)
    {
        // The configuration was written for the one that was rolled back: one that may fail beats a host that doesn't start.
        tracing::error!(%world, name = %settings.name, code = Code::PLUGIN_REMEMBERED_BAD.as_str(), %error, "{fallback}, but the configuration doesn't fit it: the one at its source is used all the same");
        let plugin = fleet.load(source, settings.sha256.as_deref(), world).await?;
        return Ok(ForStart { plugin, fallback: None });
    }
    Ok(loaded)
}

/// Loads the plugin of one participant and checks its settings and steps.
pub async fn prepare_participant(fleet: &Fleet, settings: &EndpointSettings) -> Result<PreparedParticipant, SwapError> {
    let (source, loaded) = load_for_start(fleet, settings, World::Participant).await?;
    let plugin = &loaded.plugin;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    participant_steps(plugin).await?;
    let section = format!("participant.{}", settings.name);
    check_grants(plugin.manifest(), &section, &settings.grants, settings.instances)?;
    Ok(PreparedParticipant { settings: settings.clone(), source, loaded })
}

/// What a configuration says of a plugin that the plugin doesn't ask for: it has no effect.
pub fn warnings(plugins: &Plugins) -> Vec<String> {
    let mut warnings = Vec::new();
    for Prepared { settings, loaded, .. } in &plugins.transports {
        idle(&format!("[transport.{}]", settings.name), settings, &loaded.plugin, &mut warnings);
    }
    for PreparedParticipant { settings, loaded, .. } in &plugins.participants {
        idle(&format!("[participant.{}]", settings.name), settings, &loaded.plugin, &mut warnings);
    }
    for PreparedSource { settings, plugin, .. } in &plugins.sources {
        idle(&format!("[source.{}]", settings.name), settings, plugin, &mut warnings);
    }
    for PreparedHandler { settings, loaded, .. } in &plugins.handlers {
        idle(&format!("[consumer.{}]", settings.name), settings, &loaded.plugin, &mut warnings);
    }
    warnings
}

fn idle(heading: &str, settings: &EndpointSettings, plugin: &LoadedPlugin, warnings: &mut Vec<String>) {
    let (ask, grants) = (&plugin.manifest().ask, &settings.grants);
    for name in grants.secrets.keys().filter(|name| !ask.secrets.contains(name)) {
        warnings.push(format!("{heading}: the plugin asks for no secret {name:?}"));
    }
    if grants.kv.is_some() && !ask.kv {
        warnings.push(format!("{heading}: the plugin asks for no kv"));
    }
    if !grants.peers.is_empty() && ask.net.is_empty() && ask.http.is_empty() {
        warnings.push(format!("{heading}: the plugin asks for no peers, so `allow` opens nothing"));
    }
}

/// Plugins that can't be used, in one error.
pub fn failed(errors: &[PluginError]) -> CliError {
    let code = errors.first().map_or(Code::PLUGIN_READ, |error| error.cause.code());
    // The first one's code stands before the whole.
    let first = errors.first().map(|error| format!("{}: {}", error.endpoint, error.cause));
    let what: Vec<String> = first.into_iter().chain(errors.iter().skip(1).map(ToString::to_string)).collect();
    CliError::Host { code, what: what.join("\n"), exit: Exit::Usage }
}
