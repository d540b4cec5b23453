//! Watches a live generation: notes the instances it loses, asks how it is during its probation, and acts on what the life
//! makes of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use waybill_core::code::Code;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health};

use super::generation::Generation;
use super::life::ProbationDecision;
use super::record::Why;
use super::served::Recipe;
use super::{Cause, Shared, clock};

/// How often a generation on probation is asked for its health.
const HEALTH_EVERY: Duration = Duration::from_secs(2);
/// Lost instances that are counted when more were lost before anybody looked.
const LOSSES_AT_ONCE_MAX: u64 = 64;

impl Shared {
    /// Begins to watch a generation; ends by itself when it retires.
    pub(super) fn watch(self: &Arc<Self>, generation: &Arc<Generation>) {
        for watching in [
            Box::pin(losses(Arc::downgrade(self), Arc::clone(generation))) as BoxFuture<'static, ()>,
            Box::pin(trial(Arc::downgrade(self), Arc::clone(generation))),
        ] {
            let (retired, closed) = (generation.retired.clone(), self.closed.clone());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = watching => {}
                    () = retired.cancelled() => {}
                    () = closed.cancelled() => {}
                }
            });
        }
    }

    /// What a call on a generation came to.
    pub(super) fn heard(self: &Arc<Self>, number: u32, error: Option<&CallError>) {
        match error {
            None => self.life.lock().served(number),
            Some(error) if says_something_of_the_plugin(error) => self.failed(number, &error.fault),
            Some(_) => {}
        }
    }

    /// A call on a generation failed as a whole, and the plugin may be at fault.
    pub(super) fn failed(self: &Arc<Self>, number: u32, fault: &Fault) {
        let why = Why::new(&fault.code, &fault.reason);
        let decision = self.life.lock().failed(number, &why, clock::now());
        self.act(number, decision);
    }

    pub(super) fn act(self: &Arc<Self>, number: u32, decision: ProbationDecision) {
        match decision {
            ProbationDecision::Stay => {}
            ProbationDecision::Confirmed => self.confirmed(number),
            ProbationDecision::RollBack(why) => {
                let slot = Arc::clone(self);
                self.tasks.spawn(async move { slot.roll_back_from(number, why).await });
            }
            ProbationDecision::AskPrevious(why) => {
                let Some(earlier) = self.previous() else { return };
                let slot = Arc::clone(self);
                self.tasks.spawn(async move {
                    // One that asks is enough; the others' trouble is the same.
                    let Ok(_one) = slot.asking.try_lock() else { return };
                    match would_serve(earlier).await {
                        true => slot.roll_back_from(number, why).await,
                        false => tracing::warn!(
                            transport = %slot.name, generation = number, code = %why.code, reason = %why.reason,
                            "the new generation is in trouble, and so would the earlier one be: it stays"
                        ),
                    }
                });
            }
        }
    }

    async fn roll_back_from(self: &Arc<Self>, number: u32, why: Why) {
        if let Err(error) = self.go_back(Some(number), why, Cause::Automatic).await {
            tracing::error!(transport = %self.name, generation = number, code = error.code().as_str(), %error, "a generation that fails couldn't be rolled back");
        }
    }

    /// A generation has passed: it is what a restart may go back to.
    pub(super) fn confirmed(&self, number: u32) {
        let current = self.current();
        if current.number == number {
            tracing::info!(transport = %self.name, generation = number, digest = current.recipe.plugin.digest(), "the new generation has passed its probation");
            self.memory.good(&self.name, &current.recipe.plugin);
        }
    }
}

/// Trapped, timed out and broken contracts are counted as lost instances; what the peer or the host asked for says nothing.
fn says_something_of_the_plugin(error: &CallError) -> bool {
    match error.kind {
        ErrorKind::Unavailable => error.fault.code != Code::PLUGIN_BUSY.as_str(),
        ErrorKind::InvalidConfig | ErrorKind::Denied | ErrorKind::Unsupported | ErrorKind::Internal => true,
        ErrorKind::Trapped
        | ErrorKind::TimedOut
        | ErrorKind::Contract
        | ErrorKind::Throttled
        | ErrorKind::Fenced
        | ErrorKind::Cancelled => false,
    }
}

/// Whether an earlier generation would serve if it were live.
async fn would_serve(earlier: Recipe) -> bool {
    let report = earlier.probe().await;
    report.is_ok_and(|report| report.health != Health::Down)
}

/// Notes each instance that is lost.
async fn losses(slot: Weak<Shared>, generation: Arc<Generation>) {
    let mut losses = generation.served.losses();
    let mut known = 0;
    while losses.changed().await.is_ok() {
        let (count, why) = {
            let lost = losses.borrow_and_update();
            (lost.count, lost.last.as_ref().map(|fault| Why::new(&fault.code, &fault.reason)))
        };
        let fresh = count.saturating_sub(known).min(LOSSES_AT_ONCE_MAX);
        known = count;
        let (Some(why), Some(slot)) = (why, slot.upgrade()) else { return };
        let decision = {
            let mut life = slot.life.lock();
            // What was lost at once is judged at once: the last word counts.
            (0..fresh)
                .map(|_| life.lost(generation.number, &why, clock::now()))
                .last()
                .unwrap_or(ProbationDecision::Stay)
        };
        slot.act(generation.number, decision);
    }
}

/// Asks how a generation is until its probation is over.
async fn trial(slot: Weak<Shared>, generation: Arc<Generation>) {
    let number = generation.number;
    loop {
        let Some(left) = slot.upgrade().and_then(|slot| slot.trial_left(number)) else { return };
        tokio::time::sleep(left.min(HEALTH_EVERY)).await;
        let report = generation.served.health().await;
        let Some(slot) = slot.upgrade() else { return };
        let (is_down, detail) = (report.health == Health::Down, report.detail.unwrap_or_default());
        let (heard, passed) = {
            let (mut life, now) = (slot.life.lock(), clock::now());
            (life.health(number, is_down, &detail, now), life.tick(now))
        };
        slot.act(number, heard);
        slot.act(number, passed);
    }
}
