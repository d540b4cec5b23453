//! The one outstanding commit: what is asked of the store, and what its word means to callers ([`commit_fate`] says what follows).
//! After a failure the shard record tells whether it went in; until it is known, nothing else is committed, and callers hear what
//! is wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use waybill_core::outbox::commit_fate::{self, Read, Step, Word};
use waybill_core::port::store::{OwnerCommit, StoreError, Write};

use super::actor::{Actor, End};

/// Pause before the store is asked again after it failed or refused a commit as too large.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// What the store said.
pub(super) struct Event {
    word: Word,
    /// Changes in the commit.
    writes: usize,
}

pub(super) type Pending = Pin<Box<dyn Future<Output = Event> + Send>>;

impl Actor {
    pub(super) fn send_commit(&mut self, commit: OwnerCommit) {
        let store = Arc::clone(&self.context.stores.owner);
        let writes = commit.writes.len();
        self.forwards = commit.writes.iter().any(|write| matches!(write, Write::ForwardDoor { .. }));
        self.commit_began = Instant::now();
        self.context.commits.began(self.owner.shard());
        self.pending =
            Some(Box::pin(async move { Event { word: Word::Committed(store.commit(commit).await), writes } }));
    }

    fn read_record(&mut self, after: Duration) {
        let store = Arc::clone(&self.context.stores.owner);
        let shard = self.owner.shard();
        self.pending = Some(Box::pin(async move {
            sleep(after).await;
            Event { word: Word::Record(store.shard(shard).await), writes: 0 }
        }));
    }

    fn send_barrier(&mut self, barrier: OwnerCommit) {
        let store = Arc::clone(&self.context.stores.owner);
        self.pending =
            Some(Box::pin(async move { Event { word: Word::Barrier(store.commit(barrier).await), writes: 0 } }));
    }

    pub(super) fn take_event(&mut self, event: Event) -> Option<End> {
        if std::mem::take(&mut self.forwards) {
            // It may have gone in: the doorsteps that messages were carried to are looked at.
            self.context.door.ring();
        }
        self.context.commits.ended(self.owner.shard());
        self.note_word(&event);
        let now = self.now();
        match commit_fate::take_word(&mut self.owner, &mut self.door, event.word, now, rand::random) {
            Step::Applied(applied) => {
                self.note_trouble(None);
                self.answer(applied);
            }
            Step::NotApplied(recalled) => {
                self.note_trouble(None);
                self.look_up_again(recalled);
            }
            Step::TooLarge { refused, recalled } => {
                self.refuse_too_large(&refused);
                self.look_up_again(recalled);
                self.prepare_again_at = Some(Instant::now() + TROUBLE_PAUSE);
            }
            Step::Read(Read { trouble, abandon, pause }) => {
                if let Some(error) = trouble {
                    if abandon {
                        self.abandon(&error);
                    }
                    self.note_trouble(Some(error));
                }
                self.read_record(if pause { TROUBLE_PAUSE } else { Duration::ZERO });
            }
            Step::Barrier(barrier) => self.send_barrier(*barrier),
            Step::Lost => {
                self.abandon(&StoreError::Unavailable("another host took the shard over".to_owned()));
                return Some(End::Lost);
            }
            Step::WentBack(error) => {
                self.abandon(&error);
                return Some(End::WentBack(error));
            }
        }
        None
    }

    /// Counts and logs what the store said.
    fn note_word(&self, event: &Event) {
        match &event.word {
            Word::Committed(Ok(())) => self.context.meter.commit(self.commit_began.elapsed(), event.writes),
            Word::Committed(Err(error)) => {
                self.context.meter.commit_failed(error.code());
                if matches!(error, StoreError::TooLarge) {
                    tracing::warn!(
                        code = error.code(),
                        writes = event.writes,
                        "the store takes no commit as large: it is cut"
                    );
                } else if commit_fate::is_refusal(error) {
                    tracing::debug!(code = error.code(), %error, "a commit was refused");
                } else {
                    tracing::warn!(code = error.code(), %error, "the outcome of a commit isn't known");
                }
            }
            Word::Barrier(Err(error)) => tracing::debug!(code = error.code(), %error, "a barrier failed"),
            Word::Barrier(Ok(())) | Word::Record(_) => {}
        }
    }
}
