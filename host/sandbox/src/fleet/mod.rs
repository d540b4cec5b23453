//! The transports, handlers, participants and retry policies of a host with the sources of their plugins: loading, reloading, watching,
//! and what is remembered. Sources aren't among them: they are opened by whoever has their homes.
//!
//! ```text
//! source (bundled, file) ─▶ Fetched ─▶ verify ─▶ load ─▶ Slot::stage ─▶ Slot::swap
//!    ▲ watch, API, upload                                   StateFolder: bad digests, last good components
//! ```
//! | file | holds |
//! |---|---|
//! | `source` | where a component comes from, and the plugins folder |
//! | `reload` | from a source to a live generation |
//! | `watch` | files that change |
//! | `state` | what survives a restart |
//! | `service` | the port that the API uses |

mod reload;
mod service;
mod source;
mod state;
#[cfg(test)]
mod state_tests;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use waybill_core::port::step_needs::StepNeeds;

use crate::endpoint::{EndpointSpec, label};
use crate::engine::{SEAL_KEY, Sandbox};
use crate::error::SandboxError;
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::seal::Seal;
use crate::slot::{
    Forgetful, HandlerSlot, ParticipantSlot, PolicySlot, SagaNeeds, Slot, SlotMemory, StageOptions, Staged, SwapError,
    Swapped,
};
use crate::verify::{Trust, verify};

pub use reload::{Reload, Reloaded};
pub use source::ComponentSource;
pub use state::StateFolder;
pub use watch::POLL_EVERY;

/// How a fleet is set up.
#[derive(Clone, Debug, Default)]
pub struct FleetOptions {
    pub trust: Trust,
    /// Folder of plugins that are named, not bundled: `acme` is `<folder>/acme.wasm`.
    pub folder: Option<PathBuf>,
    /// Components that came with this binary: a last good one of them is found again after a restart.
    pub bundled: Vec<&'static [u8]>,
    /// Folder for what survives a restart; none = nothing does. Made with mode 0700 if it is missing.
    pub state: Option<PathBuf>,
}

/// A transport, or one of the others, as configured.
#[derive(Clone, Debug)]
pub struct TransportSpec {
    /// Where its plugin comes from.
    pub source: ComponentSource,
    /// What it is started with.
    pub endpoint: EndpointSpec,
}

/// A plugin loaded for the start of a transport, or one of the others.
#[derive(Clone, Debug)]
pub struct ForStart {
    pub plugin: LoadedPlugin,
    /// Why it isn't the one at its source.
    pub fallback: Option<String>,
}

/// The transports of a host, its handlers that are components, its participants, and its retry policy. Cheap to clone.
#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    sandbox: Sandbox,
    trust: RwLock<Trust>,
    folder: RwLock<Option<PathBuf>>,
    state: Option<Arc<StateFolder>>,
    bundled: Vec<&'static [u8]>,
    entries: RwLock<BTreeMap<String, Arc<Entry>>>,
    /// What was found in the plugins folder.
    looked: Mutex<source::Looked>,
    /// Who runs the sagas that call its participants.
    needs: SagaNeeds,
}

/// A transport of it, or one of the others.
struct Entry {
    slot: Slot,
    world: World,
    spec: Mutex<TransportSpec>,
    fallback: Mutex<Option<String>>,
    /// Held from reading a source, or trying new settings, to the end of the swap.
    reloading: Arc<AsyncMutex<()>>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("transports", &self.0.entries.read().keys()).finish_non_exhaustive()
    }
}

/// A change of one's plugin or settings that has been tried. Dropping it gives it up.
#[derive(Debug)]
pub struct StagedChange {
    staged: Staged,
    spec: TransportSpec,
    /// Nothing else changes it meanwhile.
    _alone: OwnedMutexGuard<()>,
}

impl Fleet {
    /// A fleet without transports. Errors when the state folder can't be used.
    pub fn new(sandbox: Sandbox, options: FleetOptions) -> Result<Self, SandboxError> {
        let state = options.state.map(|folder| {
            if let Some(cache) = &sandbox.0.cache {
                return StateFolder::open(&folder, Arc::clone(&cache.seal)).map(Arc::new);
            }
            let seal = Arc::new(Seal::open(&folder.join(SEAL_KEY))?);
            let state = StateFolder::open(&folder, Arc::clone(&seal))?;
            seal.keep()?;
            Ok(Arc::new(state))
        });
        let state = state.transpose()?;
        let (trust, folder) = (RwLock::new(options.trust), RwLock::new(options.folder));
        let bundled = options.bundled;
        Ok(Self(Arc::new(Inner {
            sandbox,
            trust,
            folder,
            state,
            bundled,
            entries: RwLock::default(),
            looked: Mutex::default(),
            needs: SagaNeeds::default(),
        })))
    }

    /// Asks these from now on, as long as they are there, what running sagas still call of participants; only the first ones count.
    pub fn ask_needs(&self, who: &Arc<dyn StepNeeds>) {
        self.0.needs.ask(who);
    }

    /// The plugin host that it loads with.
    pub fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    /// One that loads by another trust and another folder and has no transports: a configuration is tried with it before it is
    /// in force.
    #[must_use]
    pub fn draft(&self, trust: Trust, folder: Option<PathBuf>) -> Self {
        let (trust, folder) = (RwLock::new(trust), RwLock::new(folder));
        let (sandbox, state, bundled) = (self.0.sandbox.clone(), self.0.state.clone(), self.0.bundled.clone());
        Self(Arc::new(Inner {
            sandbox,
            trust,
            folder,
            state,
            bundled,
            entries: RwLock::default(),
            looked: Mutex::default(),
            needs: SagaNeeds::default(),
        }))
    }

    /// Changes whose signatures count and which folder is looked into, from the next load. What serves goes on; an earlier
    /// generation that nobody trusted vouches for any more can't come back.
    pub async fn configure(&self, trust: Trust, folder: Option<PathBuf>) {
        *self.0.trust.write() = trust.clone();
        *self.0.folder.write() = folder;
        self.0.looked.lock().clear();
        let slots: Vec<Slot> = self.0.entries.read().values().map(|entry| entry.slot.clone()).collect();
        for slot in slots {
            slot.keep_previous_if(|component| verify(component, &trust, None).map(|_| ())).await;
        }
    }

    /// Starts a transport with a plugin of [`Self::load_for_start`] and keeps it, however its first `open`s went. Errors only
    /// when it can never serve.
    pub async fn start(
        &self,
        spec: TransportSpec,
        loaded: ForStart,
    ) -> Result<(Slot, Result<(), SandboxError>), SandboxError> {
        self.start_as(World::Transport, spec, loaded).await
    }

    /// The same of a handler. Operators know it as `handler.NAME`.
    pub async fn start_handler(
        &self,
        spec: TransportSpec,
        loaded: ForStart,
    ) -> Result<(HandlerSlot, Result<(), SandboxError>), SandboxError> {
        let (slot, opened) = self.start_as(World::Handler, spec, loaded).await?;
        Ok((HandlerSlot(slot), opened))
    }

    /// The same of a participant. Operators know it as `participant.NAME`.
    pub async fn start_participant(
        &self,
        spec: TransportSpec,
        loaded: ForStart,
    ) -> Result<(ParticipantSlot, Result<(), SandboxError>), SandboxError> {
        let (slot, opened) = self.start_as(World::Participant, spec, loaded).await?;
        Ok((ParticipantSlot(slot), opened))
    }

    /// The same of a retry policy. Operators know it by its name, which is that of its section.
    pub async fn start_policy(
        &self,
        spec: TransportSpec,
        loaded: ForStart,
    ) -> Result<(PolicySlot, Result<(), SandboxError>), SandboxError> {
        let (slot, opened) = self.start_as(World::Backoff, spec, loaded).await?;
        Ok((PolicySlot(slot), opened))
    }

    async fn start_as(
        &self,
        world: World,
        spec: TransportSpec,
        loaded: ForStart,
    ) -> Result<(Slot, Result<(), SandboxError>), SandboxError> {
        let memory: Arc<dyn SlotMemory> = match &self.0.state {
            Some(state) => Arc::clone(state) as _,
            None => Arc::new(Forgetful),
        };
        let needs = self.0.needs.clone();
        let (slot, opened) = Slot::start(loaded.plugin, spec.endpoint.clone(), world, memory, needs).await?;
        let entry = Arc::new(Entry {
            slot: slot.clone(),
            world,
            spec: Mutex::new(spec),
            fallback: Mutex::new(loaded.fallback),
            reloading: Arc::default(),
        });
        self.0.entries.write().insert(slot.name().to_owned(), entry);
        Ok((slot, opened))
    }

    /// Tries a plugin with other settings beside the one that serves; see [`Slot::stage`]. Several can be tried before any is made
    /// live. No reload of these gets in between. With `force` also what was rolled back before, doesn't find its peer, or lacks a step
    /// that sagas still call, is taken: to put back what served.
    pub async fn stage(
        &self,
        world: World,
        spec: TransportSpec,
        plugin: LoadedPlugin,
        force: bool,
    ) -> Result<StagedChange, SwapError> {
        let entry = self.entry(&label(world, &spec.endpoint.settings.name))?;
        let alone = Arc::clone(&entry.reloading).lock_owned().await;
        let options = StageOptions { force, ..StageOptions::default() };
        let staged = entry.slot.stage(plugin, spec.endpoint.clone(), options).await?;
        Ok(StagedChange { staged, spec, _alone: alone })
    }

    /// Makes a tried change live; see [`Slot::swap`].
    pub async fn swap(&self, change: StagedChange) -> Result<Swapped, SwapError> {
        let StagedChange { staged, spec, _alone } = change;
        let entry = self.entry(staged.name())?;
        let swapped = entry.slot.swap(staged).await?;
        *entry.spec.lock() = spec;
        *entry.fallback.lock() = None;
        Ok(swapped)
    }

    /// How long its calls may take, from now on, when its plugin is replaced. Nothing is opened anew.
    pub async fn set_drain_timeout(&self, world: World, name: &str, within: Duration) {
        let Ok(entry) = self.entry(&label(world, name)) else { return };
        let _one = entry.reloading.lock().await;
        entry.spec.lock().endpoint.settings.policy.drain_timeout = within;
        entry.slot.set_drain_timeout(within);
    }

    /// Forgets one that was removed. Whoever has its slot closes it.
    pub fn remove(&self, world: World, name: &str) {
        self.0.entries.write().remove(&label(world, name));
    }

    pub fn slot(&self, world: World, name: &str) -> Option<Slot> {
        self.0.entries.read().get(&label(world, name)).map(|entry| entry.slot.clone())
    }

    pub fn handler(&self, handler: &str) -> Option<HandlerSlot> {
        self.slot(World::Handler, handler).map(HandlerSlot)
    }

    pub fn participant(&self, participant: &str) -> Option<ParticipantSlot> {
        self.slot(World::Participant, participant).map(ParticipantSlot)
    }

    pub fn policy(&self, policy: &str) -> Option<PolicySlot> {
        self.slot(World::Backoff, policy).map(PolicySlot)
    }

    /// As it was configured last.
    pub fn spec(&self, world: World, name: &str) -> Option<TransportSpec> {
        self.0.entries.read().get(&label(world, name)).map(|entry| entry.spec.lock().clone())
    }

    fn entry(&self, transport: &str) -> Result<Arc<Entry>, SwapError> {
        let entry = self.0.entries.read().get(transport).cloned();
        entry.ok_or_else(|| SwapError::Closed { endpoint: transport.to_owned() })
    }
}
