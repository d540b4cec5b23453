//! Who waits for a shard's next commit, and what they hear: the ids, a refusal, or that the outcome isn't known.

use tokio::sync::oneshot;
use waybill_core::ids::MessageId;
use waybill_core::outbox::owner::{Applied, DirectRequest, Ticket};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;

use super::actor::Actor;
use super::mail::{EnqueueAsk, EnqueueCaller, EnqueuedOne};

/// What callers hear while the shard is given back.
pub(super) const SHUTTING_DOWN: &str = "it is shutting down: send to another host or try again later";

/// A caller that waits for a commit.
pub(super) enum Caller {
    /// Its messages in order: known answers, and slots to be filled with the ids of the new ones.
    Enqueue {
        caller: EnqueueCaller,
        slots: Vec<Option<EnqueuedOne>>,
    },
    Command(oneshot::Sender<Result<(), ServiceError>>),
}

impl Actor {
    pub(super) fn take_enqueue(&mut self, ask: EnqueueAsk) {
        if let Some(error) = self.flight.trouble() {
            ask.caller.answer(Err(ServiceError::Store(error.clone())));
        } else if self.drain.has_begun() {
            ask.caller.answer(Err(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())));
        } else if ask.drafts.iter().all(|draft| draft.needs_id) {
            let slots = vec![None; ask.drafts.len()];
            self.enqueue(ask.drafts, ask.caller, slots);
        } else {
            self.unchecked.push(ask.drafts, ask.caller);
        }
    }

    /// Refuses everything that isn't in a commit.
    pub(super) fn refuse_all(&mut self, reason: &str) {
        let refusal = || ServiceError::Unavailable(reason.to_owned());
        for caller in self.unchecked.drain() {
            caller.answer(Err(refusal()));
        }
        for ask in self.commands.drain(..) {
            let _gone = ask.reply.send(Err(refusal()));
        }
        self.abandon_settlers(&StoreError::Unavailable(reason.to_owned()));
        for (_, caller) in self.callers.drain() {
            match caller {
                Caller::Enqueue { caller, .. } => caller.answer(Err(refusal())),
                Caller::Command(reply) => drop(reply.send(Err(refusal()))),
            }
        }
    }

    /// Refuses messages that never will be sequenced, because the shard is given back.
    pub(super) fn refuse_unsequenced(&mut self) {
        for caller in self.unchecked.drain() {
            caller.answer(Err(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())));
        }
        for request in self.owner.recall_directs() {
            if let Some(Caller::Enqueue { caller, .. }) = self.callers.remove(&request.ticket) {
                caller.answer(Err(ServiceError::Unavailable(SHUTTING_DOWN.to_owned())));
            }
        }
    }

    /// Refuses what waits for a read that failed: nothing of it was begun.
    pub(super) fn refuse_unread(&mut self, error: &StoreError) {
        for caller in self.unchecked.drain() {
            caller.answer(Err(ServiceError::Store(error.clone())));
        }
        for ask in self.commands.drain(..) {
            let _gone = ask.reply.send(Err(ServiceError::Store(error.clone())));
        }
    }

    /// Tells callers that the store takes nothing as large as their requests.
    pub(super) fn refuse_too_large(&mut self, refused: &[Ticket]) {
        for ticket in refused {
            if let Some(Caller::Enqueue { caller, .. }) = self.callers.remove(ticket) {
                caller.answer(Err(ServiceError::Store(StoreError::TooLarge)));
            }
        }
    }

    /// Requests with callers' ids go back to be looked up: an id may have been taken meanwhile.
    pub(super) fn look_up_again(&mut self, recalled: Vec<DirectRequest>) {
        for request in recalled {
            if let Some(Caller::Enqueue { caller, slots }) = self.callers.remove(&request.ticket) {
                self.unchecked.push(request.messages, caller.knowing(slots));
            }
        }
    }

    pub(super) fn answer(&mut self, applied: Applied) {
        let live = self.context.live();
        // Before anybody hears of them.
        self.context.meter.enqueued(&live, &applied.begun);
        self.context.meter.died(&live, &applied.died);
        self.context.meter.expired(applied.expired);
        self.answer_settlers(&applied.settled);
        for (ticket, ids) in applied.enqueued {
            if let Some(Caller::Enqueue { caller, slots }) = self.callers.remove(&ticket) {
                caller.answer(Ok(fill(slots, ids)));
            }
        }
        for ticket in applied.commands {
            if let Some(Caller::Command(reply)) = self.callers.remove(&ticket) {
                let _gone = reply.send(Ok(()));
            }
        }
        self.answer_door();
    }
}

/// Puts the ids of the new messages into the open slots, in order.
fn fill(slots: Vec<Option<EnqueuedOne>>, ids: Vec<MessageId>) -> Vec<EnqueuedOne> {
    let mut ids = ids.into_iter().map(|id| EnqueuedOne { id, duplicate: false });
    slots.into_iter().filter_map(|slot| slot.or_else(|| ids.next())).collect()
}
