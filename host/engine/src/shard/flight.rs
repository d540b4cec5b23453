//! What a commit of an owner asks of the store, and what its fate means to callers.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use waybill_core::annotation::Annotation;
use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::outbox::commit_fate::{self, TooLarge};
use waybill_core::outbox::owner::{Applied, DirectRequest, Owner};
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::{OwnerCommit, StoreError, Write};
use waybill_core::port::trace::Span;

use super::actor::Actor;
use super::callers::Caller;
use crate::commit::{Driven, Flight};
use crate::spans;

impl Driven for Actor {
    type Writer = Owner;
    const OF: &'static str = "outbox";

    fn flight(&mut self) -> &mut Flight<ShardRecord> {
        &mut self.flight
    }

    fn commit(&self, commit: OwnerCommit) -> BoxFuture<'static, Result<(), StoreError>> {
        let store = Arc::clone(&self.context.stores.owner);
        async move { store.commit(commit).await }.boxed()
    }

    fn record(&self) -> BoxFuture<'static, Result<ShardRecord, StoreError>> {
        let (store, shard) = (Arc::clone(&self.context.stores.owner), self.owner.shard());
        async move { store.shard(shard).await }.boxed()
    }

    fn follow(&mut self, answer: StoreAnswer<ShardRecord>) -> Step<Owner> {
        let now = self.now();
        commit_fate::take_answer(&mut self.owner, &mut self.door, answer, now, rand::random)
    }

    fn spans(&self, commit: &OwnerCommit) -> Vec<Box<dyn Span>> {
        let Some(tracer) = &self.context.config.tracer else { return Vec::new() };
        let segments = commit.writes.iter().filter_map(|write| match write {
            Write::PutSegment(segment) => Some(segment),
            _ => None,
        });
        let messages = segments.flat_map(|segment| &segment.entries).map(|entry| &*entry.message);
        let contexts = messages.clone().filter_map(|message| message.annotation(Annotation::Traceparent));
        spans::commit(tracer, Self::OF, contexts, || messages.count()).into_iter().collect()
    }

    fn begins(&mut self, commit: &OwnerCommit) {
        self.writes = commit.writes.len();
        self.tells_fates |= commit.writes.iter().any(|write| matches!(write, Write::AddFates { .. }));
        self.forwards = commit.writes.iter().any(|write| matches!(write, Write::ForwardDoor { .. }));
    }

    /// The doorsteps that messages were carried to are looked at.
    fn answered(&mut self) {
        if std::mem::take(&mut self.forwards) {
            self.context.door.ring();
        }
    }

    fn count_commit(&self, took: Duration) {
        self.context.meter.commit(took, self.writes);
    }

    fn count_failure(&self, error: &StoreError) {
        self.context.meter.commit_failed(error.code());
    }

    fn applied(&mut self, applied: Applied) {
        if std::mem::take(&mut self.tells_fates) {
            self.context.tell_fates();
        }
        self.answer(applied);
    }

    fn not_applied(&mut self, recalled: Vec<DirectRequest>) {
        self.look_up_again(recalled);
    }

    fn too_large(&mut self, TooLarge { refused, recalled }: TooLarge) {
        tracing::warn!(
            code = "STORAGE.TOO_LARGE",
            writes = self.writes,
            "the store takes no commit as large: it is cut"
        );
        self.refuse_too_large(&refused);
        self.look_up_again(recalled);
    }

    /// Workers outside, and the callers in the commit that is out: the others wait for the next one.
    fn abandon(&mut self, error: &StoreError) {
        self.abandon_settlers(error);
        for ticket in self.owner.abandon_requests() {
            match self.callers.remove(&ticket) {
                Some(Caller::Enqueue { caller, .. }) => caller.answer(Err(ServiceError::OutcomeUnknown(error.clone()))),
                Some(Caller::Command(reply)) => drop(reply.send(Err(ServiceError::OutcomeUnknown(error.clone())))),
                None => {}
            }
        }
    }
}
