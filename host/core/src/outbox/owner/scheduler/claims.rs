//! Messages that may be sent once they are claimed.

use std::collections::{BTreeMap, BTreeSet};

use super::super::slots::{Origin, Slot};
use crate::ids::{Seq, Tenant};

/// What waits for a claim: parked messages one by one, others by their segment.
///
/// `by_tenant` names the keys of `segments`, each under its tenant. No set in either is empty.
#[derive(Debug, Default)]
pub struct WantedClaims {
    parked: BTreeSet<Seq>,
    segments: BTreeMap<Seq, BTreeSet<Seq>>,
    by_tenant: BTreeMap<Tenant, BTreeSet<Seq>>,
}

impl WantedClaims {
    pub(super) fn insert(&mut self, slot: &Slot) {
        match slot.origin {
            Origin::Parked => {
                self.parked.insert(slot.seq());
            }
            Origin::Segment => {
                let first = slot.place.segment;
                let wanted = self.segments.entry(first).or_default();
                if wanted.is_empty() {
                    self.by_tenant.entry(slot.message.tenant.clone()).or_default().insert(first);
                }
                wanted.insert(slot.seq());
            }
        }
    }

    pub(super) fn remove(&mut self, slot: &Slot) {
        let (seq, first) = (slot.seq(), slot.place.segment);
        self.parked.remove(&seq);
        let Some(wanted) = self.segments.get_mut(&first) else { return };
        wanted.remove(&seq);
        if !wanted.is_empty() {
            return;
        }
        self.segments.remove(&first);
        if let Some(firsts) = self.by_tenant.get_mut(&slot.message.tenant) {
            firsts.remove(&first);
            if firsts.is_empty() {
                self.by_tenant.remove(&slot.message.tenant);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.parked.is_empty() && self.segments.is_empty()
    }

    /// Parked messages, in order.
    pub fn parked(&self) -> impl Iterator<Item = Seq> {
        self.parked.iter().copied()
    }

    /// How many segments wait for a claim.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The first segment of each tenant that waits for a claim.
    pub fn first_segments(&self) -> impl Iterator<Item = (Seq, Tenant)> {
        self.by_tenant.iter().filter_map(|(tenant, firsts)| Some((*firsts.first()?, tenant.clone())))
    }

    /// The next segment of a tenant that waits for a claim, behind this one.
    pub fn segment_behind(&self, tenant: &Tenant, first: Seq) -> Option<Seq> {
        self.by_tenant.get(tenant)?.range(first.next()..).next().copied()
    }

    /// Messages whose segments wait for a claim.
    pub fn in_segments(&self) -> impl Iterator<Item = Seq> {
        self.segments.values().flatten().copied()
    }

    pub fn contains(&self, slot: &Slot) -> bool {
        match slot.origin {
            Origin::Parked => self.parked.contains(&slot.seq()),
            Origin::Segment => {
                self.segments.get(&slot.place.segment).is_some_and(|wanted| wanted.contains(&slot.seq()))
            }
        }
    }

    /// How many messages wait for a claim.
    pub fn len(&self) -> usize {
        self.parked.len() + self.in_segments().count()
    }

    /// For tests: both lists of segments agree.
    pub fn check(&self) -> Result<(), String> {
        let (wanted, listed) = (self.segments.len(), self.by_tenant.values().map(BTreeSet::len).sum::<usize>());
        if wanted == listed {
            return Ok(());
        }
        Err(format!("{wanted} segments want a claim, {listed} are listed by tenant"))
    }
}
