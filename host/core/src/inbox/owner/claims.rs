//! After an unclean end: what is called is named in a commit first, so that the next crash has suspects. These are called by halves, one
//! half at a time, beside everything else; one that is alone waits until this owner has lived a while without it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::inbox::fingerprint::Fingerprint;
use crate::inbox::limits::{AGE_BEAT, NAMED_AHEAD};
use crate::inbox::records::InboxCommit;
use crate::inbox::settings::Target;
use crate::limits::LIFE_BEAT;
use crate::outbox::lone_trials::{LoneTrials, Party, Standing};
use crate::outbox::suspicion::{Suspect, Suspicion};
use crate::time::{Monotonic, Now};

/// Part: whether this owner is cautious, and which suspects are on trial.
#[derive(Debug, Default)]
pub(super) struct Claims {
    on: bool,
    /// At least until then.
    until: Monotonic,
    /// How many suspects of each number of crashes are on trial at once.
    halves: BTreeMap<u32, usize>,
    members: BTreeSet<Fingerprint>,
    alone: bool,
    /// Another shard of this process has one alone.
    is_elsewhere: bool,
}

impl Claims {
    pub fn new(on: bool, until: Monotonic, halves: BTreeMap<u32, usize>) -> Self {
        Self { on, until, halves, ..Self::default() }
    }
}

impl InboxOwner {
    pub fn is_cautious(&self) -> bool {
        self.claims.on
    }

    /// Whether a suspect is on trial by itself.
    pub fn has_lone_trial(&self) -> bool {
        self.claims.alone && !self.claims.members.is_empty()
    }

    /// How much is held against its suspects: decides which shard of the process goes first.
    pub fn standing(&self) -> Standing {
        let suspects = self.record.suspicion.suspects.values();
        let most = suspects.max_by_key(|suspect| suspect.alone).copied().unwrap_or_default();
        let quiet = self.config.caution.quiet_before(most, self.record.suspicion.longest_life);
        Standing { alone: most.alone, until: self.adopted_at + quiet + quiet }
    }

    pub fn set_trial_elsewhere(&mut self, is_elsewhere: bool) {
        self.claims.is_elsewhere = is_elsewhere;
    }

    /// The next commit, with the process's other shards asked whether a suspect may be on trial by itself now.
    pub fn build_among(&mut self, trials: &LoneTrials, now: Now, nonce: u64) -> Option<InboxCommit> {
        let party = Party::Inbox(self.config.shard);
        if self.record.suspicion.suspects.is_empty() {
            trials.leave(party);
            return self.build(now, nonce);
        }
        let has_turn = trials.begin(party, self.standing(), now.mono);
        self.set_trial_elsewhere(!has_turn);
        let commit = self.build(now, nonce);
        if !self.has_lone_trial() {
            trials.end(party);
        }
        commit
    }

    fn suspect(&self, fingerprint: Fingerprint) -> Option<Suspect> {
        self.record.suspicion.suspects.get(&fingerprint).copied()
    }

    pub(super) fn is_convicted(&self, seq: Seq) -> bool {
        let suspect = self.entries.get(seq).and_then(|entry| self.suspect(entry.fingerprint));
        suspect.is_some_and(|suspect| suspect.is_convicted())
    }

    fn names(&self) -> bool {
        self.claims.on && self.is_rule_kept(Rule::NameBeforeCall)
    }

    /// Whether caution lets a handler have it: it stands named, whatever becomes of the commit that is out.
    pub(super) fn may_be_called(&self, seq: Seq) -> bool {
        if !self.names() {
            return true;
        }
        let Some(entry) = self.entries.get(seq) else { return false };
        let is_named = |suspicion: &Suspicion<Fingerprint>| suspicion.calling.contains(&entry.fingerprint);
        let in_flight = self.flight.as_ref().map(|flight| &flight.record.suspicion);
        let is_on_trial = self.suspect(entry.fingerprint).is_none() || self.claims.members.contains(&entry.fingerprint);
        is_named(&self.record.suspicion) && in_flight.is_none_or(is_named) && is_on_trial
    }

    /// A handler answered: whatever it said, the host lives.
    pub(super) fn end_call(&mut self, fingerprint: Fingerprint) {
        self.claims.members.remove(&fingerprint);
    }

    fn is_ready(&self, seq: Seq) -> bool {
        let consumer = self.entries.get(seq).and_then(|entry| entry.consumer);
        let consumer = consumer.and_then(|id| self.consumers.get(id));
        consumer.is_some_and(|consumer| consumer.ready.contains(&seq) && !consumer.is_held(self.clock))
    }

    /// Puts the next half of the suspects on trial when the one before is over.
    pub(super) fn begin_trial(&mut self, now: Now) {
        if !self.names() || self.record.suspicion.suspects.is_empty() {
            return;
        }
        let gone: Vec<Fingerprint> =
            self.claims.members.iter().filter(|of| self.entries.seq_of(**of).is_none()).copied().collect();
        gone.iter().for_each(|of| self.end_call(*of));
        if !self.claims.members.is_empty() {
            return;
        }
        let mut by_crashes: BTreeMap<u32, Vec<Fingerprint>> = BTreeMap::new();
        for (fingerprint, suspect) in &self.record.suspicion.suspects {
            if self.entries.seq_of(*fingerprint).is_some_and(|seq| self.is_ready(seq)) {
                by_crashes.entry(suspect.crashes).or_default().push(*fingerprint);
            }
        }
        for (crashes, mut half) in by_crashes {
            half.truncate(self.claims.halves.get(&crashes).copied().unwrap_or(1).max(1));
            if let [alone] = half.as_slice() {
                let suspect = self.suspect(*alone).unwrap_or_default();
                let quiet = self.config.caution.quiet_before(suspect, self.record.suspicion.longest_life);
                if self.claims.is_elsewhere || now.mono < self.adopted_at + quiet {
                    continue;
                }
            }
            self.claims.alone = half.len() == 1;
            self.claims.members.extend(half);
            return;
        }
    }

    /// What the next commit says of crashes.
    pub(super) fn next_suspicion(&mut self, now: Now) -> Suspicion<Fingerprint> {
        let caution = self.config.caution;
        let lived = now.mono - self.adopted_at;
        let mut next = self.record.suspicion.clone();
        let is_here = |of: &Fingerprint| self.entries.seq_of(*of).is_some();
        if self.claims.on && now.mono >= self.claims.until && !next.suspects.keys().any(is_here) {
            self.claims.on = false;
        }
        if !self.claims.on {
            let unclean = if lived > caution.forget { 0 } else { next.unclean };
            let longest_life = if unclean == 0 { Duration::ZERO } else { next.longest_life };
            return Suspicion { unclean, longest_life, ..Suspicion::default() };
        }
        self.begin_trial(now);
        next.lived = caution.life_told(lived);
        if self.is_rule_kept(Rule::NameBeforeCall) {
            next.calling = self.next_names();
            let alone = self.claims.members.first().copied().filter(|_| self.claims.alone);
            next.alone = alone.filter(|of| next.calling.contains(of));
        }
        next
    }

    /// Whether a commit has to be made for it: how long this owner has lived goes with the others.
    pub(super) fn is_news(&self, next: &Suspicion<Fingerprint>) -> bool {
        let told = |suspicion: &Suspicion<Fingerprint>| Suspicion { lived: Duration::ZERO, ..suspicion.clone() };
        told(next) != told(&self.record.suspicion)
    }

    fn next_names(&self) -> BTreeSet<Fingerprint> {
        let mut names = BTreeSet::new();
        let called = |seq: &Seq| self.entries.get(*seq).map(|entry| entry.fingerprint);
        for id in self.consumers.ids() {
            let (Some(consumer), Some(settings)) = (self.consumers.get(id), self.config.settings.consumer(id)) else {
                continue;
            };
            if settings.target == Target::Forward {
                continue;
            }
            names.extend(consumer.running.iter().filter_map(called));
            if consumer.is_held(self.clock) {
                continue;
            }
            let ready = consumer.ready.iter().filter_map(called);
            let (suspects, others): (Vec<_>, Vec<_>) = ready.partition(|of| self.suspect(*of).is_some());
            names.extend(suspects.into_iter().filter(|of| self.claims.members.contains(of)));
            // Those that stand named already go on being named, the others behind them as far as there is room.
            let (named, fresh): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|of| self.record.suspicion.calling.contains(of));
            let room = (settings.concurrency * NAMED_AHEAD).saturating_sub(named.len());
            names.extend(named);
            names.extend(fresh.into_iter().take(room));
        }
        names
    }

    /// When the record is to be written again although nothing happened.
    pub(super) fn next_beat(&self) -> Monotonic {
        let every = if self.has_lone_trial() { LIFE_BEAT } else { AGE_BEAT };
        let beat = self.accounted_at + every;
        // Behind that time caution lasts until the last suspect is gone, and what becomes of one is a commit of its own.
        if self.claims.on && self.claims.until > self.clock { beat.min(self.claims.until) } else { beat }
    }
}
