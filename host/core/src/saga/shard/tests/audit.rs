//! Audit events of sagas, in the commit that holds what they tell of.

use super::{Bench, bench, bench_of, done, refused, retry, step};
use crate::port::saga::{RetryMode, SagaAct};
use crate::saga::records::SagaWrite;
use crate::saga::state::SagaState;
use crate::tx_event::TxRecord;

fn records(bench: &Bench) -> Vec<&TxRecord> {
    let writes = bench.commits.iter().flat_map(|commit| &commit.writes);
    let records = writes.filter_map(|write| match write {
        SagaWrite::PutTxEvents(record) => Some(&**record),
        _ => None,
    });
    records.collect()
}

/// What the trail says, in order: event, id, step, attempts, code, actor.
fn trail(bench: &Bench) -> Vec<String> {
    let events = records(bench).into_iter().flat_map(|record| &record.events);
    let text = |event: &crate::tx_event::TxEvent| {
        let optional = [&event.step, &event.code, &event.actor].map(|text| text.as_deref().unwrap_or("-"));
        format!("{} {} {} {}", event.kind.as_str(), event.id, event.attempts, optional.join(" "))
    };
    events.map(text).collect()
}

#[test]
fn begin_retry_death_and_replay_of_a_saga_are_in_the_commits_that_hold_them() {
    let retries = "retry = { max_attempts = 2, base_ms = 1, jitter = 0.0 }";
    let mut bench = bench_of(&(step("a", retries) + &step("b", retries)), Some("host-a"));
    bench.start();
    bench.answer("a", retry());
    bench.wait(1_000);
    bench.answer("a", done());
    bench.answer("b", refused());
    bench.answer("a", refused());
    assert_eq!(bench.state(), SagaState::Failed);
    bench.act(SagaAct::Retry { step: None, mode: RetryMode::Compensate }).unwrap();
    assert_eq!(
        trail(&bench),
        ["TxBegin s 0 - - -", "TxRetry s 1 a T.NO -", "TxDead s 1 a T.NO -", "TxReplay s 0 a - ann"]
    );
    for record in records(&bench) {
        let commit = bench.commits.iter().find(|commit| commit.record.beat == record.key.beat).unwrap();
        assert!(commit.writes.iter().any(|write| matches!(write, SagaWrite::PutTxEvents(of) if **of == *record)));
        assert!(record.key.at <= bench.now && &*record.host == "host-a");
    }
}

#[test]
fn where_they_arent_wanted_commits_of_sagas_write_none() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    bench.answer("a", done());
    assert!(records(&bench).is_empty());
}
