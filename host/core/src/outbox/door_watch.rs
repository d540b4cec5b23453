//! The watch over a shard's doorstep: when to look, from where to where a look reads, and who waits for it.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same. A look takes three calls, with the reads in
//! between made by the caller: [`DoorWatch::due_look`], [`DoorWatch::begin`], [`DoorWatch::page`]. A read that fails ends the look
//! where it is; the next one goes on.

use std::collections::VecDeque;
use std::time::Duration;

use super::owner::{DoorPage, DoorPassRequest, ExistingId, Owner};
use super::records::{DoorRow, IdRecord, content_digest};
use crate::ids::{MessageId, Tenant};
use crate::time::{Monotonic, Now};

/// How often and how far back to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorTimes {
    /// A pass at a wake-up begins this far before now: a transaction open for longer loses order, never delivery.
    pub late_window: Duration,
    /// A full pass follows this often.
    pub full_every: Duration,
    /// And this often while this process knows of nothing that lies there: a client of the same database may know more.
    pub quiet_every: Duration,
    /// How often to look where other hosts share the store; none = this process has it for itself and hears of every commit.
    pub poll: Option<Duration>,
}

impl Default for DoorTimes {
    fn default() -> Self {
        Self {
            late_window: Duration::from_secs(2),
            full_every: Duration::from_secs(1),
            quiet_every: Duration::from_secs(30),
            poll: None,
        }
    }
}

/// A look that is to be made. What had come to the doorstep by then is covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    bell: u64,
    now: Now,
    /// The whole doorstep is read: the newest stamp has to be known ([`crate::port::store::OwnerStore::door_newest`]).
    pub full: bool,
}

/// When the doorstep is to be looked at. `bell` counts the doorstep commits of this process that have ended; `W` is who waits.
#[derive(Debug)]
pub struct DoorWatch<W> {
    times: DoorTimes,
    /// Something may lie on it.
    woken: bool,
    /// Doorstep commits of this process that the last pass covered; none = no pass yet.
    covered: Option<u64>,
    /// Those that the pass under way covers.
    covering: u64,
    full_at: Option<Monotonic>,
    /// Doorstep commits known at the last full pass.
    full_covered: Option<u64>,
    polled_at: Option<Monotonic>,
    /// The clock at the looks of the last `late_window` and at the one before, lowest first and oldest first. A transaction open
    /// since then has no earlier stamp, however far the clock was set ahead meanwhile. What this process stamped before its first
    /// look may have any, so that one reads as if the clock had been at its beginning before it.
    clocks: VecDeque<(Monotonic, u64)>,
    /// Doorstep commits of this process that were known when everything had been taken in, and when that was read.
    emptied: Option<(u64, Monotonic)>,
    /// Who waits for a pass that hasn't begun.
    waiting: Vec<W>,
    /// Who waits for the end of the pass under way.
    in_pass: Vec<W>,
}

impl<W> DoorWatch<W> {
    /// A watch that hasn't looked yet.
    pub fn new(times: DoorTimes) -> Self {
        Self {
            times,
            woken: false,
            covered: None,
            covering: 0,
            full_at: None,
            full_covered: None,
            polled_at: None,
            clocks: VecDeque::from([(Monotonic::default(), 0)]),
            emptied: None,
            waiting: Vec::new(),
            in_pass: Vec::new(),
        }
    }

    /// Something may lie on the doorstep.
    pub fn wake(&mut self) {
        self.woken = true;
    }

    /// Somebody waits until everything that lies there now has been taken in.
    pub fn wait(&mut self, who: W) {
        self.wake();
        self.waiting.push(who);
    }

    /// What a pass had taken was given up with its commit: everything is to be looked at again.
    pub fn look_again(&mut self) {
        self.woken = true;
        self.covered = None;
        self.full_at = None;
        self.full_covered = None;
        self.emptied = None;
        self.waiting.append(&mut self.in_pass);
    }

    /// How long until the doorstep should be looked at by itself.
    pub fn next_look(&self, bell: u64, now: Monotonic) -> Duration {
        let until =
            |at: Option<Monotonic>, every: Duration| at.map_or(Duration::ZERO, |at| every.saturating_sub(now - at));
        match self.times.poll {
            None if self.full_covered == Some(bell) => until(self.full_at, self.times.quiet_every),
            None => until(self.full_at, self.times.full_every),
            Some(every) => until(self.polled_at, every),
        }
    }

    /// Whether a pass is under way or should begin.
    pub fn wants_pass(&self, owner: &Owner, bell: u64, now: Monotonic) -> bool {
        let rung = self.times.poll.is_none() && self.covered != Some(bell);
        owner.in_door_pass() || self.woken || self.covered.is_none() || rung || self.next_look(bell, now).is_zero()
    }

    /// The look to be made before the next commit, if any. Read `bell`, then `now`, then the clock that stamps rows.
    pub fn due_look(&self, owner: &mut Owner, bell: u64, now: Now) -> Option<Look> {
        if !self.wants_pass(owner, bell, now.mono) {
            if !owner.has_waiting_directs() {
                return None;
            }
            if self.times.poll.is_none() {
                owner.door_is_empty(now);
                return None;
            }
        }
        let full = self.full_at.is_none_or(|at| now.mono - at >= self.times.full_every);
        Some(Look { bell, now, full })
    }

    /// Begins the pass of a look, or goes on with the one under way; the page to be read. `clock` is the one that stamps rows,
    /// `newest` the newest stamp on the doorstep, which a full pass reads up to: a row of a process whose clock was ahead lies
    /// behind what the clock says.
    pub fn begin(&mut self, owner: &mut Owner, look: Look, clock: u64, newest: Option<u64>) -> DoorPassRequest {
        if !owner.has_door_pass() {
            self.covering = look.bell;
            self.woken = false;
            self.in_pass.append(&mut self.waiting);
            if look.full {
                self.full_at = Some(look.now.mono);
                self.full_covered = Some(look.bell);
            }
        }
        self.polled_at = Some(look.now.mono);
        let late = self.late_stamp(clock, look.now.mono);
        let from = if look.full { 0 } else { late };
        owner.door_pass(from, clock.max(newest.unwrap_or(0)), look.now)
    }

    /// The earliest stamp of a transaction that began within the window.
    fn late_stamp(&mut self, clock: u64, now: Monotonic) -> u64 {
        while self.clocks.back().is_some_and(|(_, later)| *later >= clock) {
            self.clocks.pop_back();
        }
        self.clocks.push_back((now, clock));
        while self.clocks.get(1).is_some_and(|(at, _)| now - *at >= self.times.late_window) {
            self.clocks.pop_front();
        }
        let window = u64::try_from(self.times.late_window.as_nanos()).unwrap_or(u64::MAX);
        self.clocks.front().map_or(clock, |(_, lowest)| *lowest).min(clock.saturating_sub(window))
    }

    /// Hands the page to the owner.
    pub fn page(&mut self, owner: &mut Owner, page: DoorPage) {
        if page.complete {
            self.covered = Some(self.covering);
        }
        owner.door_page(page);
    }

    /// Those who waited for a pass, when there is none and no commit that takes in what it read.
    pub fn taken_in(&mut self, owner: &Owner) -> Vec<W> {
        if owner.in_flight() || owner.in_door_pass() {
            return Vec::new();
        }
        self.emptied = self.covered.zip(self.polled_at);
        std::mem::take(&mut self.in_pass)
    }

    /// Whether everything was taken in less than `fresh` ago and nothing was left there since, as far as this process knows: then
    /// who asks for a message that isn't there needn't cause another read. What others leave is found when the doorstep is looked at.
    pub fn is_taken_in(&self, bell: u64, now: Monotonic, fresh: Duration) -> bool {
        self.emptied.is_some_and(|(known, at)| known == bell && now - at < fresh)
    }
}

impl DoorPage {
    /// The ids that are to be looked up for the rows of a page, in order.
    pub fn ids(rows: &[DoorRow]) -> Vec<(Tenant, MessageId)> {
        let messages = rows.iter().filter_map(|row| row.content.as_ref().ok()).flatten();
        messages.map(|message| (message.tenant.clone(), message.id.clone())).collect()
    }

    /// The page that `request` asked for, with what was found for its ids.
    pub fn of(request: &DoorPassRequest, rows: Vec<DoorRow>, found: Vec<Option<IdRecord>>) -> Self {
        let messages = rows.iter().filter_map(|row| row.content.as_ref().ok()).flatten();
        let existing = messages.zip(found).map(|(message, record)| {
            record.map(|record| ExistingId { same: record.content == Some(content_digest(message)), record })
        });
        let existing = existing.collect();
        Self { complete: rows.len() < request.limit, rows, existing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Monotonic {
        Monotonic(Duration::from_secs(seconds))
    }

    #[test]
    fn a_window_reaches_back_over_a_step_of_the_clock_for_as_long_as_it_is() {
        let mut watch: DoorWatch<()> = DoorWatch::new(DoorTimes::default());
        for second in 10..12 {
            assert_eq!(watch.late_stamp((1_000 + second) * SECOND, at(second)), 0, "stamped before the first look");
        }
        for second in 12..20 {
            assert_eq!(watch.late_stamp((1_000 + second) * SECOND, at(second)), (998 + second) * SECOND);
        }
        // An hour ahead: what began before has stamps of then.
        assert_eq!(watch.late_stamp(4_620 * SECOND, at(20)), 1_018 * SECOND);
        assert_eq!(watch.late_stamp(4_621 * SECOND, at(21)), 1_019 * SECOND);
        assert_eq!(watch.late_stamp(4_622 * SECOND, at(22)), 4_620 * SECOND);
        // And back again.
        assert_eq!(watch.late_stamp(1_023 * SECOND, at(23)), 1_021 * SECOND);
        assert_eq!(watch.late_stamp(1_024 * SECOND, at(24)), 1_022 * SECOND);
        assert_eq!(watch.late_stamp(1_025 * SECOND, at(25)), 1_023 * SECOND);
    }
}
