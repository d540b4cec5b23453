//! What a process remembers of the seen set: never less than a commit that its writer knows of.

use std::sync::Arc;

use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Bucket, Member, OwnedAge};
use waybill_testkit::conformance::samples::SHARD;

use super::ship;
use crate::codec::inbox::seen::{BucketHead, SeenIds};
use crate::inbox::seen::SeenMemory;
use crate::inbox::seen::added::Added;
use crate::inbox::seen::bucket::BucketKey;
use crate::inbox::seen::memory::{Remembered, Ticket};

fn bucket(minute: u64) -> BucketKey {
    BucketKey::of(&ship(), &Bucket::Minute(minute), OwnedAge(0))
}

fn ids(numbers: &[u16]) -> SeenIds {
    let ids = numbers.iter().map(|number| (Member::Number(*number), ContentCheck(*number)));
    SeenIds { age: OwnedAge(5), ids: ids.collect() }
}

fn added(numbers: &[u16]) -> Arc<Added> {
    let mut added = Added::default();
    added.add(&ids(numbers));
    Arc::new(added)
}

fn head() -> Arc<BucketHead> {
    Arc::new(BucketHead::default())
}

/// A commit that is in: on a beat, with ids of a minute.
fn commit(memory: &SeenMemory, beat: u64, minute: u64, numbers: &[u16]) {
    memory.begin(SHARD).committed(beat, beat + 1, OwnedAge(5), &[(bucket(minute), ids(numbers))]);
}

/// A read of a minute that nobody remembers.
fn ticket(memory: &SeenMemory, minute: u64) -> Ticket<'_> {
    match memory.find(SHARD, &bucket(minute), Member::Number(0)) {
        Remembered::Nothing(ticket) => ticket,
        Remembered::Bucket(..) => panic!("it is remembered"),
    }
}

/// Whether a counter of a minute is remembered; none = the minute isn't.
fn knows(memory: &SeenMemory, minute: u64, number: u16) -> Option<bool> {
    match memory.find(SHARD, &bucket(minute), Member::Number(number)) {
        Remembered::Bucket(hit, _) => Some(hit.is_some()),
        Remembered::Nothing(_) => None,
    }
}

#[test]
fn what_was_read_and_what_is_committed_behind_it_is_remembered() {
    let memory = SeenMemory::default();
    commit(&memory, 0, 1, &[1]);
    ticket(&memory, 1).loaded(added(&[1]), head());
    assert_eq!((knows(&memory, 1, 1), knows(&memory, 1, 2), knows(&memory, 2, 1)), (Some(true), Some(false), None));
    commit(&memory, 1, 1, &[2]);
    assert_eq!(knows(&memory, 1, 2), Some(true));
}

#[test]
fn what_is_committed_during_a_read_is_not_missed() {
    let memory = SeenMemory::default();
    commit(&memory, 0, 1, &[1]);
    let (first, second) = (ticket(&memory, 1), ticket(&memory, 1));
    commit(&memory, 1, 1, &[2]);
    // Both read a state before it.
    drop(first);
    second.loaded(added(&[1]), head());
    assert_eq!((knows(&memory, 1, 1), knows(&memory, 1, 2)), (Some(true), Some(true)));
}

#[test]
fn without_a_chain_nothing_is_remembered() {
    let memory = SeenMemory::default();
    ticket(&memory, 1).loaded(added(&[1]), head());
    assert_eq!(knows(&memory, 1, 1), None);
}

#[test]
fn a_commit_without_an_answer_forgets_the_shard() {
    let memory = SeenMemory::default();
    commit(&memory, 0, 1, &[1]);
    let read = ticket(&memory, 1);
    ticket(&memory, 2).loaded(added(&[]), head());
    drop(memory.begin(SHARD));
    // What was read before it isn't believed either.
    read.loaded(added(&[1]), head());
    assert_eq!((knows(&memory, 1, 1), knows(&memory, 2, 1)), (None, None));
    // The next one begins anew.
    commit(&memory, 2, 1, &[3]);
    ticket(&memory, 1).loaded(added(&[1, 2, 3]), head());
    assert_eq!(knows(&memory, 1, 2), Some(true));
}

#[test]
fn a_commit_that_is_proved_not_to_be_in_forgets_nothing() {
    let memory = SeenMemory::default();
    commit(&memory, 0, 1, &[1]);
    ticket(&memory, 1).loaded(added(&[1]), head());
    memory.begin(SHARD).refused();
    assert_eq!(knows(&memory, 1, 1), Some(true));
}

#[test]
fn another_writer_breaks_the_chain() {
    for seen_in_the_record in [true, false] {
        let memory = SeenMemory::default();
        commit(&memory, 0, 1, &[1]);
        ticket(&memory, 1).loaded(added(&[1]), head());
        memory.record_has(SHARD, 1);
        assert_eq!(knows(&memory, 1, 1), Some(true), "its own beat");
        if seen_in_the_record {
            memory.record_has(SHARD, 4);
        } else {
            commit(&memory, 4, 2, &[1]);
        }
        assert_eq!(knows(&memory, 1, 1), None);
    }
}

#[test]
fn a_bucket_that_was_packed_is_read_again() {
    let memory = SeenMemory::default();
    commit(&memory, 0, 1, &[1]);
    ticket(&memory, 1).loaded(added(&[1]), head());
    memory.changed(SHARD, &bucket(1));
    assert_eq!(knows(&memory, 1, 1), None);
}

#[test]
fn a_bucket_is_noted_once_a_slot() {
    let memory = SeenMemory::default();
    let (one, two) = (bucket(1), bucket(2));
    let unnoted = |age| memory.not_noted(SHARD, OwnedAge(age), [&one, &two].into_iter()).len();
    assert_eq!(unnoted(5), 2);
    commit(&memory, 0, 1, &[1]);
    assert_eq!((unnoted(5), unnoted(60_000)), (1, 2));
    drop(memory.begin(SHARD));
    assert_eq!(unnoted(5), 2);
}

/// What finds a run over and who writes into it again don't see each other.
#[test]
fn a_run_that_is_removed_and_written_again_meanwhile_is_asked() {
    let memory = SeenMemory::default();
    let run = |number| BucketKey::run(&ship(), number);
    let write = |beat: u64, number| {
        memory.begin(SHARD).committed(beat, beat + 1, OwnedAge(5), &[(run(number), ids(&[1]))]);
    };
    write(0, 3);
    let generation = memory.generation(SHARD).unwrap();
    memory.runs_read(SHARD, &ship(), generation, &[2, 3]);
    memory.removed(SHARD, &run(2));
    assert_eq!(memory.runs(SHARD, &ship()), Some(vec![3]));
    write(1, 3);
    memory.removed(SHARD, &run(3));
    assert_eq!(memory.runs(SHARD, &ship()), Some(vec![3]), "its commit is in");
    write(2, 4);
    memory.removed(SHARD, &run(3));
    assert_eq!(memory.runs(SHARD, &ship()), Some(vec![4]), "nobody writes it any more");
}
