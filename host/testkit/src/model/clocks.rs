//! Wall clocks that somebody sets: those of the hosts, and that of a store that lives in the one host's process.

use super::host::Host;
use super::options::Mutation;
use super::store::ModelStore;
use super::world::World;

/// What a wall clock is set ahead by, in milliseconds. Further than a run is long, and the last one further than is believed at
/// once ([`waybill_core::time::AHEAD_MAX`]).
const STEPS: [i64; 5] = [0, -100_000, 100_000, 200_000, 3_600_000];
/// Who sets a clock often sets it again at once: for so many steps.
const SET_AGAIN: u64 = 30;

impl<S: ModelStore> World<S> {
    /// Somebody may set a host's clock.
    pub(super) fn step_clock(&mut self, host: &mut Host) {
        let is_set_again = self.clock_set.is_some_and(|at| self.now.saturating_sub(at) < SET_AGAIN);
        let odds = if is_set_again { 8 } else { 200 };
        if self.calm || !self.setup.clock_steps || !self.rng.one_in(odds) {
            return;
        }
        // Again means once more, not for ever.
        self.clock_set = if is_set_again { None } else { Some(self.now) };
        let Some(ahead) = self.rng.pick(&STEPS).copied() else { return };
        self.stats.clock_steps += 1;
        self.note(|_| format!("a wall clock is set {ahead} ms ahead"));
        host.skew = ahead;
        if self.setup.exclusive {
            self.ahead = ahead;
        }
    }

    /// Everybody has the right time at last.
    pub(super) fn set_clocks_right(&mut self) {
        if self.setup.clock_steps {
            self.hosts.iter_mut().for_each(|host| host.skew = 0);
            self.ahead = 0;
        }
    }

    /// Whether one process gives out all stamps that order anything, and sees to their order.
    pub(super) fn are_stamps_of_one_process(&self) -> bool {
        self.setup.clock_steps && self.setup.exclusive && self.setup.mutation != Some(Mutation::StampsFollowClock)
    }

    /// A process that has the store for itself stamps behind what it finds.
    pub(super) fn begin_stamps(&mut self) {
        if self.are_stamps_of_one_process() {
            let newest = self.setup.each_shard().filter_map(|shard| self.store.door_newest(shard)).max();
            self.stamped = newest.unwrap_or(0);
        }
    }

    /// The stamp of a doorstep row that is written at a step.
    pub(super) fn stamp(&mut self, step: u64) -> u64 {
        let clock = self.clock_at(step);
        if !self.are_stamps_of_one_process() {
            return clock;
        }
        self.stamped = clock.max(self.stamped + 1);
        self.stamped
    }

    /// The clock that stamps doorstep rows, as the owner reads it.
    pub(super) fn door_clock(&mut self) -> u64 {
        let clock = self.clock_at(self.now).max(self.stamped);
        if self.are_stamps_of_one_process() {
            self.stamped = clock;
        }
        clock
    }

    /// The clock that stamps doorstep rows, as it says at a step.
    pub(super) fn clock_at(&self, step: u64) -> u64 {
        Self::nanos(step).saturating_add_signed(self.ahead * 1_000_000)
    }

    /// Whether the read that is about to be made fails.
    pub(super) fn read_fails(&mut self) -> bool {
        let fails = !self.calm && self.setup.reads_fail && self.rng.percent(4);
        self.stats.failed_reads += u64::from(fails);
        fails
    }
}
