//! The one outstanding commit and its fate. After a failure the shard record tells whether it went in; until it is known,
//! nothing else is committed, and callers hear what is wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use waybill_core::port::store::StoreError;
use waybill_core::saga::records::{SagaCommit, SagaShardRecord};
use waybill_core::saga::shard::Resolution;

use super::actor::{Actor, End};

/// Pause before the store is asked again after it failed.
const TROUBLE_PAUSE: Duration = Duration::from_millis(100);

/// What the store said.
pub(super) enum Event {
    Committed {
        result: Result<(), StoreError>,
        size: CommitSize,
    },
    /// The shard record after a failed commit.
    Read(Result<SagaShardRecord, StoreError>),
    BarrierCommitted(Result<(), StoreError>),
    /// The pause after a commit that was too large is over.
    Paused,
}

pub(super) type Pending = Pin<Box<dyn Future<Output = Event> + Send>>;

/// What a commit holds, for metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitSize {
    /// Sagas that moved.
    pub sagas: usize,
    /// Rows written or removed.
    pub rows: usize,
}

impl CommitSize {
    fn of(commit: &SagaCommit) -> Self {
        Self { sagas: commit.journal.len(), rows: commit.writes.len() }
    }
}

impl Actor {
    pub(super) fn send_commit(&mut self, commit: SagaCommit) {
        let store = Arc::clone(&self.shared.store);
        let size = CommitSize::of(&commit);
        self.knocks = !commit.messages.is_empty();
        self.commit_began = Instant::now();
        self.pending =
            Some(Box::pin(async move { Event::Committed { result: store.commit_sagas(commit).await, size } }));
    }

    fn read_record(&mut self, after: Duration) {
        let store = Arc::clone(&self.shared.store);
        let shard = self.shard.shard();
        self.pending = Some(Box::pin(async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            Event::Read(store.saga_shard(shard).await)
        }));
    }

    pub(super) fn take_event(&mut self, event: Event) -> Option<End> {
        if std::mem::take(&mut self.knocks) {
            // Also when it failed: it may have gone in.
            self.shared.context.door.ring();
            self.shared.outbox.iter().for_each(crate::shard::ShardHandle::knock);
        }
        match event {
            Event::Committed { result: Ok(()), size } => {
                self.shared.meter.commit(self.commit_began.elapsed(), size);
                self.shard.committed();
                self.publish();
                self.note_trouble(None);
            }
            // Nothing was written, so there is nothing to find out.
            Event::Committed { result: Err(error @ StoreError::TooLarge), .. } => {
                self.shared.meter.commit_failed(error.code());
                match self.shard.commit_too_large() {
                    Some(saga) => tracing::error!(
                        %saga,
                        code = error.code(),
                        "a saga is more than the store takes at once and stands still: raise store.memtable and start again"
                    ),
                    None => tracing::warn!(code = error.code(), "a commit of sagas was too large and goes in parts"),
                }
                self.pending = Some(Box::pin(async {
                    sleep(TROUBLE_PAUSE).await;
                    Event::Paused
                }));
            }
            Event::Committed { result: Err(error), .. } => {
                self.shared.meter.commit_failed(error.code());
                self.shard.commit_failed();
                if matches!(error, StoreError::Conflict(_) | StoreError::Exists(_)) {
                    tracing::debug!(code = error.code(), %error, "a commit of sagas was refused");
                } else {
                    tracing::warn!(code = error.code(), %error, "the outcome of a commit of sagas isn't known");
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
            Event::Paused => {}
        }
        None
    }

    fn resolve(&mut self, record: &SagaShardRecord) -> Option<End> {
        match self.shard.resolve(record, rand::random()) {
            Resolution::Lost => return Some(End::Lost),
            Resolution::WentBack(error) => {
                self.abandon(&error);
                return Some(End::WentBack(error));
            }
            Resolution::Applied | Resolution::NotApplied => {
                self.note_trouble(None);
                self.publish();
            }
            Resolution::Barrier(barrier) => {
                let store = Arc::clone(&self.shared.store);
                self.pending =
                    Some(Box::pin(async move { Event::BarrierCommitted(store.commit_sagas(*barrier).await) }));
            }
        }
        None
    }
}

/// The output of a future that may not be there; without one it never ends.
pub(super) async fn ready_or_never(slot: &mut Option<Pending>) -> Event {
    match slot {
        Some(future) => future.as_mut().await,
        None => std::future::pending().await,
    }
}
