//! Who is blamed for a death: only what was named, by halves, and nobody healthy is convicted.

use std::collections::BTreeSet;
use std::time::Duration;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::limits::ALONE_CRASHES_MAX;
use waybill_core::outbox::owner::Owner;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::OwnerCommit;

use super::ledger::At;
use super::setup::CAUTION;
use super::store::ModelStore;
use super::world::World;

/// A takeover counts from its beginning, and goes in so many steps later at most.
const TAKEOVER_STEPS: u64 = 40;

/// What the judge keeps of a shard's ownership that is current.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// When its takeover went in.
    taken_at: u64,
    /// Most suspects at once so far.
    suspects_max: usize,
    /// Deaths at which nothing on trial was named: what is held against one alone is taken back then.
    taken_back: u32,
}

impl<S: ModelStore> World<S> {
    /// Judges what a commit that went in says of crashes. The ledger still has the record before.
    pub(super) fn judge_suspicion(&mut self, commit: &OwnerCommit) {
        let shard = commit.shard;
        let before = self.ledger.record(shard).clone();
        let after = &commit.record;
        if before.token == after.token {
            self.judge_trial(shard, &before, after);
        } else {
            self.judge_blame(shard, &before, after);
            self.trials.entry(shard).or_default().taken_at = self.now;
        }
        let trials = self.trials.entry(shard).or_default();
        trials.suspects_max = trials.suspects_max.max(after.suspicion.suspects.len());
    }

    /// A takeover: only a death is one, and only what was named is suspect after it.
    fn judge_blame(&mut self, shard: ShardId, before: &ShardRecord, after: &ShardRecord) {
        let died = self.deaths.contains(&(shard, before.token));
        let blames = after.suspicion.unclean > before.suspicion.unclean;
        // A process that stood still can't say that it lives before another one takes its shard over.
        let stood_still = !died && !self.is_owned_again(before.token);
        if blames && (before.leaving || before.released || !died && !stood_still) {
            self.violation(format!(
                "the end of shard {shard} token {} was no crash and is taken for one",
                before.token
            ));
        }
        self.stats.mistaken += u64::from(blames && stood_still);
        if !blames && died && !before.leaving && !before.released {
            self.violation(format!("the death of shard {shard} token {} isn't noticed", before.token));
        }
        self.stats.deaths += u64::from(blames);
        self.stats.clean_ends += u64::from(!blames && before.token > 0);
        let known = |seq: &Seq| before.suspicion.suspects.contains_key(seq);
        let strangers: Vec<&Seq> = after
            .suspicion
            .suspects
            .keys()
            .filter(|seq| !(known(seq) || blames && before.suspicion.calling.contains(seq)))
            .collect();
        if !strangers.is_empty() {
            self.violation(format!("{strangers:?} are suspect and weren't named"));
        }
        self.stats.suspects += after.suspicion.suspects.keys().filter(|seq| !known(seq)).count() as u64;
        if blames && !before.suspicion.calling.iter().any(known) {
            self.trials.entry(shard).or_default().taken_back += 1;
        }
    }

    /// After a commit was booked: who has come to its end is no suspect. What lies in quarantine may be one still, until the
    /// floor has passed it: nobody can tell what lay in a row that can't be read.
    pub(super) fn judge_suspects(&mut self, shard: ShardId) {
        let ledger = &self.ledger;
        let suspects = ledger.record(shard).suspicion.suspects.keys().map(|seq| (shard, *seq));
        let ended: Vec<At> = suspects.filter(|at| !ledger.is_waiting(*at) && !ledger.is_aside(*at)).collect();
        if !ended.is_empty() {
            self.violation(format!("{ended:?} have come to their end and are suspect"));
        }
    }

    /// Whether the process that takes the shard over is the one that had it.
    fn is_owned_again(&self, token: u64) -> bool {
        self.taker == Some(token)
    }

    /// A commit of an owner: at most half of those with one number of crashes is on trial.
    fn judge_trial(&mut self, shard: ShardId, before: &ShardRecord, after: &ShardRecord) {
        let (suspicion, earlier) = (&after.suspicion, &before.suspicion);
        let on_trial: Vec<Seq> =
            suspicion.calling.iter().filter(|seq| earlier.suspects.contains_key(seq)).copied().collect();
        let crashes: BTreeSet<u32> =
            on_trial.iter().filter_map(|seq| earlier.suspects.get(seq)).map(|suspect| suspect.crashes).collect();
        if crashes.len() > 1 {
            self.violation(format!("{on_trial:?} are on trial together and weren't suspect together"));
        }
        let halves = self.ledger.halves.get(&shard);
        let half = crashes.first().zip(halves).and_then(|(crashes, halves)| halves.get(crashes));
        let half = half.copied().unwrap_or(0);
        if on_trial.len() > half {
            self.violation(format!("{} are on trial together, at most {half} may be", on_trial.len()));
        }
        let Some(alone) = suspicion.alone.filter(|alone| earlier.alone != Some(*alone)) else { return };
        let suspect = earlier.suspects.get(&alone).copied().unwrap_or_default();
        let quiet = CAUTION.quiet_before(suspect, earlier.longest_life);
        let taken_at = self.trials.get(&shard).map_or(0, |trials| trials.taken_at);
        if Duration::from_millis(self.now - taken_at + TAKEOVER_STEPS) < quiet {
            self.violation(format!("{alone} is on trial alone before its owner has lived {quiet:?} without it"));
        }
    }

    pub(super) fn count_trial(&mut self, owner: &Owner, seq: Seq) {
        let is_suspect = owner.crashes_of(seq) > 0;
        self.stats.trial_sends += u64::from(is_suspect);
        self.stats.lone_sends += u64::from(is_suspect && owner.has_lone_trial());
        self.stats.beside += u64::from(!is_suspect && owner.waiting_suspects() > 0);
    }

    /// The process dies of a message: it may do so only so often.
    pub(super) fn note_kill(&mut self, (shard, seq): At, number: usize) {
        self.stats.poisonings += 1;
        if !self.ledger.record(shard).suspicion.suspects.contains_key(&seq) {
            return;
        }
        let trials = self.trials.entry(shard).or_default();
        let most = trials.suspects_max.next_power_of_two().ilog2() + ALONE_CRASHES_MAX * (1 + trials.taken_back);
        let Some(known) = self.ledger.known.get_mut(number) else { return };
        known.trial_kills += 1;
        let kills = known.trial_kills;
        if kills > most {
            self.violation(format!("msg {number} killed {kills} hosts on trial, at most {most} may be"));
        }
    }
}
