//! Who is to blame when a host dies while it sends.
//!
//! After an unclean end the next owner is cautious for a while: what it is about to send is named in its shard record
//! first. What stands named when the process dies is suspect. Suspects are narrowed by halves, one half named at a time;
//! whoever settles after it was named is cleared. One that was on trial by itself at three crashes is convicted. Before it is on
//! trial by itself once more, an owner lives without it for twice as long as those before did: what kills the host every so often
//! kills it without the suspect, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::ids::Seq;
use crate::limits::{ALONE_CRASHES_MAX, SUSPECTS_MAX};

/// What a shard record says of crashes. `K` names what may have been the cause: of the outbox a message's seq.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspicion<K = Seq> {
    /// Unclean ends since the host last ran cleanly for as long as [`Caution::forget`] says.
    pub unclean: u32,
    /// The owner is cautious after an unclean end.
    pub cautious: bool,
    /// What may be with a transport, or will be as soon as a lane is free.
    pub calling: BTreeSet<K>,
    /// The suspect that is on trial by itself.
    pub alone: Option<K>,
    /// What stood in `calling` when a process died, and wasn't settled since.
    pub suspects: BTreeMap<K, Suspect>,
    /// How long the owner that wrote this had lived then, by its boot-time clock. Zero = it isn't cautious and knows no suspects, or
    /// has lived for longer than [`Caution::life_max`]. It says so twice in its lease, and every
    /// [`LIFE_BEAT`](crate::limits::LIFE_BEAT) while a suspect is on trial by itself.
    pub lived: Duration,
    /// How long those before it lived, as far as that says how often the host is killed: the longest since there are suspects. An
    /// earlier one counts a quarter less with each crash.
    pub longest_life: Duration,
}

/// A message that a process may have died of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// Crashes at which it was named. Those with the same number are narrowed together.
    pub crashes: u32,
    /// Of those, such as it was on trial by itself, with no other crash in between.
    pub alone: u32,
}

impl Suspect {
    /// Whether it is taken for what kills the host.
    pub fn is_convicted(&self) -> bool {
        self.alone >= ALONE_CRASHES_MAX
    }
}

impl<K: Copy + Ord + Default> Suspicion<K> {
    /// Nothing to say: an owner that isn't cautious and knows no suspects.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is true after the process died.
    #[must_use]
    pub fn after_crash(mut self) -> Self {
        let before = if self.suspects.is_empty() { in_millis(self.longest_life / 4 * 3) } else { self.longest_life };
        self.longest_life = std::mem::take(&mut self.lived).max(before);
        let calling = std::mem::take(&mut self.calling);
        let tried: Vec<K> = calling.iter().filter(|seq| self.suspects.contains_key(seq)).copied().collect();
        if tried.is_empty() {
            // It died of something else, so something else may have been at work before.
            for suspect in self.suspects.values_mut() {
                suspect.alone = 0;
            }
        }
        let alone = self.alone.take().filter(|seq| tried == [*seq]);
        let mut fresh = Vec::new();
        for seq in calling {
            match self.suspects.get_mut(&seq) {
                Some(suspect) => {
                    suspect.crashes = suspect.crashes.saturating_add(1);
                    suspect.alone = suspect.alone.saturating_add(u32::from(alone == Some(seq)));
                }
                None => fresh.push((seq, Suspect { crashes: 1, alone: 0 })),
            }
        }
        let room = SUSPECTS_MAX.saturating_sub(self.suspects.len());
        self.suspects.extend(fresh.into_iter().take(room));
        self.unclean = self.unclean.saturating_add(1);
        self.cautious = true;
        self
    }

    /// What is true after the owner ended and its process lived: what it was sending says nothing.
    #[must_use]
    pub fn after_clean_end(mut self) -> Self {
        self.calling.clear();
        self.alone = None;
        self.lived = Duration::ZERO;
        self
    }

    /// How many suspects of each number of crashes may be on trial at once: half of them.
    pub fn halves(&self) -> BTreeMap<u32, usize> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for suspect in self.suspects.values() {
            *counts.entry(suspect.crashes).or_default() += 1;
        }
        counts.into_iter().map(|(crashes, count)| (crashes, count.div_ceil(2))).collect()
    }
}

/// How long an owner is cautious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caution {
    /// After the first unclean end; doubled with each further one.
    pub first: Duration,
    /// Doubling ends at this time.
    pub longest: Duration,
    /// Running for so long without an unclean end forgets those before.
    pub forget: Duration,
    /// An owner lives for so long before a suspect is on trial by itself: what kills a host over and over without that
    /// one being sent clears it. Four times as long after each crash that it was alone at, and then at least twice as long as the
    /// owners before lived ([`Suspicion::longest_life`]).
    pub quiet: Duration,
    /// Who has lived for longer isn't killed often: its life makes no suspect wait. Calls end sooner, so a trial that began early
    /// had an end. Suspects wait for twice that at most.
    pub life_max: Duration,
}

impl Default for Caution {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(60),
            longest: Duration::from_secs(3_600),
            forget: Duration::from_secs(24 * 3_600),
            quiet: Duration::from_secs(1),
            life_max: Duration::from_secs(300),
        }
    }
}

/// As exact as lives are stored.
fn in_millis(life: Duration) -> Duration {
    life - Duration::from_nanos(u64::from(life.subsec_nanos() % 1_000_000))
}

impl Caution {
    /// What an owner that has lived for so long says of it in its record.
    pub fn life_told(&self, lived: Duration) -> Duration {
        if lived <= self.life_max { in_millis(lived) } else { Duration::ZERO }
    }

    /// For how long after its takeover an owner is cautious.
    pub fn lasts<K>(&self, suspicion: &Suspicion<K>) -> Duration {
        if !suspicion.cautious {
            return Duration::ZERO;
        }
        let doublings = suspicion.unclean.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }

    /// How long an owner lives before this suspect is on trial by itself. The first such trial convicts nobody however it ends, so
    /// it comes early and clears what isn't slow.
    pub fn quiet_before(&self, suspect: Suspect, longest_life: Duration) -> Duration {
        let lives = if suspect.alone == 0 { Duration::ZERO } else { longest_life.saturating_mul(2) };
        self.quiet.saturating_mul(4_u32.saturating_pow(suspect.alone)).max(lives)
    }

    /// How long it may take to convict what kills every owner that calls it, among so many that are named with it: for each crash the
    /// time until the next owner has called it, and before each trial by itself the longest wait for that.
    pub fn conviction(&self, named: u32, until_called: Duration) -> Duration {
        // A crash without names, one with all of them, and one for each time that they are halved.
        let together = 2 + named.max(1).next_power_of_two().ilog2();
        let wait = |alone| self.quiet_before(Suspect { alone, ..Suspect::default() }, self.life_max);
        let waits: Duration = (0..ALONE_CRASHES_MAX).map(wait).sum();
        waits.saturating_add(until_called.saturating_mul(together + ALONE_CRASHES_MAX))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn seqs(range: std::ops::Range<u64>) -> BTreeSet<Seq> {
        range.map(Seq).collect()
    }

    /// Crashes until a poison among `count` is convicted, when each crash comes at once while its half is on trial.
    fn crashes_to_convict(count: u64, poison: u64) -> u32 {
        let mut suspicion = Suspicion { calling: seqs(0..count), ..Suspicion::default() }.after_crash();
        let mut crashes = 0;
        while !suspicion.suspects.get(&Seq(poison)).unwrap().is_convicted() {
            let (level, half) = suspicion.halves().pop_first().unwrap();
            let on_trial: Vec<Seq> = suspicion
                .suspects
                .iter()
                .filter(|(_, suspect)| suspect.crashes == level)
                .map(|(seq, _)| *seq)
                .take(half)
                .collect();
            if on_trial.contains(&Seq(poison)) {
                suspicion.alone = (on_trial.len() == 1).then_some(Seq(poison));
                suspicion.calling = on_trial.into_iter().collect();
                suspicion = suspicion.after_crash();
                crashes += 1;
            } else {
                for seq in on_trial {
                    suspicion.suspects.remove(&seq);
                }
            }
        }
        crashes
    }

    #[test]
    fn a_poison_is_convicted_within_the_logarithm_of_the_suspects_and_three() {
        for count in [1_u64, 2, 3, 5, 8, 100, 1_000] {
            let most = count.next_power_of_two().ilog2() + 3;
            for poison in [0, count / 2, count - 1] {
                let crashes = crashes_to_convict(count, poison);
                assert!((3..=most).contains(&crashes), "{poison} of {count}: {crashes} crashes");
            }
        }
    }

    #[test]
    fn a_crash_without_any_suspect_named_takes_back_what_was_held_against_one_alone() {
        let suspect = Suspect { crashes: 4, alone: 2 };
        let before = Suspicion { suspects: [(Seq(1), suspect)].into(), ..Suspicion::default() };
        let crashed = Suspicion { calling: seqs(5..7), alone: Some(Seq(1)), ..before.clone() }.after_crash();
        assert_eq!(crashed.suspects.get(&Seq(1)), Some(&Suspect { crashes: 4, alone: 0 }));
        assert_eq!(crashed.suspects.get(&Seq(5)), Some(&Suspect { crashes: 1, alone: 0 }));
        // Beside another suspect it isn't alone, whatever the record says.
        let beside = Suspicion { suspects: [(Seq(1), suspect), (Seq(2), suspect)].into(), ..before };
        let crashed = Suspicion { calling: seqs(1..3), alone: Some(Seq(1)), ..beside }.after_crash();
        assert_eq!(crashed.suspects.get(&Seq(1)), Some(&Suspect { crashes: 5, alone: 2 }));
    }

    #[test]
    fn the_longest_life_of_late_is_kept_and_counts_less_with_each_crash() {
        let caution = Caution::default();
        let crash =
            |suspicion: Suspicion, lived| Suspicion { lived: caution.life_told(lived), ..suspicion }.after_crash();
        let seconds = Duration::from_secs;
        let mut suspicion = crash(Suspicion::default(), seconds(20));
        assert_eq!((suspicion.longest_life, suspicion.lived), (seconds(20), Duration::ZERO));
        suspicion = crash(suspicion, seconds(5));
        assert_eq!(suspicion.longest_life, seconds(15));
        suspicion = crash(suspicion, seconds(40));
        assert_eq!(suspicion.longest_life, seconds(40));
        // Who is killed so seldom would have ended its trial long before.
        suspicion = crash(suspicion, caution.life_max + seconds(1));
        assert_eq!(suspicion.longest_life, seconds(30));
        suspicion.suspects.insert(Seq(1), Suspect::default());
        for _ in 0..9 {
            suspicion = crash(suspicion, seconds(5));
        }
        assert_eq!(suspicion.longest_life, seconds(30), "it counts as long as somebody is suspect");
        let clean = Suspicion { lived: seconds(40), ..suspicion }.after_clean_end();
        assert_eq!((clean.longest_life, clean.lived), (seconds(30), Duration::ZERO));
    }

    #[test]
    fn a_suspect_stays_out_for_twice_the_longest_life_before_a_trial_that_counts_against_it() {
        let quiet = |alone, life| {
            let suspect = Suspect { crashes: 9, alone };
            Caution::default().quiet_before(suspect, Duration::from_secs(life)).as_secs()
        };
        assert_eq!([0, 1, 2].map(|alone| quiet(alone, 0)), [1, 4, 16]);
        assert_eq!([0, 1, 2].map(|alone| quiet(alone, 20)), [1, 40, 40]);
        assert_eq!(quiet(2, Caution::default().life_max.as_secs()), 600, "ten minutes at most");
    }

    #[test]
    fn a_conviction_takes_no_longer_than_told() {
        let (caution, call) = (Caution::default(), Duration::from_secs(30));
        for count in [1_u32, 2, 5, 32, 1_000] {
            let waits = Duration::from_secs(1 + 600 + 600);
            let left = caution.conviction(count, call) - waits;
            // The first crash names nobody, the second everybody.
            let crashes = 2 + crashes_to_convict(count.into(), 0);
            assert!(left >= call * crashes && left <= call * (crashes + 2), "{count}: {left:?} for {crashes} crashes");
        }
    }

    #[test]
    fn caution_doubles_to_its_bound() {
        let lasts = |unclean| {
            Caution::default().lasts(&Suspicion::<Seq> { unclean, cautious: true, ..Suspicion::default() }).as_secs()
        };
        assert_eq!([1, 2, 3, 6, 7, 1_000].map(lasts), [60, 120, 240, 1_920, 3_600, 3_600]);
        assert_eq!(Caution::default().lasts(&Suspicion::<Seq> { unclean: 3, ..Suspicion::default() }), Duration::ZERO);
    }
}
