//! How large commits get, and what becomes of what the store doesn't take.

use std::time::Duration;

use super::{Bench, bench, key, step};
use crate::ids::Tenant;
use crate::port::saga::ActedBy;
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::saga::limits::SagaLimits;
use crate::saga::records::{SagaCommit, SagaWrite};
use crate::saga::shard::{SagaCommand, SagaEffect, Ticket};
use crate::saga::state::SagaState;

const WAIT: &str = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
/// Room for the trees of some sagas of [`begin`], not for those of ten.
const BYTES_MAX: usize = 5_000;

fn limited(steps: &str) -> Bench {
    let mut bench = bench(steps);
    limit(&mut bench);
    bench
}

fn limit(bench: &mut Bench) {
    let limits = SagaLimits { commit_bytes_max: BYTES_MAX, journal_records_max: 5, ..SagaLimits::default() };
    bench.shard.set_limits(limits);
}

fn other(id: &str) -> SagaKey {
    SagaKey { tenant: Tenant::unnamed(), id: SagaId::root(id).unwrap() }
}

/// Submits the start of a saga of about a thousand bytes.
fn begin(bench: &mut Bench, id: &str) {
    let new = bench.new_saga(other(id), &format!("\"{}\"", "x".repeat(900)), 0);
    bench.shard.submit(Some(Ticket(1)), SagaCommand::Start(Box::new(new)), bench.now, 0.5);
}

/// Rows that a commit writes: whose, and how large.
fn rows(commit: &SagaCommit) -> Vec<(SagaKey, usize)> {
    let rows = commit.writes.iter().filter_map(|write| match write {
        SagaWrite::PutRow(row) | SagaWrite::PutDone(row) => Some((row.tree.key.clone(), row.tree.weight)),
        _ => None,
    });
    rows.collect()
}

/// Checks that ten sagas got a row each, and no commit more than it may hold.
fn check(commits: &[SagaCommit]) {
    let mut keys = Vec::new();
    for commit in commits {
        let mut rows = rows(commit);
        rows.retain(|(of, _)| *of != key());
        let bytes: usize = rows.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes <= BYTES_MAX, "{rows:?}");
        keys.extend(rows.into_iter().map(|(of, _)| of));
    }
    keys.sort();
    assert_eq!(keys, (0..10).map(|n| other(&format!("s{n}"))).collect::<Vec<_>>());
}

#[test]
fn sagas_that_rest_together_get_their_rows_in_several_commits() {
    let mut bench = limited(WAIT);
    (0..10).for_each(|n| begin(&mut bench, &format!("s{n}")));
    bench.settle();
    let before = bench.commits.len();
    bench.wait(2_000);
    let commits = bench.commits.split_off(before);
    check(&commits);
    assert!(commits.iter().any(|commit| rows(commit).len() > 1));
}

#[test]
fn rows_for_the_journals_sake_stop_at_the_bytes_of_a_commit_and_go_on_in_the_next() {
    let mut bench = bench(&step("a", ""));
    (0..10).for_each(|n| begin(&mut bench, &format!("s{n}")));
    bench.start();
    assert_eq!(bench.commits.len(), 1);
    limit(&mut bench);
    let before = bench.commits.len();
    (0..30).for_each(|_| drop(bench.signal("x").unwrap()));
    check(&bench.commits.split_off(before));
}

#[test]
fn one_that_is_too_large_to_be_written_stands_still_and_no_other_does() {
    let mut bench = limited(WAIT);
    begin(&mut bench, "big");
    bench.start();
    let began = bench.commits.first().unwrap().record.beat;
    bench.now = bench.now.plus(Duration::from_millis(2_000));
    bench.shard.tick(bench.now, 0.5);
    let (mut stopped, mut sizes) = (Vec::new(), Vec::new());
    while let Some(commit) = bench.shard.build(1) {
        sizes.push(rows(&commit).len());
        if rows(&commit).iter().any(|(of, _)| *of == other("big")) {
            stopped.extend(bench.shard.commit_too_large());
        } else {
            bench.shard.committed();
        }
    }
    assert_eq!((stopped, sizes), (vec![other("big")], vec![2, 1, 1]));
    assert_eq!(bench.shard.committed_state(&other("big")), Some(None));
    assert_eq!(bench.shard.history(&other("big")).unwrap().2, None, "what of it is committed isn't known here");

    let by = ActedBy { actor: "ann".to_owned(), note: None };
    let signal = SagaCommand::Signal { key: other("big"), name: "go".to_owned(), data: Json::null(), by };
    assert_eq!(bench.submit(signal).unwrap_err().code().as_str(), "STORAGE.TOO_LARGE");
    bench.signal("go").unwrap();
    assert_eq!(bench.state(), SagaState::Completed);
    assert!(bench.commits.last().unwrap().record.floor <= began, "the journal holds what was committed of it");
    bench.wait(1_000_000);
    assert!(!bench.shard.has_work());
}

#[test]
fn one_that_can_not_even_begin_is_refused_and_leaves_nothing() {
    let mut bench = limited(WAIT);
    begin(&mut bench, "big");
    bench.shard.build(1).unwrap();
    assert_eq!(bench.shard.commit_too_large(), Some(other("big")));
    let effects = bench.shard.take_effects();
    let [SagaEffect::Reply { result: Err(error), .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(error.code().as_str(), "STORAGE.TOO_LARGE");
    assert!(bench.shard.tree(&other("big")).is_none() && !bench.shard.has_work());
}

#[test]
fn the_sagas_of_a_refused_commit_go_one_by_one_and_those_that_came_meanwhile_together() {
    let mut bench = bench(WAIT);
    (0..10).for_each(|n| begin(&mut bench, &format!("s{n}")));
    assert_eq!(bench.shard.build(1).unwrap().journal.len(), 10);
    assert_eq!(bench.shard.commit_too_large(), None);
    let mut sizes = Vec::new();
    for n in 10..21 {
        begin(&mut bench, &format!("s{n}"));
        sizes.push(bench.shard.build(1).unwrap().journal.len());
        bench.shard.committed();
    }
    assert_eq!(sizes, [vec![1; 10], vec![11]].concat());
}

#[test]
fn after_a_refusal_rows_for_the_journals_sake_and_what_moves_go_in_turn() {
    let mut bench = bench(&step("a", ""));
    (0..10).for_each(|n| begin(&mut bench, &format!("s{n}")));
    bench.start();
    (0..10).for_each(|_| drop(bench.signal("x").unwrap()));
    bench.shard.set_limits(SagaLimits { journal_records_max: 5, ..SagaLimits::default() });
    // Each of these goes with a commit of its own, and one always waits.
    let signal = |bench: &mut Bench| {
        let by = ActedBy { actor: "ann".to_owned(), note: None };
        let signal = SagaCommand::Signal { key: key(), name: "x".to_owned(), data: Json::null(), by };
        bench.shard.submit(None, signal, bench.now, 0.5);
    };
    signal(&mut bench);
    assert_eq!(rows(&bench.shard.build(1).unwrap()).len(), 11, "ten for the journal's sake");
    assert_eq!(bench.shard.commit_too_large(), None);
    let mut moved = Vec::new();
    for _ in 0..21 {
        signal(&mut bench);
        let commit = bench.shard.build(1).unwrap();
        let is_written = rows(&commit).iter().any(|(of, _)| *of == key());
        moved.push(is_written || commit.journal.iter().any(|entry| entry.key == key()));
        bench.shard.committed();
    }
    let in_turn = (0..20).map(|n| n % 2 == 1).chain([true]);
    assert_eq!(moved, in_turn.collect::<Vec<_>>());
}
