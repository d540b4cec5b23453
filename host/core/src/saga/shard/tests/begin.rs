//! How a saga begins, rests and ends.

use super::{Bench, T0, bench, done, key, retry, step};
use crate::backoff::RetryPolicy;
use crate::saga::definition::default_retry;
use crate::saga::records::SagaWrite;
use crate::saga::shard::{SagaCommand, SagaReply};
use crate::saga::state::SagaState;
use crate::time::UnixMillis;

#[test]
fn a_saga_begins_when_its_id_says_and_nothing_of_it_is_earlier() {
    for now in [1_005, 995] {
        let mut bench = bench(&step("a", ""));
        bench.now = UnixMillis(T0.0 + now);
        bench.at = Some(UnixMillis(T0.0 + 1_000));
        bench.start();
        let tree = bench.tree();
        assert_eq!(Some(tree.root().unwrap().started_at), bench.at);
        assert!(tree.events().all(|event| Some(event.at) >= bench.at), "now {now}");
        bench.answer("a", done());
        assert_eq!(bench.state(), SagaState::Completed);
    }
}

#[test]
fn what_a_step_does_not_say_about_retries_is_the_default_that_its_saga_began_with() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 3 }"));
    bench.default_retry = RetryPolicy { max_attempts: 9, base_ms: 50, factor: 4.0, jitter: 0.0, ..default_retry() };
    bench.start();
    // Another default, as after a restart with another configuration: what runs keeps its own.
    bench.default_retry = default_retry();
    for (attempt, delay) in [(1, 50), (2, 200)] {
        let call = bench.answer("a", retry());
        assert_eq!((call.reference.attempt, call.retry.max_attempts, call.retry.base_ms), (attempt, 3, 50));
        bench.wait(delay - 1);
        assert!(bench.calls.is_empty(), "attempt {attempt} is repeated after {delay} ms");
        bench.wait(1);
    }
    bench.answer("a", retry());
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_history_is_what_the_store_has_while_memory_is_ahead_of_it() {
    let known = |bench: &Bench| bench.shard.history(&key()).map(|(tree, _, committed)| (tree.events, committed));
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    let new = bench.new_saga(key(), "{}", 0);
    bench.shard.submit(None, SagaCommand::Start(Box::new(new)), bench.now, 0.5);
    assert_eq!(known(&bench).unwrap().1, Some(0), "its start isn't committed");
    bench.settle();
    let (events, committed) = known(&bench).unwrap();
    assert!(events > 0 && committed == Some(events));
    let call = bench.call("a").reference;
    bench.shard.submit(None, SagaCommand::Answer { call, answer: done() }, bench.now, 0.5);
    let (ahead, committed) = known(&bench).unwrap();
    assert!(ahead > events && committed == Some(events), "the success of its step waits");
    bench.shard.build(1).unwrap();
    assert_eq!(known(&bench).unwrap(), (ahead, Some(events)), "it is out");
    bench.shard.committed();
    assert_eq!(known(&bench).unwrap(), (ahead, Some(ahead)));
}

#[test]
fn a_callers_id_begins_one_saga() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    assert!(matches!(bench.start_as("{}", 0), Ok(SagaReply::Started { duplicate: true, .. })));
    let other = bench.start_as("{\"other\":1}", 0);
    assert_eq!(bench.code(other), "STORAGE.CONFLICT");
    let before = bench.shard.record().beat;
    bench.answer("a", done());
    assert!(bench.shard.tree(&key()).is_none());
    assert!(matches!(bench.start_as("{}", before), Ok(SagaReply::Started { duplicate: true, .. })));
}

#[test]
fn the_commit_that_ends_the_last_saga_lets_the_journal_before_it_go() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    bench.answer("a", done());
    let running = bench.commits.last().unwrap().record;
    assert_eq!(running.floor, 1, "it needs all of it");
    bench.answer("b", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let ended = bench.commits.last().unwrap();
    assert!(ended.journal.iter().all(|entry| entry.ended) && ended.record.beat > running.beat);
    assert_eq!(ended.record.floor, ended.record.beat);
}

#[test]
fn a_saga_at_rest_gets_a_row_and_its_journal_may_go() {
    let mut bench = bench("[[steps]]\nname = \"w\"\naction = \"wait:paid\"\n");
    bench.start();
    assert!(bench.commits.iter().all(|commit| commit.writes.is_empty() && !commit.journal.is_empty()));
    bench.wait(2_000);
    let resting = bench.commits.last().unwrap();
    assert!(matches!(resting.writes.as_slice(), [SagaWrite::PutRow(_)]) && resting.journal.is_empty());
    bench.signal("other").unwrap();
    assert!(bench.commits.last().unwrap().record.floor > 1);
}
