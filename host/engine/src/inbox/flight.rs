//! What a commit of the inbox asks of the store, and what its fate means.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use waybill_core::code::Code;
use waybill_core::commit::{self, Step, StoreAnswer};
use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::owner::{InboxApplied, InboxOwner};
use waybill_core::inbox::records::{InboxCommit, InboxEnd, InboxRow, InboxShardRecord, InboxWrite};
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::Span;
use waybill_core::streams::joint::JointAppend;

use super::actor::Actor;
use super::settings::HomeSettings;
use crate::commit::{Driven, Flight};
use crate::shard::ShardHandle;
use crate::spans;

/// What a commit holds, for metrics, and whom it wakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitContent {
    /// Each with the time since its message was received.
    pub ended: Vec<(ConsumerName, InboxEnd, Duration)>,
    /// Code of each dead letter.
    pub dead: Vec<(ConsumerName, String)>,
    /// It leaves messages on the outbox's doorsteps.
    pub wakes_outbox: bool,
    /// Consumers whose dead letters leave a message, one each.
    pub dlq: Vec<ConsumerName>,
    /// Messages stored, each with the cause.
    pub stored: Vec<(ConsumerName, &'static str)>,
    /// Code of each failed attempt that is tried again.
    pub failed: Vec<(ConsumerName, String)>,
    /// It leaves something on the doorstep of sagas.
    pub wakes_sagas: bool,
    /// It leaves events on the doorsteps of these shards' streams.
    pub wakes_streams: Vec<ShardId>,
}

impl CommitContent {
    fn of(commit: &InboxCommit, home: &HomeSettings) -> Self {
        let ended = commit.done.iter().map(|done| {
            let took = done.processed_at.since(done.received_at);
            (done.consumer.clone(), done.end, took)
        });
        let dead = commit.writes.iter().filter_map(|write| match write {
            InboxWrite::PutDead(dead) => Some((dead.consumer.clone(), dead.code.clone())),
            _ => None,
        });
        let dead: Vec<(ConsumerName, String)> = dead.collect();
        let leaves = |name: &&ConsumerName| {
            home.consumers.iter().any(|consumer| consumer.name == **name && consumer.dlq_subject.is_some())
        };
        let stored = commit.writes.iter().filter_map(|write| match write {
            InboxWrite::PutRow(row) => Some((row.consumer.clone(), stored_because(row))),
            _ => None,
        });
        let failed = commit.writes.iter().filter_map(|write| match write {
            InboxWrite::PutRow(row) => row.last_error.as_ref().map(|error| (row.consumer.clone(), error.code.clone())),
            _ => None,
        });
        Self {
            ended: ended.collect(),
            dlq: dead.iter().map(|(consumer, _)| consumer).filter(leaves).cloned().collect(),
            dead,
            stored: stored.collect(),
            failed: failed.collect(),
            wakes_outbox: !commit.messages.is_empty(),
            wakes_sagas: !commit.sagas.is_empty(),
            wakes_streams: commit.events.list.iter().map(JointAppend::shard).collect(),
        }
    }
}

/// Whether it failed, or is stored before it was finished for its source's sake.
fn stored_because(row: &InboxRow) -> &'static str {
    match (row.attempts, &row.last_error) {
        (0, None) => "early",
        _ => "failed",
    }
}

impl Driven for Actor {
    type Writer = InboxOwner;
    const OF: &'static str = "inbox";

    fn flight(&mut self) -> &mut Flight<InboxShardRecord> {
        &mut self.flight
    }

    fn commit(&self, commit: InboxCommit) -> BoxFuture<'static, Result<(), StoreError>> {
        let store = Arc::clone(&self.shared.store);
        async move { store.commit_inbox(commit).await }.boxed()
    }

    fn record(&self) -> BoxFuture<'static, Result<InboxShardRecord, StoreError>> {
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        async move { store.inbox_shard(shard).await }.boxed()
    }

    fn follow(&mut self, answer: StoreAnswer<InboxShardRecord>) -> Step<InboxOwner> {
        commit::take_answer(&mut self.owner, answer, self.shared.context.clock.now(), rand::random)
    }

    fn spans(&self, commit: &InboxCommit) -> Vec<Box<dyn Span>> {
        let Some(tracer) = &self.shared.context.config.tracer else { return Vec::new() };
        spans::commit_that_leaves(tracer, Self::OF, &commit.messages, &commit.events)
    }

    fn begins(&mut self, commit: &InboxCommit) {
        self.content = CommitContent::of(commit, &self.home);
    }

    /// Whoever takes in what was left looks, also when nobody knows whether it was.
    fn answered(&mut self) {
        if self.content.wakes_outbox {
            self.shared.context.door.ring();
            self.shared.outbox.iter().for_each(ShardHandle::wake_door);
        }
        if let Some(sagas) = self.shared.sagas.as_ref().filter(|_| self.content.wakes_sagas) {
            sagas.wake_doors();
        }
        if let Some(streams) = &self.shared.streams {
            streams.wake_doors_of(self.content.wakes_streams.iter().copied());
        }
    }

    fn count_commit(&self, took: Duration) {
        self.shared.meter.commit(took);
    }

    fn count_failure(&self, error: &StoreError) {
        self.shared.meter.commit_failed(error.code());
    }

    fn applied(&mut self, applied: InboxApplied) {
        self.handle.set_age(self.owner.record().age);
        self.shared.meter.applied(&std::mem::take(&mut self.content));
        for dead in applied.requests {
            self.requests.done(dead, &self.owner);
        }
    }

    fn not_applied(&mut self, (): ()) {
        self.content = CommitContent::default();
    }

    fn too_large(&mut self, (): ()) {
        tracing::warn!(
            code = Code::STORAGE_TOO_LARGE.as_str(),
            "a commit of the inbox was too large and goes in parts"
        );
    }

    fn abandon(&mut self, error: &StoreError) {
        self.requests.abandon(error);
    }
}
