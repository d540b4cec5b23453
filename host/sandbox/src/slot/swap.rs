//! One generation takes another's place: forward to a staged one, or back to the earlier one.
//!
//! With `overlap` the new one is open already and the exchange is one write. With `stop-start` calls wait while the old one
//! ends and the new one opens; if that fails, the old one is opened again.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::changes::ChangeKind;
use waybill_core::code::Code;
use waybill_core::endpoint::ReloadPolicy;
use waybill_core::port::transport::ErrorKind;

use super::generation::Generation;
use super::life::RolledBack;
use super::record::Why;
use super::served::{Recipe, Served};
use super::{Cause, Shared, Slot, Staged, SwapError, clock};
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::verify::{Fetched, VerifyError};

/// Time for a drained generation's instances to say goodbye to their peer.
const GOODBYE: Duration = Duration::from_secs(5);

/// Time for calls under way on a generation that is rolled back by itself, where its successor has to wait for them.
const FAILED_DRAIN: Duration = Duration::from_secs(1);

/// A generation is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped {
    pub number: u32,
    /// The number of the one that drains.
    pub old: u32,
}

impl Slot {
    /// Makes a staged generation live; the old one ends its calls and stays loaded for [`Self::roll_back`]. With `overlap`
    /// this can't fail but for a slot that has ended. With `stop-start` it waits for the old one's calls, and if the new one
    /// doesn't open, the old one is opened again and the reason is the error. It goes on if its caller goes away.
    pub async fn swap(&self, staged: Staged) -> Result<Swapped, SwapError> {
        let slot = Arc::clone(&self.0);
        let closed = || SwapError::Closed { endpoint: self.0.name.clone() };
        // Spawned beside the tracker, which a closing slot no longer fills.
        tokio::spawn(async move { slot.swap(staged).await }).await.unwrap_or_else(|_| Err(closed()))
    }

    /// Goes back to the earlier generation. The digest that was live isn't used again by itself.
    pub async fn roll_back(&self, reason: &str) -> Result<RolledBack, SwapError> {
        let slot = Arc::clone(&self.0);
        let none = || SwapError::NoPrevious { endpoint: self.0.name.clone() };
        let why = Why::new(Code::PLUGIN_ROLLED_BACK, reason);
        let work = tokio::spawn(async move { slot.go_back(None, why, Cause::Manual).await });
        work.await.unwrap_or_else(|_| Err(none()))?.ok_or_else(none)
    }
}

impl Slot {
    /// Forgets the earlier generation unless its component may still be used: a key that was revoked since vouches for nothing.
    pub async fn keep_previous_if(&self, may_be_used: impl Fn(&Fetched) -> Result<(), VerifyError>) {
        let slot = &self.0;
        let Some(_one) = slot.switching().await else { return };
        let Some(earlier) = slot.previous() else { return };
        let Err(error) = may_be_used(earlier.plugin.component()) else { return };
        let why = Why::new(error.code(), format!("it can't come back any more: {error}"));
        let forgotten = slot.life.lock().forget_previous(why);
        slot.prune();
        tracing::warn!(transport = %slot.name, generation = forgotten, code = error.code().as_str(), %error, "the earlier plugin can't come back any more");
    }
}

impl Shared {
    /// The right to take another's place; none when the slot has ended.
    async fn switching(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            one = self.switching.lock() => Some(one),
        }
    }

    async fn swap(self: Arc<Self>, mut staged: Staged) -> Result<Swapped, SwapError> {
        let Some(_one) = self.switching().await else {
            return Err(SwapError::Closed { endpoint: self.name.clone() });
        };
        let (number, room) = (staged.number, staged.room.take());
        let recipe = staged.recipe.clone();
        let served = match staged.served.take() {
            Some(served) => served,
            None => match self.stop_and_open(&recipe, staged.force).await {
                Ok(served) => served,
                Err(error) => {
                    self.refused(number, &error);
                    return Err(error);
                }
            },
        };
        let policy = recipe.spec.settings.policy;
        let generation = Generation::new(number, recipe, served);
        *self.policy.lock() = policy;
        let probation = policy.probation;
        self.life.lock().go_live(number, probation, clock::now());
        let old = self.install(generation, room);
        self.count_swap("live");
        if probation.is_zero() {
            self.confirmed(number);
        }
        let version = &staged.recipe.plugin.manifest().version;
        let detail = format!("generation {number}, version {version}, in the place of {old}");
        self.told.tell(ChangeKind::PluginSwapped, &self.name, |change| change.detail(&detail));
        tracing::info!(transport = %self.name, generation = number, earlier = old, digest = staged.recipe.plugin.digest(), version = %staged.recipe.plugin.manifest().version, "another generation is live");
        Ok(Swapped { number, old })
    }

    /// Goes back, if `expected` is still live (none = whoever is). Answers nothing when it isn't.
    pub(super) async fn go_back(
        self: &Arc<Self>,
        expected: Option<u32>,
        why: Why,
        cause: Cause,
    ) -> Result<Option<RolledBack>, SwapError> {
        let Some(_one) = self.switching().await else { return Ok(None) };
        let name = &self.name;
        let live = self.life.lock().live();
        if expected.is_some() && expected != live {
            return Ok(None);
        }
        let none = || SwapError::NoPrevious { endpoint: name.clone() };
        let earlier = self.previous().ok_or_else(none)?;
        let (_, number) = self.life.lock().prepare_return(clock::now()).ok_or_else(none)?;
        let spec = EndpointSpec { generation: number, ..earlier.spec.clone() };
        let recipe = Recipe { spec, ..earlier };
        let failed = self.current();
        let opened = async {
            if self.policy.lock().reload == ReloadPolicy::StopStart {
                failed.served.retire();
                let within = self.current().drain_timeout();
                // What fails isn't waited for as long as what works.
                self.stop(if cause == Cause::Automatic { within.min(FAILED_DRAIN) } else { within }).await;
            }
            // Not waited for: calls wait in its lanes while it opens, and if it can't, the one that failed couldn't either.
            recipe.spawn()
        };
        let served = match opened.await {
            Ok((served, _opening)) => served,
            Err(error) => {
                let error = SwapError::Plugin(error);
                self.life.lock().reject(number, error.why(), clock::now());
                self.reopen_place().await;
                return Err(error);
            }
        };
        let rolled = self.life.lock().roll_back(number, &why, clock::now()).ok_or_else(none)?;
        // What was worth going back to is what a restart may go back to.
        self.memory.good(name, &recipe.plugin);
        self.install(Generation::new(number, recipe, served), None);
        // Behind the exchange: what is given back goes to the one that came back.
        failed.served.retire();
        if let Some(bad) = &rolled.bad {
            self.memory.now_bad(name, bad);
        }
        self.count_rollback(cause);
        let detail = format!("from generation {} back to {}, now {number}: {}", rolled.from, rolled.to, why.reason);
        self.told.tell(ChangeKind::PluginRolledBack, name, |change| change.code(&why.code).detail(&detail));
        tracing::warn!(transport = %name, from = rolled.from, to = rolled.to, generation = number, cause = cause.word(), code = %why.code, reason = %why.reason, "rolled back");
        Ok(Some(rolled))
    }

    /// Puts a generation in place: the calls from now on are its own. Answers the number of the old one, which drains.
    fn install(self: &Arc<Self>, generation: Arc<Generation>, room: Option<tokio::sync::OwnedSemaphorePermit>) -> u32 {
        let number = generation.number;
        self.recipes.lock().insert(number, generation.recipe.clone());
        let old = {
            let mut place = self.place.write();
            place.is_open = true;
            std::mem::replace(&mut place.generation, Arc::clone(&generation))
        };
        self.opened.notify_waiters();
        old.retired.cancel();
        self.note_live(&generation);
        self.watch(&generation);
        self.prune();
        let (slot, number) = (Arc::clone(self), old.number);
        self.tasks.spawn(async move {
            // Its calls were begun with its own times.
            slot.drain(&old, old.drain_timeout()).await;
            drop(room);
        });
        number
    }

    /// Waits for the calls under way on a generation and ends its instances.
    async fn drain(&self, old: &Generation, within: Duration) {
        let drained = tokio::select! {
            drained = old.drained(within) => drained,
            () = self.closed.cancelled() => true,
        };
        if !drained {
            tracing::warn!(transport = %self.name, generation = old.number, timeout = ?within, "calls of the old generation didn't end in time and are cut");
        }
        old.served.close(GOODBYE).await;
        self.life.lock().gone(old.number, clock::now());
    }

    /// Closes the place to new calls and ends who serves.
    async fn stop(&self, within: Duration) {
        let old = {
            let mut place = self.place.write();
            place.is_open = false;
            Arc::clone(&place.generation)
        };
        self.drain(&old, within).await;
    }

    /// `stop-start`: the old one ends, the new one opens; or the old one again.
    async fn stop_and_open(self: &Arc<Self>, recipe: &Recipe, force: bool) -> Result<Served, SwapError> {
        self.stop(self.current().drain_timeout()).await;
        let (served, opened) = match recipe.start().await {
            Ok(started) => started,
            Err(error) => {
                self.reopen_place().await;
                return Err(error.into());
            }
        };
        let waits = |error: &SandboxError| {
            force && matches!(error, SandboxError::Open { kind: ErrorKind::Unavailable | ErrorKind::Throttled, .. })
        };
        match opened {
            Err(error) if !waits(&error) => {
                served.close(GOODBYE).await;
                self.reopen_place().await;
                Err(error.into())
            }
            _ => Ok(served),
        }
    }

    /// Opens who served last again.
    async fn reopen_place(self: &Arc<Self>) {
        if self.place.read().is_open {
            return;
        }
        let last = self.current();
        match last.recipe.spawn() {
            Ok((served, _opening)) => {
                let again = Generation::new(last.number, last.recipe.clone(), served);
                {
                    let mut place = self.place.write();
                    place.generation = Arc::clone(&again);
                    place.is_open = true;
                }
                self.opened.notify_waiters();
                last.retired.cancel();
                self.note_live(&again);
                self.watch(&again);
            }
            // What it was started from once serves to start it again.
            Err(error) => {
                tracing::error!(transport = %self.name, code = error.code().as_str(), %error, "the old plugin couldn't be opened again");
            }
        }
    }
}
