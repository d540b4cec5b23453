//! Whose turn it is: ready messages lane by lane, tenants in weighted turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{Lane, Scheduler};
use crate::ids::{Seq, Tenant};

/// Messages a tenant of weight 1 gets in one turn.
pub const TURN_MESSAGES: usize = 8;

/// Ready messages of one tenant in one lane.
#[derive(Debug, Default)]
struct TenantReady {
    all: BTreeSet<Seq>,
    /// Those that had failed before.
    retries: BTreeSet<Seq>,
}

/// Ready messages of one lane. Only tenants that have some are in it.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    tenants: BTreeMap<Tenant, TenantReady>,
    /// Who had the last turn.
    turn: Option<Tenant>,
    /// What is left of it because a batch was full: the next batch goes on with it, or weights would count for less.
    left: usize,
}

/// What one tenant may send next.
#[derive(Debug)]
pub struct NextTurn {
    tenant: Tenant,
    seqs: Vec<Seq>,
    quantum: usize,
    tenants: usize,
}

/// What one tenant may send now.
#[derive(Debug)]
pub struct Turn {
    pub seqs: Vec<Seq>,
    /// How many it may send.
    pub quantum: usize,
    /// How many tenants take turns.
    pub tenants: usize,
    /// Who had the turn before, and what was left of it.
    pub before: (Option<Tenant>, usize),
}

impl Scheduler {
    /// The tenant whose turn is next, with the oldest of its ready messages: as many as its weight allows, and while too many
    /// of its messages wait for retries only such retries, or else those that hold some up. A tenant that may send nothing now,
    /// as `allowed` says, is passed over.
    pub fn next_turn(
        &self,
        lane: Lane,
        weight: impl FnOnce(&Tenant) -> u32,
        allowed: impl Fn(&Tenant) -> usize,
        is_stalled: impl Fn(Seq) -> bool,
    ) -> Option<NextTurn> {
        let queue = self.ready.get(&lane)?;
        let last = queue.turn.as_ref();
        let goes_on = last.filter(|_| queue.left > 0).filter(|last| queue.tenants.contains_key(*last));
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_turn = queue.tenants.range::<Tenant, _>((after, Bound::Unbounded)).chain(queue.tenants.iter());
        let mut candidates = goes_on.and_then(|last| queue.tenants.get_key_value(last)).into_iter().chain(in_turn);
        let (tenant, ready, most) = candidates.find_map(|(tenant, ready)| {
            let most = allowed(tenant);
            (most > 0).then_some((tenant, ready, most))
        })?;
        let share = if goes_on == Some(tenant) { queue.left } else { TURN_MESSAGES * weight(tenant) as usize };
        let quantum = share.min(most);
        let seqs = match self.has_too_many_retries(tenant) {
            false => ready.all.iter().take(quantum).copied().collect(),
            true if !ready.retries.is_empty() => ready.retries.iter().take(quantum).copied().collect(),
            true => ready.all.iter().copied().filter(|seq| !is_stalled(*seq)).take(quantum).collect(),
        };
        Some(NextTurn { tenant: tenant.clone(), seqs, quantum, tenants: queue.tenants.len() })
    }

    pub fn begin_turn(&mut self, lane: Lane, next: NextTurn) -> Option<Turn> {
        let NextTurn { tenant, seqs, quantum, tenants } = next;
        let queue = self.ready.get_mut(&lane)?;
        let before = (queue.turn.replace(tenant), std::mem::take(&mut queue.left));
        Some(Turn { seqs, quantum, tenants, before })
    }

    /// Undoes the beginning of a turn: it is as [`Turn::before`] says.
    pub fn give_turn_back(&mut self, lane: Lane, before: (Option<Tenant>, usize)) {
        if let Some(queue) = self.ready.get_mut(&lane) {
            (queue.turn, queue.left) = before;
        }
    }

    /// The turn goes on with so many messages.
    pub fn keep_turn(&mut self, lane: Lane, left: usize) {
        if let Some(queue) = self.ready.get_mut(&lane) {
            queue.left = left;
        }
    }

    /// Lists a ready message.
    pub fn list_ready(&mut self, lane: Lane, tenant: Tenant, seq: Seq, is_retry: bool) {
        let ready = self.ready.entry(lane).or_default().tenants.entry(tenant).or_default();
        ready.all.insert(seq);
        if is_retry {
            ready.retries.insert(seq);
        }
    }

    /// Takes a message off the list of ready ones, if it is on it.
    pub fn unlist_ready(&mut self, lane: Lane, tenant: &Tenant, seq: Seq) {
        let Some(queue) = self.ready.get_mut(&lane) else { return };
        if let Some(ready) = queue.tenants.get_mut(tenant) {
            ready.all.remove(&seq);
            ready.retries.remove(&seq);
            if ready.all.is_empty() {
                queue.tenants.remove(tenant);
            }
        }
    }

    /// How many messages of a tenant are ready in a lane.
    pub fn ready_of(&self, lane: Lane, tenant: &Tenant) -> usize {
        let tenants = self.ready.get(&lane).map(|queue| &queue.tenants);
        tenants.and_then(|tenants| tenants.get(tenant)).map_or(0, |ready| ready.all.len())
    }

    /// Ready messages of a lane, tenant by tenant.
    pub fn ready_in(&self, lane: Lane) -> impl Iterator<Item = (&Tenant, impl Iterator<Item = Seq>)> {
        let tenants = self.ready.get(&lane).into_iter().flat_map(|queue| &queue.tenants);
        tenants.map(|(tenant, ready)| (tenant, ready.all.iter().copied()))
    }

    /// Lanes with ready messages.
    pub fn ready_lanes(&self) -> impl Iterator<Item = Lane> {
        self.ready.iter().filter(|(_, queue)| !queue.tenants.is_empty()).map(|(lane, _)| *lane)
    }

    /// How many messages are listed as ready.
    pub fn ready(&self) -> usize {
        self.ready.values().flat_map(|queue| queue.tenants.values()).map(|ready| ready.all.len()).sum()
    }
}
