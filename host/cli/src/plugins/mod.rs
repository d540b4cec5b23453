//! Plugins of a configuration: found, loaded, and checked against what the configuration says of them.

pub mod command;

use serde_json::Value;
use thiserror::Error;
use waybill_sandbox::{Grants, LoadedPlugin, Sandbox, SandboxError, World, check_config};

use crate::config::{Config, PluginSource, TransportSettings};

/// Version of the plugin contract that this host serves.
pub const CONTRACT: &str = waybill_sandbox::CONTRACT_VERSION;

/// A plugin can't be used where the configuration names it.
#[derive(Debug, Error)]
#[error("{}: {endpoint}: {cause}", .cause.code())]
pub struct PluginError {
    /// `[transport.x]` or `outbox.backoff`.
    pub endpoint: String,
    /// Why.
    pub cause: SandboxError,
}

/// A transport whose plugin is loaded and whose settings fit it.
pub struct Prepared {
    /// As configured.
    pub settings: TransportSettings,
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
    /// Retry policy, if one is configured.
    pub backoff: Option<PreparedBackoff>,
}

/// Where the sandbox reads a plugin from.
pub fn source(plugin: &PluginSource) -> Option<waybill_sandbox::PluginSource> {
    match plugin {
        PluginSource::File(path) => Some(waybill_sandbox::PluginSource::File(path.clone())),
        PluginSource::Bundled(name) => {
            waybill_bundled::find(name).map(|bundled| waybill_sandbox::PluginSource::Embedded(bundled.component))
        }
    }
}

/// Loads one plugin.
async fn load(sandbox: &Sandbox, plugin: &PluginSource, world: World) -> Result<LoadedPlugin, SandboxError> {
    match source(plugin) {
        Some(source) => sandbox.load(source, world).await,
        // The configuration has only names that are bundled.
        None => Err(SandboxError::Read { path: format!("{plugin:?}"), cause: "it isn't bundled".into() }),
    }
}

/// Loads every plugin of a configuration and checks its settings; all that is wrong is answered.
pub async fn prepare(sandbox: &Sandbox, config: &Config) -> Result<Plugins, Vec<PluginError>> {
    let mut errors = Vec::new();
    let mut transports = Vec::new();
    for settings in &config.transports {
        match prepare_one(sandbox, settings).await {
            Ok(prepared) => transports.push(prepared),
            Err(cause) => errors.push(PluginError { endpoint: format!("[transport.{}]", settings.name), cause }),
        }
    }
    let mut backoff = None;
    if let Some((plugin, document)) = &config.outbox.backoff.plugin {
        let loaded = load(sandbox, plugin, World::Backoff).await;
        let checked =
            loaded.and_then(|plugin| check_config(plugin.manifest(), "outbox.backoff", document).map(|_| plugin));
        match checked {
            Ok(plugin) => backoff = Some(PreparedBackoff { plugin, config: document.clone() }),
            Err(cause) => errors.push(PluginError { endpoint: "outbox.backoff".into(), cause }),
        }
    }
    if errors.is_empty() { Ok(Plugins { transports, backoff }) } else { Err(errors) }
}

async fn prepare_one(sandbox: &Sandbox, settings: &TransportSettings) -> Result<Prepared, SandboxError> {
    let plugin = load(sandbox, &settings.plugin, World::Transport).await?;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    if settings.provision && !plugin.provisions() {
        let (endpoint, plugin) = (settings.name.clone(), plugin.manifest().name.clone());
        return Err(SandboxError::NoProvisioning { endpoint, plugin });
    }
    let mut grants = Grants::none().allow(settings.allow.iter().map(String::as_str))?;
    grants.secrets = settings.secrets.iter().cloned().collect();
    grants.memory_bytes = settings.memory.and_then(|bytes| usize::try_from(bytes).ok());
    grants.kv = settings.kv.and_then(|bytes| usize::try_from(bytes).ok()).map(kv_quota);
    Ok(Prepared { settings: settings.clone(), plugin, grants })
}

/// A quota of so many bytes in all.
fn kv_quota(bytes: usize) -> waybill_core::port::kv::KvQuota {
    waybill_core::port::kv::KvQuota { total_bytes_max: bytes, ..waybill_core::port::kv::KvQuota::default() }
}

/// What a configuration says of a plugin that the plugin doesn't ask for: it has no effect.
pub fn warnings(plugins: &Plugins) -> Vec<String> {
    let mut warnings = Vec::new();
    for Prepared { settings, plugin, grants } in &plugins.transports {
        let ask = &plugin.manifest().ask;
        for (name, _) in settings.secrets.iter().filter(|(name, _)| !ask.secrets.contains(name)) {
            warnings.push(format!("[transport.{}]: the plugin asks for no secret {name:?}", settings.name));
        }
        if grants.kv.is_some() && !ask.kv {
            warnings.push(format!("[transport.{}]: the plugin asks for no kv", settings.name));
        }
        if !settings.allow.is_empty() && ask.net.is_empty() && ask.http.is_empty() {
            warnings
                .push(format!("[transport.{}]: the plugin asks for no peers, so `allow` opens nothing", settings.name));
        }
    }
    warnings
}
