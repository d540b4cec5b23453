//! Who is blamed when the host dies during calls.

use std::sync::Arc;

use super::{Bench, T0, bench, done, retry, step};
use crate::ids::{ShardId, Tenant};
use crate::saga::call::{Answer, Call};
use crate::saga::id::{DefinitionHash, SagaId, SagaKey};
use crate::saga::limits::{LOST_MAX, LOST_QUIET_MAX, SagaLimits};
use crate::saga::machine::Rules;
use crate::saga::records::{JournalRecord, SagaTakeover};
use crate::saga::shard::{SagaCommand, SagaShard, SagaShardConfig};
use crate::saga::state::SagaState;
use crate::time::UnixMillis;

fn key(number: usize) -> SagaKey {
    SagaKey { tenant: Tenant::unnamed(), id: SagaId::root(&format!("s{number:03}")).unwrap() }
}

/// Sagas of one step, and hosts that die.
struct World {
    bench: Bench,
    sagas: usize,
    /// Calls that nobody has answered yet, with when they began.
    calls: Vec<(UnixMillis, Call)>,
}

impl World {
    fn new(sagas: usize) -> Self {
        let mut bench = bench(&step("a", ""));
        for number in 0..sagas {
            let new = bench.new_saga(key(number), "{}", bench.shard.record().beat);
            bench.submit(SagaCommand::Start(Box::new(new))).unwrap();
        }
        let mut world = Self { bench, sagas, calls: Vec::new() };
        world.take_calls();
        world
    }

    fn take_calls(&mut self) {
        let now = self.bench.now;
        self.calls.extend(self.bench.calls.drain(..).map(|call| (now, call)));
    }

    fn pass(&mut self, ms: u64) {
        self.bench.wait(ms);
        self.take_calls();
    }

    fn answer(&mut self, call: &Call, answer: Answer) {
        self.bench.answer_to(call, answer);
        self.take_calls();
    }

    /// The process ends and another one takes over.
    fn end(&mut self, died: bool) {
        let bench = &mut self.bench;
        let record =
            |commit: &super::SagaCommit| JournalRecord { beat: commit.record.beat, entries: commit.journal.clone() };
        let journal = bench.commits.iter().map(record).filter(|record| !record.entries.is_empty()).collect();
        let takeover = SagaTakeover { record: *bench.shard.record(), journal, ..SagaTakeover::default() };
        let config = SagaShardConfig {
            shard: ShardId(0),
            tx_events: None,
            limits: SagaLimits::default(),
            rules: Rules::default(),
            died,
        };
        let definitions = Arc::clone(&bench.definitions);
        let lookup = |hash: &DefinitionHash| definitions.by_hash(hash).cloned();
        let restored = SagaShard::restore(config, takeover, lookup, bench.now, 0.5);
        assert!(restored.broken.is_empty(), "{:?}", restored.broken);
        bench.shard = restored.shard;
        self.calls.clear();
        self.bench.settle();
        self.take_calls();
    }

    /// Lives for so long. A call has no answer for `hangs`, and then it fails, to be made again.
    fn live(&mut self, life_ms: u64, hangs_ms: u64) {
        const STEP: u64 = 250;
        for _ in 0..life_ms / STEP {
            self.pass(STEP);
            let now = self.bench.now;
            let calls = std::mem::take(&mut self.calls);
            for (began, call) in calls {
                match now.0 - began.0 >= hangs_ms {
                    true => self.answer(&call, retry()),
                    false => self.calls.push((began, call)),
                }
            }
        }
    }

    fn state(&self, number: usize) -> Option<SagaState> {
        self.bench.shard.tree(&key(number)).map(|(tree, _)| tree.state())
    }

    fn paused(&self) -> Vec<usize> {
        (0..self.sagas).filter(|number| self.state(*number) == Some(SagaState::Paused)).collect()
    }

    fn calls_of(&self, number: usize) -> usize {
        self.calls.iter().filter(|(_, call)| call.reference.key == key(number)).count()
    }
}

#[test]
fn kills_within_seconds_pause_nobody_and_all_goes_on() {
    let mut world = World::new(300);
    for _ in 0..6 {
        world.live(500, 29_000);
        world.end(true);
    }
    assert_eq!(world.paused(), [0_usize; 0]);
    // Now it lives, and the participant answers at once: one half after the other, none waits for a timeout.
    for _ in 0..40 {
        world.pass(100);
        while let Some((_, call)) = world.calls.pop() {
            world.answer(&call, done());
        }
    }
    let left = (0..300).filter(|number| world.state(*number).is_some()).count();
    assert!(left <= 1, "{left} of 300 aren't completed; one that goes by itself waits longer");
    world.pass(60_000);
    while let Some((_, call)) = world.calls.pop() {
        world.answer(&call, done());
    }
    assert!((0..300).all(|number| world.state(number).is_none()), "all are completed");
}

#[test]
fn kills_every_so_often_during_long_calls_pause_nobody() {
    for life in [5_000, 20_000, 30_000, 70_000] {
        for sagas in [1, 2, 7] {
            let mut world = World::new(sagas);
            for _ in 0..20 {
                world.live(life, 29_000);
                world.end(true);
                assert_eq!(world.paused(), [0_usize; 0], "lives of {life} ms, {sagas} sagas");
            }
        }
    }
}

#[test]
fn what_was_lost_by_chance_is_called_again_soon_although_the_host_is_killed_every_so_often() {
    let mut world = World::new(1);
    for _ in 0..2 {
        world.pass(20_000);
        world.end(true);
    }
    assert_eq!(world.calls_of(0), 0, "it is suspect");
    world.pass(1_000);
    assert_eq!(world.calls_of(0), 1, "nobody is paused by the next death yet");
}

/// Deaths until saga `number` is paused, whose call kills the host at once; nobody answers anybody else for a long time.
fn deaths_to_pause(sagas: usize, number: usize) -> u32 {
    let mut world = World::new(sagas);
    let mut deaths = 0;
    while world.paused().is_empty() {
        let mut waited = 0;
        while world.calls_of(number) == 0 {
            assert!(waited < 4_000, "it is called again");
            waited += 1;
            world.live(1_000, 29_000);
        }
        deaths += 1;
        assert!(deaths < 30, "it is paused after some deaths");
        world.end(true);
    }
    assert_eq!(world.paused(), [number], "nobody else is");
    deaths
}

#[test]
fn a_step_that_kills_the_host_each_time_is_paused_alone_after_a_few_deaths() {
    assert_eq!(deaths_to_pause(1, 0), LOST_MAX + 1);
    for (sagas, number) in [(2, 1), (10, 3), (100, 0), (100, 57), (100, 99)] {
        let deaths = deaths_to_pause(sagas, number);
        let most = (sagas.next_power_of_two().ilog2() + 3).max(LOST_MAX + 1);
        assert!((LOST_MAX + 1..=most).contains(&deaths), "{number} of {sagas}: {deaths} deaths");
    }
}

#[test]
fn what_was_lost_once_is_called_again_at_once_and_others_never_wait() {
    let mut world = World::new(10);
    world.end(true);
    assert_eq!(world.calls.len(), 10);
    world.end(true);
    assert_eq!(world.calls.len(), 0, "all are suspect");
    let new = world.bench.new_saga(key(10), "{}", world.bench.shard.record().beat);
    world.bench.submit(SagaCommand::Start(Box::new(new))).unwrap();
    world.take_calls();
    assert_eq!((world.calls.len(), world.calls_of(10)), (1, 1), "a saga that begins is called beside them");
    world.pass(1_000);
    assert_eq!(world.calls.len(), 1 + 5, "half of them");
    for at in 1..6 {
        let (_, call) = world.calls.remove(6 - at);
        world.answer(&call, done());
    }
    assert_eq!(world.calls.len(), 1 + 3, "the next half follows at once");
}

#[test]
fn one_that_is_called_by_itself_waits_longer_with_each_death_and_a_death_before_does_not_count() {
    let mut world = World::new(1);
    let lost = |world: &World| world.bench.shard.tree(&key(0)).unwrap().0.sagas[0].steps[0].lost;
    for (deaths, wait) in [(1, 0), (2, 1_000), (3, 4_000), (4, 16_000), (5, 64_000)] {
        world.end(true);
        assert_eq!(lost(&world), deaths);
        if wait > 0 {
            world.pass(wait - 1);
            assert_eq!(world.calls.len(), 0, "{deaths}");
            // It wasn't called, so it waits anew; for twice that life, if the next death may pause its saga.
            world.end(true);
            assert_eq!(lost(&world), deaths);
            world.pass(if deaths < LOST_MAX { wait } else { 2 * (wait - 1) } - 1);
            assert_eq!(world.calls.len(), 0, "{deaths}");
            // A clean end makes it wait anew, too.
            world.end(false);
            assert_eq!(lost(&world), deaths);
            world.pass(5 * wait);
        }
        assert_eq!(world.calls.len(), 1, "{deaths}");
    }
    assert!(world.bench.now.since(T0) < 4 * LOST_QUIET_MAX);
}
