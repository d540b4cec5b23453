//! Events that number themselves in the commit of their message. Where they can't, that message alone has failed; in a commit that met
//! another writer of their stream nobody did: each of them is tried in a commit of its own, in turn with everything else.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Flight;
use super::entry::{Decision, End, Stage};
use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::port::transport::Fault;
use crate::streams::exact::ExactRefusal;
use crate::streams::joint::{JointAppend, JointAppends};
use crate::streams::name::StreamKey;

/// Events that a finished message leaves.
fn left(decision: &mut Decision) -> Option<&mut JointAppends> {
    match decision {
        Decision::Finish(End::Processed(leavings)) => Some(&mut leavings.events),
        _ => None,
    }
}

impl InboxOwner {
    /// What goes by itself next.
    pub(super) fn next_alone(&mut self) -> Option<Seq> {
        let decided = &self.decided;
        self.alone.retain(|seq| decided.contains(seq));
        self.alone.first().copied()
    }

    /// Messages whose outcomes are in the next commit: one alone, or those that go together, in which events of a stream number themselves
    /// for one of them only.
    pub(super) fn next_outcomes(&self, alone: Option<Seq>) -> Vec<Seq> {
        if alone.is_some() {
            return alone.into_iter().collect();
        }
        let mut streams: BTreeSet<&StreamKey> = BTreeSet::new();
        let mut seqs = Vec::new();
        for seq in self.decided.iter().filter(|seq| !self.alone.contains(*seq)) {
            if seqs.len() >= self.outcomes_max {
                break;
            }
            let own = || self.events_of(*seq).into_iter().flat_map(JointAppends::exact_streams);
            if own().any(|stream| streams.contains(stream)) {
                continue;
            }
            streams.extend(own());
            seqs.push(*seq);
        }
        seqs
    }

    fn events_of(&self, seq: Seq) -> Option<&JointAppends> {
        match &self.entries.get(seq)?.stage {
            Stage::Decided(Decision::Finish(End::Processed(leavings))) => Some(&leavings.events),
            _ => None,
        }
    }

    /// The store refused events of a commit: in `flight` their messages have failed. False = it has none of these.
    pub(super) fn fail_refused(&self, flight: &mut Flight, refused: &[(usize, ExactRefusal)]) -> bool {
        let faults = refused.iter().filter_map(|(place, refusal)| {
            let (seq, _) = flight.appends.get(*place).filter(|(_, is_exact)| *is_exact)?;
            Some((*seq, refusal.fault()))
        });
        let faults: BTreeMap<Seq, Fault> = faults.collect();
        for (seq, decision, _) in &mut flight.outcomes {
            let Some(fault) = faults.get(&*seq) else { continue };
            if !self.is_rule_kept(Rule::RefusedFails) {
                if let Some(events) = left(decision) {
                    events.list.retain(|append| matches!(append, JointAppend::Plain { .. }));
                }
                continue;
            }
            let called = self.entries.get(*seq).and_then(|entry| Some((entry.consumer?, entry.attempts)));
            if let Some((consumer, attempts)) = called {
                // Like any other failed attempt it may be the last.
                *decision = self.failed(consumer, attempts, fault.clone(), 0.5);
            }
        }
        !faults.is_empty()
    }

    /// A commit isn't in, and another writer of a stream may be why: what numbers itself there goes alone.
    pub(super) fn part(&mut self, flight: &Flight) {
        self.alone.extend(flight.appends.iter().filter(|(_, is_exact)| *is_exact).map(|(seq, _)| *seq));
    }
}
