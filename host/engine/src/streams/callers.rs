//! Who waits for numbers, and what they hear.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::streams::owner::{DirectAnswer, StreamOwner, Ticket};

use super::mail::{AppendAsk, AppendReply};

/// Callers wait so long for their numbers; then their events are put on the doorstep, where they are safe without one.
pub(super) const NUMBERS_WAIT: Duration = Duration::from_secs(5);

struct Caller {
    since: Instant,
    reply: oneshot::Sender<Result<AppendReply, ServiceError>>,
}

/// Those of one ownership.
#[derive(Default)]
pub(super) struct Callers {
    waiting: HashMap<Ticket, Caller>,
    last: u64,
}

impl Callers {
    pub fn take(&mut self, ask: AppendAsk, owner: &mut StreamOwner) {
        self.last += 1;
        let ticket = Ticket(self.last);
        owner.append(ticket, ask.append);
        self.waiting.insert(ticket, Caller { since: Instant::now(), reply: ask.reply });
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn answer(&mut self, answers: Vec<(Ticket, DirectAnswer)>) {
        for (ticket, answer) in answers {
            self.tell(
                ticket,
                Ok(match answer {
                    DirectAnswer::Numbered { seqs, duplicates } => AppendReply::Numbered { seqs, duplicates },
                    DirectAnswer::IdTaken(place) => AppendReply::IdTaken(place),
                }),
            );
        }
    }

    /// When the next of them has waited long enough.
    pub fn next_late(&self) -> Option<Instant> {
        self.waiting.values().map(|caller| caller.since + NUMBERS_WAIT).min()
    }

    /// Gives those back that have waited long enough and aren't in a commit. Of one that is, nobody knows yet.
    pub fn give_back_late(&mut self, owner: &mut StreamOwner) {
        let now = Instant::now();
        let is_late = |caller: &Caller| caller.since + NUMBERS_WAIT <= now;
        if !self.waiting.values().any(is_late) {
            return;
        }
        let recalled = owner.recall();
        let mut late: Vec<Ticket> =
            self.waiting.iter().filter(|(_, caller)| is_late(caller)).map(|(ticket, _)| *ticket).collect();
        for direct in recalled {
            if late.contains(&direct.ticket) {
                late.retain(|ticket| *ticket != direct.ticket);
                self.tell(direct.ticket, Ok(AppendReply::Recalled));
            } else {
                owner.append(direct.ticket, Arc::clone(&direct.append));
            }
        }
        for ticket in late {
            let slow = "it didn't say in time whether the commit went in".to_owned();
            self.tell(ticket, Err(ServiceError::OutcomeUnknown(StoreError::Unavailable(slow))));
        }
    }

    /// The ownership ends: what isn't in a commit is given back, of the rest nobody knows.
    pub fn end(&mut self, owner: &mut StreamOwner, error: &StoreError) {
        for direct in owner.recall() {
            self.tell(direct.ticket, Ok(AppendReply::Recalled));
        }
        for (_, caller) in self.waiting.drain() {
            let _gone = caller.reply.send(Err(ServiceError::OutcomeUnknown(error.clone())));
        }
    }

    fn tell(&mut self, ticket: Ticket, answer: Result<AppendReply, ServiceError>) {
        if let Some(caller) = self.waiting.remove(&ticket) {
            let _gone = caller.reply.send(answer);
        }
    }
}
