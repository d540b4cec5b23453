//! What others ask of a shard's actor.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use waybill_core::ids::{MessageId, Place, Seq};
use waybill_core::message::Message;
use waybill_core::new_message::Draft;
use waybill_core::outbox::owner::{Claim, Claimed, HoldKey, Settlement, TransportId};
use waybill_core::port::service::ServiceError;
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;

use super::outside::OutsideAsk;
use super::query::OwnerQuery;
use crate::admission::Admitted;

/// The fate of one enqueued message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnqueuedOne {
    pub id: MessageId,
    /// It was there before, with the same content.
    pub duplicate: bool,
}

/// Messages to be enqueued directly.
pub(crate) struct EnqueueAsk {
    pub drafts: Vec<Draft>,
    pub caller: EnqueueCaller,
}

/// Who waits for the fate of enqueued messages. Its room is kept until then, also when nobody listens any more.
pub(crate) struct EnqueueCaller {
    reply: oneshot::Sender<Result<Taken, ServiceError>>,
    room: Admitted,
    /// What is known of its messages from an earlier try: the rest of them was asked for again.
    known: Option<Vec<Option<EnqueuedOne>>>,
}

impl EnqueueCaller {
    pub fn new(reply: oneshot::Sender<Result<Taken, ServiceError>>, room: Admitted) -> Self {
        Self { reply, room, known: None }
    }

    /// The same caller, with what a try found out before it failed.
    pub fn knowing(mut self, slots: Vec<Option<EnqueuedOne>>) -> Self {
        let mut slots = slots.into_iter();
        self.known = Some(match self.known.take() {
            None => slots.collect(),
            Some(known) => known.into_iter().map(|one| one.or_else(|| slots.next().flatten())).collect(),
        });
        self
    }

    pub fn answer(self, answer: Result<Vec<EnqueuedOne>, ServiceError>) {
        let known = self.known;
        let answer = answer.map(|ones| match known {
            None => Taken::Here(ones),
            Some(known) => {
                let mut ones = ones.into_iter();
                Taken::Here(known.into_iter().filter_map(|one| one.or_else(|| ones.next())).collect())
            }
        });
        // Nobody listens when the caller hung up.
        let _gone = self.reply.send(answer);
    }

    /// Gives the messages back: they have to go another way.
    pub fn give_back(self, drafts: Vec<Draft>) {
        let _gone = self.reply.send(Ok(Taken::Elsewhere(drafts, self.room)));
    }
}

/// What became of messages handed to a shard.
pub(crate) enum Taken {
    /// They are committed, or were before.
    Here(Vec<EnqueuedOne>),
    /// This host doesn't own the shard: they have to go over the doorstep.
    Elsewhere(Vec<Draft>, Admitted),
}

/// An operator's command, by place; the actor reads what it needs at the moment it is done. `died_at`: only the dead letter that died
/// then, not one that was put back and died again at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperatorCommand {
    Cancel {
        place: Place,
    },
    CancelScheduled {
        due: UnixMillis,
        id: MessageId,
    },
    RescheduleParked {
        place: Place,
        due: UnixMillis,
    },
    Reschedule {
        old: UnixMillis,
        id: MessageId,
        due: UnixMillis,
    },
    /// `quarantined_too`: also when it is fenced off. `by`: the bulk operation that does it.
    Replay {
        place: Place,
        died_at: Option<UnixMillis>,
        quarantined_too: bool,
        by: Option<Arc<str>>,
    },
    Quarantine {
        place: Place,
        died_at: Option<UnixMillis>,
        note: String,
    },
    Purge {
        place: Place,
        died_at: Option<UnixMillis>,
    },
}

/// A command with its waiting caller.
pub(crate) struct CommandAsk {
    pub command: OperatorCommand,
    pub reply: oneshot::Sender<Result<(), ServiceError>>,
}

/// The decided fate of one send.
#[derive(Debug)]
pub(crate) struct SettlementReport {
    pub seq: Seq,
    pub epoch: u64,
    pub settlement: Settlement,
    /// For metrics and the conflict audit.
    pub message: Arc<Message>,
    /// What a policy component wants to be held until an operator goes on.
    pub hold: Option<HoldKey>,
}

/// A call that ended.
pub(crate) struct CallEnd {
    /// Ownership that began it.
    pub epoch: u64,
    pub transport: TransportId,
    pub lane: u32,
    /// Fates that weren't told before.
    pub reports: Vec<SettlementReport>,
    /// The whole transport failed it.
    pub down: Option<Fault>,
}

/// The mailbox has no bound of its own, because a send that waits could hold up whoever the actor waits for. What is in it is
/// bounded where it comes from: enqueued messages by [`Admission`](crate::admission::Admission), fates and ends of calls by what is
/// in flight, what has a `reply` by callers who wait for it (the API bounds those), a pause or a try of holds by the operator's
/// request that it is a part of, and a wake comes from a commit that went before.
pub(crate) enum Mail {
    Enqueue(EnqueueAsk),
    Command(CommandAsk),
    /// A fate told before its call ended, or decided after it.
    Settlement(Box<SettlementReport>),
    /// A call ended: its lane has room again.
    CallEnded(CallEnd),
    /// Another configuration is in force.
    Reroute(oneshot::Sender<()>),
    Pause {
        transport: TransportId,
        paused: bool,
    },
    /// A worker outside asks for messages. The owner's token comes with them.
    Claim {
        ask: Claim,
        nonce: u64,
        reply: oneshot::Sender<(u64, Vec<Claimed>)>,
    },
    /// A worker outside is about to ask; whether messages may have to be read first.
    ExpectWorkers(oneshot::Sender<bool>),
    /// A worker outside settles a message.
    Outside(Box<OutsideAsk>),
    /// What the holds of a transport keep back is tried now.
    RetryHolds(TransportId),
    /// The wait for the next opening of a transport that was down is over.
    Awaited {
        transport: TransportId,
        opened: bool,
    },
    /// Something may lie on the doorstep.
    Door,
    /// The same; answered when everything that lies there now has been taken in.
    DoorSync(oneshot::Sender<()>),
    /// Dropped unanswered where this host doesn't own the shard. Whatever changes what is in memory has a mail of its own.
    Query(OwnerQuery),
    Release {
        timeout: Duration,
        reply: oneshot::Sender<()>,
    },
}
