//! Events that number themselves in the commit of their message.

use super::*;
use crate::commit::{Step, StoreAnswer, take_answer};
use crate::inbox::records::InboxShardRecord;
use crate::port::store::StoreError;
use crate::streams::exact::{ExactAppend, ExactRefusal};
use crate::streams::fixtures::{append, stream};
use crate::streams::joint::{JointAppend, JointAppends};

/// Processed, with an event for a stream that has to end at a number.
fn leaves(name: &str, expected: u64) -> Verdict {
    let exact = ExactAppend::new(append(name, &[&format!("{name}-{expected}")]), expected, 1);
    let events = JointAppends { list: vec![JointAppend::Exact(exact)], at: UnixMillis(1) };
    Verdict::Processed(Leavings { events, ..Leavings::default() })
}

/// An owner whose messages `m-1`, `m-2`, ... were answered so.
fn answered(verdicts: Vec<Verdict>) -> InboxOwner {
    let mut owner = owner();
    for (number, verdict) in (1..).zip(verdicts) {
        let arrived = arrival(["t0", "t1", "t2", "t3"][number], &message(&format!("m-{number}"), None, "a"));
        bring(&mut owner, vec![arrived], 1);
        let call = calls(&mut owner, 1).remove(0);
        owner.answered(call.seq, verdict, now(1), 0.5);
    }
    owner
}

fn answer(owner: &mut InboxOwner, answer: StoreAnswer<InboxShardRecord>) -> Step<InboxOwner> {
    take_answer(owner, answer, now(2), || 77)
}

/// Streams in which the events of a commit number themselves.
fn streams(commit: &InboxCommit) -> Vec<&str> {
    commit.events.exact_streams().map(|stream| stream.name.as_str()).collect()
}

/// The commit that is out conflicts, and a barrier shows that it isn't in.
fn conflict(owner: &mut InboxOwner) {
    let error = StoreError::Conflict("the head of a stream".into());
    assert!(matches!(answer(owner, StoreAnswer::Committed(Err(error))), Step::Read(_)));
    let stored = owner.record().clone();
    let Step::Barrier(barrier) = answer(owner, StoreAnswer::Record(Ok(stored))) else { panic!("no barrier") };
    assert!(matches!(answer(owner, StoreAnswer::Barrier(Ok(()))), Step::Read(_)));
    assert!(matches!(answer(owner, StoreAnswer::Record(Ok(barrier.record))), Step::NotApplied(())));
}

#[test]
fn a_message_whose_events_are_refused_has_failed_alone_and_its_neighbour_is_in_the_next_commit() {
    let mut owner = answered(vec![leaves("a", 3), processed()]);
    assert_eq!(streams(&owner.build(now(2), 9).unwrap()), ["a"]);
    let refusal = ExactRefusal::ExpectedSeq { stream: stream("a"), expected: 3, actual: 7 };
    let refused = StoreError::Appends(vec![(0, refusal)]);
    assert!(matches!(answer(&mut owner, StoreAnswer::Committed(Err(refused))), Step::NotApplied(())));
    let made = commit(&mut owner, 3);
    assert!(made.events.is_empty());
    assert_eq!((made.done.len(), made.seen.len()), (1, 1), "the neighbour");
    let InboxWrite::PutRow(row) = &made.writes[0] else { panic!("{:?}", made.writes) };
    let error = row.last_error.clone().unwrap();
    assert_eq!((row.attempts, error.code.as_str()), (1, "STREAM.EXPECTED_SEQ"));
    assert!(error.reason.contains("ends at 7, not at 3"), "{}", error.reason);
}

#[test]
fn of_two_messages_for_one_stream_each_has_a_commit() {
    let mut owner = answered(vec![leaves("a", 0), leaves("a", 1), leaves("b", 0)]);
    assert_eq!(streams(&commit(&mut owner, 2)), ["a", "b"]);
    assert_eq!(streams(&commit(&mut owner, 3)), ["a"]);
}

#[test]
fn what_met_another_writer_of_its_stream_goes_alone_in_turn_with_all_else() {
    let mut owner = answered(vec![leaves("a", 0), leaves("b", 0), processed()]);
    assert_eq!(streams(&owner.build(now(2), 9).unwrap()), ["a", "b"]);
    conflict(&mut owner);
    let made = owner.build(now(3), 10).unwrap();
    assert_eq!((streams(&made), made.done.len()), (vec!["a"], 1));
    conflict(&mut owner);
    let made = commit(&mut owner, 4);
    assert_eq!((streams(&made), made.done.len()), (vec![], 1), "nobody waits for a stream that others hammer");
    assert_eq!(streams(&commit(&mut owner, 5)), ["a"]);
    assert_eq!(streams(&commit(&mut owner, 6)), ["b"], "and they don't wait when there is nothing else");
    assert!(owner.build(now(7), 11).is_none());
}

#[test]
fn a_refusal_that_names_nothing_of_the_commit_says_nothing_of_it() {
    let mut owner = answered(vec![processed()]);
    owner.build(now(2), 9).unwrap();
    let refused = StoreError::Appends(vec![(0, ExactRefusal::Empty)]);
    assert!(matches!(answer(&mut owner, StoreAnswer::Committed(Err(refused))), Step::Read(_)));
}
