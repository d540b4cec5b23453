//! Replays and purges of dead letters that wait for their commit.

use std::collections::HashMap;

use tokio::sync::oneshot;
use waybill_core::ids::{ConsumerName, InboundId, Seq};
use waybill_core::inbox::owner::{InMemory, InboxOwner, Replay};
use waybill_core::inbox::settings::ConsumerId;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;

use super::mail::ReplayAsk;
use super::settings::HomeSettings;

/// Who waits for which dead letter.
#[derive(Default)]
pub(super) struct Requests {
    waiting: HashMap<Seq, Vec<Waiter>>,
}

enum Waiter {
    Replay { consumer: ConsumerName, id: InboundId, reply: oneshot::Sender<Result<Option<InMemory>, ServiceError>> },
    Purge(oneshot::Sender<Result<(), ServiceError>>),
}

impl Waiter {
    fn refuse(self, error: ServiceError) {
        // Nobody listens when the caller hung up.
        match self {
            Self::Replay { reply, .. } => {
                let _gone = reply.send(Err(error));
            }
            Self::Purge(reply) => {
                let _gone = reply.send(Err(error));
            }
        }
    }
}

impl Requests {
    /// Asks the owner for a replay.
    pub fn replay(&mut self, ask: ReplayAsk, home: &HomeSettings, owner: &mut InboxOwner) {
        let ReplayAsk { dead, message, reply } = ask;
        let id = dead.message.id.to_string();
        let Some((consumer, name)) = handled_by(home, &dead) else {
            let fix = "its consumer isn't configured at this home: add it, or purge the dead letter";
            let error = ServiceError::State { what: "dead letter", id, state: "nobody's".to_owned(), fix };
            let _gone = reply.send(Err(error));
            return;
        };
        let seq = dead.seq;
        let waiter = Waiter::Replay { consumer: name, id: message.id.clone(), reply };
        if owner.replay(Replay { dead, message, consumer }) {
            self.waiting.entry(seq).or_default().push(waiter);
        } else {
            waiter.refuse(ServiceError::NotFound { what: Missing::DeadLetter, id });
        }
    }

    pub fn purge(&mut self, dead: Seq, reply: oneshot::Sender<Result<(), ServiceError>>, owner: &mut InboxOwner) {
        owner.purge(dead);
        self.waiting.entry(dead).or_default().push(Waiter::Purge(reply));
    }

    /// What was asked of a dead letter is committed.
    pub fn done(&mut self, dead: Seq, owner: &InboxOwner) {
        for waiter in self.waiting.remove(&dead).unwrap_or_default() {
            match waiter {
                Waiter::Replay { consumer, id, reply } => {
                    let _gone = reply.send(Ok(owner.find(&consumer, &id)));
                }
                Waiter::Purge(reply) => {
                    let _gone = reply.send(Ok(()));
                }
            }
        }
    }

    /// Nobody can say any more what becomes of them.
    pub fn abandon(&mut self, error: &StoreError) {
        for waiter in self.waiting.drain().flat_map(|(_, waiters)| waiters) {
            waiter.refuse(ServiceError::OutcomeUnknown(error.clone()));
        }
    }

    pub fn refuse_all(&mut self, why: &str) {
        for waiter in self.waiting.drain().flat_map(|(_, waiters)| waiters) {
            waiter.refuse(ServiceError::Unavailable(why.to_owned()));
        }
    }
}

/// Who handles a dead letter that goes back: its consumer, or for what nobody took the first that takes its subject now.
fn handled_by(
    home: &HomeSettings,
    dead: &waybill_core::inbox::records::InboxDead,
) -> Option<(ConsumerId, ConsumerName)> {
    let own = home.consumer_named(&dead.consumer);
    let first = || {
        let source = home.sources.iter().find(|source| source.config.name == dead.message.source)?;
        source.takers(&dead.message.subject).first().copied()
    };
    let id = own.or_else(first)?;
    Some((id, home.consumer(id)?.name.clone()))
}
