//! Ways out, held against what the shard then does.

use super::*;
use crate::port::saga::RetryMode;
use crate::saga::event::End;
use crate::saga::state::{Effect, StepState};
use crate::saga::ways::{WayOut, ways_out};

/// Rounds of answers in which a saga has come to rest.
const ROUNDS: usize = 40;

fn one_try(name: &str, more: &str) -> String {
    step(name, &format!("retry = {{ max_attempts = 1 }}\n{more}"))
}

/// All that could be done to a saga with these steps.
fn all_acts(steps: &[&str]) -> Vec<SagaAct> {
    let retry = |mode| SagaAct::Retry { step: None, mode };
    let of_root = [
        SagaAct::Resume,
        SagaAct::Cancel,
        SagaAct::Kill,
        SagaAct::Accept,
        retry(RetryMode::Compensate),
        retry(RetryMode::Retry),
    ];
    let skips = steps.iter().map(|step| SagaAct::Skip { step: (*step).to_owned() });
    of_root.into_iter().chain(skips).collect()
}

impl Bench {
    fn ways(&self) -> Vec<WayOut> {
        ways_out(&self.tree(), &self.definitions, self.now)
    }

    fn way(&self, wanted: &SagaAct) -> WayOut {
        let ways = self.ways();
        ways.iter().find(|way| way.act == *wanted).cloned().unwrap_or_else(|| panic!("{wanted:?} isn't in {ways:?}"))
    }

    /// Every call succeeds until nothing moves; the steps that were undone, in order.
    fn all_goes_well(&mut self) -> Vec<String> {
        let mut undone = Vec::new();
        for _ in 0..ROUNDS {
            while !self.calls.is_empty() {
                let call = self.calls.remove(0);
                if call.reference.way == StepDirection::Compensate {
                    undone.push(call.context.step.clone());
                }
                self.answer_to(&call, done());
            }
            self.wait(1_000);
        }
        undone
    }

    fn with_effect(&self, effect: Effect) -> Vec<String> {
        let tree = self.tree();
        let steps = tree.root().unwrap().steps.iter().zip(&self.definitions.root().steps);
        steps.filter(|(record, _)| record.effect == effect).map(|(_, step)| step.name.to_string()).collect()
    }
}

/// What is told of a saga is what the shard does: the acts that it takes, what it then undoes, what stays, and how it ends.
fn hold(steps: &[&str], make: impl Fn() -> Bench) {
    let ways = make().ways();
    assert!(!ways.is_empty(), "nothing may be done");
    for act in all_acts(steps) {
        let mut bench = make();
        let is_stuck = bench.tree().stuck().is_some();
        let way = ways.iter().find(|way| way.act == act);
        let reply = bench.act(act.clone());
        let is_taken = matches!(&reply, Ok(SagaReply::Acted(acted)) if !acted.unchanged);
        let record = |name: &String| {
            let number = bench.definitions.root().step_number(name).unwrap();
            bench.tree().root().unwrap().step(number).unwrap().state
        };
        let Some(way) = way else {
            // Steps that aren't begun may be skipped, too, and a retry is told of once.
            let is_left_out = match &act {
                SagaAct::Skip { step } => record(step) == StepState::Skipped,
                SagaAct::Retry { mode: RetryMode::Retry, .. } => !is_stuck,
                _ => false,
            };
            assert!(!is_taken || is_left_out, "{act:?} isn't told");
            continue;
        };
        assert!(is_taken, "{act:?}: {reply:?}");
        assert!(!way.at_once || bench.tree().is_ended(), "{act:?}");
        let Some(end) = way.end else {
            assert!(bench.tree().needs_operator(), "{act:?} waits for nobody");
            continue;
        };
        let undone = bench.all_goes_well();
        assert_eq!(undone, way.undone, "{act:?}");
        assert_eq!(bench.tree().end(), Some(end), "{act:?}");
        if end != End::Completed {
            let (stays, unclear) = (bench.with_effect(Effect::Done), bench.with_effect(Effect::Unknown));
            assert_eq!((stays, unclear), (way.stays.clone(), way.unclear.clone()), "{act:?}");
        }
    }
}

fn three() -> String {
    one_try("a", "") + &one_try("b", "") + &one_try("c", "")
}

/// `c` failed, and so did undoing `b`; `a` is done.
fn stuck() -> Bench {
    let mut bench = bench(&three());
    bench.start();
    bench.answer("a", done());
    bench.answer("b", done());
    bench.answer("c", refused());
    bench.answer("b", refused());
    bench
}

/// Nobody knows whether `b` was done; `a` is.
fn unclear() -> Bench {
    let mut bench = bench(&(step("a", "") + &step("b", "idempotent = false") + &step("c", "")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", unknown());
    bench
}

#[test]
fn the_ways_out_of_a_stuck_saga_are_those_that_the_shard_takes() {
    hold(&["a", "b", "c"], stuck);
}

#[test]
fn one_that_is_stuck_again_has_one_way_less() {
    let again = || {
        let mut bench = stuck();
        bench.act(SagaAct::Skip { step: "b".into() }).unwrap();
        bench.answer("a", refused());
        bench
    };
    hold(&["a", "b", "c"], again);
    assert!(again().ways().iter().all(|way| way.act != SagaAct::Retry { step: None, mode: RetryMode::Retry }));
}

#[test]
fn an_unknown_result_may_be_retried_skipped_or_undone() {
    hold(&["a", "b", "c"], unclear);
    assert_eq!(unclear().way(&SagaAct::Kill).unclear, ["b"]);
    assert_eq!(unclear().way(&SagaAct::Cancel).undone, ["b", "a"]);
}

#[test]
fn an_undoing_whose_result_is_unknown_is_not_cancelled() {
    let unclear = || {
        let mut bench = bench(&(step("a", "idempotent = false") + &one_try("b", "")));
        bench.start();
        bench.answer("a", done());
        bench.answer("b", refused());
        bench.answer("a", unknown());
        bench
    };
    hold(&["a", "b"], unclear);
    assert!(unclear().ways().iter().all(|way| way.act != SagaAct::Cancel));
}

#[test]
fn one_that_is_held_goes_on_or_back() {
    let held = || {
        let mut bench = bench(&three());
        bench.start();
        bench.answer("a", done());
        bench.act(SagaAct::Pause).unwrap();
        bench
    };
    hold(&["a", "b", "c"], held);
    assert_eq!(held().way(&SagaAct::Resume).end, Some(End::Completed));
    // Its call is under way, and what it answers is undone.
    assert_eq!(held().way(&SagaAct::Cancel).undone, ["b", "a"]);
}

#[test]
fn what_has_no_compensation_stays_done() {
    let plain = "[[steps]]\nname = \"mail\"\naction = \"fn:mail\"\n".to_owned();
    let stuck = || {
        let mut bench = bench(&(one_try("a", "") + &plain + &one_try("b", "") + &one_try("c", "")));
        bench.start();
        for step in ["a", "mail", "b"] {
            bench.answer(step, done());
        }
        bench.answer("c", refused());
        bench.answer("b", refused());
        bench
    };
    hold(&["a", "mail", "b", "c"], stuck);
    let skip = stuck().way(&SagaAct::Skip { step: "b".into() });
    assert_eq!((skip.undone, skip.stays), (vec!["a".to_owned()], vec!["mail".to_owned(), "b".to_owned()]));
    let accept = stuck().way(&SagaAct::Accept);
    assert_eq!((accept.stays, accept.end), (["a", "mail", "b"].map(str::to_owned).to_vec(), Some(End::Accepted)));
}

#[test]
fn one_that_goes_on_by_itself_or_has_ended_needs_no_way_out() {
    let mut bench = bench(&three());
    bench.start();
    assert_eq!(bench.ways(), []);
    bench.act(SagaAct::Kill).unwrap();
    assert_eq!(bench.ways(), []);
}

#[test]
fn looking_for_ways_changes_nothing() {
    let bench = stuck();
    let before = bench.tree();
    bench.ways();
    assert_eq!(before, bench.tree());
    assert!(bench.calls.is_empty());
}

#[test]
fn steps_of_sub_sagas_are_named_by_their_paths() {
    let below =
        Arc::new(parse(&format!("name = \"pay\"\n{}", one_try("a", "")), DefinitionFormat::Toml).unwrap().definition);
    let pay = "[[steps]]\nname = \"pay\"\naction = \"saga:pay\"\n";
    let mut bench = bench(&format!("{}{pay}{}", one_try("x", ""), one_try("z", "")));
    let root = Arc::clone(bench.definitions.root());
    bench.definitions = Arc::new(DefinitionSet::new(root, vec![(Arc::from("saga:pay"), below)]));
    bench.start();
    bench.answer("x", done());
    bench.answer("a", done());
    bench.answer("z", refused());
    bench.answer("a", refused());
    let skip = bench.ways().into_iter().find(|way| matches!(way.act, SagaAct::Skip { .. })).unwrap();
    assert_eq!(
        (skip.saga.as_str(), &skip.stays[..], &skip.undone[..]),
        ("s~pay", &["pay/a".to_owned()][..], &["x".to_owned()][..])
    );
    assert_eq!(bench.way(&SagaAct::Accept).stays, ["x", "pay/a"]);
}
