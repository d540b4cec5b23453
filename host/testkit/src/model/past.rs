//! A store that is put back to what it was under running hosts: a disk's snapshot, a copy of the folder, a database server restored.
//! Every owner that had committed since has to notice and stop. Nothing else can be asked of such a run.

use super::host::{Host, Role};
use super::store::{ModelStore, PutBack};
use super::world::World;

/// When the store is kept, and when that is put back, in steps.
const KEPT_AT: u64 = 500;
const PUT_BACK_AT: u64 = 700;
/// How long owners get to notice.
const NOTICED_BY: u64 = 1_200;

/// What was kept, and what came of it.
pub(super) struct Past<S> {
    kept: Option<PutBack<S>>,
    /// The store went back.
    pub is_back: bool,
    /// Owners that didn't notice.
    pub went_on: Vec<String>,
}

impl<S> Default for Past<S> {
    fn default() -> Self {
        Self { kept: None, is_back: false, went_on: Vec::new() }
    }
}

impl<S: ModelStore> World<S> {
    pub(super) fn go_back(&mut self) {
        if !self.setup.goes_back {
            return;
        }
        if self.now == KEPT_AT {
            self.past.kept = self.store.keep();
        } else if self.now >= PUT_BACK_AT
            && let Some(kept) = self.past.kept.take()
        {
            self.store.put_back(kept);
            self.past.is_back = true;
            self.note(|_| "the store went back".to_owned());
            for actor in self.hosts.iter_mut().flat_map(|host| &mut host.actors) {
                let stored = self.store.shard(actor.shard);
                if let Role::Owning(driver) = &mut actor.role {
                    let known = driver.owner.record();
                    driver.is_betrayed = (stored.token, stored.beat) < (known.token, known.beat);
                }
            }
        }
    }

    /// Whether the run goes on.
    pub(super) fn goes_on(&self) -> bool {
        if self.past.is_back { self.now < NOTICED_BY } else { self.ledger.bad.is_empty() }
    }

    /// An owner found out what became of a commit and goes on.
    pub(super) fn went_on(&mut self, host: &Host, is_betrayed: bool) {
        if is_betrayed {
            let now = self.now_at(host).mono;
            self.past.went_on.push(format!("at {now:?} an owner went on with a store that had lost commits"));
        }
    }
}
