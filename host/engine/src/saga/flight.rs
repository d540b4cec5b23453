//! What a commit of sagas asks of the store, and what its fate means.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use waybill_core::commit::{self, Step, StoreAnswer};
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::Span;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::{SagaCommit, SagaShardRecord};
use waybill_core::saga::shard::SagaShard;
use waybill_core::streams::joint::JointAppend;

use super::actor::Actor;
use crate::commit::{Driven, Flight};
use crate::shard::ShardHandle;
use crate::spans;

/// What a commit holds, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommitSize {
    pub sagas: usize,
    /// Rows written or removed.
    pub rows: usize,
}

impl Driven for Actor {
    type Writer = SagaShard;
    const OF: &'static str = "sagas";

    fn flight(&mut self) -> &mut Flight<SagaShardRecord> {
        &mut self.flight
    }

    fn commit(&self, commit: SagaCommit) -> BoxFuture<'static, Result<(), StoreError>> {
        let store = Arc::clone(&self.shared.store);
        async move { store.commit_sagas(commit).await }.boxed()
    }

    fn record(&self) -> BoxFuture<'static, Result<SagaShardRecord, StoreError>> {
        let (store, shard) = (Arc::clone(&self.shared.store), self.shard.shard());
        async move { store.saga_shard(shard).await }.boxed()
    }

    fn follow(&mut self, answer: StoreAnswer<SagaShardRecord>) -> Step<SagaShard> {
        commit::take_answer(&mut self.shard, answer, self.shared.context.clock.now(), rand::random)
    }

    fn spans(&self, commit: &SagaCommit) -> Vec<Box<dyn Span>> {
        let Some(tracer) = &self.shared.context.config.tracer else { return Vec::new() };
        spans::commit_that_leaves(tracer, Self::OF, &commit.messages, &commit.events)
    }

    fn begins(&mut self, commit: &SagaCommit) {
        self.size = CommitSize { sagas: commit.journal.len(), rows: commit.writes.len() };
        self.wakes_door = !commit.messages.is_empty();
        self.wakes_streams = commit.events.list.iter().map(JointAppend::shard).collect();
    }

    /// Whoever takes in what was left looks, also when nobody knows whether it was.
    fn answered(&mut self) {
        if std::mem::take(&mut self.wakes_door) {
            self.shared.context.door.ring();
            self.shared.outbox.iter().for_each(ShardHandle::wake_door);
        }
        let left_at = std::mem::take(&mut self.wakes_streams);
        if let Some(streams) = &self.shared.streams {
            streams.wake_doors_of(left_at);
        }
    }

    fn count_commit(&self, took: Duration) {
        self.shared.meter.commit(took, self.size);
    }

    fn count_failure(&self, error: &StoreError) {
        self.shared.meter.commit_failed(error.code());
    }

    fn applied(&mut self, (): ()) {
        self.publish();
    }

    fn not_applied(&mut self, (): ()) {
        self.publish();
    }

    fn too_large(&mut self, stopped: Option<SagaKey>) {
        match stopped {
            Some(saga) => tracing::error!(
                %saga,
                code = StoreError::TooLarge.code().as_str(),
                "a saga is more than the store takes at once and stands still: raise store.memtable and start again"
            ),
            None => tracing::warn!(code = "STORAGE.TOO_LARGE", "a commit of sagas was too large and goes in parts"),
        }
    }

    /// Everybody who waits: memory runs ahead, so what was asked for can't be taken back, whether or not it is in this commit.
    fn abandon(&mut self, error: &StoreError) {
        for (_, reply) in self.callers.drain() {
            let _gone = reply.send(Err(SagaError::OutcomeUnknown(error.clone())));
        }
    }
}
