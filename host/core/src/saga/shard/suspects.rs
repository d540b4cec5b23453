//! Calls that were lost when the host died: which of them killed it?
//!
//! A committed call counts as under way, also one that still waited for room, and thousands may be lost at one death. So a death by
//! itself accuses nobody. A call that is lost the first time is made again at once. What was lost again is **suspect** until it is
//! answered, and goes by halves: those with the fewest deaths first, half of those with one number at once, the next half when they
//! are answered or their time is over, everything else beside them. One that is called by itself waits until the new writer has lived
//! without it for a while that grows with each death. A step is convicted by a death at which it was the only suspect that was called,
//! after such a wait, the sixth of its deaths or a later one. Before a call that may convict it, it waits at least twice as long as
//! the last writer lived: what kills the host every so often kills it without that call, and a death during which it isn't called
//! doesn't count against it. The calls before convict nobody however they end, so they come early and clear what isn't slow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{Running, SagaShard};
use crate::saga::event::{EventKind, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::limits::{CALL_GRACE, CALL_TIMEOUT_DEFAULT, LOST_MAX, LOST_QUIET, LOST_QUIET_MAX, LOST_SUSPECT};
use crate::saga::machine::{LostCall, Turn};
use crate::saga::state::{Phase, SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

/// A step: the slot of its tree, the number of its saga, its own.
type StepAt = (u64, SagaNumber, StepNumber);

/// A step whose call was lost, now or at an earlier death.
struct Lost {
    at: StepAt,
    /// It was called when the last writer ended. Else it waited to be called again.
    called: bool,
    /// Deaths during its calls before this one.
    deaths: u32,
    /// When the last writer found that an earlier call of it was lost: it lived since then at most.
    found_at: Option<UnixMillis>,
    /// It was called after as long a wait as one has that is called by itself.
    waited: bool,
    /// Longest time of a call.
    timeout: Duration,
    /// It is called again.
    goes_on: bool,
}

/// What becomes of the calls that a new writer finds lost.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub calls: BTreeMap<StepAt, LostCall>,
    pub trials: Trials,
}

/// Suspects that are called in turn.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Called, or about to be by their own timer, and not answered.
    under_way: BTreeSet<StepAt>,
    next: VecDeque<Half>,
}

#[derive(Debug)]
struct Half {
    steps: BTreeSet<StepAt>,
    /// They aren't called before, also when all others are answered.
    not_before: UnixMillis,
}

impl Plan {
    /// For the trees of a shard, at a takeover. `died` = the process of the last writer did.
    pub fn new<'r>(running: impl Iterator<Item = (u64, &'r Running)>, died: bool, now: UnixMillis) -> Self {
        Self::of(&running.flat_map(|(slot, running)| lost_calls(slot, running)).collect::<Vec<_>>(), died, now)
    }

    fn of(found: &[Lost], died: bool, now: UnixMillis) -> Self {
        let mut plan = Self::default();
        let on_trial = found.iter().filter(|lost| lost.called && lost.deaths >= LOST_SUSPECT).count();
        let mut by_deaths: BTreeMap<u32, Vec<&Lost>> = BTreeMap::new();
        for lost in found {
            let blames = died && lost.called;
            if blames && lost.deaths >= LOST_MAX && lost.waited && on_trial == 1 {
                plan.calls.insert(lost.at, LostCall { convicted: true, until: None });
                continue;
            }
            let deaths = lost.deaths.saturating_add(u32::from(blames));
            if deaths >= LOST_SUSPECT && lost.goes_on {
                by_deaths.entry(deaths).or_default().push(lost);
            }
        }
        let mut halves: Vec<(Duration, &[&Lost])> = Vec::new();
        for (deaths, suspects) in &by_deaths {
            let mut rest = suspects.as_slice();
            while !rest.is_empty() {
                let (half, later) = rest.split_at(rest.len().div_ceil(2));
                let quiet = if let [alone] = half { quiet(*deaths, alone.found_at, now) } else { LOST_QUIET };
                halves.push((quiet, half));
                rest = later;
            }
        }
        // Who is called by itself waits longer, and holds nobody up.
        halves.sort_by_key(|(quiet, half)| (half.len() == 1, *quiet));
        let mut free = now;
        for (quiet, half) in halves {
            free = plan.call(half, now.plus(quiet), free);
        }
        plan
    }

    /// Calls a half next, when those before it are over by `free`. By when it is over.
    fn call(&mut self, half: &[&Lost], not_before: UnixMillis, free: UnixMillis) -> UnixMillis {
        let begins = free.max(not_before);
        self.calls.extend(half.iter().map(|lost| (lost.at, LostCall { convicted: false, until: Some(begins) })));
        self.trials.next.push_back(Half { steps: half.iter().map(|lost| lost.at).collect(), not_before });
        let longest = half.iter().map(|lost| lost.timeout).max().unwrap_or_default();
        begins.plus(longest.saturating_add(CALL_GRACE))
    }
}

/// How long a writer lives before it calls a suspect by itself. `before` is when the last writer found that it was lost, `now` when
/// this one does: how long the last one lived counts only where the next death may convict.
fn quiet(deaths: u32, before: Option<UnixMillis>, now: UnixMillis) -> Duration {
    let grown = LOST_QUIET.saturating_mul(4_u32.saturating_pow(deaths.saturating_sub(LOST_SUSPECT)));
    let lived = before.filter(|_| deaths >= LOST_MAX).map_or(Duration::ZERO, |before| now.since(before));
    grown.max(lived.saturating_mul(2)).min(LOST_QUIET_MAX)
}

/// The steps of a tree that were called when its writer ended, and those that waited to be called again after a death.
fn lost_calls(slot: u64, running: &Running) -> Vec<Lost> {
    let tree = &running.tree;
    let mut found = Vec::new();
    for (saga, node) in tree.sagas.iter().enumerate().filter(|(_, node)| !node.is_ended()) {
        for (step, record) in node.steps.iter().enumerate().filter(|(_, record)| is_open(record)) {
            let (Ok(saga), Ok(step)) = (SagaNumber::try_from(saga), StepNumber::try_from(step)) else { continue };
            let called = record.wait == Some(StepWait::For(Wait::Call));
            if !called && tree.paused.is_some() {
                continue;
            }
            let (before, found_at) = if record.lost == 0 { (None, None) } else { found_lost_at(tree, saga, step) };
            let definition = running.definitions.by_hash(&node.definition.hash);
            let timeout = definition.and_then(|definition| definition.step(step)).and_then(|step| step.timeout);
            found.push(Lost {
                at: (slot, saga, step),
                called,
                deaths: record.lost,
                found_at,
                waited: found_at
                    .zip(record.since)
                    .is_some_and(|(found_at, began)| began.since(found_at) >= quiet(record.lost, before, found_at)),
                timeout: timeout.unwrap_or(CALL_TIMEOUT_DEFAULT),
                goes_on: goes_on(node, record),
            });
        }
    }
    found
}

/// Whether a step is called, or was and is to be called again.
fn is_open(record: &StepRecord) -> bool {
    record.state == StepState::InFlight && matches!(record.wait, Some(StepWait::For(Wait::Call) | StepWait::Lost))
}

/// Whether a lost call is made again: not that of a step whose saga goes back.
fn goes_on(node: &SagaNode, record: &StepRecord) -> bool {
    record.way == Some(StepDirection::Compensate) || node.phase == Phase::Forward
}

/// When writers found that a call of this step was lost: the last one and the one before, the last one second.
fn found_lost_at(tree: &Tree, saga: SagaNumber, step: StepNumber) -> (Option<UnixMillis>, Option<UnixMillis>) {
    let is_it = |what: &EventKind| matches!(what, EventKind::StepLost { step: lost, .. } if *lost == step);
    let found = tree.events().filter(|event| event.saga == saga && is_it(&event.what));
    found.fold((None, None), |(_, last), event| (last, Some(event.at)))
}

impl SagaShard {
    /// Calls the next half of the suspects at once, when all before it are over. Without that each is called at its own time.
    pub(super) fn go_on_with_trials(&mut self, moved: u64, turn: Turn) {
        let range = (moved, 0, 0)..=(moved, SagaNumber::MAX, StepNumber::MAX);
        let over: Vec<StepAt> =
            self.trials.under_way.range(range).filter(|at| !self.is_on_trial(**at)).copied().collect();
        for at in over {
            self.trials.under_way.remove(&at);
        }
        self.begin_trial(turn);
    }

    fn begin_trial(&mut self, turn: Turn) {
        while self.trials.under_way.is_empty() {
            if self.trials.next.front().is_none_or(|half| half.not_before > turn.now) {
                return;
            }
            let Some(half) = self.trials.next.pop_front() else { return };
            // A tree whose exact commit is out takes no call before its fate is known: the half waits for it whole.
            if half.steps.iter().any(|(slot, ..)| self.is_tried(*slot)) {
                self.trials.next.push_front(half);
                return;
            }
            for (slot, saga, step) in half.steps {
                if self.is_on_trial((slot, saga, step)) {
                    self.work(slot, turn, None, |machine| machine.call_again(saga, step));
                    self.trials.under_way.insert((slot, saga, step));
                }
            }
        }
    }

    /// Whether a suspect is called, or waits for its turn.
    fn is_on_trial(&self, (slot, saga, step): StepAt) -> bool {
        let tree = self.running.get(&slot).map(|running| &running.tree).filter(|tree| tree.paused.is_none());
        let record = tree.and_then(|tree| tree.saga(saga)).and_then(|node| node.step(step));
        record.is_some_and(|record| record.lost >= LOST_SUSPECT && is_open(record))
    }
}
