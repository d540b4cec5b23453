//! Trying a new plugin, or new settings, beside what serves. Nothing here touches the live generation.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use waybill_core::changes::ChangeKind;
use waybill_core::code::Code;
use waybill_core::endpoint::{EndpointSettings, ReloadPolicy};
use waybill_core::port::transport::{ErrorKind, Health};

use super::record::{Phase, Record, Why};
use super::served::{Recipe, Served};
use super::{ROOM_TIMEOUT, Shared, Slot, SwapError, clock, named};
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::load::LoadedPlugin;

/// How strict a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageOptions {
    /// Take a component that was rolled back before, one that finds its peer unreachable, and one that lacks a step which running
    /// sagas may still call.
    pub force: bool,
    /// The candidate that [`Slot::candidate`] began; none = begin one.
    pub number: Option<u32>,
    /// How long it waits while [`super::DRAINING_MAX`] generations drain.
    pub room_within: Duration,
}

impl Default for StageOptions {
    fn default() -> Self {
        Self { force: false, number: None, room_within: ROOM_TIMEOUT }
    }
}

/// A generation that has been tried and waits to be made live by [`Slot::swap`]. Dropping it gives it up.
pub struct Staged {
    pub(super) slot: Arc<Shared>,
    pub(super) number: u32,
    pub(super) recipe: Recipe,
    pub(super) force: bool,
    /// Its instances, open; none with `stop-start`.
    pub(super) served: Option<Served>,
    /// Room for the one that will drain.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staged").field("slot", &self.slot.name).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Staged {
    pub fn number(&self) -> u32 {
        self.number
    }
    /// What its slot is known by.
    pub fn name(&self) -> &str {
        &self.slot.name
    }
    pub fn plugin(&self) -> &LoadedPlugin {
        &self.recipe.plugin
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Has no effect on one that became live.
        let why = Why::new(Code::PLUGIN_GIVEN_UP, "it was ready, and another part of the same change was refused");
        self.slot.life.lock().reject(self.number, why, clock::now());
    }
}

impl Slot {
    /// Notes a candidate whose bytes are here, so that it is seen while it is checked and compiled. Answers its number for
    /// [`Self::advance`], [`Self::refuse`] and [`StageOptions`].
    pub fn candidate(&self, digest: &str) -> u32 {
        self.0.life.lock().begin(digest, None, Phase::Fetched, clock::now())
    }

    /// Refuses a component that was rolled back before, unless forced.
    pub fn check_bad(&self, digest: &str, force: bool) -> Result<(), SwapError> {
        match self.0.life.lock().bad(digest) {
            Some(bad) if !force => Err(SwapError::RememberedBad { endpoint: self.0.name.clone(), bad: bad.clone() }),
            _ => Ok(()),
        }
    }

    /// Notes how far a candidate has come.
    pub fn advance(&self, number: u32, phase: Phase) {
        self.0.life.lock().advance(number, phase, clock::now());
    }

    /// Notes that a candidate was refused, and why.
    pub fn refuse(&self, number: u32, error: &SwapError) {
        self.0.refused(number, error);
    }

    /// Tries a plugin with settings: its configuration is checked, an instance is opened with purpose `probe` and asked for its
    /// health, and with `overlap` all instances are opened to serve. What is live isn't touched. One that was rolled back
    /// before is refused unless forced, and so is a participant's that lacks a step which running sagas may still call, or makes one unclear. Waits
    /// for a while as long as [`super::DRAINING_MAX`] generations drain.
    pub async fn stage(
        &self,
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        options: StageOptions,
    ) -> Result<Staged, SwapError> {
        let slot = Arc::clone(&self.0);
        let number = match options.number {
            Some(number) => number,
            None => slot.life.lock().begin(plugin.digest(), Some(named(&plugin)), Phase::Linked, clock::now()),
        };
        let settings = EndpointSettings { name: slot.configured.clone(), ..spec.settings };
        let openings = Arc::clone(&slot.openings);
        let spec = EndpointSpec { settings, generation: number, openings, ..spec };
        let world = slot.current().recipe.world;
        let recipe = Recipe::new(plugin, spec, world).await.map_err(SwapError::from);
        let recipe = recipe.inspect_err(|error| slot.refused(number, error))?;
        let mut staged = Staged { slot, number, recipe, force: options.force, served: None, room: None };
        match staged.prepare(options.room_within).await {
            Ok(()) => Ok(staged),
            Err(error) => {
                staged.slot.refused(number, &error);
                Err(error)
            }
        }
    }
}

impl Shared {
    pub(super) fn refused(&self, number: u32, error: &SwapError) {
        if self.life.lock().reject(number, error.why(), clock::now()) {
            self.count_swap("rejected");
            let why = error.why();
            self.told.tell(ChangeKind::PluginRefused, &self.name, |change| {
                change.code(&why.code).detail(&format!("generation {number}: {}", why.reason))
            });
            tracing::warn!(transport = %self.name, generation = number, code = error.code().as_str(), %error, "a new plugin was refused; the running generation goes on");
        }
    }

    fn no_room(&self, asking: u32, within: Duration) -> SwapError {
        let life = self.life.lock();
        let holds =
            |record: &&Record| matches!(record.phase, Phase::Draining | Phase::Probing) && record.number != asking;
        let holding = life.records().filter(holds).map(|record| record.number).collect();
        SwapError::NoRoom { endpoint: self.name.clone(), holding, within }
    }
}

impl Staged {
    async fn prepare(&mut self, room_within: Duration) -> Result<(), SwapError> {
        let slot = Arc::clone(&self.slot);
        let endpoint = slot.name.clone();
        let digest = self.recipe.plugin.digest().to_owned();
        {
            let mut life = slot.life.lock();
            life.named(self.number, named(&self.recipe.plugin));
            life.advance(self.number, Phase::Linked, clock::now());
        }
        Slot(Arc::clone(&slot)).check_bad(&digest, self.force)?;
        if !self.force {
            slot.check_needs(&self.recipe.steps).await?;
        }
        let room = Arc::clone(&slot.draining).acquire_owned();
        self.room = tokio::select! {
            room = timeout(room_within, room) => match room {
                Ok(room) => room.ok(),
                Err(_) => return Err(slot.no_room(self.number, room_within)),
            },
            () = slot.closed.cancelled() => return Err(SwapError::Closed { endpoint }),
        };
        slot.life.lock().advance(self.number, Phase::Probing, clock::now());
        let tried = tokio::select! {
            tried = self.probe() => tried,
            () = slot.closed.cancelled() => Err(SwapError::Closed { endpoint }),
        };
        tried?;
        if !self.force {
            // Sagas may have begun meanwhile.
            slot.check_needs(&self.recipe.steps).await?;
        }
        if self.force && slot.life.lock().forget_bad(&digest) {
            slot.memory.bad_no_more(&slot.name, &digest);
        }
        Ok(())
    }

    async fn probe(&mut self) -> Result<(), SwapError> {
        let order = self.recipe.spec.settings.policy.reload;
        match self.recipe.probe().await {
            Ok(report) if report.health != Health::Down => {}
            Ok(_) if self.force => {}
            Ok(report) => {
                let detail = report.detail.unwrap_or_else(|| "without a reason".to_owned());
                return Err(self.failed(Why::new(Code::PLUGIN_DOWN, format!("it says that it is down: {detail}"))));
            }
            Err(error) => self.weigh(error)?,
        }
        if order == ReloadPolicy::StopStart {
            return Ok(());
        }
        let (served, opened) = self.recipe.start().await?;
        if let Err(error) = opened {
            self.weigh(error)?;
        }
        self.served = Some(served);
        Ok(())
    }

    /// An `open` failed: with force, a peer that can't be reached is waited for.
    fn weigh(&self, error: SandboxError) -> Result<(), SwapError> {
        match error {
            SandboxError::Open { kind: ErrorKind::Unavailable | ErrorKind::Throttled, .. } if self.force => Ok(()),
            SandboxError::Open { fault, .. } => Err(self.failed(Why::new(fault.code, fault.reason))),
            other => Err(other.into()),
        }
    }

    fn failed(&self, why: Why) -> SwapError {
        SwapError::ProbeFailed { endpoint: self.slot.name.clone(), why }
    }
}
