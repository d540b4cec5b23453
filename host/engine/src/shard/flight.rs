//! The one outstanding commit and its fate. After a failure the shard record tells whether it went in; until it is
//! known, nothing else is committed, and callers hear what is wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use waybill_core::outbox::owner::Resolution;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::{OwnerCommit, StoreError, Write};

use super::actor::{Actor, End};

/// Pause before the store is asked again after it failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// What the store said.
pub(super) enum Event {
    Committed {
        result: Result<(), StoreError>,
        writes: usize,
    },
    /// The shard record after a failed commit.
    Read(Result<ShardRecord, StoreError>),
    BarrierCommitted(Result<(), StoreError>),
}

pub(super) type Pending = Pin<Box<dyn Future<Output = Event> + Send>>;

impl Actor {
    pub(super) fn send_commit(&mut self, commit: OwnerCommit) {
        let store = Arc::clone(&self.context.stores.owner);
        let writes = commit.writes.len();
        self.forwards = commit.writes.iter().any(|write| matches!(write, Write::ForwardDoor { .. }));
        self.commit_began = Instant::now();
        self.context.commits.began(self.owner.shard());
        self.pending = Some(Box::pin(async move { Event::Committed { result: store.commit(commit).await, writes } }));
    }

    fn read_record(&mut self, after: Duration) {
        let store = Arc::clone(&self.context.stores.owner);
        let shard = self.owner.shard();
        self.pending = Some(Box::pin(async move {
            sleep(after).await;
            Event::Read(store.shard(shard).await)
        }));
    }

    pub(super) fn take_event(&mut self, event: Event) -> Option<End> {
        if std::mem::take(&mut self.forwards) {
            // It may have gone in: the doorsteps that messages were carried to are looked at.
            self.context.door.ring();
        }
        self.context.commits.ended(self.owner.shard());
        match event {
            Event::Committed { result: Ok(()), writes } => {
                self.context.meter.commit(self.commit_began.elapsed(), writes);
                let applied = self.owner.committed(self.now());
                self.note_trouble(None);
                self.answer(applied);
            }
            Event::Committed { result: Err(error), .. } => {
                self.context.meter.commit_failed(error.code());
                self.owner.commit_failed();
                let proved = matches!(error, StoreError::Conflict(_) | StoreError::Exists(_));
                if proved {
                    tracing::debug!(code = error.code(), %error, "a commit was refused");
                } else {
                    tracing::warn!(code = error.code(), %error, "the outcome of a commit isn't known");
                    self.abandon(&error);
                    self.note_trouble(Some(error));
                }
                self.read_record(Duration::ZERO);
            }
            Event::BarrierCommitted(result) => {
                if let Err(error) = &result {
                    tracing::debug!(code = error.code(), %error, "a barrier failed");
                    self.note_trouble(Some(error.clone()));
                }
                self.read_record(if result.is_ok() { Duration::ZERO } else { TROUBLE_PAUSE });
            }
            Event::Read(Err(error)) => {
                self.abandon(&error);
                self.note_trouble(Some(error));
                self.read_record(TROUBLE_PAUSE);
            }
            Event::Read(Ok(record)) => return self.resolve(&record),
        }
        None
    }

    fn resolve(&mut self, record: &ShardRecord) -> Option<End> {
        match self.owner.resolve(record, self.now(), rand::random()) {
            Resolution::Lost => {
                self.abandon(&StoreError::Unavailable("another host took the shard over".to_owned()));
                return Some(End::Lost);
            }
            Resolution::WentBack(error) => {
                self.abandon(&error);
                return Some(End::WentBack(error));
            }
            Resolution::Applied(applied) => {
                self.note_trouble(None);
                self.answer(applied);
            }
            Resolution::NotApplied => {
                self.note_trouble(None);
                self.door.look_again();
                self.look_up_again();
            }
            Resolution::Barrier(barrier) => {
                let store = Arc::clone(&self.context.stores.owner);
                self.pending = Some(Box::pin(async move { Event::BarrierCommitted(store.commit(*barrier).await) }));
            }
        }
        None
    }
}
