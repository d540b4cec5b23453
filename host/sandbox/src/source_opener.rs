//! A configured source that is opened and closed as its host comes to have its home, and whose plugin is replaced while it is closed:
//! what the inbox knows of a source ([`SourcePlugin`]).

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use waybill_core::code::Code;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::source::{OpenSource, Overtaken, Source, SourcePlugin, SourceWants};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, HealthReport, PluginIdentity};

use crate::error::SandboxError;
use crate::instance::{Endpoint, provision};
use crate::manifest::World;
use crate::ordered::Recipe;
use crate::source::WasmSource;

/// A candidate that doesn't open is closed within this time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a source is opened from.
struct Recipes {
    now: Recipe<SourceWants>,
    /// What served before, until the new one has opened.
    before: Option<Recipe<SourceWants>>,
    open: Weak<WasmSource>,
    /// The number of the last generation.
    generation: u32,
}

/// A source as configured. At most one of it is open at a time: who has it open closes it before it is opened again.
pub struct SourceOpener {
    name: String,
    recipes: Mutex<Recipes>,
    /// Held while a provisioning call runs: one at a time.
    provisioning: AsyncMutex<()>,
}

impl std::fmt::Debug for SourceOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceOpener").field("name", &self.name).finish_non_exhaustive()
    }
}

impl SourceOpener {
    /// A source that isn't open. Errors when it can never serve (world, configuration by schema).
    pub fn new(recipe: Recipe<SourceWants>) -> Result<Self, SandboxError> {
        endpoint(&recipe)?;
        let (name, generation) = (recipe.spec.settings.name.clone(), recipe.spec.generation);
        let recipes = Mutex::new(Recipes { now: recipe, before: None, open: Weak::new(), generation });
        Ok(Self { name, recipes, provisioning: AsyncMutex::default() })
    }

    /// Asks a candidate, beside what serves, whether it would work, and has the next `open` open it. Whoever has the source open then
    /// closes it and opens it again; if the candidate doesn't open, what served before does. A candidate that says it is down is refused.
    pub async fn replace(&self, recipe: Recipe<SourceWants>) -> Result<HealthReport, SandboxError> {
        let generation = {
            let mut recipes = self.recipes.lock();
            recipes.generation += 1;
            recipes.generation
        };
        let mut recipe = recipe;
        recipe.spec.generation = generation;
        let health = WasmSource::probe(recipe.plugin.clone(), recipe.spec.clone(), recipe.wants.clone()).await?;
        if health.health == Health::Down {
            let why = health.detail.unwrap_or_else(|| "it says that it is down".to_owned());
            let fault = Fault::new(Code::PLUGIN_DOWN, why);
            return Err(SandboxError::Open { endpoint: self.name.clone(), kind: ErrorKind::Unavailable, fault });
        }
        let mut recipes = self.recipes.lock();
        let before = std::mem::replace(&mut recipes.now, recipe);
        recipes.before.get_or_insert(before);
        drop(recipes);
        Ok(health)
    }

    async fn start(&self, recipe: &Recipe<SourceWants>, how: OpenSource) -> Result<Opened, SandboxError> {
        let mut wants = recipe.wants.clone();
        if how.go_on {
            wants.on_overtaken = Overtaken::GoOn;
        }
        let (source, opened) = WasmSource::start_supervised(recipe.plugin.clone(), recipe.spec.clone(), wants).await?;
        Ok(Opened { source, refusal: opened.err() })
    }

    fn opened(&self, source: Arc<WasmSource>) -> Arc<dyn Source> {
        self.recipes.lock().open = Arc::downgrade(&source);
        source
    }
}

/// A source that was started, and why its first `open`s failed, if they did.
struct Opened {
    source: Arc<WasmSource>,
    refusal: Option<SandboxError>,
}

fn endpoint(recipe: &Recipe<SourceWants>) -> Result<Endpoint, SandboxError> {
    Endpoint::new(recipe.plugin.clone(), World::Source, recipe.spec.clone())
}

fn never(error: &SandboxError) -> CallError {
    CallError { kind: ErrorKind::InvalidConfig, fault: Fault::new(error.code(), error.to_string()) }
}

#[async_trait]
impl SourcePlugin for SourceOpener {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> PluginIdentity {
        let recipe = self.recipes.lock().now.clone();
        let unknown = || PluginIdentity {
            plugin: self.name.clone(),
            version: String::new(),
            digest: String::new(),
            generation: recipe.spec.generation,
        };
        endpoint(&recipe).map_or_else(|_| unknown(), |endpoint| endpoint.identity())
    }

    async fn open(&self, how: OpenSource) -> Result<Arc<dyn Source>, CallError> {
        let (now, before) = {
            let recipes = self.recipes.lock();
            (recipes.now.clone(), recipes.before.clone())
        };
        let started = self.start(&now, how).await;
        let Some(before) = before else {
            // What keeps it from opening is tried again by itself.
            return started.map(|opened| self.opened(opened.source)).map_err(|error| never(&error));
        };
        let refusal = match started {
            Ok(Opened { source, refusal: None }) => {
                self.recipes.lock().before = None;
                return Ok(self.opened(source));
            }
            Ok(Opened { source, refusal: Some(error) }) => {
                source.close(CLOSE_TIMEOUT).await;
                error
            }
            Err(error) => error,
        };
        tracing::error!(source = self.name, error = %refusal, "a source's new plugin doesn't open: the one before serves again");
        {
            let mut recipes = self.recipes.lock();
            (recipes.now, recipes.before) = (before.clone(), None);
        }
        let opened = self.start(&before, how).await.map_err(|error| never(&error))?;
        Ok(self.opened(opened.source))
    }

    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let _alone = self.provisioning.lock().await;
        let recipe = self.recipes.lock().now.clone();
        let endpoint = endpoint(&recipe).map_err(|error| ProvisionError::Failed(never(&error)))?;
        let changes = provision(&endpoint, apply).await?;
        let open = self.recipes.lock().open.upgrade();
        if let Some(source) = open.filter(|_| apply) {
            // What kept it from opening may be there now.
            source.reopen();
        }
        Ok(changes)
    }
}
