//! What follows each answer of the store to a shard's owner, by the rules of every writer ([`crate::commit`]), and what of it the
//! doorstep has to know.

use super::door_watch::DoorWatch;
use super::owner::{Applied, DirectRequest, Owner, Resolution, Ticket};
use super::records::ShardRecord;
use crate::commit::{self, Step, StoreAnswer, Writer};
use crate::port::store::OwnerCommit;
use crate::time::Now;

/// What follows a commit that the store refused as too large.
#[derive(Debug)]
pub struct TooLarge {
    /// Requests that alone are too large. They are out of the queue and are told so.
    pub refused: Vec<Ticket>,
    /// Requests with callers' ids, to be looked up again, as after [`Step::NotApplied`].
    pub recalled: Vec<DirectRequest>,
}

impl Writer for Owner {
    type Commit = OwnerCommit;
    type Record = ShardRecord;
    type Applied = Applied;
    /// Requests with callers' ids, which are to be looked up again, because one may have been taken meanwhile.
    type NotApplied = Vec<DirectRequest>;
    type TooLarge = TooLarge;

    fn committed(&mut self, now: Now) -> Applied {
        Owner::committed(self, now)
    }

    fn too_large(&mut self, now: Now) -> TooLarge {
        TooLarge { refused: Owner::too_large(self, now), recalled: self.recall_identified() }
    }

    fn commit_failed(&mut self) {
        Owner::commit_failed(self);
    }

    fn resolve(&mut self, stored: &ShardRecord, now: Now, nonce: u64) -> Step<Self> {
        match Owner::resolve(self, stored, now, nonce) {
            Resolution::Applied(applied) => Step::Applied(applied),
            Resolution::NotApplied => Step::NotApplied(self.recall_identified()),
            Resolution::Barrier(barrier) => Step::Barrier(barrier),
            Resolution::Lost => Step::Lost,
            Resolution::WentBack(error) => Step::WentBack(error),
        }
    }
}

/// [`commit::take_answer`] of an owner: after a commit that came to nothing, the doorstep is read again.
pub fn take_answer<W>(
    owner: &mut Owner,
    door: &mut DoorWatch<W>,
    answer: StoreAnswer<ShardRecord>,
    now: Now,
    nonce: impl FnOnce() -> u64,
) -> Step<Owner> {
    let step = commit::take_answer(owner, answer, now, nonce);
    if matches!(step, Step::NotApplied(_) | Step::TooLarge(_)) {
        door.look_again();
    }
    step
}
