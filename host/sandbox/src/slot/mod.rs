//! A transport, a handler, a participant or a retry policy whose plugin can be replaced while messages and sagas flow.
//!
//! ```text
//! Slot (port::transport::Transport) ── serving ──▶ Pinned: one call, one generation
//! HandlerSlot (port::handler::Handler) ── serving ──┤
//! ParticipantSlot (port::participant::Participant) ─┤
//! PolicySlot (port::backoff::BackoffPolicy) ────────┘
//!   │ stage ─▶ Staged ─▶ swap                        Generation: a plugin with its instances and calls under way
//!   └ Life: the pure state machine; probation: what is seen of the live generation, and what follows
//! ```
//! | file | holds |
//! |---|---|
//! | `record` | a generation as it is remembered, and its phases |
//! | `life` | the state machine: probation, rollback, history |
//! | `stage` | trying a new plugin or new settings beside what serves |
//! | `swap` | making it live, draining the old one, going back |
//! | `probation` | watching the live generation |
//! | `pinned` | what serves one call |
//! | `handler`, `participant`, `policy` | a slot as the port of its kind sees it |
//! | `outcomes` | how the latest generations did |
//! | `needs` | steps that running sagas still call |
//! | `served` | what a generation is started from, and what runs then: the one place that knows the kinds |
//! | `generation` | instances and the calls under way on them |
//! | `memory` | what outlives the host |
//!
//! A refused change never touches what serves. Bounds: [`DRAINING_MAX`], and those of `life`.

mod clock;
mod error;
mod generation;
mod handler;
mod life;
#[cfg(test)]
mod life_tests;
mod memory;
mod needs;
mod outcomes;
mod participant;
mod pinned;
mod policy;
mod probation;
mod record;
mod served;
mod stage;
mod swap;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::{counter, gauge};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Mutex as AsyncMutex, Notify, Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use waybill_api::plugin_outcomes::GenerationOutcomes;
use waybill_core::changes::ChangeKind;
use waybill_core::endpoint::SlotPolicy;
use waybill_core::message::Delivery;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport, TransportLimits,
};

use crate::changes::ChangeReporter;
use crate::endpoint::{EndpointSpec, label};
use crate::error::SandboxError;
use crate::instance::closed;
use crate::load::LoadedPlugin;
use crate::manifest::World;
use generation::{Generation, Hold};
use outcomes::Outcomes;
use record::Named;
use served::Recipe;

pub use error::SwapError;
pub use handler::HandlerSlot;
pub use life::{BAD_MAX, HISTORY_MAX, Life, Probation, RolledBack};
pub use memory::{Forgetful, SlotMemory};
pub(crate) use needs::SagaNeeds;
pub use participant::ParticipantSlot;
pub use policy::PolicySlot;
pub use record::{BadDigest, Phase, Record, Why};
pub use stage::{StageOptions, Staged};
pub use swap::Swapped;

/// Generations of one slot that may drain at once: another change waits until one of them has ended, [`ROOM_TIMEOUT`] at most.
pub const DRAINING_MAX: usize = 4;
/// How long a change waits for that by default: less than whoever asks waits for its answer, the command line for 30 s.
pub const ROOM_TIMEOUT: Duration = Duration::from_secs(20);

/// Who wanted a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Automatic,
    Manual,
}

impl Cause {
    const fn word(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Manual => "manual",
        }
    }
}

/// A plugin in one place of the configuration, which can be replaced. Cheap to clone; the last clone ends it where it is.
#[derive(Clone)]
pub struct Slot(Arc<Shared>);

struct Place {
    generation: Arc<Generation>,
    /// False while an old generation ends before the new one is open: calls wait.
    is_open: bool,
}

struct Shared {
    /// What logs, measurements and operators know it by: a transport's name, `handler.NAME`, `participant.NAME`, `outbox.backoff`.
    name: String,
    /// Its name in the configuration.
    configured: String,
    policy: Mutex<SlotPolicy>,
    place: RwLock<Place>,
    /// Rung when the place opens.
    opened: Notify,
    /// Instances that its lanes opened.
    openings: Arc<watch::Sender<u64>>,
    life: Mutex<Life>,
    outcomes: Mutex<Outcomes>,
    /// What generations that may come back are started from.
    recipes: Mutex<BTreeMap<u32, Recipe>>,
    /// Held while a generation takes another's place.
    switching: AsyncMutex<()>,
    /// Held while the earlier generation is asked whether it would do better.
    asking: AsyncMutex<()>,
    draining: Arc<Semaphore>,
    memory: Arc<dyn SlotMemory>,
    needs: SagaNeeds,
    told: ChangeReporter,
    /// Drains, watches and rollbacks under way.
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let generation = self.0.current().number;
        f.debug_struct("Slot").field("name", &self.0.name).field("generation", &generation).finish_non_exhaustive()
    }
}

impl Slot {
    /// Starts a slot for one world with its first generation and keeps it, however the first `open`s went: what found nobody is
    /// tried again by itself. Errors only when it can never serve (world, configuration by schema).
    pub(crate) async fn start(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        world: World,
        memory: Arc<dyn SlotMemory>,
        needs: SagaNeeds,
    ) -> Result<(Self, Result<(), SandboxError>), SandboxError> {
        let (configured, policy) = (spec.settings.name.clone(), spec.settings.policy);
        let name = label(world, &configured);
        let told = plugin.0.sandbox.0.changes.clone();
        let version = plugin.manifest().version.clone();
        let mut life = Life::new(memory.bad(&name));
        let number = life.begin(plugin.digest(), Some(named(&plugin)), Phase::Linked, clock::now());
        let openings = Arc::clone(&spec.openings);
        let recipe = Recipe::new(plugin, EndpointSpec { generation: number, ..spec }, world).await?;
        let (served, opened) = recipe.start().await?;
        life.go_live(number, policy.probation, clock::now());
        let generation = Generation::new(number, recipe.clone(), served);
        let shared = Arc::new(Shared {
            name,
            configured,
            policy: Mutex::new(policy),
            place: RwLock::new(Place { generation: Arc::clone(&generation), is_open: true }),
            opened: Notify::new(),
            openings,
            life: Mutex::new(life),
            outcomes: Mutex::default(),
            recipes: Mutex::new(BTreeMap::from([(number, recipe)])),
            switching: AsyncMutex::default(),
            asking: AsyncMutex::default(),
            draining: Arc::new(Semaphore::new(DRAINING_MAX)),
            memory,
            needs,
            told,
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        });
        shared.note_live(&generation);
        shared.told.tell(ChangeKind::PluginLoaded, &shared.name, |change| change.detail(&format!("version {version}")));
        shared.watch(&generation);
        if opened.is_ok() && policy.probation.is_zero() {
            shared.confirmed(number);
        }
        Ok((Self(shared), opened))
    }

    /// What operators know it by: the name of a transport, `handler.NAME`, `participant.NAME`, or `outbox.backoff`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How its generations follow each other.
    pub fn policy(&self) -> SlotPolicy {
        *self.0.policy.lock()
    }

    /// How long calls may take, from now on, when another generation takes the place of the one that serves. Nothing is opened anew.
    pub fn set_drain_timeout(&self, within: Duration) {
        let slot = &self.0;
        slot.policy.lock().drain_timeout = within;
        slot.recipes.lock().values_mut().for_each(|recipe| recipe.spec.settings.policy.drain_timeout = within);
        slot.current().extend_drain(within);
    }

    /// Its generations as they stand.
    pub fn life(&self) -> Life {
        self.0.life.lock().clone()
    }

    /// How its latest generations did, newest first.
    pub(crate) fn outcomes(&self) -> Vec<GenerationOutcomes> {
        self.0.outcomes.lock().read()
    }

    /// Whether running sagas can do without what it serves; the error says what they still call.
    pub async fn may_go(&self) -> Result<(), SwapError> {
        self.0.check_needs(&[]).await
    }

    /// Whether running sagas know whom they mean when it serves beside the participants that there are.
    pub async fn may_come(&self) -> Result<(), SwapError> {
        let current = self.0.current();
        self.0.check_clear(current.recipe.steps.iter().map(|step| step.name.clone()).collect()).await
    }

    /// The plugin that serves.
    pub fn plugin(&self) -> LoadedPlugin {
        self.0.current().recipe.plugin.clone()
    }

    /// Tries `open` again where it was refused, e.g. after a secret has changed.
    pub fn reopen(&self) {
        self.0.current().served.reopen();
    }
}

impl Shared {
    /// What callers of the plugin know it by.
    fn configured_name(&self) -> &str {
        &self.configured
    }

    /// Who serves now, or served last.
    fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.place.read().generation)
    }

    /// Holds who serves; none while nobody does.
    fn hold(&self) -> Option<Hold> {
        let place = self.place.read();
        place.is_open.then(|| Hold::new(&place.generation))
    }

    /// Holds who serves, and waits for it at most until the deadline.
    async fn next_hold(&self, deadline: Instant) -> Result<Hold, CallError> {
        loop {
            let rung = self.opened.notified();
            tokio::pin!(rung);
            // Before the look, so that an opening right after it isn't missed.
            rung.as_mut().enable();
            if let Some(hold) = self.hold() {
                return Ok(hold);
            }
            tokio::select! {
                waited = timeout_at(deadline, rung) => waited.map_err(|_| pinned::swapping())?,
                () = self.closed.cancelled() => return Err(closed()),
            }
        }
    }

    /// What would come back.
    fn previous(&self) -> Option<Recipe> {
        let number = self.life.lock().previous()?;
        self.recipes.lock().get(&number).cloned()
    }

    /// How long a generation is still on probation.
    fn trial_left(&self, number: u32) -> Option<Duration> {
        let life = self.life.lock();
        let probation = life.probation().filter(|_| life.live() == Some(number))?;
        Some(probation.until - clock::now().mono)
    }

    fn note_live(&self, generation: &Generation) {
        let number = generation.number;
        gauge!("waybill_plugin_generation", "transport" => self.name.clone()).set(f64::from(number));
        if let Some(tally) = generation.served.tally() {
            self.outcomes.lock().begin(number, tally);
        }
    }

    fn count_swap(&self, result: &'static str) {
        counter!("waybill_plugin_swaps_total", "transport" => self.name.clone(), "result" => result).increment(1);
    }

    fn count_rollback(&self, cause: Cause) {
        counter!("waybill_plugin_rollbacks_total", "transport" => self.name.clone(), "cause" => cause.word())
            .increment(1);
    }

    /// Ends all instances in good order, within `timeout`.
    async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.closed.cancel();
        self.tasks.close();
        // Whoever is taking another's place is done first, so that the one that is live is the one that is closed.
        let _switching = timeout_at(deadline, self.switching.lock()).await;
        let left = deadline.saturating_duration_since(Instant::now());
        self.current().served.close(left).await;
        let _late = timeout_at(deadline, self.tasks.wait()).await;
    }

    /// Forgets what can't come back any more.
    fn prune(&self) {
        let (live, previous) = {
            let life = self.life.lock();
            (life.live(), life.previous())
        };
        self.recipes.lock().retain(|number, _| Some(*number) == live || Some(*number) == previous);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Who watches holds the instances.
        self.closed.cancel();
    }
}

/// What a plugin says of itself.
fn named(plugin: &LoadedPlugin) -> Named {
    let manifest = plugin.manifest();
    let (plugin_name, version) = (manifest.name.clone(), manifest.version.clone());
    Named { plugin: plugin_name, version, signature: plugin.signature().words() }
}

#[async_trait]
impl Transport for Slot {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn identity(&self) -> PluginIdentity {
        self.0.current().served.identity()
    }

    fn limits(&self) -> TransportLimits {
        self.0.current().served.limits()
    }

    fn serving(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(pinned::Pinned::new(Arc::clone(&self.0))))
    }

    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        pinned::Pinned::new(Arc::clone(&self.0)).send_batch(call, batch, sink).await
    }

    async fn health(&self) -> HealthReport {
        self.0.current().served.health().await
    }

    async fn opened(&self) {
        // Its sender is its own, so only an opening ends this.
        let _ended = self.0.openings.subscribe().changed().await;
    }

    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        self.0.current().served.provision(apply).await
    }

    async fn close(&self, timeout: Duration) {
        self.0.close(timeout).await;
    }
}
