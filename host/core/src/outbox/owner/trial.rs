//! Suspects: sent by halves, one half at a time, beside everything else.
//!
//! Who was named at fewer crashes goes first: those are the likelier innocent, and what they block is free the sooner. What
//! settles is cleared. One that is on trial by itself waits until this owner has lived a while without it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Owner, Rule};
use crate::ids::Seq;
use crate::outbox::lone_trials::Standing;
use crate::outbox::suspicion::Suspect;
use crate::time::{Monotonic, Now};

/// Suspects that could be sent, and those that are.
///
/// `waiting` names the messages whose state is `WantTrial`. A member may be sent; who can't be sent, settles or leaves memory is no
/// member any more. The next trial begins when nobody is left of the one before.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Could be sent, and wait for their turn.
    waiting: BTreeSet<Seq>,
    members: BTreeSet<Seq>,
    /// It began with one member.
    alone: bool,
    /// How many of each number of crashes may be on trial at once.
    halves: BTreeMap<u32, usize>,
    /// Another shard of this process has a suspect on trial by itself.
    is_elsewhere: bool,
}

impl Trial {
    pub fn new(halves: BTreeMap<u32, usize>) -> Self {
        Self { halves, ..Self::default() }
    }
    pub fn wait(&mut self, seq: Seq) {
        self.waiting.insert(seq);
    }
    pub fn stop_waiting(&mut self, seq: Seq) {
        self.waiting.remove(&seq);
    }
    pub fn waiting(&self) -> &BTreeSet<Seq> {
        &self.waiting
    }
    pub fn has(&self, seq: Seq) -> bool {
        self.members.contains(&seq)
    }
    pub fn members(&self) -> BTreeSet<Seq> {
        self.members.clone()
    }
    pub fn remove(&mut self, seq: Seq) {
        self.members.remove(&seq);
    }
    /// The one that is on trial by itself.
    pub fn alone(&self) -> Option<Seq> {
        self.members.first().copied().filter(|_| self.alone)
    }
}

impl Owner {
    /// Crashes that a message is held suspect for; 0 = it isn't.
    pub fn crashes_of(&self, seq: Seq) -> u32 {
        self.suspect(seq).map_or(0, |suspect| suspect.crashes)
    }

    /// Whether a suspect is on trial by itself. Only one shard of a process should have one at a time, see
    /// [`Owner::set_trial_elsewhere`].
    pub fn has_lone_trial(&self) -> bool {
        self.trial.alone().is_some()
    }

    /// What is held against its suspects. It has twice the time that one waits until it is on trial by itself.
    pub fn standing(&self) -> Standing {
        let suspects = self.record.suspicion.suspects.values();
        let most = suspects.max_by_key(|suspect| suspect.alone).copied().unwrap_or_default();
        let quiet = self.quiet_before(most);
        Standing { alone: most.alone, until: self.adopted_at + quiet + quiet }
    }

    /// Another shard of this process has a suspect on trial by itself or goes first, or doesn't any more. Meanwhile this one begins
    /// no such trial, see [`crate::outbox::lone_trials`].
    pub fn set_trial_elsewhere(&mut self, is_elsewhere: bool) {
        self.trial.is_elsewhere = is_elsewhere;
    }

    /// Suspects that could be sent and wait for their trial.
    pub fn waiting_suspects(&self) -> usize {
        self.trial.waiting.len()
    }

    pub(super) fn suspect(&self, seq: Seq) -> Option<Suspect> {
        self.record.suspicion.suspects.get(&seq).copied()
    }

    pub(super) fn is_suspect(&self, seq: Seq) -> bool {
        !self.record.suspicion.suspects.is_empty() && self.record.suspicion.suspects.contains_key(&seq)
    }

    pub(super) fn has_trials(&self) -> bool {
        !self.trial.waiting.is_empty() || !self.trial.members.is_empty()
    }

    /// Puts the next half on trial, when nobody is.
    pub(super) fn begin_trial(&mut self, now: Now) {
        let is_free = self.trial.members.is_empty() || !self.is_rule_kept(Rule::OneTrial);
        if !is_free || self.trial.waiting.is_empty() || self.releasing {
            return;
        }
        let mut by_crashes: BTreeMap<u32, Vec<Seq>> = BTreeMap::new();
        for seq in &self.trial.waiting {
            by_crashes.entry(self.crashes_of(*seq)).or_default().push(*seq);
        }
        for (crashes, mut seqs) in by_crashes {
            if self.is_rule_kept(Rule::TrialByHalves) {
                seqs.truncate(self.trial.halves.get(&crashes).copied().unwrap_or(1));
            }
            if let [seq] = seqs.as_slice()
                && !self.may_be_alone(*seq, now.mono)
            {
                continue;
            }
            self.trial.alone = self.trial.members.is_empty() && seqs.len() == 1;
            self.trial.members.extend(seqs.iter().copied());
            for seq in seqs {
                self.consider(seq, now);
            }
            return;
        }
    }

    fn quiet_before(&self, suspect: Suspect) -> Duration {
        self.config.caution.quiet_before(suspect, self.record.suspicion.longest_life)
    }

    fn may_be_alone(&self, seq: Seq, now: Monotonic) -> bool {
        let quiet = self.quiet_before(self.suspect(seq).unwrap_or_default());
        !self.trial.is_elsewhere && (now >= self.adopted_at + quiet || !self.is_rule_kept(Rule::QuietBeforeAlone))
    }
}
