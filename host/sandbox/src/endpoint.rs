//! How an endpoint is configured: a plugin, its configuration, and what it may do.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OnceCell;
use waybill_core::port::kv::KvStore;
use waybill_core::port::transport::{CallError, PluginIdentity};

use crate::config::check_config;
use crate::error::SandboxError;
use crate::grants::{Grants, check_grants};
use crate::host::{ContextParts, EndpointContext, ProcessSecrets, SecretProvider};
use crate::instance::{Endpoint, open_error};
use crate::limits::PluginLimits;
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// How a source, a handler or a participant is configured. A transport has [`crate::TransportSettings`].
#[derive(Clone)]
pub struct EndpointSettings {
    /// Name, e.g. `orders`.
    pub name: String,
    /// Instances that serve at once; at least 1.
    pub instances: u32,
    /// Configuration, checked against the manifest's schema.
    pub config: Value,
    /// What the operator grants.
    pub grants: Grants,
    /// Reads granted secrets.
    pub secrets: Arc<dyn SecretProvider>,
    /// Durable state; used only if asked for and granted.
    pub kv: Option<Arc<dyn KvStore>>,
    /// Stable id of this installation.
    pub host_id: String,
    /// Generation of this endpoint's plugin, from 1.
    pub generation: u32,
    /// Bounds before ask and grant.
    pub limits: PluginLimits,
}

impl EndpointSettings {
    /// One instance, no configuration, nothing granted.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            instances: 1,
            config: Value::Null,
            grants: Grants::none(),
            secrets: Arc::new(ProcessSecrets),
            kv: None,
            host_id: "unnamed".to_owned(),
            generation: 1,
            limits: PluginLimits::default(),
        }
    }
}

impl std::fmt::Debug for EndpointSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointSettings")
            .field("name", &self.name)
            .field("instances", &self.instances)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Checks world and configuration. Nothing of the guest runs.
    pub(crate) fn new(plugin: LoadedPlugin, world: World, settings: EndpointSettings) -> Result<Self, SandboxError> {
        let manifest = plugin.manifest();
        if !manifest.world.serves(world) {
            let (plugin, found) = (manifest.name.clone(), manifest.world);
            return Err(SandboxError::OtherWorld { plugin, found, asked: world });
        }
        let config = check_config(manifest, &settings.name, &settings.config)?;
        check_grants(manifest, &format!("{world}.{}", settings.name), &settings.grants, settings.instances)?;
        Ok(Self::unchecked(plugin, world, config, settings))
    }

    fn unchecked(plugin: LoadedPlugin, world: World, config: String, settings: EndpointSettings) -> Self {
        let context = EndpointContext::new(ContextParts {
            name: &label(world, &settings.name),
            generation: settings.generation,
            plugin: &plugin.0,
            grants: settings.grants,
            limits: settings.limits,
            secret_provider: settings.secrets,
            kv: settings.kv,
        });
        Self {
            context: Arc::new(context),
            name: settings.name,
            config,
            host_id: settings.host_id,
            instances: settings.instances.max(1),
            plugin,
            provision: false,
            provisioned: OnceCell::new(),
        }
    }

    /// One that reaches nothing and is never opened: to ask a component about itself.
    pub(crate) fn closed(plugin: LoadedPlugin, world: World, name: &str) -> Result<Self, SandboxError> {
        let manifest = plugin.manifest();
        if !manifest.world.serves(world) {
            let (plugin, found) = (manifest.name.clone(), manifest.world);
            return Err(SandboxError::OtherWorld { plugin, found, asked: world });
        }
        Ok(Self::unchecked(plugin, world, "{}".to_owned(), EndpointSettings::new(name)))
    }

    /// Who serves.
    pub(crate) fn identity(&self) -> PluginIdentity {
        let manifest = self.plugin.manifest();
        PluginIdentity {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: self.plugin.digest().to_owned(),
            generation: self.context.generation,
        }
    }

    /// A failed `open`.
    pub(crate) fn open_error(&self, error: CallError) -> SandboxError {
        open_error(&self.name, error)
    }
}

/// What logs, measurements and durable state know an endpoint by: a transport's plain name, and the kind before any other, so
/// that a transport and a participant of one name are two. No configured name holds a dot.
fn label(world: World, name: &str) -> String {
    match world {
        World::Transport | World::Broker => name.to_owned(),
        other => format!("{other}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_and_a_participant_of_one_name_are_two() {
        assert_eq!(label(World::Transport, "orders"), "orders");
        assert_eq!(label(World::Participant, "orders"), "participant.orders");
        assert_eq!(label(World::Source, "orders"), "source.orders");
    }
}
