//! A source's plugin: opened when this host has the source's home, and loaded anew each time, so that a file that was replaced serves
//! from then on.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use parking_lot::Mutex;
use waybill_core::changes::ChangeKind;
use waybill_core::code::Code;
use waybill_core::endpoint::ReloadPolicy;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::source::{OpenSource, Overtaken, Source, SourcePlugin, SourceWants};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, HealthReport, PluginIdentity};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{
    ComponentSource, EndpointSpec, Fleet, LoadedPlugin, SandboxError, SwapError, WasmSource, Why, World,
};

use super::CLOSE_TIMEOUT;

/// Begins the name of a source's plugin; no configured name holds a dot.
pub(super) const PREFIX: &str = "source.";

/// A source of the configuration.
pub struct ConfiguredSource {
    fleet: Fleet,
    /// Where its plugin comes from.
    from: ComponentSource,
    spec: EndpointSpec,
    wants: SourceWants,
    /// Position behind which it begins where it has no place of its own at the peer.
    behind: Mutex<Option<String>>,
    state: Mutex<State>,
}

struct State {
    /// The plugin that serves, or would.
    plugin: LoadedPlugin,
    /// Its number, from 1.
    generation: u32,
    /// It takes the place of one that served, and was never open: if it is to blame itself, that one serves again.
    is_on_trial: bool,
    /// Since when it is the plugin.
    since: UnixMillis,
    open: Weak<WasmSource>,
}

impl ConfiguredSource {
    pub fn new(
        fleet: Fleet,
        from: ComponentSource,
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        wants: SourceWants,
    ) -> Self {
        let state = Mutex::new(State { plugin, generation: 1, is_on_trial: false, since: now(), open: Weak::new() });
        Self { fleet, from, spec, wants, behind: Mutex::default(), state }
    }

    /// The same, on trial.
    pub fn in_place_of_another(self) -> Self {
        self.state.lock().is_on_trial = true;
        self
    }

    /// The file that is watched for changes, if that is asked for.
    pub fn file(&self) -> Option<&Path> {
        match &self.from {
            ComponentSource::File(path) if self.spec.settings.watch => Some(path.as_path()),
            _ => None,
        }
    }

    /// What operators know its plugin by.
    pub fn plugin_name(&self) -> String {
        format!("{PREFIX}{}", self.spec.settings.name)
    }

    /// Whether another plugin lies at its place than the one that serves.
    pub async fn is_replaced(&self) -> bool {
        self.replaced().await.is_some()
    }

    /// What lies at its place now, if that is another plugin than the last one and can be loaded.
    async fn replaced(&self) -> Option<LoadedPlugin> {
        let settings = &self.spec.settings;
        match self.fleet.load(&self.from, settings.sha256.as_deref(), World::Source).await {
            Ok(plugin) => (plugin.digest() != self.state.lock().plugin.digest()).then_some(plugin),
            Err(error) => {
                tracing::warn!(source = %settings.name, code = error.code().as_str(), %error, "a source's plugin can't be loaded again: the one before serves");
                None
            }
        }
    }

    /// Where its plugin comes from, in words.
    pub fn comes_from(&self) -> String {
        self.from.words()
    }

    /// Who vouches for the plugin that serves, in words.
    pub fn signature(&self) -> String {
        self.state.lock().plugin.signature().words()
    }

    /// Whether it takes the place of another one and hasn't shown yet that it can.
    pub fn is_on_trial(&self) -> bool {
        self.state.lock().is_on_trial
    }

    /// Since when the plugin that serves is the one.
    pub fn since(&self) -> UnixMillis {
        self.state.lock().since
    }

    /// Tries what lies at its place now, while what serves goes on: the digest that whoever opens it again is to find serving. None: the
    /// very same serves. With `force` that one, too, is opened again, and one that doesn't reach its peer is taken.
    pub async fn try_again(&self, sha256: Option<&str>, force: bool) -> Result<Option<String>, SwapError> {
        let settings = &self.spec.settings;
        let pins = settings.sha256.as_deref().into_iter().chain(sha256);
        let plugin = self.fleet.load(&self.from, pins, World::Source).await?;
        let digest = plugin.digest().to_owned();
        let serves = {
            let state = self.state.lock();
            state.plugin.digest() == digest && !state.is_on_trial
        };
        if serves && !force {
            return Ok(None);
        }
        match WasmSource::probe(plugin, self.spec.clone(), self.wants.clone()).await {
            Ok(report) if report.health == Health::Down && !force => Err(self.down(report)),
            Ok(_) => Ok(Some(digest)),
            Err(error) if force && error.retryable() => Ok(Some(digest)),
            Err(error) => Err(error.into()),
        }
    }

    /// It opens, and says that it is down.
    pub fn down(&self, report: HealthReport) -> SwapError {
        let detail = report.detail.unwrap_or_else(|| "without a reason".to_owned());
        let why = Why::new(Code::PLUGIN_DOWN, format!("it says that it is down: {detail}"));
        SwapError::ProbeFailed { endpoint: self.spec.settings.name.clone(), why }
    }

    /// Whether it would work, while what is configured before it serves. Nothing is consumed.
    pub async fn probe(&self) -> Result<HealthReport, SandboxError> {
        let plugin = self.state.lock().plugin.clone();
        WasmSource::probe(plugin, self.spec.clone(), self.wants.clone()).await
    }

    async fn start(
        &self,
        plugin: LoadedPlugin,
        generation: u32,
        wants: SourceWants,
        is_new: bool,
    ) -> Result<Arc<WasmSource>, SandboxError> {
        let spec = EndpointSpec { generation, ..self.spec.clone() };
        let (source, opened) = WasmSource::start_supervised(plugin.clone(), spec, wants).await?;
        if let Err(error) = opened {
            if is_new && is_its_own(&error) {
                source.close(CLOSE_TIMEOUT).await;
                return Err(error);
            }
            tracing::warn!(source = %self.spec.settings.name, code = error.code().as_str(), %error, "a source isn't open yet: it is tried again");
        }
        let mut state = self.state.lock();
        let is_same = state.generation == generation;
        let since = if is_same { state.since } else { now() };
        let version = plugin.manifest().version.clone();
        *state = State { plugin, generation, is_on_trial: false, since, open: Arc::downgrade(&source) };
        drop(state);
        if !is_same {
            let detail = format!("generation {generation}, version {version}");
            let sandbox = self.fleet.sandbox();
            sandbox.tell_change(ChangeKind::PluginSwapped, &self.plugin_name(), |change| change.detail(&detail));
        }
        Ok(source)
    }
}

#[async_trait]
impl SourcePlugin for ConfiguredSource {
    fn name(&self) -> &str {
        &self.spec.settings.name
    }

    fn identity(&self) -> PluginIdentity {
        let state = self.state.lock();
        let manifest = state.plugin.manifest();
        PluginIdentity {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: state.plugin.digest().to_owned(),
            generation: state.generation,
        }
    }

    fn reload(&self) -> ReloadPolicy {
        self.spec.settings.policy.reload
    }

    async fn open(&self, how: OpenSource) -> Result<Arc<dyn Source>, CallError> {
        let mut wants = SourceWants { resume_after: self.behind.lock().clone(), ..self.wants.clone() };
        if how.go_on {
            wants.on_overtaken = Overtaken::GoOn;
        }
        let (before, generation, is_on_trial) = {
            let state = self.state.lock();
            (state.plugin.clone(), state.generation, state.is_on_trial)
        };
        if let Some(plugin) = self.replaced().await {
            match self.start(plugin, generation.saturating_add(1), wants.clone(), true).await {
                Ok(source) => return Ok(source),
                Err(error) => {
                    self.fleet.sandbox().tell_change(ChangeKind::PluginRefused, &self.plugin_name(), |change| {
                        change.code(error.code().as_str()).detail(&error.to_string())
                    });
                    tracing::error!(source = %self.spec.settings.name, code = error.code().as_str(), %error, "a source's new plugin doesn't serve: the one before does");
                }
            }
        }
        let source = self.start(before, generation, wants, is_on_trial).await.map_err(never)?;
        Ok(source)
    }

    fn resume_after(&self, position: Option<String>) {
        *self.behind.lock() = position;
    }

    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let (open, plugin) = {
            let state = self.state.lock();
            (state.open.upgrade(), state.plugin.clone())
        };
        match open {
            Some(source) => source.provision(apply).await,
            None => WasmSource::provision_closed(plugin, self.spec.clone(), self.wants.clone(), apply).await,
        }
    }
}

fn now() -> UnixMillis {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

/// A plugin that doesn't open for a reason of its own, and not because its peer isn't there: the one before it may serve.
fn is_its_own(error: &SandboxError) -> bool {
    use ErrorKind::{Contract, InvalidConfig, Trapped, Unsupported};
    matches!(error, SandboxError::Open { kind: InvalidConfig | Unsupported | Contract | Trapped, .. })
}

/// It can never serve.
fn never(error: SandboxError) -> CallError {
    CallError { kind: ErrorKind::InvalidConfig, fault: Fault::new(error.code(), error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_plugin_that_is_to_blame_itself_gives_its_place_back() {
        let of = |kind| {
            let fault = Fault::new(Code::PLUGIN_TRAPPED, "no");
            is_its_own(&SandboxError::Open { endpoint: "shop".into(), kind, fault })
        };
        assert!(of(ErrorKind::InvalidConfig) && of(ErrorKind::Trapped) && of(ErrorKind::Unsupported));
        assert!(!of(ErrorKind::Unavailable) && !of(ErrorKind::Throttled) && !of(ErrorKind::TimedOut));
    }
}
