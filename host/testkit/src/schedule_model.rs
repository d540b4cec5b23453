//! Random lives of a schedule on the reference store: hosts that all believe that its runs are theirs read its record and write the next
//! one. Commits go in, get lost, go in without an answer, or go in much later; hosts restart, operators run it by hand, the clock is set
//! ahead and back. Each instant behind which the record stands has one run.
//!
//! What it doesn't cover: the engine's task and sagas (`host/engine/tests`), pauses, the policies for missed runs
//! (`host/core/src/schedule/turn_tests.rs`), stores with hosts of their own (the conformance suite).
#![allow(clippy::panic, clippy::unwrap_used, reason = "a store in memory doesn't fail")]

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{
    Advance, Calendar, MessageWork, Missed, NewSchedule, Run, Schedule, ScheduleKey, ScheduleName, Work,
};
use waybill_core::time::UnixMillis;

use crate::memory_store::MemoryStore;

/// Hosts that make runs.
const HOSTS: usize = 3;
/// Steps of one life.
const STEPS: u64 = 80;
const MINUTE: u64 = 60_000;
/// Longest step of the clock, in minutes: all of them together stay below the week for which runs are made up.
const CLOCK_STEP_MAX: u64 = 120;
/// 2026-10-24T12:00:00Z: Berlin's clocks are set back in the night that follows.
const START: UnixMillis = UnixMillis(1_792_843_200_000);

/// What came up in a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that were made.
    pub runs: u64,
    /// Records that were refused because another was written meanwhile.
    pub refused: u64,
    /// Commits without an answer that went in, at once or later.
    pub unheard: u64,
    /// Commits that got lost.
    pub lost: u64,
}

struct Life {
    store: MemoryStore,
    key: ScheduleKey,
    calendar: Calendar,
    /// What each host knows of the record.
    known: [Option<Schedule>; HOSTS],
    /// Commits that are under way still, though nobody waits for them.
    late: VecDeque<(Schedule, Vec<DoorGroup>)>,
    now: UnixMillis,
    /// Records are written only over the one that they were made of.
    guarded: bool,
    counts: Counts,
}

/// One life of a seed, always the same. The error says which promise was broken. Without the guard of revisions one is, sooner or later.
pub async fn run(seed: u64, guarded: bool) -> Result<Counts, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut life = Life::begin(guarded).await;
    for step in 0..STEPS {
        let host = random.random_range(0..HOSTS);
        match random.random_range(0..100) {
            0..25 => life.read(host).await,
            25..60 => {
                let fate = random.random_range(0..10);
                life.make(host, fate).await;
            }
            60..66 => life.by_hand(host, step).await,
            66..74 => life.release().await,
            74..78 => life.forget(host),
            78..95 => life.now.0 += random.random_range(1..CLOCK_STEP_MAX) * MINUTE,
            _ => life.now.0 -= random.random_range(1..CLOCK_STEP_MAX) * MINUTE,
        }
        life.check().map_err(|broken| format!("seed {seed}, step {step}: {broken}"))?;
    }
    Ok(life.counts)
}

impl Life {
    async fn begin(guarded: bool) -> Self {
        let work = MessageWork {
            topic: "bus:tick".to_owned(),
            payload: Bytes::new(),
            content_type: None,
            key: None,
            headers: Vec::new(),
            event_type: None,
        };
        let new = NewSchedule {
            key: ScheduleKey { tenant: Tenant::unnamed(), name: ScheduleName::new("tick").unwrap() },
            cron: "*/20 * * * *".to_owned(),
            zone: "Europe/Berlin".to_owned(),
            missed: Missed::All,
            work: Work::Message(work),
            is_paused: false,
            actor: "ops".to_owned(),
        };
        let schedule = new.check(START).unwrap();
        let store = MemoryStore::new();
        store.add_schedule(&schedule).await.unwrap();
        Self {
            store,
            key: schedule.key.clone(),
            calendar: schedule.calendar().unwrap(),
            known: [const { None }; HOSTS],
            late: VecDeque::new(),
            now: START,
            guarded,
            counts: Counts::default(),
        }
    }

    async fn read(&mut self, host: usize) {
        let found = self.store.schedule(&self.key).await.unwrap();
        if let Some(known) = self.known.get_mut(host) {
            *known = found;
        }
    }

    /// A host that starts anew knows nothing.
    fn forget(&mut self, host: usize) {
        if let Some(known) = self.known.get_mut(host) {
            *known = None;
        }
    }

    fn known(&self, host: usize) -> Option<&Schedule> {
        self.known.get(host)?.as_ref()
    }

    /// A host makes what is due by what it knows; its commit has one of ten fates.
    async fn make(&mut self, host: usize, fate: u32) {
        let advance = self.known(host).and_then(|known| known.advance(&self.calendar, self.now));
        let Some(Advance { next, runs, .. }) = advance else { return };
        let groups = messages(&next, &runs, self.now);
        match fate {
            0 => {
                self.counts.lost += 1;
                self.forget(host);
            }
            1 => {
                self.commit(next, groups).await;
                self.counts.unheard += 1;
                self.forget(host);
            }
            2 => {
                self.late.push_back((next, groups));
                self.forget(host);
            }
            _ => {
                let is_in = self.commit(next.clone(), groups).await;
                if let Some(known) = self.known.get_mut(host) {
                    *known = is_in.then_some(next);
                }
            }
        }
    }

    /// A run that somebody asks for. Its instant is one that no other step has.
    async fn by_hand(&mut self, host: usize, step: u64) {
        let at = UnixMillis(self.now.0 + step + 1);
        let Some(Advance { next, runs, .. }) = self.known(host).and_then(|known| known.run_now(at)) else { return };
        let groups = messages(&next, &runs, at);
        self.commit(next, groups).await;
        self.forget(host);
    }

    /// A commit that everybody has given up goes in, if it still can.
    async fn release(&mut self) {
        if let Some((next, groups)) = self.late.pop_front() {
            self.commit(next, groups).await;
            self.counts.unheard += 1;
        }
    }

    /// Whether it went in.
    async fn commit(&mut self, mut next: Schedule, groups: Vec<DoorGroup>) -> bool {
        if !self.guarded {
            let stored = self.store.schedule(&self.key).await.unwrap().map_or(0, |stored| stored.revision);
            next.revision = stored + 1;
        }
        let is_in = self.store.change_schedule(&next, groups).await.is_ok();
        self.counts.refused += u64::from(!is_in);
        is_in
    }

    /// Holds after each step: what was made is what the record says, each of it once.
    fn check(&mut self) -> Result<(), String> {
        let (stored, made) = self.store.read(|tables| {
            let rows = tables.door.values().flatten().flatten();
            let made: Vec<String> = rows.map(|message| message.id.as_str().to_owned()).collect();
            (tables.schedules.get(&self.key).cloned(), made)
        });
        let Some(stored) = stored else { return Err("the schedule is gone".to_owned()) };
        self.counts.runs = stored.runs;
        let distinct: BTreeSet<&String> = made.iter().collect();
        if distinct.len() != made.len() {
            return Err(format!("a run was made twice: {made:?}"));
        }
        if made.len() as u64 != stored.runs {
            return Err(format!("{} runs were made, the record says {}", made.len(), stored.runs));
        }
        let instants = std::iter::successors(self.calendar.next_after(START), |at| self.calendar.next_after(*at));
        for due in instants.take_while(|due| *due <= stored.place) {
            let id = Run { due, by_hand: false }.id(&self.key);
            if !distinct.contains(&id) {
                return Err(format!("{id} has no run, and the record stands at {}", stored.place));
            }
        }
        Ok(())
    }
}

/// The messages of runs, on the doorstep of the only shard.
fn messages(of: &Schedule, runs: &[Run], now: UnixMillis) -> Vec<DoorGroup> {
    let Work::Message(work) = &of.work else { panic!("it makes messages") };
    let messages = runs.iter().map(|run| work.draft(&of.key, *run, now).unwrap().message).collect();
    vec![DoorGroup { shard: ShardId(0), messages }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(seed: u64, guarded: bool) -> Result<Counts, String> {
        futures::executor::block_on(run(seed, guarded))
    }

    #[test]
    fn each_instant_has_one_run_whatever_hosts_and_commits_do() {
        let mut sum = Counts::default();
        for seed in 0..300 {
            let counts = life(seed, true).unwrap_or_else(|broken| panic!("{broken}"));
            sum.runs += counts.runs;
            sum.refused += counts.refused;
            sum.unheard += counts.unheard;
            sum.lost += counts.lost;
        }
        // What has to have come up for this to prove anything.
        let enough = sum.runs > 1_000 && sum.refused > 50 && sum.unheard > 50 && sum.lost > 50;
        assert!(enough, "too little came up: {sum:?}");
    }

    #[test]
    fn without_the_guard_of_revisions_a_promise_is_broken() {
        assert!((0..100).any(|seed| life(seed, false).is_err()));
    }
}
