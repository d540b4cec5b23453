//! The fate of the one outstanding commit: what follows each word of the store.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same. One thing is under way at most: the commit, the
//! read of the shard record after it failed, or a barrier. Whoever drives an owner gives each word to [`take_word`] and does what
//! it answers before anything else is committed.

use super::door_watch::DoorWatch;
use super::owner::{Applied, DirectRequest, Owner, Resolution, Ticket};
use super::records::ShardRecord;
use crate::port::store::{OwnerCommit, StoreError};
use crate::time::Now;

/// What the store said of what was under way.
#[derive(Debug)]
pub enum Word {
    /// Of the commit.
    Committed(Result<(), StoreError>),
    /// The shard record, asked for after a commit or a barrier.
    Record(Result<ShardRecord, StoreError>),
    /// Of a barrier. Whether it went in, the record tells.
    Barrier(Result<(), StoreError>),
}

/// What follows.
#[derive(Debug)]
pub enum Step {
    /// The commit is in: who waits for it is told. Nothing is under way.
    Applied(Applied),
    /// The commit is not in and never will be; its work is queued again. These requests have callers' ids, which are to be looked
    /// up again, because one may have been taken meanwhile. Nothing is under way.
    NotApplied(Vec<DirectRequest>),
    /// The store takes no commit as large: nothing of it was written, and its work is queued again, to go in smaller ones after a
    /// pause. Nothing is under way.
    TooLarge {
        /// Requests that alone are too large. They are out of the queue and are told so.
        refused: Vec<Ticket>,
        /// As after [`Step::NotApplied`].
        recalled: Vec<DirectRequest>,
    },
    /// The shard record is to be read.
    Read(Read),
    /// This is to be committed.
    Barrier(Box<OwnerCommit>),
    /// Another owner took over. Who waits for the commit is told that its outcome isn't known, and the owner is dropped.
    Lost,
    /// The store lost what it had. The same, and nobody of this process goes on with it.
    WentBack(StoreError),
}

/// How the shard record is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What is wrong with the store; none = nothing, as far as is known.
    pub trouble: Option<StoreError>,
    /// Who waits for the commit is told that its outcome isn't known ([`Owner::abandon_requests`]).
    pub abandon: bool,
    /// The store gets a pause first.
    pub pause: bool,
}

/// Whether an error of a commit proves that nothing of it was applied.
pub fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(_) | StoreError::Exists(_) | StoreError::TooLarge)
}

/// Takes a word. `nonce` gives a fresh and random number; it is asked only when a barrier may follow.
pub fn take_word<W>(
    owner: &mut Owner,
    door: &mut DoorWatch<W>,
    word: Word,
    now: Now,
    nonce: impl FnOnce() -> u64,
) -> Step {
    match word {
        Word::Committed(Ok(())) => Step::Applied(owner.committed(now)),
        Word::Committed(Err(StoreError::TooLarge)) => {
            let refused = owner.too_large(now);
            door.look_again();
            Step::TooLarge { refused, recalled: owner.recall_identified() }
        }
        Word::Committed(Err(error)) => {
            owner.commit_failed();
            let is_unknown = !is_refusal(&error);
            Step::Read(Read { trouble: is_unknown.then_some(error), abandon: is_unknown, pause: false })
        }
        Word::Barrier(result) => {
            let trouble = result.err();
            Step::Read(Read { pause: trouble.is_some(), trouble, abandon: false })
        }
        Word::Record(Err(error)) => Step::Read(Read { trouble: Some(error), abandon: true, pause: true }),
        Word::Record(Ok(record)) => match owner.resolve(&record, now, nonce()) {
            Resolution::Applied(applied) => Step::Applied(applied),
            Resolution::NotApplied => {
                door.look_again();
                Step::NotApplied(owner.recall_identified())
            }
            Resolution::Barrier(barrier) => Step::Barrier(barrier),
            Resolution::Lost => Step::Lost,
            Resolution::WentBack(error) => Step::WentBack(error),
        },
    }
}
