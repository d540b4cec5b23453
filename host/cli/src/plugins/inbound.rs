//! Plugins of sources, of tables and of handlers.

use waybill_core::endpoint::EndpointSettings;
use waybill_core::ids::{ConsumerName, SourceName};
use waybill_sandbox::{
    ComponentSource, Fleet, ForStart, LoadedPlugin, SandboxError, SwapError, World, check_config, check_grants,
};

use super::{PluginError, load_for_start, source};
use crate::config::Config;
use crate::config::inbound::{Consumer, Publish, Source, Target};

/// A source whose plugin is loaded and whose settings fit it.
pub struct PreparedSource {
    pub name: SourceName,
    pub settings: EndpointSettings,
    /// Where its plugin comes from: it is loaded anew when the source is opened again.
    pub from: ComponentSource,
    pub plugin: LoadedPlugin,
}

/// A handler component of a consumer whose plugin is loaded and whose settings fit it.
pub struct PreparedHandler {
    pub consumer: ConsumerName,
    pub settings: EndpointSettings,
    /// Where its plugin comes from.
    pub from: ComponentSource,
    pub loaded: ForStart,
}

/// The consumer that publishes a source's table directly.
pub fn publisher<'c>(config: &'c Config, source: &Source) -> Option<&'c Consumer> {
    config.consumers.iter().find(|consumer| {
        matches!(consumer.publish, Publish::Direct(_))
            && consumer.sources.iter().any(|name| name == source.name.as_str())
    })
}

/// Loads the plugins of all sources and handlers; what is wrong is added to `errors`.
pub(super) async fn prepare(
    fleet: &Fleet,
    config: &Config,
    errors: &mut Vec<PluginError>,
) -> (Vec<PreparedSource>, Vec<PreparedHandler>) {
    let (mut sources, mut handlers) = (Vec::new(), Vec::new());
    for source in &config.sources {
        match prepare_source(fleet, config, source).await {
            Ok(prepared) => sources.push(prepared),
            Err(cause) => errors.push(PluginError { endpoint: format!("[source.{}]", source.name), cause }),
        }
    }
    for consumer in &config.consumers {
        let Target::Component { endpoint, .. } = &consumer.target else { continue };
        match prepare_handler(fleet, consumer, endpoint).await {
            Ok(prepared) => handlers.push(prepared),
            Err(cause) => errors.push(PluginError { endpoint: format!("[consumer.{}]", consumer.name), cause }),
        }
    }
    (sources, handlers)
}

async fn prepare_source(fleet: &Fleet, config: &Config, of: &Source) -> Result<PreparedSource, SwapError> {
    let mut settings = of.endpoint.clone();
    let world = match publisher(config, of) {
        Some(consumer) => {
            // Where rows go is said once, by their consumer; the plugin fills the names in from their columns.
            if let (Target::Topic(topic), Some(keys)) = (&consumer.target, settings.config.as_object_mut()) {
                keys.insert("topic".to_owned(), topic.as_str().into());
            }
            World::Table
        }
        None => World::Source,
    };
    let from = source(&settings.plugin)?;
    let plugin = fleet.load(&from, settings.sha256.as_deref(), world).await?;
    check_config(plugin.manifest(), &settings.name, &settings.config)?;
    if settings.provision && !plugin.provisions() {
        let (endpoint, plugin) = (settings.name.clone(), plugin.manifest().name.clone());
        return Err(SandboxError::NoProvisioning { endpoint, plugin }.into());
    }
    let section = format!("source.{}", of.name);
    check_grants(plugin.manifest(), &section, &settings.grants, settings.instances)?;
    Ok(PreparedSource { name: of.name.clone(), settings, from, plugin })
}

async fn prepare_handler(
    fleet: &Fleet,
    consumer: &Consumer,
    settings: &EndpointSettings,
) -> Result<PreparedHandler, SwapError> {
    let (from, loaded) = load_for_start(fleet, settings, World::Handler).await?;
    let manifest = loaded.plugin.manifest();
    check_config(manifest, &settings.name, &settings.config)?;
    let section = format!("consumer.{}", consumer.name);
    check_grants(manifest, &section, &settings.grants, settings.instances)?;
    Ok(PreparedHandler { consumer: consumer.name.clone(), settings: settings.clone(), from, loaded })
}
