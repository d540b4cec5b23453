//! What follows each answer of the store to whoever writes a shard.
//!
//! A writer has one thing under way at most: a commit, the read of the shard record after one that failed, or a barrier. Its driver
//! gives each answer to [`take_answer`] and does what follows before anything else is committed. Pure, so that the engine and the
//! models go by the same rules.

use crate::port::store::StoreError;
use crate::streams::exact::ExactRefusal;
use crate::time::Now;

/// A state machine whose changes are committed one after another, each guarded by the shard record.
pub trait Writer: Sized {
    /// What the store is asked to do.
    type Commit;
    /// The shard record: its nonce tells whose commit went in.
    type Record: 'static;
    /// What others are told after a commit went in.
    type Applied;
    /// What has to be done anew after one that never went in.
    type NotApplied;
    /// The same after one that the store refused as too large.
    type TooLarge;

    /// The commit that is out went in.
    fn committed(&mut self, now: Now) -> Self::Applied;
    /// The store refused the commit that is out as too large: nothing of it was written, and it is cut.
    fn too_large(&mut self, now: Now) -> Self::TooLarge;
    /// Events of the commit that is out can't be appended where they were to be, each with its place among the commit's appends. Nothing
    /// was written: who left them has failed, and the rest goes into the next commit. None = it has no such events, so the answer says
    /// nothing of its commit.
    fn refused(&mut self, _: &[(usize, ExactRefusal)], _: Now) -> Option<Self::NotApplied> {
        None
    }
    /// The commit that is out failed; [`Writer::resolve`] follows.
    fn commit_failed(&mut self) {}
    /// Goes on after a failed commit with the shard record as it was just read. `nonce` is fresh and random. It answers no
    /// [`Step::Read`] and no [`Step::TooLarge`].
    fn resolve(&mut self, stored: &Self::Record, now: Now, nonce: u64) -> Step<Self>;
}

/// What the store said of what was under way.
#[derive(Debug)]
pub enum StoreAnswer<R> {
    Committed(Result<(), StoreError>),
    /// The shard record, asked for after a commit or a barrier.
    Record(Result<R, StoreError>),
    /// Of a barrier. Whether it went in, the record tells.
    Barrier(Result<(), StoreError>),
}

/// What follows an answer.
#[derive(Debug)]
pub enum Step<W: Writer> {
    /// The commit is in: who waits for it is told. Nothing is under way.
    Applied(W::Applied),
    /// The commit is not in and never will be; its work is queued again. Nothing is under way.
    NotApplied(W::NotApplied),
    /// Nothing of the commit was written; its work is queued again, to go in smaller ones after a pause. Nothing is under way.
    TooLarge(W::TooLarge),
    /// The shard record is to be read.
    Read(Read),
    /// This empty commit with the same guard is to be made, and the record read again: when it goes in, what is late never does.
    Barrier(Box<W::Commit>),
    /// Another writer took over. Who waits for the commit is told that its outcome isn't known, and this writer is dropped.
    Lost,
    /// The store lost what it had ([`StoreError::WentBack`]). The same, and nobody of this process goes on with the shard.
    WentBack(StoreError),
}

/// How the shard record is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What is wrong with the store; none = nothing, as far as is known.
    pub trouble: Option<StoreError>,
    /// Who waits for the commit is told that its outcome isn't known.
    pub abandon: bool,
    /// The store gets a pause first.
    pub pause: bool,
}

/// Whether an error of a commit proves that nothing of it was applied.
pub fn is_refusal(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(_) | StoreError::Exists(_) | StoreError::TooLarge | StoreError::Appends(_))
}

/// Takes an answer of the store. `nonce` gives a fresh and random number; it is asked only when a barrier may follow.
pub fn take_answer<W: Writer>(
    writer: &mut W,
    answer: StoreAnswer<W::Record>,
    now: Now,
    nonce: impl FnOnce() -> u64,
) -> Step<W> {
    match answer {
        StoreAnswer::Committed(Ok(())) => Step::Applied(writer.committed(now)),
        StoreAnswer::Committed(Err(StoreError::TooLarge)) => Step::TooLarge(writer.too_large(now)),
        StoreAnswer::Committed(Err(error)) => {
            if let StoreError::Appends(refused) = &error
                && let Some(again) = writer.refused(refused, now)
            {
                return Step::NotApplied(again);
            }
            writer.commit_failed();
            let is_unknown = !is_refusal(&error);
            Step::Read(Read { trouble: is_unknown.then_some(error), abandon: is_unknown, pause: false })
        }
        StoreAnswer::Barrier(result) => {
            let trouble = result.err();
            Step::Read(Read { pause: trouble.is_some(), trouble, abandon: false })
        }
        StoreAnswer::Record(Err(error)) => Step::Read(Read { trouble: Some(error), abandon: true, pause: true }),
        StoreAnswer::Record(Ok(record)) => writer.resolve(&record, now, nonce()),
    }
}
