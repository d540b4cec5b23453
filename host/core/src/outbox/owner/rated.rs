//! What the rates of tenants and transports let this shard send.

use std::collections::BTreeSet;

use super::scheduler::Lane;
use super::slots::Slot;
use super::{Owner, Rule, TransportId};
use crate::ids::{Seq, Tenant};
use crate::outbox::rates::{Bounded, Empty, Rate};
use crate::time::{Monotonic, Now, UnixMillis};

/// A lane that waits for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RatedLane {
    /// It is tried again then.
    pub due: Monotonic,
    /// Nothing else is ready in it.
    pub is_whole: bool,
}

/// A rate that messages wait for, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateInfo {
    pub bounded: Bounded,
    pub rate: Rate,
    pub since: UnixMillis,
    /// When its next message may go that isn't another shard's.
    pub until: UnixMillis,
    /// Messages of this shard in memory that are ready but for it.
    pub waiting: usize,
}

impl Owner {
    /// Messages that this shard may send now.
    pub(super) fn allowed(&self, of: impl FnOnce() -> Bounded, now: Monotonic) -> usize {
        match self.is_rule_kept(Rule::KeepRates) {
            true => self.config.rates.allowed(of, self.config.shard, now),
            false => usize::MAX,
        }
    }

    /// Whether the rate of its tenant lets a message go now.
    pub(super) fn is_allowed(&self, seq: Seq, now: Monotonic) -> bool {
        let tenant = self.slots.get(&seq).map(|slot| &slot.message.tenant);
        tenant.is_none_or(|tenant| self.allowed(|| Bounded::Tenant(tenant.clone()), now) > 0)
    }

    /// A message is sent.
    pub(super) fn pass_rates(&self, tenant: &Tenant, transport: Option<TransportId>, now: Monotonic) {
        let (rates, shard) = (&self.config.rates, self.config.shard);
        rates.take(|| Bounded::Tenant(tenant.clone()), shard, now);
        if let Some(transport) = transport {
            rates.take(|| Bounded::Transport(transport), shard, now);
        }
    }

    /// A lane had nothing to send: if that is because of rates, it is tried again when these have something.
    pub(super) fn wait_for_rates(&mut self, lane: Lane, now: Monotonic) {
        let waits = |bounded: &Bounded| self.waits_in(lane, bounded);
        let Some(due) = self.config.rates.book(waits, self.config.shard, now) else { return };
        let may_go = |tenant: &Tenant| self.allowed(|| Bounded::Tenant(tenant.clone()), now) > 0;
        let is_whole = self.allowed(|| Bounded::Transport(lane.0), now) == 0
            || !self.scheduler.ready_in(lane).any(|(tenant, _)| may_go(tenant));
        self.rated.insert(lane, RatedLane { due, is_whole });
    }

    /// Whether a ready message of a lane is bounded by a rate. It is asked under the lock of all shards: it counts nothing.
    fn waits_in(&self, lane: Lane, bounded: &Bounded) -> bool {
        match bounded {
            Bounded::Transport(transport) => {
                *transport == lane.0
                    && (self.scheduler.ready_in(lane).next().is_some() || self.named_in(lane).next().is_some())
            }
            Bounded::Tenant(tenant) => {
                let is_theirs = |seq: Seq| self.slots.get(&seq).is_some_and(|slot| slot.message.tenant == *tenant);
                self.scheduler.ready_of(lane, tenant) > 0 || self.named_in(lane).any(is_theirs)
            }
        }
    }

    /// A lane waited for a rate, and now that this has something nothing is named to take it: the next commit, which is at once, names
    /// some.
    pub(super) fn want_names_again(&mut self, lane: Lane, waited: Option<RatedLane>, now: Monotonic) {
        if self.naming.is_on() && waited.is_some_and(|waited| waited.is_whole) && !self.rated.contains_key(&lane) {
            self.rated.insert(lane, RatedLane { due: now, is_whole: false });
        }
    }

    /// Ready messages of a lane that a rate bounds.
    fn waiting_in(&self, lane: Lane, bounded: &Bounded) -> usize {
        match bounded {
            Bounded::Transport(transport) if *transport == lane.0 => {
                self.scheduler.ready_in(lane).map(|(_, seqs)| seqs.count()).sum::<usize>() + self.named_in(lane).count()
            }
            Bounded::Transport(_) => 0,
            Bounded::Tenant(tenant) => {
                let is_theirs = |seq: &Seq| self.slots.get(seq).is_some_and(|slot| slot.message.tenant == *tenant);
                self.scheduler.ready_of(lane, tenant) + self.named_in(lane).filter(is_theirs).count()
            }
        }
    }

    /// A lane is busy, so nothing more of it may go before a call ends.
    pub(in crate::outbox) fn forget_rates(&mut self, lane: Lane) {
        self.rated.remove(&lane);
    }

    /// Rates that messages of this shard wait for.
    pub fn rate_waits(&self, now: Now) -> Vec<RateInfo> {
        let lanes: BTreeSet<Lane> = self.our_ready_lanes().chain(self.named_lanes()).collect();
        let waits = self.empty_rates(now).map(|info| {
            let waiting = lanes.iter().map(|lane| self.waiting_in(*lane, &info.bounded)).sum();
            RateInfo { waiting, ..info }
        });
        waits.filter(|info| info.waiting > 0).collect()
    }

    /// The rate that a ready message waits for, if it is that.
    pub(super) fn rate_of(&self, slot: &Slot, now: Now) -> Option<RateInfo> {
        let bounds = |bounded: &Bounded| match bounded {
            Bounded::Tenant(tenant) => *tenant == slot.message.tenant,
            Bounded::Transport(transport) => Some(*transport) == slot.transport,
        };
        self.empty_rates(now).find(|info| bounds(&info.bounded))
    }

    fn empty_rates(&self, now: Now) -> impl Iterator<Item = RateInfo> {
        let info = move |(bounded, empty): (Bounded, Empty)| RateInfo {
            bounded,
            rate: empty.rate,
            since: now.wall_at(empty.since),
            until: now.wall_at(empty.until),
            waiting: 0,
        };
        self.config.rates.empty(now.mono).into_iter().map(info)
    }
}
