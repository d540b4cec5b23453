//! The life of a slot against a reference that keeps everything, in any order of events.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::life::{BAD_MAX, DOWNS_IN_ROW, FAILURES_IN_ROW, HISTORY_MAX, LOSSES_MAX, Life, ProbationDecision};
use super::record::{BadDigest, Phase, Why};

const PROBATION: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Now {
    Now { wall: UnixMillis(seconds * 1_000), mono: Monotonic(Duration::from_secs(seconds)) }
}

fn why() -> Why {
    Why::new("PLUGIN.TRAPPED", "it trapped")
}

fn live(life: &mut Life, digest: &str, now: Now) -> u32 {
    let number = life.begin(digest, None, Phase::Linked, now);
    life.go_live(number, PROBATION, now);
    number
}

/// Two generations, the second on probation.
fn second(life: &mut Life) -> u32 {
    live(life, "a", at(0));
    live(life, "b", at(100))
}

#[test]
fn who_was_rolled_back_is_told_until_another_takes_over() {
    let mut life = Life::new([]);
    let bad = second(&mut life);
    assert_eq!(life.rolled_back(), None);
    let (_, number) = life.prepare_return(at(101)).unwrap();
    life.roll_back(number, &why(), at(101)).unwrap();
    let told = life.rolled_back().unwrap();
    assert_eq!((told.number, told.why.as_ref()), (bad, Some(&why())));
    let refused = life.begin("c", None, Phase::Fetched, at(102));
    life.reject(refused, why(), at(102));
    assert_eq!(life.rolled_back().unwrap().number, bad, "a refused one takes nobody's place");
    live(&mut life, "d", at(103));
    assert_eq!(life.rolled_back(), None);
}

#[test]
fn a_candidate_goes_forward_only() {
    let mut life = Life::new([]);
    let number = life.begin("a", None, Phase::Fetched, at(0));
    for phase in [Phase::Verified, Phase::Compiled, Phase::Linked, Phase::Probing] {
        assert!(life.advance(number, phase, at(0)));
        assert!(!life.advance(number, phase, at(0)), "{phase:?} twice");
    }
    assert!(!life.advance(number, Phase::Live, at(0)), "live is go_live's");
    assert_eq!(life.go_live(number, PROBATION, at(1)), None);
    assert!(!life.reject(number, why(), at(2)), "a live one isn't rejected");
    assert_eq!((life.live(), life.record(number).unwrap().phase), (Some(number), Phase::Live));
}

#[test]
fn a_refused_candidate_changes_nothing_for_the_live_one() {
    let mut life = Life::new([]);
    let first = live(&mut life, "a", at(0));
    let number = life.begin("b", None, Phase::Fetched, at(1));
    assert!(life.reject(number, why(), at(2)));
    assert_eq!((life.live(), life.previous()), (Some(first), None));
    assert_eq!(life.go_live(number, PROBATION, at(3)), None, "what was refused never becomes live");
    assert_eq!(life.live(), Some(first));
}

#[test]
fn as_many_lost_instances_as_allowed_stay_and_one_more_rolls_back() {
    let mut life = Life::new([]);
    let number = second(&mut life);
    for _ in 1..LOSSES_MAX {
        assert_eq!(life.lost(number, &why(), at(101)), ProbationDecision::Stay);
    }
    let ProbationDecision::RollBack(told) = life.lost(number, &why(), at(101)) else { panic!("no rollback") };
    assert_eq!(told.code, "PLUGIN.PROBATION_FAILED");
    let (to, again) = life.prepare_return(at(101)).unwrap();
    let rolled = life.roll_back(again, &told, at(101)).unwrap();
    assert_eq!((rolled.from, rolled.to, rolled.number), (number, to, again));
    assert_eq!(life.bad("b").unwrap().why, told);
    assert_eq!((life.live(), life.previous(), life.probation()), (Some(again), None, None));
    assert_eq!(life.record(number).unwrap().phase, Phase::Draining);
    assert_eq!(life.lost(number, &why(), at(102)), ProbationDecision::Stay, "who drains is judged no more");
}

#[test]
fn who_replaces_one_that_kept_failing_may_fail_as_often() {
    let mut life = Life::new([]);
    let first = live(&mut life, "a", at(0));
    for second in 0..10 {
        life.lost(first, &why(), at(90 + second));
    }
    let number = live(&mut life, "b", at(100));
    for _ in 0..10 {
        assert_eq!(life.lost(number, &why(), at(110)), ProbationDecision::Stay);
    }
    assert!(matches!(life.lost(number, &why(), at(110)), ProbationDecision::RollBack(_)));
}

#[test]
fn losses_long_before_the_swap_dont_count() {
    let mut life = Life::new([]);
    let first = live(&mut life, "a", at(0));
    (0..10).for_each(|second| drop(life.lost(first, &why(), at(second))));
    let number = live(&mut life, "b", at(100));
    assert_eq!(life.probation().unwrap().losses_before, 0);
    (1..LOSSES_MAX).for_each(|_| drop(life.lost(number, &why(), at(101))));
    assert!(matches!(life.lost(number, &why(), at(101)), ProbationDecision::RollBack(_)));
}

#[test]
fn failures_in_a_row_ask_the_earlier_one_and_a_success_begins_anew() {
    let mut life = Life::new([]);
    let number = second(&mut life);
    for _ in 0..10 {
        for _ in 1..FAILURES_IN_ROW {
            assert_eq!(life.failed(number, &why(), at(101)), ProbationDecision::Stay);
        }
        life.served(number);
    }
    (1..FAILURES_IN_ROW).for_each(|_| drop(life.failed(number, &why(), at(101))));
    assert!(matches!(life.failed(number, &why(), at(101)), ProbationDecision::AskPrevious(_)));
}

#[test]
fn one_that_says_it_is_down_again_and_again_asks_the_earlier_one() {
    let mut life = Life::new([]);
    let number = second(&mut life);
    (1..DOWNS_IN_ROW).for_each(|_| assert_eq!(life.health(number, true, "no peer", at(101)), ProbationDecision::Stay));
    assert_eq!(life.health(number, false, "", at(101)), ProbationDecision::Stay);
    (1..DOWNS_IN_ROW).for_each(|_| assert_eq!(life.health(number, true, "no peer", at(102)), ProbationDecision::Stay));
    assert!(matches!(life.health(number, true, "no peer", at(103)), ProbationDecision::AskPrevious(_)));
}

#[test]
fn after_its_probation_nothing_rolls_it_back_by_itself() {
    let mut life = Life::new([]);
    let number = second(&mut life);
    assert_eq!(life.tick(at(159)), ProbationDecision::Stay);
    assert_eq!(life.tick(at(160)), ProbationDecision::Confirmed);
    assert_eq!(life.tick(at(161)), ProbationDecision::Stay);
    for _ in 0..10 {
        assert_eq!(life.lost(number, &why(), at(161)), ProbationDecision::Stay);
        assert_eq!(life.failed(number, &why(), at(161)), ProbationDecision::Stay);
    }
    assert!(life.previous().is_some(), "by hand it can");
}

#[test]
fn one_in_trouble_at_the_end_of_its_probation_isnt_confirmed() {
    let mut life = Life::new([]);
    let number = live(&mut life, "a", at(0));
    life.failed(number, &why(), at(59));
    assert_eq!(life.tick(at(60)), ProbationDecision::Stay);
}

#[test]
fn a_rollback_of_mere_settings_blames_no_component() {
    let mut life = Life::new([]);
    live(&mut life, "a", at(0));
    live(&mut life, "a", at(100));
    let (_, again) = life.prepare_return(at(101)).unwrap();
    assert_eq!(life.roll_back(again, &why(), at(101)).unwrap().bad, None);
    assert_eq!(life.bad("a"), None);
}

#[test]
fn there_is_no_way_back_from_a_rollback_but_forward() {
    let mut life = Life::new([]);
    second(&mut life);
    let (_, again) = life.prepare_return(at(101)).unwrap();
    life.roll_back(again, &why(), at(101)).unwrap();
    assert_eq!(life.prepare_return(at(102)), None);
}

#[test]
fn bad_digests_are_bounded_and_can_be_forgiven() {
    let bad = |n: usize| BadDigest { digest: format!("d{n}"), why: why(), at: UnixMillis(0) };
    let mut life = Life::new((0..BAD_MAX + 5).map(bad));
    assert_eq!(life.bad_digests().count(), BAD_MAX);
    assert!(life.bad("d4").is_none() && life.bad("d5").is_some());
    assert!(life.forget_bad("d5") && !life.forget_bad("d5"));
}

/// What may happen to a slot. Numbers pick among the generations there were.
#[derive(Clone, Debug)]
enum Event {
    Begin { digest: u8, phase: u8 },
    Advance { which: usize, phase: u8 },
    Reject { which: usize },
    GoLive { which: usize, trial: bool },
    Gone { which: usize },
    Lost { which: usize },
    Failed { which: usize },
    Served { which: usize },
    Down { which: usize, down: bool },
    Tick,
    RollBack,
    Wait { seconds: u64 },
}

const PHASES: [Phase; 9] = [
    Phase::Fetched,
    Phase::Verified,
    Phase::Compiled,
    Phase::Linked,
    Phase::Probing,
    Phase::Live,
    Phase::Draining,
    Phase::Gone,
    Phase::Rejected,
];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..6_u8, 0..5_u8).prop_map(|(digest, phase)| Event::Begin { digest, phase }),
        3 => (0..40_usize, 0..9_u8).prop_map(|(which, phase)| Event::Advance { which, phase }),
        1 => (0..40_usize).prop_map(|which| Event::Reject { which }),
        4 => (0..40_usize, any::<bool>()).prop_map(|(which, trial)| Event::GoLive { which, trial }),
        2 => (0..40_usize).prop_map(|which| Event::Gone { which }),
        4 => (0..40_usize).prop_map(|which| Event::Lost { which }),
        2 => (0..40_usize).prop_map(|which| Event::Failed { which }),
        1 => (0..40_usize).prop_map(|which| Event::Served { which }),
        2 => (0..40_usize, any::<bool>()).prop_map(|(which, down)| Event::Down { which, down }),
        1 => Just(Event::Tick),
        2 => Just(Event::RollBack),
        2 => (1..40_u64).prop_map(|seconds| Event::Wait { seconds }),
    ]
}

/// Keeps everything and judges naively.
#[derive(Default)]
struct Reference {
    phases: Vec<Phase>,
    digests: Vec<String>,
    live: Option<usize>,
    previous: Option<usize>,
    bad: BTreeSet<String>,
    /// End of the trial, losses in it, losses of the one before in as long a time.
    trial: Option<(u64, u32, u32)>,
    losses: Vec<u64>,
}

impl Reference {
    fn pick(&self, which: usize) -> Option<usize> {
        (!self.phases.is_empty()).then(|| self.phases.len() - 1 - which % self.phases.len().min(8))
    }

    fn go_live(&mut self, index: usize, trial: u64, now: u64) {
        if let Some(old) = self.live {
            self.phases[old] = Phase::Draining;
            self.previous = Some(old);
        }
        let before = self.losses.iter().filter(|at| now - **at < trial).count();
        self.losses.clear();
        self.phases[index] = Phase::Live;
        self.live = Some(index);
        self.trial = (trial > 0).then(|| (now + trial, 0, u32::try_from(before).unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_events_keeps_to_the_rules(events in proptest::collection::vec(event(), 1..120)) {
        let (mut life, mut model, mut now) = (Life::new([]), Reference::default(), 1_000_u64);
        for event in events {
            match event {
                Event::Begin { digest, phase } => {
                    let phase = PHASES[usize::from(phase)];
                    let digest = format!("d{digest}");
                    let number = life.begin(&digest, None, phase, at(now));
                    model.phases.push(phase);
                    model.digests.push(digest);
                    prop_assert_eq!(number as usize, model.phases.len());
                }
                Event::Advance { which, phase } => if let Some(index) = model.pick(which) {
                    let to = PHASES[usize::from(phase)];
                    let from = model.phases[index];
                    let known = life.record(index as u32 + 1).is_some();
                    let allowed = known && from.is_candidate() && to.is_candidate() && to > from;
                    prop_assert_eq!(life.advance(index as u32 + 1, to, at(now)), allowed);
                    if allowed { model.phases[index] = to; }
                },
                Event::Reject { which } => if let Some(index) = model.pick(which) {
                    let allowed = life.record(index as u32 + 1).is_some() && model.phases[index].is_candidate();
                    prop_assert_eq!(life.reject(index as u32 + 1, why(), at(now)), allowed);
                    if allowed { model.phases[index] = Phase::Rejected; }
                },
                Event::GoLive { which, trial } => if let Some(index) = model.pick(which) {
                    let allowed = life.record(index as u32 + 1).is_some()
                        && matches!(model.phases[index], Phase::Linked | Phase::Probing);
                    let trial = if trial { 60 } else { 0 };
                    let old = life.go_live(index as u32 + 1, Duration::from_secs(trial), at(now));
                    prop_assert_eq!(old, if allowed { model.live.map(|index| index as u32 + 1) } else { None });
                    if allowed { model.go_live(index, trial, now); }
                },
                Event::Gone { which } => if let Some(index) = model.pick(which) {
                    let allowed = life.record(index as u32 + 1).is_some() && model.phases[index] == Phase::Draining;
                    prop_assert_eq!(life.gone(index as u32 + 1, at(now)), allowed);
                    if allowed { model.phases[index] = Phase::Gone; }
                },
                Event::Lost { which } => if let Some(index) = model.pick(which) {
                    let decision = life.lost(index as u32 + 1, &why(), at(now));
                    let mut expected = false;
                    if model.live == Some(index) {
                        model.losses.push(now);
                        let alone = model.previous.is_none();
                        if let Some((_, losses, before)) = model.trial.as_mut().filter(|trial| now < trial.0) {
                            *losses += 1;
                            expected = !alone && *losses >= LOSSES_MAX.max(*before + 1);
                        }
                    }
                    prop_assert_eq!(matches!(decision, ProbationDecision::RollBack(_)), expected);
                },
                Event::Failed { which } => if let Some(index) = model.pick(which) {
                    let decision = life.failed(index as u32 + 1, &why(), at(now));
                    let may = model.live == Some(index) && model.previous.is_some() && model.trial.is_some_and(|trial| now < trial.0);
                    prop_assert!(decision == ProbationDecision::Stay || (may && matches!(decision, ProbationDecision::AskPrevious(_))));
                },
                Event::Served { which } => if let Some(index) = model.pick(which) {
                    life.served(index as u32 + 1);
                },
                Event::Down { which, down } => if let Some(index) = model.pick(which) {
                    let decision = life.health(index as u32 + 1, down, "", at(now));
                    let may = down && model.live == Some(index) && model.previous.is_some()
                        && model.trial.is_some_and(|trial| now < trial.0);
                    prop_assert!(decision == ProbationDecision::Stay || (may && matches!(decision, ProbationDecision::AskPrevious(_))));
                },
                Event::Tick => {
                    let over = model.trial.is_some_and(|trial| now >= trial.0);
                    let decision = life.tick(at(now));
                    prop_assert!(decision == ProbationDecision::Stay || (over && decision == ProbationDecision::Confirmed));
                    if over { model.trial = None; }
                },
                Event::RollBack => {
                    let expected = model.live.zip(model.previous);
                    let prepared = life.prepare_return(at(now));
                    prop_assert_eq!(prepared.is_some(), model.previous.is_some());
                    if let (Some((_, number)), Some(previous)) = (prepared, model.previous) {
                        model.phases.push(Phase::Linked);
                        model.digests.push(model.digests[previous].clone());
                        let rolled = life.roll_back(number, &why(), at(now));
                        prop_assert_eq!(rolled.is_some(), expected.is_some());
                        if let Some((from, to)) = expected {
                            model.go_live(number as usize - 1, 0, now);
                            model.previous = None;
                            let differs = model.digests[from] != model.digests[to];
                            prop_assert_eq!(rolled.unwrap().bad.is_some(), differs);
                            if differs { model.bad.insert(model.digests[from].clone()); }
                        }
                    }
                },
                Event::Wait { seconds } => now += seconds,
            }
            // What holds at any time.
            prop_assert_eq!(life.live(), model.live.map(|index| index as u32 + 1));
            prop_assert_eq!(life.previous(), model.previous.map(|index| index as u32 + 1));
            prop_assert!(life.records().filter(|record| record.phase == Phase::Live).count() <= 1);
            let waiting = model.phases.iter().filter(|phase| phase.is_candidate() || matches!(phase, Phase::Live | Phase::Draining)).count();
            prop_assert!(life.records().count() <= HISTORY_MAX.max(waiting + 2));
            for record in life.records() {
                prop_assert_eq!(record.phase, model.phases[record.number as usize - 1]);
            }
            for number in [life.live(), life.previous()].into_iter().flatten() {
                prop_assert!(life.record(number).is_some(), "{number} is forgotten though it is needed");
            }
            let bad: BTreeSet<String> = life.bad_digests().map(|bad| bad.digest.clone()).collect();
            prop_assert_eq!(&bad, &model.bad);
        }
    }
}
