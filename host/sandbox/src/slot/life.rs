//! The life of a slot's generations as a pure state machine: what may follow what, who is live, who may come back, and when
//! a new one has shown itself worse than the one before.
//!
//! ```text
//! Fetched ─▶ Verified ─▶ Compiled ─▶ Linked ─▶ Probing ─▶ Live ─▶ Draining ─▶ Gone
//!    └──────────┴───────────┴──────────┴──────────┴─▶ Rejected
//! ```
//! It reads no clock and starts nothing: both come from the driver. Bounds: [`HISTORY_MAX`], [`BAD_MAX`], [`LOSSES_KEPT`].

use std::collections::VecDeque;
use std::time::Duration;

use waybill_core::code::Code;
use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::record::{BadDigest, Named, Phase, Record, Why};

/// Generations that a slot remembers, the newest last.
pub const HISTORY_MAX: usize = 20;
/// Bad digests that a slot remembers; the oldest are forgotten first.
pub const BAD_MAX: usize = 32;
/// Lost instances within a probation from which the generation is rolled back, where the one before lost none.
pub const LOSSES_MAX: u32 = 3;
/// Calls failed in a row within a probation from which the generation before is asked whether it would do better.
pub const FAILURES_IN_ROW: u32 = 3;
/// Times in a row that health says `down` within a probation from which the generation before is asked.
pub const DOWNS_IN_ROW: u32 = 2;
/// Lost instances of the live generation whose time is kept, for comparison with the next.
const LOSSES_KEPT: usize = 64;

/// The trial of a new live generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probation {
    pub until: Monotonic,
    /// The same for people.
    pub until_wall: UnixMillis,
    /// Instances lost so far.
    pub losses: u32,
    /// Instances the generation before lost in a time as long as this.
    pub losses_before: u32,
    failures: u32,
    downs: u32,
}

impl Probation {
    /// More instances were lost than may be.
    fn is_failed(&self) -> bool {
        self.losses >= LOSSES_MAX.max(self.losses_before.saturating_add(1))
    }

    fn is_calm(&self) -> bool {
        !self.is_failed() && self.failures == 0 && self.downs == 0
    }
}

/// What a lost instance, failed calls, a health report or the passing of time mean for the probation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbationDecision {
    Stay,
    /// Try the generation before: if it would serve now, roll back for this reason.
    AskPrevious(Why),
    RollBack(Why),
    /// The probation is over and passed.
    Confirmed,
}

/// All of a slot's generations.
#[derive(Clone, Debug, Default)]
pub struct Life {
    records: VecDeque<Record>,
    next: u32,
    live: Option<u32>,
    previous: Option<u32>,
    probation: Option<Probation>,
    losses: VecDeque<Monotonic>,
    bad: VecDeque<BadDigest>,
}

impl Life {
    /// A slot that has had no generation yet and knows these bad digests.
    pub fn new(bad: impl IntoIterator<Item = BadDigest>) -> Self {
        let mut life = Self { next: 1, ..Self::default() };
        for digest in bad {
            life.remember_bad(digest);
        }
        life
    }

    /// What is remembered, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    pub fn record(&self, number: u32) -> Option<&Record> {
        self.records.iter().find(|record| record.number == number)
    }

    /// Who takes the calls.
    pub fn live(&self) -> Option<u32> {
        self.live
    }

    /// Who would come back.
    pub fn previous(&self) -> Option<u32> {
        self.previous
    }

    /// The generation that was rolled back, as long as the one that came back for it is live.
    pub fn rolled_back(&self) -> Option<&Record> {
        let live = self.record(self.live?)?;
        if live.why.as_ref()?.code != Code::PLUGIN_ROLLED_BACK.as_str() {
            return None;
        }
        // One went when the other came.
        self.records.iter().rev().find(|record| record.number < live.number && record.until == Some(live.since))
    }

    /// The trial under way.
    pub fn probation(&self) -> Option<&Probation> {
        self.probation.as_ref()
    }

    /// Digests that aren't used again by themselves, oldest first.
    pub fn bad_digests(&self) -> impl Iterator<Item = &BadDigest> {
        self.bad.iter()
    }

    /// What a digest did, if it is a bad one.
    pub fn bad(&self, digest: &str) -> Option<&BadDigest> {
        self.bad.iter().find(|bad| bad.digest == digest)
    }

    /// A candidate enters at `phase`. Answers its number.
    pub fn begin(&mut self, digest: &str, named: Option<Named>, phase: Phase, now: Now) -> u32 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let digest = digest.to_owned();
        let record = Record { number, digest, named, phase, since: now.wall, until: None, why: None };
        self.records.push_back(record);
        self.forget_old();
        number
    }

    /// A candidate's manifest was read.
    pub fn named(&mut self, number: u32, named: Named) {
        if let Some(record) = self.find(number) {
            record.named = Some(named);
        }
    }

    /// A candidate has come further. False: it can't come there from where it stands.
    pub fn advance(&mut self, number: u32, phase: Phase, now: Now) -> bool {
        phase.is_candidate() && self.step(number, phase, now)
    }

    /// A candidate is refused. Whoever is live stays live.
    pub fn reject(&mut self, number: u32, why: Why, now: Now) -> bool {
        let done = self.step(number, Phase::Rejected, now);
        if done && let Some(record) = self.find(number) {
            record.why = Some(why);
        }
        done
    }

    /// A candidate becomes live, and the live one the previous, which drains. With time for it a probation begins. Answers
    /// who drains now.
    pub fn go_live(&mut self, number: u32, probation: Duration, now: Now) -> Option<u32> {
        if !self.step(number, Phase::Live, now) {
            return None;
        }
        let old = self.live.replace(number);
        let before = self.losses_within(probation, now);
        self.retire(old, now);
        self.previous = old.or(self.previous);
        self.losses.clear();
        self.probation = (!probation.is_zero()).then(|| Probation {
            until: now.mono + probation,
            until_wall: now.wall.plus(probation),
            losses: 0,
            losses_before: before,
            failures: 0,
            downs: 0,
        });
        old
    }

    /// A generation's instances have ended.
    pub fn gone(&mut self, number: u32, now: Now) -> bool {
        let since = self.record(number).map(|record| record.since);
        let done = self.step(number, Phase::Gone, now);
        if let (true, Some(since), Some(record)) = (done, since, self.find(number)) {
            record.since = since;
        }
        done
    }

    /// An instance of a generation was lost: it trapped, ran out of time, or broke the contract.
    pub fn lost(&mut self, number: u32, why: &Why, now: Now) -> ProbationDecision {
        if self.live != Some(number) {
            return ProbationDecision::Stay;
        }
        if self.losses.len() >= LOSSES_KEPT {
            self.losses.pop_front();
        }
        self.losses.push_back(now.mono);
        let alone = self.previous.is_none();
        let Some(probation) = self.on_trial(now) else { return ProbationDecision::Stay };
        probation.losses = probation.losses.saturating_add(1);
        if alone || !probation.is_failed() {
            return ProbationDecision::Stay;
        }
        let reason = format!(
            "{} instances were lost within its probation ({} before it), the last: {}: {}",
            probation.losses, probation.losses_before, why.code, why.reason
        );
        ProbationDecision::RollBack(Why::new(Code::PLUGIN_PROBATION_FAILED, reason))
    }

    /// A call on a generation was answered.
    pub fn served(&mut self, number: u32) {
        if self.live == Some(number)
            && let Some(probation) = &mut self.probation
        {
            probation.failures = 0;
            probation.downs = 0;
        }
    }

    /// A call on a generation failed as a whole without losing an instance.
    pub fn failed(&mut self, number: u32, why: &Why, now: Now) -> ProbationDecision {
        if self.live != Some(number) {
            return ProbationDecision::Stay;
        }
        let alone = self.previous.is_none();
        let Some(probation) = self.on_trial(now) else { return ProbationDecision::Stay };
        probation.failures = probation.failures.saturating_add(1);
        if alone || probation.failures < FAILURES_IN_ROW {
            return ProbationDecision::Stay;
        }
        probation.failures = 0;
        let reason = format!("{FAILURES_IN_ROW} calls in a row failed, the last: {}: {}", why.code, why.reason);
        ProbationDecision::AskPrevious(Why::new(Code::PLUGIN_PROBATION_FAILED, reason))
    }

    /// What health said of a generation.
    pub fn health(&mut self, number: u32, is_down: bool, detail: &str, now: Now) -> ProbationDecision {
        if self.live != Some(number) {
            return ProbationDecision::Stay;
        }
        let alone = self.previous.is_none();
        let Some(probation) = self.on_trial(now) else { return ProbationDecision::Stay };
        if !is_down {
            probation.downs = 0;
            return ProbationDecision::Stay;
        }
        probation.downs = probation.downs.saturating_add(1);
        if alone || probation.downs < DOWNS_IN_ROW {
            return ProbationDecision::Stay;
        }
        probation.downs = 0;
        ProbationDecision::AskPrevious(Why::new(
            Code::PLUGIN_PROBATION_FAILED,
            format!("it says that it is down: {detail}"),
        ))
    }

    /// Time has passed. A generation in trouble at the end of its probation stays, and isn't confirmed.
    pub fn tick(&mut self, now: Now) -> ProbationDecision {
        match self.probation.take_if(|probation| now.mono >= probation.until) {
            Some(probation) if probation.is_calm() => ProbationDecision::Confirmed,
            _ => ProbationDecision::Stay,
        }
    }

    /// The previous generation is to come back: a candidate of the same component. Answers its number and the new one.
    pub fn prepare_return(&mut self, now: Now) -> Option<(u32, u32)> {
        let to = self.previous?;
        let good = self.record(to)?.clone();
        Some((to, self.begin(&good.digest, good.named, Phase::Linked, now)))
    }

    /// The candidate `number` of [`Self::prepare_return`] becomes live, without a probation, and there is nothing further to
    /// go back to. The digest that was live is remembered as bad unless both are the same (only their settings differ).
    pub fn roll_back(&mut self, number: u32, why: &Why, now: Now) -> Option<RolledBack> {
        let (from, to) = (self.live?, self.previous?);
        let bad_digest = self.record(from)?.digest.clone();
        let digest = self.record(number)?.digest.clone();
        self.go_live(number, Duration::ZERO, now)?;
        if let Some(record) = self.find(from) {
            record.why = Some(why.clone());
        }
        if let Some(record) = self.find(number) {
            record.why = Some(Why::new(Code::PLUGIN_ROLLED_BACK, format!("generation {to} came back for {from}")));
        }
        self.previous = None;
        let bad = (bad_digest != digest).then(|| BadDigest { digest: bad_digest, why: why.clone(), at: now.wall });
        if let Some(bad) = bad.clone() {
            self.remember_bad(bad);
        }
        Some(RolledBack { from, to, number, bad })
    }

    /// The previous generation may not come back any more, for this reason. Answers which one that was.
    pub fn forget_previous(&mut self, why: Why) -> Option<u32> {
        let number = self.previous.take()?;
        if let Some(record) = self.find(number) {
            record.why = Some(why);
        }
        Some(number)
    }

    /// Remembers a bad digest.
    pub fn remember_bad(&mut self, bad: BadDigest) {
        self.forget_bad(&bad.digest);
        if self.bad.len() >= BAD_MAX {
            self.bad.pop_front();
        }
        self.bad.push_back(bad);
    }

    /// An operator wants a digest to be tried again. True: it was a bad one.
    pub fn forget_bad(&mut self, digest: &str) -> bool {
        let before = self.bad.len();
        self.bad.retain(|bad| bad.digest != digest);
        self.bad.len() != before
    }

    fn on_trial(&mut self, now: Now) -> Option<&mut Probation> {
        self.probation.as_mut().filter(|probation| now.mono < probation.until)
    }

    /// Instances that the live generation lost lately.
    fn losses_within(&self, window: Duration, now: Now) -> u32 {
        let count = self.losses.iter().filter(|at| now.mono - **at < window).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn retire(&mut self, number: Option<u32>, now: Now) {
        let Some(record) = number.and_then(|number| self.find(number)) else { return };
        if record.phase.may_become(Phase::Draining) {
            record.phase = Phase::Draining;
            record.until = Some(now.wall);
        }
    }

    fn step(&mut self, number: u32, to: Phase, now: Now) -> bool {
        match self.find(number) {
            Some(record) if record.phase.may_become(to) => {
                record.phase = to;
                record.since = now.wall;
                true
            }
            _ => false,
        }
    }

    fn find(&mut self, number: u32) -> Option<&mut Record> {
        self.records.iter_mut().find(|record| record.number == number)
    }

    /// The oldest that is over goes first; who is live, drains, may come back or is on its way stays.
    fn forget_old(&mut self) {
        while self.records.len() > HISTORY_MAX {
            let (live, previous) = (self.live, self.previous);
            let over = |record: &Record| {
                matches!(record.phase, Phase::Gone | Phase::Rejected)
                    && Some(record.number) != live
                    && Some(record.number) != previous
            };
            let Some(index) = self.records.iter().position(over) else { return };
            self.records.remove(index);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    pub from: u32,
    pub to: u32,
    /// The number under which it serves now.
    pub number: u32,
    /// The digest that is remembered as bad; none when both have the same.
    pub bad: Option<BadDigest>,
}
