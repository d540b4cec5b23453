//! Messages that workers claim and settle from outside, each under a lease of its own.
//!
//! A lease lives in memory: another owner knows nothing of it, so its token is worth nothing there. One that has ended
//! still settles until somebody claims the message again. Such messages need no durable claim: a claim tells whom a
//! crash of this host may be blamed on, and what a worker outside has can't be what the host died of. So they keep no
//! segment claimed however long a worker takes.
//!
//! While no worker asks, the transport is held, so that what nobody claims fills no memory that others need.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::scheduler::TURN_MESSAGES;
use super::slots::SlotState;
use super::{HoldKey, Owner, Sending, Settlement, TransportId, Verdict};
use crate::code::Code;
use crate::ids::{Place, Seq, Tenant};
use crate::message::Message;
use crate::outbox::records::Parked;
use crate::route::Pattern;
use crate::time::{Monotonic, Now, UnixMillis};

/// Workers are taken to be there for this long after one asked.
const DEMAND: Duration = Duration::from_secs(10);
/// Leases that haven't ended take at most this part of the window, one of so many.
const WINDOW_PARTS: usize = 4;

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Name of the worker.
    pub worker: Arc<str>,
    /// How long it wants to keep the messages.
    pub time: Duration,
    /// Messages that it takes at most.
    pub messages: usize,
    /// Payload bytes at most; one message is given in any case.
    pub bytes: usize,
    /// Only of these tenants; none = of all.
    pub tenants: Option<Vec<Tenant>>,
    /// Only messages whose topic it takes; none = of any.
    pub topic: Option<Pattern>,
}

impl Claim {
    fn takes(&self, message: &Message) -> bool {
        self.takes_tenant(&message.tenant) && self.topic.as_ref().is_none_or(|topic| topic.matches(&message.topic))
    }
    fn takes_tenant(&self, tenant: &Tenant) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }
}

/// A message that a worker has.
#[derive(Clone, Debug)]
pub struct Lease {
    nonce: u64,
    pub worker: Arc<str>,
    pub began: Monotonic,
    ends: Monotonic,
    /// How often it was claimed since it was last settled or put back.
    claims: u32,
    /// How long the worker asked to keep it.
    pub time: Duration,
    /// What was handed out.
    pub sending: Sending,
}

/// A message handed to a worker.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub place: Place,
    /// Its token, with the place.
    pub nonce: u64,
    /// End of the lease.
    pub until: UnixMillis,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// How often it was claimed since it was last settled: above 1, a worker let its lease end.
    pub claims: u32,
    /// The message with its attempts so far.
    pub row: Parked,
}

/// A lease as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseInfo {
    pub worker: Arc<str>,
    /// Until when; past it, the next claim may take it.
    pub until: UnixMillis,
}

/// All leases, and who asked last.
///
/// A message that is being sent and isn't this host's ([`super::scheduler::Scheduler::sending`]) has a lease, and no other message has one.
#[derive(Debug, Default)]
pub(super) struct Outside {
    leases: BTreeMap<Seq, Lease>,
    asked_at: Option<Monotonic>,
    /// Whose messages were claimed last.
    turn: Option<Tenant>,
}

impl Outside {
    /// Messages that workers have.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = (Seq, &Sending)> {
        self.leases.iter().map(|(seq, lease)| (*seq, &lease.sending))
    }

    /// A worker has a message no longer. False when none had it.
    pub fn end(&mut self, seq: Seq) -> bool {
        self.leases.remove(&seq).is_some()
    }
}

impl Owner {
    /// Hands messages to a worker: first those whose lease has ended, then fresh ones, tenants in turn. Nothing after the
    /// end of this owner's own lease. `nonce` is fresh and random.
    pub fn claim_outside(&mut self, ask: &Claim, nonce: u64, now: Now) -> Vec<Claimed> {
        let Some(transport) = self.config.routing.external else { return Vec::new() };
        self.expect_workers(now);
        let is_paused = self.holds.get(&whole(transport)).is_some_and(|hold| hold.code == Code::OUTBOX_PAUSED.as_str());
        if is_paused || self.releasing || now.mono >= self.deadline {
            return Vec::new();
        }
        // One that has ended counts no more: its worker may never come again, and others want to be served.
        let alive = self.outside.leases.values().filter(|lease| lease.ends > now.mono).count();
        let leases_max = (self.config.limits.window_messages / WINDOW_PARTS).max(1);
        let wanted = ask.messages.min(leases_max.saturating_sub(alive));
        if wanted == 0 {
            return Vec::new();
        }
        let mut handout = Handout { ask, nonce, now, wanted, left: ask.bytes, out: Vec::new() };
        self.claim_ended(&mut handout);
        self.claim_fresh(transport, &mut handout);
        handout.out
    }

    /// Somebody asks, so messages are to be had. True when some may have to be read before a claim finds them: nobody asked
    /// lately.
    pub fn expect_workers(&mut self, now: Now) -> bool {
        let Some(transport) = self.config.routing.external else { return false };
        self.outside.asked_at = Some(now.mono);
        let whole = whole(transport);
        let is_held = self.holds.get(&whole).is_some_and(|hold| hold.code == Code::OUTBOX_UNCLAIMED.as_str());
        if is_held {
            self.lift(&whole, now);
        }
        is_held || !self.window.knows_directory()
    }

    /// Messages that workers have.
    pub fn leases(&self) -> usize {
        self.outside.leases.len()
    }

    /// The lease that a token names, if it still does.
    pub fn leased(&self, seq: Seq, nonce: u64) -> Option<&Lease> {
        self.outside.leases.get(&seq).filter(|lease| lease.nonce == nonce)
    }

    /// Who has a message.
    pub(super) fn lease(&self, seq: Seq, now: Now) -> Option<LeaseInfo> {
        let lease = self.outside.leases.get(&seq)?;
        Some(LeaseInfo { worker: Arc::clone(&lease.worker), until: now.wall_at(lease.ends) })
    }

    /// Takes a worker's settlement report. False when the token isn't the message's current one: the caller audits that as a conflict.
    pub fn settle_outside(&mut self, seq: Seq, nonce: u64, settlement: Settlement, now: Now) -> bool {
        self.leased(seq, nonce).is_some() && self.settle(seq, self.record.token, settlement, now)
    }

    /// Lets a worker keep a message for `time` from now. The new end, if the token is the message's current one and this
    /// owner's own lease hasn't ended: after that nobody can promise anything.
    pub fn renew_outside(&mut self, seq: Seq, nonce: u64, time: Duration, now: Now) -> Option<UnixMillis> {
        let may_promise = self.may_send(now.mono);
        let lease = self.outside.leases.get_mut(&seq).filter(|lease| may_promise && lease.nonce == nonce)?;
        lease.ends = now.mono + time;
        Some(now.wall.plus(time))
    }

    pub(super) fn is_outside(&self, transport: Option<TransportId>) -> bool {
        transport.is_some() && transport == self.config.routing.external
    }

    /// Takes back what workers have.
    pub(super) fn end_leases(&mut self, now: Now) {
        for seq in std::mem::take(&mut self.outside.leases).into_keys() {
            self.put_back(seq, None, now);
        }
    }

    /// Holds what no worker asks for.
    pub(super) fn hold_unclaimed(&mut self, now: Now) {
        let Some(transport) = self.config.routing.external else { return };
        if self.outside.asked_at.is_some_and(|at| now.mono - at < DEMAND) {
            return;
        }
        let whole = whole(transport);
        if self.holds.contains_key(&whole) {
            return;
        }
        self.hold(whole.clone(), Code::OUTBOX_UNCLAIMED.as_str(), "no worker asks for these messages", None, now);
        self.hold_for_operator(&whole);
    }

    /// Those whose lease ended, the longest ended first.
    fn claim_ended(&mut self, handout: &mut Handout<'_>) {
        let is_free = |lease: &Lease| lease.ends <= handout.now.mono && handout.ask.takes(&lease.sending.message);
        let leases = self.outside.leases.iter();
        let mut ended: Vec<(Monotonic, Seq)> =
            leases.filter(|(_, lease)| is_free(lease)).map(|(seq, lease)| (lease.ends, *seq)).collect();
        ended.sort_unstable();
        for (_, seq) in ended {
            let Some(message) = self.outside.leases.get(&seq).map(|lease| Arc::clone(&lease.sending.message)) else {
                continue;
            };
            if message.expires_at.is_some_and(|end| end <= handout.now.wall) {
                self.outside.leases.remove(&seq);
                let over = super::build::without_attempt(Verdict::Expired, handout.now.wall);
                self.queue_settlement(seq, over, handout.now);
                continue;
            }
            if !handout.has_room(&message) {
                return;
            }
            let Some(lease) = self.outside.leases.remove(&seq) else { continue };
            self.lend(lease.sending, lease.claims.saturating_add(1), handout);
        }
    }

    /// Ready ones: of each tenant in turn as many as its weight allows.
    fn claim_fresh(&mut self, transport: TransportId, handout: &mut Handout<'_>) {
        let wanted = handout.wanted;
        if handout.out.len() >= wanted {
            return;
        }
        let mut ready: BTreeMap<Tenant, std::vec::IntoIter<Seq>> = BTreeMap::new();
        for (tenant, seqs) in
            self.scheduler.ready_in((transport, 0)).filter(|(tenant, _)| handout.ask.takes_tenant(tenant))
        {
            let takes = |seq: &Seq| {
                !self.is_stalled(*seq) && self.slots.get(seq).is_some_and(|slot| handout.ask.takes(&slot.message))
            };
            let mine: Vec<Seq> = seqs.filter(takes).take(wanted).collect();
            ready.insert(tenant.clone(), mine.into_iter());
        }
        while handout.out.len() < wanted && !ready.is_empty() {
            let after = self.outside.turn.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = ready.range::<Tenant, _>((after, Bound::Unbounded)).next().or_else(|| ready.iter().next());
            let Some(tenant) = next.map(|(tenant, _)| tenant.clone()) else { return };
            let quantum = TURN_MESSAGES * self.weight_of(&tenant) as usize;
            self.outside.turn = Some(tenant.clone());
            for _ in 0..quantum.min(wanted.saturating_sub(handout.out.len())) {
                let Some(seq) = ready.get_mut(&tenant).and_then(Iterator::next) else {
                    ready.remove(&tenant);
                    break;
                };
                if self.expires(seq, handout.now) {
                    continue;
                }
                let Some(message) = self.slots.get(&seq).map(|slot| Arc::clone(&slot.message)) else { continue };
                if !handout.has_room(&message) {
                    return;
                }
                if let Some(sending) = self.begin_send(seq, handout.now) {
                    self.lend(sending, 1, handout);
                }
            }
        }
    }

    fn lend(&mut self, sending: Sending, claims: u32, handout: &mut Handout<'_>) {
        let seq = sending.seq;
        let Some(slot) = self.slots.get(&seq).filter(|slot| slot.state == SlotState::Sending) else { return };
        let (place, row) = (slot.place, slot.parked(true));
        let (attempt, until) = (sending.attempt, handout.now.wall.plus(handout.ask.time));
        handout.left = handout.left.saturating_sub(sending.message.payload.len().max(1));
        let lease = Lease {
            nonce: handout.nonce,
            worker: Arc::clone(&handout.ask.worker),
            began: handout.now.mono,
            ends: handout.now.mono + handout.ask.time,
            claims,
            time: handout.ask.time,
            sending,
        };
        self.outside.leases.insert(seq, lease);
        handout.out.push(Claimed { place, nonce: handout.nonce, until, attempt, claims, row });
    }
}

/// What is being handed out.
struct Handout<'a> {
    ask: &'a Claim,
    nonce: u64,
    now: Now,
    /// Messages to hand out at most.
    wanted: usize,
    left: usize,
    out: Vec<Claimed>,
}

impl Handout<'_> {
    fn has_room(&self, message: &Message) -> bool {
        self.out.len() < self.wanted && (self.out.is_empty() || message.payload.len() <= self.left)
    }
}

fn whole(transport: TransportId) -> HoldKey {
    HoldKey { tenant: None, transport: Some(transport), scope: Arc::from("") }
}
