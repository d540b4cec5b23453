//! Claims of the next commit, evictions, segments that are finished, and the end of all claims.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::super::slots::{Origin, Slot};
use super::super::{Owner, Rule};
use super::room::Part;
use super::{CommitBuilder, PARKED_CLAIMS_MAX};
use crate::ids::{Seq, Tenant};
use crate::outbox::records::{Done, OpenSegment};
use crate::port::store::Write;

impl CommitBuilder<'_> {
    pub(super) fn claim(&mut self) {
        if self.owner.releasing {
            return;
        }
        let parked: Vec<Seq> = self.owner.scheduler.claims().parked().take(PARKED_CLAIMS_MAX).collect();
        for seq in parked {
            if self.is_full(Part::Claims) {
                break;
            }
            self.claim_parked(seq);
        }
        self.claim_segments();
    }

    fn claim_parked(&mut self, seq: Seq) {
        let Some(slot) = self.owner.slots.get(&seq).filter(|slot| slot.is_idle() && !slot.claimed) else { return };
        let row = Arc::new(slot.parked(true));
        self.put(Write::PutParked(row));
        self.flight.parked_claims.push(seq);
    }

    /// Whether a segment is claimed already, or was written in this commit.
    fn is_settled_for(&self, first: Seq) -> bool {
        self.record.open.contains_key(&first) || self.flight.rewritten.iter().any(|segment| segment.first == first)
    }

    /// Claims segments with messages that could be sent, oldest first, as far as their tenants' shares go. When there is no
    /// room, one of which nothing can be sent is given up: the tenant's own when it has its share, else anybody's.
    fn claim_segments(&mut self) {
        if self.owner.scheduler.claims().segments() == 0 {
            return;
        }
        let share = self.owner.open_share();
        let idle_only = self.owner.is_rule_kept(Rule::EvictIdleOnly);
        let mut idle =
            self.idle_segments(
                |owner, first| if idle_only { owner.window.is_pinned(first) } else { owner.is_sending_from(first) },
            );
        let mut wanted: BTreeSet<(Seq, Tenant)> = self.owner.scheduler.claims().first_segments().collect();
        while let Some((first, tenant)) = wanted.pop_first() {
            if !self.is_settled_for(first) {
                let mine = self.open_by_tenant.get(&tenant).copied().unwrap_or(0);
                if mine >= share {
                    if !self.evict(&mut idle, Some(&tenant)) {
                        continue;
                    }
                } else if self.record.open.len() >= self.owner.config.limits.open_segments
                    && !self.evict(&mut idle, None)
                {
                    return;
                }
                self.open(first, &tenant);
            }
            let next = self.owner.scheduler.claims().segment_behind(&tenant, first);
            wanted.extend(next.map(|next| (next, tenant)));
        }
    }

    fn open(&mut self, first: Seq, tenant: &Tenant) {
        self.record.open.insert(first, OpenSegment::default());
        *self.open_by_tenant.entry(tenant.clone()).or_default() += 1;
    }

    pub(super) fn count_open(&mut self) {
        for first in self.record.open.keys() {
            if let Some(segment) = self.owner.window.segment(*first) {
                *self.open_by_tenant.entry(segment.tenant.clone()).or_default() += 1;
            }
        }
    }

    /// Segments claimed by earlier commits that aren't busy, with their tenants.
    fn idle_segments(&self, is_busy: impl Fn(&Owner, Seq) -> bool) -> VecDeque<(Seq, Option<Tenant>)> {
        self.owner
            .record
            .open
            .keys()
            .filter(|first| self.record.open.contains_key(first) && !self.touched.contains(first))
            .filter_map(|first| match self.owner.window.segment(*first) {
                Some(segment) => (!is_busy(self.owner, *first)).then(|| (*first, Some(segment.tenant.clone()))),
                None => Some((*first, None)),
            })
            .collect()
    }

    /// Un-claims an idle segment, of a tenant or of anybody: its remainder is rewritten under its own seq. False when there is
    /// none, or no room for that in the commit.
    fn evict(&mut self, idle: &mut VecDeque<(Seq, Option<Tenant>)>, of: Option<&Tenant>) -> bool {
        if self.is_full(Part::Claims) {
            return false;
        }
        let at = match of {
            None => (!idle.is_empty()).then_some(0),
            Some(tenant) => idle.iter().position(|(_, other)| other.as_ref() == Some(tenant)),
        };
        let Some((first, tenant)) = at.and_then(|at| idle.remove(at)) else { return false };
        if let Some(count) = tenant.and_then(|tenant| self.open_by_tenant.get_mut(&tenant)) {
            *count = count.saturating_sub(1);
        }
        self.close(first);
        true
    }

    /// Takes a segment out of `open`: what was delivered goes to the history, the rest is rewritten.
    pub(super) fn close(&mut self, first: Seq) {
        let Some(open) = self.record.open.remove(&first) else { return };
        self.record_delivered(first, &open);
        let Some(segment) = self.owner.window.segment(first).cloned() else { return };
        if !open.acked.is_empty() || !open.moved.is_empty() {
            self.rewrite(&segment, |entry| !open.is_gone(entry.index));
        }
    }

    pub(super) fn record_delivered(&mut self, first: Seq, open: &OpenSegment) {
        let Some(segment) = self.owner.window.segment(first) else { return };
        let acked = segment.entries.iter().filter(|entry| open.acked.contains(entry.index));
        let delivered: Vec<Done> = acked.filter_map(|entry| self.owner.window.delivered(first, entry)).collect();
        for done in delivered {
            self.put_done(first, done);
        }
    }

    /// Writes the history of claimed segments of which nothing is left, as far as there is room, and removes them.
    pub(super) fn finish_segments(&mut self) {
        let firsts: Vec<Seq> = match self.owner.next.take_finish_more() {
            true => self.record.open.keys().copied().collect(),
            false => self.touched.iter().copied().collect(),
        };
        for first in firsts {
            let (Some(open), Some(segment)) = (self.record.open.get(&first), self.owner.window.segment(first)) else {
                continue;
            };
            if open.acked.len() + open.moved.len() < segment.entries.len() {
                continue;
            }
            if self.is_full(Part::Finished) {
                self.owner.next.finish_more();
                return;
            }
            let tenant = segment.tenant.clone();
            let open = open.clone();
            self.record_delivered(first, &open);
            self.record.open.remove(&first);
            self.put(Write::DeleteSegment(first));
            self.flight.finished.push((tenant, first));
        }
    }

    /// When the shard is given back and nothing is being sent: closes everything, as much with each commit as there is room for.
    /// The last one says so in the record.
    pub(super) fn release_all(&mut self) {
        if !self.owner.releasing || self.owner.scheduler.sending() > 0 || !self.owner.next.settlements().is_empty() {
            return;
        }
        let open: Vec<Seq> = self.record.open.keys().copied().collect();
        for first in open {
            if self.is_full(Part::Claims) {
                return;
            }
            self.close(first);
        }
        let settled: BTreeSet<Seq> = self.flight.settled.iter().map(|(seq, _)| *seq).collect();
        let is_claimed = |slot: &&Slot| slot.origin == Origin::Parked && slot.claimed && !settled.contains(&slot.seq());
        let mut claimed: Vec<Seq> = self.owner.slots.values().filter(is_claimed).map(Slot::seq).collect();
        claimed.sort_unstable();
        for seq in claimed {
            if self.is_full(Part::Claims) {
                return;
            }
            let Some(row) = self.owner.slots.get(&seq).map(|slot| Arc::new(slot.parked(false))) else { continue };
            self.put(Write::PutParked(row));
            self.flight.parked_released.push(seq);
        }
        self.record.suspicion = std::mem::take(&mut self.record.suspicion).after_clean_end();
        self.record.released = true;
    }
}
