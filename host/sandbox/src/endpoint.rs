//! How an endpoint is configured: a plugin, its configuration, and what it may do.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use waybill_core::endpoint::{EndpointSettings, PluginLimits};
use waybill_core::port::kv::KvStore;
use waybill_core::port::transport::{CallError, PluginIdentity};

use crate::config::check_config;
use crate::error::SandboxError;
use crate::grants::check_grants;
use crate::host::{ContextParts, EndpointContext, ProcessSecrets, SecretProvider};
use crate::instance::{Endpoint, Wants, open_error};
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// What an endpoint is started with: what its operator says of it, and what the host gives it.
#[derive(Clone)]
pub struct EndpointSpec {
    /// What the operator says.
    pub settings: EndpointSettings,
    pub secrets: Arc<dyn SecretProvider>,
    /// Durable state; used only if asked for and granted.
    pub kv: Option<Arc<dyn KvStore>>,
    /// Stable id of this installation.
    pub host_id: String,
    /// Generation of this endpoint's plugin, from 1.
    pub generation: u32,
    /// Bounds before ask and grant.
    pub limits: PluginLimits,
    /// Counts the instances that its lanes opened, over all generations of a slot; a participant and a retry policy have no lanes.
    pub openings: Arc<watch::Sender<u64>>,
}

impl EndpointSpec {
    /// The first generation, with secrets of this process and without durable state.
    pub fn new(settings: EndpointSettings) -> Self {
        Self {
            settings,
            secrets: Arc::new(ProcessSecrets),
            kv: None,
            host_id: "unnamed".to_owned(),
            generation: 1,
            limits: PluginLimits::default(),
            openings: Arc::default(),
        }
    }
}

impl std::fmt::Debug for EndpointSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EndpointSpec")
            .field("name", &self.settings.name)
            .field("instances", &self.settings.instances)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Checks world, configuration, grants, and that it can provision where it is to. Nothing of the guest runs.
    pub(crate) fn new(plugin: LoadedPlugin, world: World, spec: EndpointSpec) -> Result<Self, SandboxError> {
        let (manifest, settings) = (plugin.manifest(), &spec.settings);
        check_world(&plugin, world)?;
        if settings.provision && !plugin.provisions() {
            let (endpoint, plugin) = (settings.name.clone(), manifest.name.clone());
            return Err(SandboxError::NoProvisioning { endpoint, plugin });
        }
        let config = check_config(manifest, &settings.name, &settings.config)?;
        let section = format!("{}.{}", world.section(), settings.name);
        check_grants(manifest, &section, &settings.grants, settings.instances)?;
        Self::unchecked(plugin, world, config, spec)
    }

    fn unchecked(plugin: LoadedPlugin, world: World, config: String, spec: EndpointSpec) -> Result<Self, SandboxError> {
        let EndpointSpec { settings, secrets, kv, host_id, generation, limits, openings } = spec;
        let context = EndpointContext::new(ContextParts {
            name: &label(world, &settings.name),
            generation,
            plugin: &plugin.0,
            grants: settings.grants,
            limits,
            secret_provider: secrets,
            kv,
            openings,
        })?;
        Ok(Self {
            context: Arc::new(context),
            name: settings.name,
            config,
            host_id,
            instances: settings.instances.max(1),
            message_ids: settings.message_ids,
            wants: Mutex::new(Wants::Nothing),
            plugin,
            provision: settings.provision,
            provisioned: OnceCell::new(),
        })
    }

    /// The same, whose instances are told at `open` what is wanted of them.
    pub(crate) fn wanting(self, wants: Wants) -> Self {
        Self { wants: Mutex::new(wants), ..self }
    }

    /// One that reaches nothing and is never opened: to ask a component about itself.
    pub(crate) fn closed(plugin: LoadedPlugin, world: World, name: &str) -> Result<Self, SandboxError> {
        check_world(&plugin, world)?;
        Self::unchecked(plugin, world, "{}".to_owned(), EndpointSpec::new(EndpointSettings::new(name)))
    }

    pub(crate) fn identity(&self) -> PluginIdentity {
        let manifest = self.plugin.manifest();
        PluginIdentity {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: self.plugin.digest().to_owned(),
            generation: self.context.generation,
        }
    }

    pub(crate) fn open_error(&self, error: CallError) -> SandboxError {
        open_error(&self.name, error)
    }
}

fn check_world(plugin: &LoadedPlugin, world: World) -> Result<(), SandboxError> {
    let manifest = plugin.manifest();
    if manifest.world.serves(world) {
        return Ok(());
    }
    Err(SandboxError::OtherWorld { plugin: manifest.name.clone(), found: manifest.world, asked: world })
}

/// What logs, measurements and durable state know an endpoint by: a transport's plain name, and the kind before any other, so
/// that a transport and a participant of one name are two. No name that is configured freely holds a dot; a retry policy's is the
/// section that names it.
pub(crate) fn label(world: World, name: &str) -> String {
    match world {
        World::Transport | World::Broker | World::Backoff => name.to_owned(),
        other => format!("{}.{name}", other.section()),
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
        assert_eq!(label(World::Table, "orders"), "source.orders");
    }
}
