//! What a commit of streams asks of the store, and what its fate means.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use waybill_core::code::Code;
use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::port::store::StoreError;
use waybill_core::port::trace::Span;
use waybill_core::streams::owner::{self, Applied, StreamOwner};
use waybill_core::streams::records::{StreamCommit, StreamCommitted, StreamShardRecord, StreamWrite};

use super::actor::Actor;
use super::relay::RelayDriver;
use crate::commit::{Driven, Flight};
use crate::spans;

impl Driven for Actor {
    type Writer = StreamOwner;
    const OF: &'static str = "streams";

    fn flight(&mut self) -> &mut Flight<StreamShardRecord> {
        &mut self.flight
    }

    /// Heads that moved are told beside the answer: to whoever drives the commit they are a conflict.
    fn commit(&self, commit: StreamCommit) -> BoxFuture<'static, Result<(), StoreError>> {
        let (store, moved) = (Arc::clone(&self.shared.store), Arc::clone(&self.moved));
        async move {
            match store.commit_streams(commit).await? {
                StreamCommitted::Applied => Ok(()),
                StreamCommitted::Moved(heads) => {
                    *moved.lock() = heads;
                    Err(StoreError::Conflict("a stream was appended to meanwhile".to_owned()))
                }
            }
        }
        .boxed()
    }

    fn record(&self) -> BoxFuture<'static, Result<StreamShardRecord, StoreError>> {
        let (store, shard) = (Arc::clone(&self.shared.store), self.owner.shard());
        async move { store.stream_shard(shard).await }.boxed()
    }

    fn follow(&mut self, answer: StoreAnswer<StreamShardRecord>) -> Step<StreamOwner> {
        let moved = std::mem::take(&mut *self.moved.lock());
        if !moved.is_empty() {
            // The store said that nothing was written: there is nothing to find out.
            self.owner.moved(moved);
            return Step::NotApplied(());
        }
        owner::take_answer(&mut self.owner, answer, self.shared.context.clock.now(), rand::random)
    }

    /// Of the appends that came straight here: who left others on the doorstep has spans of its own for them.
    fn spans(&self, commit: &StreamCommit) -> Vec<Box<dyn Span>> {
        let Some(tracer) = &self.shared.context.config.tracer else { return Vec::new() };
        let contexts = self.owner.committing().filter_map(|append| append.traceparent.as_deref());
        spans::commit(tracer, Self::OF, contexts, || named(commit)).into_iter().collect()
    }

    fn begins(&mut self, _commit: &StreamCommit) {}

    fn answered(&mut self) {}

    fn count_commit(&self, took: Duration) {
        self.shared.meter.commit(took);
    }

    fn count_failure(&self, error: &StoreError) {
        self.shared.meter.commit_failed(error.code());
    }

    fn applied(&mut self, applied: Applied) {
        self.callers.answer(applied.answers);
        self.upkeep.applied(&self.shared.meter);
        self.committed_relays();
        if let Some(published) = applied.published {
            self.upkeep.published(&published, &self.shared.settings());
            self.shared.rings.publish(&published);
        }
    }

    fn not_applied(&mut self, (): ()) {
        self.door.look_again();
        self.upkeep.not_applied();
        self.relays.iter_mut().for_each(RelayDriver::undone);
    }

    fn too_large(&mut self, (): ()) {
        self.not_applied(());
        tracing::warn!(code = Code::STORAGE_TOO_LARGE.as_str(), "a commit of streams was too large and goes in parts");
    }

    /// Nobody is told yet: the shard's record will say whether it went in, and callers wait for that as long as they would anyway.
    fn abandon(&mut self, _error: &StoreError) {}
}

/// How many events a commit names in the feed.
fn named(commit: &StreamCommit) -> usize {
    let records = commit.writes.iter().filter_map(|write| match write {
        StreamWrite::PutFeed(record) => Some(record),
        _ => None,
    });
    let events = records.flat_map(|record| &record.parts).map(|part| part.to.saturating_sub(part.from) + 1);
    usize::try_from(events.sum::<u64>()).unwrap_or(usize::MAX)
}
