//! Steps whose events number themselves in the commit that records them.

use super::*;
use crate::commit::{Step, StoreAnswer, take_answer};
use crate::port::store::StoreError;
use crate::saga::call::AnswerResult;
use crate::saga::event::EventKind;
use crate::saga::records::SagaShardRecord;
use crate::streams::exact::{ExactAppend, ExactRefusal};
use crate::streams::fixtures::{append, stream};
use crate::streams::joint::{JointAppend, JointAppends};
use crate::time::Now;

/// A success that leaves an event for a stream that has to end at a number.
fn leaves(name: &str, expected: u64) -> Answer {
    let exact = ExactAppend::new(append(name, &[&format!("{name}-{expected}")]), expected, 1);
    let events = JointAppends { list: vec![JointAppend::Exact(exact)], at: T0 };
    Answer::of(AnswerResult::Done { output: Json::null(), messages: Vec::new(), events })
}

fn elsewhere(place: usize) -> StoreError {
    let refusal = ExactRefusal::ExpectedSeq { stream: stream("a"), expected: 3, actual: 7 };
    StoreError::Appends(vec![(place, refusal)])
}

/// Streams in which the events of a commit number themselves.
fn streams(commit: &SagaCommit) -> Vec<&str> {
    commit.events.exact_streams().map(|stream| stream.name.as_str()).collect()
}

fn names(commit: &SagaCommit) -> Vec<&str> {
    commit.journal.iter().map(|entry| entry.key.id.as_str()).collect()
}

impl Bench {
    /// Starts sagas of these names, and answers the call of each step `a` so.
    fn answered(&mut self, answers: Vec<(&str, Answer)>) {
        for (name, answer) in answers {
            let id = SagaId::root(name).unwrap();
            let new = self.new_saga(SagaKey { id, ..key() }, "{}", u64::MAX);
            self.submit(SagaCommand::Start(Box::new(new))).unwrap();
            let call = self.call("a");
            self.tell(&call, answer);
        }
    }

    fn tell(&mut self, call: &Call, answer: Answer) {
        let call = call.reference.clone();
        self.shard.submit(None, SagaCommand::Answer { call, answer }, self.now, 0.5);
    }

    fn take(&mut self, answer: StoreAnswer<SagaShardRecord>) -> Step<SagaShard> {
        take_answer(&mut self.shard, answer, Now { wall: self.now, ..Now::default() }, || 77)
    }

    /// The commit that is out conflicts, and a barrier shows that it isn't in.
    fn conflict(&mut self) {
        let error = StoreError::Conflict("the head of a stream".into());
        assert!(matches!(self.take(StoreAnswer::Committed(Err(error))), Step::Read(_)));
        let stored = *self.shard.record();
        let Step::Barrier(barrier) = self.take(StoreAnswer::Record(Ok(stored))) else { panic!("no barrier") };
        assert!(matches!(self.take(StoreAnswer::Barrier(Ok(()))), Step::Read(_)));
        assert!(matches!(self.take(StoreAnswer::Record(Ok(barrier.record))), Step::NotApplied(())));
    }

    fn failures(&self, step_failed: &str) -> Vec<String> {
        let events = self.tree().events().cloned().collect::<Vec<_>>();
        let failed = events.into_iter().filter_map(|event| match event.what {
            EventKind::StepFailed { failure, .. } if &*failure.code == step_failed => Some(failure.reason.to_string()),
            _ => None,
        });
        failed.collect()
    }
}

#[test]
fn a_step_whose_events_are_refused_has_failed_and_is_tried_again() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let call = bench.call("a");
    bench.tell(&call, leaves("a", 3));
    let made = bench.shard.build(5).unwrap();
    assert_eq!((streams(&made), made.journal.len()), (vec!["a"], 1));
    assert!(matches!(bench.take(StoreAnswer::Committed(Err(elsewhere(0)))), Step::NotApplied(())));
    bench.settle();
    assert!(bench.commits.last().unwrap().events.is_empty() && bench.calls.is_empty(), "b isn't called");
    let failures = bench.failures("STREAM.EXPECTED_SEQ");
    assert!(failures.len() == 1 && failures[0].contains("ends at 7, not at 3"), "{failures:?}");
    bench.wait(600_000);
    bench.answer("a", leaves("a", 7));
    assert_eq!(streams(bench.commits.last().unwrap()), ["a"]);
    bench.answer("b", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn the_others_of_its_commit_are_in_the_next_one() {
    let mut bench = bench(&step("a", ""));
    bench.answered(vec![("s", leaves("a", 3))]);
    // What another saga asks for joins the same commit.
    let new = bench.new_saga(SagaKey { id: SagaId::root("t").unwrap(), ..key() }, "{}", u64::MAX);
    bench.shard.submit(Some(Ticket(2)), SagaCommand::Start(Box::new(new)), bench.now, 0.5);
    let made = bench.shard.build(5).unwrap();
    assert_eq!((streams(&made), made.journal.len(), made.writes.len()), (vec!["a"], 2, 1), "t began, s is done");
    assert!(matches!(bench.take(StoreAnswer::Committed(Err(elsewhere(0)))), Step::NotApplied(())));
    let made = bench.shard.build(6).unwrap();
    assert_eq!((streams(&made), names(&made)), (vec![], vec!["t", "s"]), "t began, s has failed");
}

#[test]
fn of_two_steps_for_one_stream_each_has_a_commit() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let one = bench.call("a");
    let new = bench.new_saga(SagaKey { id: SagaId::root("t").unwrap(), ..key() }, "{}", u64::MAX);
    bench.submit(SagaCommand::Start(Box::new(new))).unwrap();
    let two = bench.call("a");
    bench.tell(&one, leaves("a", 0));
    bench.tell(&two, leaves("a", 1));
    let before = bench.commits.len();
    bench.settle();
    let of: Vec<Vec<&str>> = bench.commits[before..].iter().map(streams).collect();
    assert_eq!(of, [vec!["a"], vec!["a"]]);
}

#[test]
fn what_met_another_writer_of_its_stream_goes_alone_in_turn_with_all_else() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let call = bench.call("a");
    bench.tell(&call, leaves("a", 0));
    let new = |bench: &Bench, id: &str| {
        let key = SagaKey { id: SagaId::root(id).unwrap(), ..key() };
        SagaCommand::Start(Box::new(bench.new_saga(key, "{}", u64::MAX)))
    };
    let (first, second) = (new(&bench, "t"), new(&bench, "u"));
    bench.shard.submit(Some(Ticket(2)), first, bench.now, 0.5);
    assert_eq!(bench.shard.build(5).unwrap().journal.len(), 2);
    bench.conflict();
    let made = bench.shard.build(6).unwrap();
    assert_eq!((streams(&made), names(&made)), (vec!["a"], vec!["s"]));
    bench.conflict();
    bench.shard.submit(Some(Ticket(3)), second, bench.now, 0.5);
    let made = bench.shard.build(7).unwrap();
    assert_eq!((streams(&made), names(&made)), (vec![], vec!["t", "u"]), "nobody waits for it");
    bench.shard.committed();
    let made = bench.shard.build(8).unwrap();
    assert_eq!((streams(&made), names(&made)), (vec!["a"], vec!["s"]));
    bench.shard.committed();
    bench.settle();
    assert!(bench.calls.iter().any(|call| call.context.step == "b"), "it went on");
}

#[test]
fn what_is_asked_of_a_saga_while_such_a_commit_is_out_waits_for_its_fate() {
    for is_refused in [false, true] {
        let mut bench = bench(&(step("a", "") + &step("b", "")));
        bench.start();
        let call = bench.call("a");
        bench.tell(&call, leaves("a", 3));
        bench.shard.build(5).unwrap();
        let by = ActedBy { actor: "ann".to_owned(), note: None };
        let signal = SagaCommand::Signal { key: key(), name: "go".to_owned(), data: Json::null(), by };
        bench.shard.submit(Some(Ticket(9)), signal, bench.now, 0.5);
        bench.shard.tick(bench.now.plus(Duration::from_secs(3_600)), 0.5);
        assert!(bench.shard.take_effects().is_empty());
        match is_refused {
            true => drop(bench.take(StoreAnswer::Committed(Err(elsewhere(0))))),
            false => bench.shard.committed(),
        }
        bench.settle();
        assert!(matches!(bench.replies.pop(), Some(Ok(SagaReply::Acted(_)))), "{is_refused}");
        assert_eq!(bench.failures("STREAM.EXPECTED_SEQ").len(), usize::from(is_refused));
    }
}

#[test]
fn a_step_that_leaves_more_than_the_store_takes_has_failed_for_good() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let call = bench.call("a");
    bench.tell(&call, leaves("a", 0));
    bench.shard.build(5).unwrap();
    assert_eq!(bench.shard.commit_too_large(), None, "no saga stands still");
    bench.settle();
    assert_eq!(bench.failures("STORAGE.TOO_LARGE").len(), 1);
    assert!(bench.commits.iter().all(|commit| commit.events.is_empty()));
}

#[test]
fn who_hears_that_the_shard_is_lost_is_also_who_was_put_off() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let call = bench.call("a");
    bench.tell(&call, leaves("a", 0));
    bench.shard.build(5).unwrap();
    let by = ActedBy { actor: "ann".to_owned(), note: None };
    let cancel = SagaCommand::Act { key: key(), act: SagaAct::Cancel, by };
    bench.shard.submit(Some(Ticket(9)), cancel, bench.now, 0.5);
    assert_eq!(bench.shard.recall(), (vec![Ticket(9)], vec![]));
}
