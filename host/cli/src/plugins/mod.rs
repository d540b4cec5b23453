//! Plugins of a configuration: found, loaded, and checked against what the configuration says of them.

pub mod build;
pub mod cache;
mod call;
mod check;
pub mod command;
mod dev;
mod keys;
mod new;
mod project;
pub mod service;
mod test;
mod tool;

use serde_json::Value;
use thiserror::Error;
use waybill_sandbox::{
    CompileLimits, CompilerProcess, ComponentSource, Fleet, ForStart, Grants, LoadedPlugin, SandboxError, SwapError,
    Trust, World, check_config, check_grants, participant_steps,
};

use crate::config::{Allowed, Config, ParticipantSettings, PluginSettings, PluginSource, TransportSettings};
use crate::term::Term;

/// Version of the plugin contract that this host serves.
pub const CONTRACT: &str = waybill_sandbox::CONTRACT_VERSION;

/// First argument of this program when it is to compile a component for another one, and nothing else.
pub const COMPILE: &str = "compile-component";

/// What one compilation may take.
pub fn compile_limits(settings: &PluginSettings) -> CompileLimits {
    CompileLimits { cpu: settings.compile_cpu, memory_bytes: settings.compile_memory }
}

/// The process that compiles plugins which aren't bundled: this program once more, if it can be run.
pub fn compiler(limits: CompileLimits, term: &Term) -> Option<CompilerProcess> {
    let program = term.program.clone()?;
    Some(CompilerProcess { program, arguments: vec![COMPILE.into()], limits })
}

/// A plugin can't be used where the configuration names it.
#[derive(Debug, Error)]
#[error("{}: {endpoint}: {cause}", .cause.code())]
pub struct PluginError {
    /// `[transport.x]` or `outbox.backoff`.
    pub endpoint: String,
    /// Why.
    pub cause: SwapError,
}

/// A transport whose plugin is loaded and whose settings fit it.
pub struct Prepared {
    /// As configured.
    pub settings: TransportSettings,
    /// Where its plugin comes from.
    pub source: ComponentSource,
    /// Its plugin.
    pub loaded: ForStart,
    /// What it may do.
    pub grants: Grants,
}

/// A participant whose plugin is loaded, whose settings fit it, and whose steps can be served.
pub struct PreparedParticipant {
    /// As configured.
    pub settings: ParticipantSettings,
    /// Its plugin.
    pub plugin: LoadedPlugin,
    /// What it may do.
    pub grants: Grants,
}

/// A retry policy whose plugin is loaded.
pub struct PreparedBackoff {
    /// Its plugin.
    pub plugin: LoadedPlugin,
    /// Its configuration.
    pub config: Value,
}

/// All plugins of a configuration.
pub struct Plugins {
    /// Transports, in the order of the file.
    pub transports: Vec<Prepared>,
    /// Participants, in the order of the file.
    pub participants: Vec<PreparedParticipant>,
    /// Retry policy, if one is configured.
    pub backoff: Option<PreparedBackoff>,
}

/// Where a plugin's component comes from.
pub fn source(plugin: &PluginSource) -> Result<ComponentSource, SandboxError> {
    match plugin {
        PluginSource::File(path) => Ok(ComponentSource::File(path.clone())),
        PluginSource::Bundled(name) => match waybill_bundled::find(name) {
            Some(bundled) => Ok(ComponentSource::Bundled { name: name.clone(), component: bundled.component }),
            // The configuration has only names that are bundled.
            None => Err(SandboxError::Read { path: name.clone(), cause: "it isn't bundled".into() }),
        },
    }
}

/// Whose signatures count.
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
    if let Some((plugin, document)) = &config.outbox.backoff.plugin {
        match load_backoff(fleet, plugin, document).await {
            Ok(plugin) => backoff = Some(PreparedBackoff { plugin, config: document.clone() }),
            Err(cause) => errors.push(PluginError { endpoint: "outbox.backoff".into(), cause }),
        }
    }
    if errors.is_empty() { Ok(Plugins { transports, participants, backoff }) } else { Err(errors) }
}

async fn load_backoff(fleet: &Fleet, plugin: &PluginSource, document: &Value) -> Result<LoadedPlugin, SwapError> {
    let plugin = fleet.load(&source(plugin)?, None, World::Backoff).await?;
    check_config(plugin.manifest(), "outbox.backoff", document)?;
    Ok(plugin)
}

/// Loads the plugin of one transport and checks its settings.
pub async fn prepare_one(fleet: &Fleet, settings: &TransportSettings) -> Result<Prepared, SwapError> {
    let source = source(&settings.plugin)?;
    let mut loaded = fleet.load_for_start(&settings.name, &source, settings.sha256.as_deref()).await?;
    if let Some(fallback) = &loaded.fallback
        && let Err(error) = check_config(loaded.plugin.manifest(), &settings.name, &settings.config)
    {
        // The configuration was written for the one that was rolled back: a transport that may fail beats a host that doesn't start.
        tracing::error!(transport = %settings.name, code = "PLUGIN.REMEMBERED_BAD", %error, "{fallback}, but the configuration doesn't fit it: the one at its source is used all the same");
        let plugin = fleet.load(&source, settings.sha256.as_deref(), World::Transport).await?;
        loaded = ForStart { plugin, fallback: None };
    }
    let plugin = &loaded.plugin;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    if settings.provision && !plugin.provisions() {
        let (endpoint, plugin) = (settings.name.clone(), plugin.manifest().name.clone());
        return Err(SandboxError::NoProvisioning { endpoint, plugin }.into());
    }
    let grants = Grants {
        cpu_per_call: settings.cpu_per_call,
        connections: settings.connections.and_then(|number| usize::try_from(number).ok()),
        log_per_second: settings.log_per_second,
        ..grants(&settings.allow, &settings.secrets, settings.memory)?
    };
    check_grants(plugin.manifest(), &format!("transport.{}", settings.name), &grants, settings.instances)?;
    Ok(Prepared { settings: settings.clone(), source, loaded, grants })
}

/// Loads the plugin of one participant and checks its settings and steps.
async fn prepare_participant(fleet: &Fleet, settings: &ParticipantSettings) -> Result<PreparedParticipant, SwapError> {
    let plugin = fleet.load(&source(&settings.plugin)?, None, World::Participant).await?;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    participant_steps(&plugin).await?;
    let grants = grants(&settings.allow, &settings.secrets, settings.memory)?;
    check_grants(plugin.manifest(), &format!("participant.{}", settings.name), &grants, settings.instances)?;
    Ok(PreparedParticipant { settings: settings.clone(), plugin, grants })
}

/// What an operator grants, as written in the configuration.
fn grants(allow: &Allowed, secrets: &[(String, String)], memory: Option<u64>) -> Result<Grants, SandboxError> {
    let mut grants = Grants::none().allow(allow.peers.iter().map(String::as_str))?;
    grants.internal = allow.internal;
    grants.secrets = secrets.iter().cloned().collect();
    grants.memory_bytes = memory.and_then(|bytes| usize::try_from(bytes).ok());
    grants.kv = allow.kv.and_then(|bytes| usize::try_from(bytes).ok()).map(kv_quota);
    Ok(grants)
}

/// A quota of so many bytes in all.
fn kv_quota(bytes: usize) -> waybill_core::port::kv::KvQuota {
    waybill_core::port::kv::KvQuota { total_bytes_max: bytes, ..waybill_core::port::kv::KvQuota::default() }
}

/// What a configuration says of a plugin that the plugin doesn't ask for: it has no effect.
pub fn warnings(plugins: &Plugins) -> Vec<String> {
    let mut warnings = Vec::new();
    for Prepared { settings, loaded, grants, .. } in &plugins.transports {
        idle(&format!("[transport.{}]", settings.name), &settings.allow.peers, &loaded.plugin, grants, &mut warnings);
    }
    for PreparedParticipant { settings, plugin, grants } in &plugins.participants {
        idle(&format!("[participant.{}]", settings.name), &settings.allow.peers, plugin, grants, &mut warnings);
    }
    warnings
}

fn idle(heading: &str, allow: &[String], plugin: &LoadedPlugin, grants: &Grants, warnings: &mut Vec<String>) {
    let ask = &plugin.manifest().ask;
    for name in grants.secrets.keys().filter(|name| !ask.secrets.contains(name)) {
        warnings.push(format!("{heading}: the plugin asks for no secret {name:?}"));
    }
    if grants.kv.is_some() && !ask.kv {
        warnings.push(format!("{heading}: the plugin asks for no kv"));
    }
    if !allow.is_empty() && ask.net.is_empty() && ask.http.is_empty() {
        warnings.push(format!("{heading}: the plugin asks for no peers, so `allow` opens nothing"));
    }
}
