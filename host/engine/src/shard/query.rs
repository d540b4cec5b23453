//! What others ask about the messages that a shard's owner has in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use waybill_core::ids::{KeyHash, Place, Seq, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::owner::{
    Depths, HeldKey, HoldInfo, Neighbours, Owner, RateInfo, TransportId, Waits, WhyWaiting,
};
use waybill_core::outbox::records::Done;
use waybill_core::time::Now;

use super::dispatch;

/// Depths by tenant and transport, as [`Owner::depths`] counts them.
type DepthsOfTenants = BTreeMap<(Tenant, Option<TransportId>), Depths>;

/// What holds messages back in one shard.
pub(crate) struct Blocked {
    pub holds: Vec<HoldInfo>,
    pub keys: Vec<HeldKey>,
    pub rates: Vec<RateInfo>,
}

/// A question about what is in memory, which changes nothing there.
pub(crate) enum OwnerQuery {
    /// How much of each tenant waits for which transport.
    Depths { reply: oneshot::Sender<DepthsOfTenants> },
    /// How much waits for which transport.
    Waits { reply: oneshot::Sender<BTreeMap<Option<TransportId>, Waits>> },
    /// What holds messages back; at most `keys_max` of the keys that a failed head or a dead letter holds.
    Blocked { keys_max: usize, reply: oneshot::Sender<Blocked> },
    /// The hold of a whole transport, if it is held.
    TransportHold { transport: TransportId, reply: oneshot::Sender<Option<HoldInfo>> },
    /// How many messages workers outside have.
    Leases { reply: oneshot::Sender<u64> },
    /// The message that a worker's token names, if the ownership `lender` is this one and the token still holds.
    Leased { seq: Seq, lender: u64, nonce: u64, reply: oneshot::Sender<Option<Arc<Message>>> },
    /// What is kept of a message that was delivered while its segment isn't finished.
    Delivered { place: Place, reply: oneshot::Sender<Option<Done>> },
    /// What a message waits for, and the crashes that it is held suspect for.
    Wait { seq: Seq, reply: oneshot::Sender<(Option<WhyWaiting>, u32)> },
    /// Who goes before a place in the order of a key, and who behind it.
    Neighbours { key: KeyHash, of: Seq, reply: oneshot::Sender<Neighbours> },
    /// What each of these messages waits for.
    WaitOfEach { seqs: Vec<Seq>, reply: oneshot::Sender<BTreeMap<Seq, Option<WhyWaiting>>> },
}

impl OwnerQuery {
    pub fn answer(self, owner: &Owner, now: Now) {
        match self {
            Self::Depths { reply } => answer(reply, owner.depths()),
            Self::Waits { reply } => answer(reply, owner.waits()),
            Self::Blocked { keys_max, reply } => {
                let (holds, keys) = (owner.holds(now), owner.held_keys(keys_max, now));
                answer(reply, Blocked { holds, keys, rates: owner.rate_waits(now) });
            }
            Self::TransportHold { transport, reply } => {
                answer(reply, owner.hold_info(&dispatch::whole(transport), now));
            }
            Self::Leases { reply } => answer(reply, owner.leases() as u64),
            Self::Leased { seq, lender, nonce, reply } => {
                let lease = owner.leased(seq, nonce).filter(|_| owner.token() == lender);
                answer(reply, lease.map(|lease| Arc::clone(&lease.sending.message)));
            }
            Self::Delivered { place, reply } => answer(reply, owner.delivered(place)),
            Self::Wait { seq, reply } => answer(reply, (owner.why_waiting(seq, now), owner.crashes_of(seq))),
            Self::Neighbours { key, of, reply } => answer(reply, owner.neighbours(key, of, now)),
            Self::WaitOfEach { seqs, reply } => {
                answer(reply, seqs.into_iter().map(|seq| (seq, owner.why_waiting(seq, now))).collect());
            }
        }
    }
}

fn answer<T>(reply: oneshot::Sender<T>, answer: T) {
    // Nobody listens when the caller hung up.
    let _gone = reply.send(answer);
}
