//! An endpoint whose plugin is replaced in order: the old one has settled and closed before the new one opens, so that a peer never
//! sees two of them. For sources and tables, which hold something of their peer's, and for handlers.
//!
//! ```text
//! stage (probe beside what serves) ─▶ whoever uses it stops: `quiesce`, settle what is out ─▶ swap: close, open, or go back
//! ```
//! A candidate that is refused, and one that doesn't open, leave the old plugin serving. What it doesn't do: drain; only the user of an
//! endpoint knows what it has in hand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::RwLock;
use tokio::sync::Mutex as AsyncMutex;
use waybill_core::code::Code;
use waybill_core::port::handler::Handler;
use waybill_core::port::source::{Source, SourceWants};
use waybill_core::port::table::Table;
use waybill_core::port::transport::{ErrorKind, Fault, Health, HealthReport};

use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::handler::WasmHandler;
use crate::load::LoadedPlugin;
use crate::source::WasmSource;
use crate::table::WasmTable;

/// How an endpoint is started; the second value tells how its first `open`s went.
pub type Started<T> = Result<(Arc<T>, Result<(), SandboxError>), SandboxError>;

/// What an [`OrderedSlot`] can hold.
#[async_trait]
pub trait Replaceable: Send + Sync + Sized + 'static {
    /// What the host wants of each instance.
    type Wants: Clone + fmt::Debug + Send + Sync;
    async fn start(recipe: &Recipe<Self::Wants>) -> Started<Self>;
    /// Whether it would work, while another generation serves.
    async fn probe(recipe: &Recipe<Self::Wants>) -> Result<HealthReport, SandboxError>;
    /// Ends all instances in good order, within `timeout`.
    async fn end(&self, timeout: Duration);
}

/// A plugin and its endpoint: what a generation is started from, again if need be.
#[derive(Clone, Debug)]
pub struct Recipe<W> {
    pub plugin: LoadedPlugin,
    pub spec: EndpointSpec,
    pub wants: W,
}

/// A candidate that was asked and would work.
#[derive(Debug)]
pub struct Ready<W> {
    recipe: Recipe<W>,
    /// What it said of its health.
    pub health: HealthReport,
}

struct Place<T: Replaceable> {
    serving: Arc<T>,
    recipe: Recipe<T::Wants>,
}

/// An endpoint whose plugin can be replaced in order.
pub struct OrderedSlot<T: Replaceable> {
    place: RwLock<Place<T>>,
    /// The number of the last generation.
    generation: AtomicU32,
    /// Held while a generation takes another's place.
    swapping: AsyncMutex<()>,
}

impl<T: Replaceable> fmt::Debug for OrderedSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedSlot").field("recipe", &self.place.read().recipe).finish_non_exhaustive()
    }
}

impl<T: Replaceable> OrderedSlot<T> {
    /// Starts the first generation and keeps it, however its first `open`s went. Errors only when it can never serve (world,
    /// configuration by schema).
    pub async fn start(recipe: Recipe<T::Wants>) -> Result<(Self, Result<(), SandboxError>), SandboxError> {
        let generation = AtomicU32::new(recipe.spec.generation);
        let (serving, opened) = T::start(&recipe).await?;
        let place = RwLock::new(Place { serving, recipe });
        Ok((Self { place, generation, swapping: AsyncMutex::default() }, opened))
    }

    /// Who serves now. Whoever holds it over a swap holds one that has ended.
    pub fn serving(&self) -> Arc<T> {
        Arc::clone(&self.place.read().serving)
    }

    /// The plugin that serves.
    pub fn plugin(&self) -> LoadedPlugin {
        self.place.read().recipe.plugin.clone()
    }

    /// Asks a candidate, beside what serves, whether it would work. A candidate that says it is down is refused.
    pub async fn stage(&self, recipe: Recipe<T::Wants>) -> Result<Ready<T::Wants>, SandboxError> {
        let generation = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        let recipe = Recipe { spec: EndpointSpec { generation, ..recipe.spec }, ..recipe };
        let health = T::probe(&recipe).await?;
        if health.health == Health::Down {
            let why = health.detail.unwrap_or_else(|| "it says that it is down".to_owned());
            let (endpoint, fault) = (recipe.spec.settings.name, Fault::new(Code::PLUGIN_DOWN, why));
            return Err(SandboxError::Open { endpoint, kind: ErrorKind::Unavailable, fault });
        }
        Ok(Ready { recipe, health })
    }

    /// Closes what serves, within `timeout`, and opens the candidate; if that doesn't open, the old plugin is opened again and the
    /// error says why. What the old one has out must be settled by then.
    pub async fn swap(&self, candidate: Ready<T::Wants>, timeout: Duration) -> Result<Arc<T>, SandboxError> {
        let _alone = self.swapping.lock().await;
        let before = self.place.read().recipe.clone();
        self.serving().end(timeout).await;
        let refused = match T::start(&candidate.recipe).await {
            Ok((serving, Ok(()))) => {
                *self.place.write() = Place { serving: Arc::clone(&serving), recipe: candidate.recipe };
                return Ok(serving);
            }
            Ok((serving, Err(error))) => {
                serving.end(timeout).await;
                error
            }
            Err(error) => error,
        };
        // It served before, so it can; what keeps it from opening now is tried again by itself.
        let (serving, _) = T::start(&before).await?;
        *self.place.write() = Place { serving, recipe: before };
        Err(refused)
    }
}

#[async_trait]
impl Replaceable for WasmSource {
    type Wants = SourceWants;

    async fn start(recipe: &Recipe<SourceWants>) -> Started<Self> {
        Self::start_supervised(recipe.plugin.clone(), recipe.spec.clone(), recipe.wants.clone()).await
    }

    async fn probe(recipe: &Recipe<SourceWants>) -> Result<HealthReport, SandboxError> {
        Self::probe(recipe.plugin.clone(), recipe.spec.clone(), recipe.wants.clone()).await
    }

    async fn end(&self, timeout: Duration) {
        self.close(timeout).await;
    }
}

#[async_trait]
impl Replaceable for WasmTable {
    /// Most claims open at once in one instance.
    type Wants = u32;

    async fn start(recipe: &Recipe<u32>) -> Started<Self> {
        Self::start_supervised(recipe.plugin.clone(), recipe.spec.clone(), recipe.wants).await
    }

    async fn probe(recipe: &Recipe<u32>) -> Result<HealthReport, SandboxError> {
        Self::probe(recipe.plugin.clone(), recipe.spec.clone()).await
    }

    async fn end(&self, timeout: Duration) {
        self.close(timeout).await;
    }
}

#[async_trait]
impl Replaceable for WasmHandler {
    type Wants = ();

    async fn start(recipe: &Recipe<()>) -> Started<Self> {
        Self::start_supervised(recipe.plugin.clone(), recipe.spec.clone()).await
    }

    async fn probe(recipe: &Recipe<()>) -> Result<HealthReport, SandboxError> {
        Self::probe(recipe.plugin.clone(), recipe.spec.clone()).await
    }

    async fn end(&self, timeout: Duration) {
        self.close(timeout).await;
    }
}
