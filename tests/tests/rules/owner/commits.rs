//! The fate of commits, and giving the shard back.

use super::bench::*;
use waybill_core::commit::{Read, Step, StoreAnswer};
use waybill_core::outbox::commit_fate::{TooLarge, take_answer};
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch};
use waybill_core::outbox::drain::{Drain, DrainEnd};
use waybill_core::outbox::owner::Resolution;
use waybill_core::port::store::{OwnerStore, StoreError};

#[test]
fn an_unknown_commit_that_went_in_is_applied() {
    let mut bench = Bench::new();
    let ticket = bench.ask(vec![message("one")]);
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    bench.store.apply(&commit).unwrap();
    bench.owner.commit_failed();
    let record = now_or(bench.store.shard(SHARD));
    let Resolution::Applied(applied) = bench.owner.resolve(&record, bench.now(), 7) else { panic!() };
    assert_eq!(applied.enqueued[0].0, ticket);
    assert_eq!(bench.take_names(1), ["one"]);
}

#[test]
fn a_commit_is_given_up_only_after_a_barrier() {
    let mut bench = Bench::new();
    bench.ask(vec![message("one")]);
    bench.prepare();
    let late = bench.build().commit.unwrap();
    bench.give_up();
    assert!(bench.store.apply(&late).is_err(), "it comes too late");
    // The request is still there and is done once.
    assert_eq!(bench.commit().enqueued.len(), 1);
    assert_eq!(bench.take_names(10), ["one"]);
}

#[test]
fn callers_of_an_unknown_commit_are_told_so_once_and_nothing_is_redone_for_them() {
    let mut bench = Bench::new();
    let ticket = bench.ask(vec![message("one")]);
    bench.prepare();
    bench.build().commit.unwrap();
    bench.owner.commit_failed();
    assert_eq!(bench.owner.abandon_requests(), [ticket]);
    assert!(bench.owner.abandon_requests().is_empty());
    bench.prove_not_applied();
    bench.commit();
    assert!(bench.take(1).is_empty());
}

#[test]
fn a_pass_whose_commit_came_to_nothing_is_owed() {
    let mut bench = Bench::new();
    bench.door(vec![message("one")]);
    bench.prepare();
    bench.build().commit.unwrap();
    bench.give_up();
    assert!(bench.owner.in_door_pass());
    bench.owner.door_is_empty(bench.now());
    bench.commit();
    assert_eq!(bench.take_names(1), ["one"]);
}

#[test]
fn an_owner_that_was_replaced_is_lost() {
    let mut bench = Bench::new();
    bench.ask(vec![message("one")]);
    bench.prepare();
    bench.build().commit.unwrap();
    bench.owner.commit_failed();
    let mut record = now_or(bench.store.shard(SHARD));
    record.token += 1;
    assert!(matches!(bench.owner.resolve(&record, bench.now(), 7), Resolution::Lost));
}

#[test]
fn a_store_that_went_back_is_noticed_at_the_next_commit() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    let kept = bench.read(Clone::clone);
    bench.enqueue(vec![message("two")]);
    let known = bench.owner.record().beat;
    bench.store.write(|tables| *tables = kept);
    bench.ask(vec![message("three")]);
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    assert!(bench.store.apply(&commit).is_err());
    bench.owner.commit_failed();
    let record = now_or(bench.store.shard(SHARD));
    let Resolution::WentBack(error) = bench.owner.resolve(&record, bench.now(), 7) else { panic!() };
    assert_eq!(error.code().as_str(), "STORAGE.WENT_BACK");
    assert!(error.to_string().contains(&format!("(token 1, beat {known}) was committed")), "{error}");
}

#[test]
fn a_release_waits_for_sends_and_closes_everything() {
    let mut bench = Bench::new();
    bench.enqueue((0..4).map(|n| message(&format!("m{n}"))).collect());
    let retry = bench.retry_in(1);
    bench.send_one("m0", retry);
    bench.commit();
    bench.pass_time(1);
    bench.commit();
    assert!(bench.parked()[0].claimed);
    let sending = bench.take(2);
    bench.owner.begin_release(bench.now());
    assert!(bench.take(10).is_empty(), "nothing new is sent");
    bench.commit();
    assert!(!bench.owner.is_released(), "two are still being sent");
    for sending in &sending {
        assert!(bench.settle(sending, ack()));
    }
    bench.commit_one();
    let record = now_or(bench.store.shard(SHARD));
    assert!(record.released && record.open.is_empty() && record.suspicion.is_empty());
    assert!(bench.parked().iter().all(|parked| !parked.claimed));
    // Whoever takes it next finds no suspects.
    bench.crash();
    bench.commit();
    let rest = bench.take(10);
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|sending| !sending.alone));
}

#[test]
fn an_idle_owner_renews_its_lease_and_nothing_else() {
    let mut bench = Bench::new();
    assert!(bench.commit_one().0.is_none());
    bench.pass_time(8_000);
    let commit = bench.commit_one().0.unwrap();
    assert!(commit.writes.is_empty());
    assert_eq!(commit.record.beat, commit.expect_beat + 1);
}

#[test]
fn due_messages_that_a_failed_commit_had_no_room_for_join_after_it() {
    let mut bench = Bench::new();
    // More than one commit takes.
    let large = |index: usize| {
        let mut new = message(&format!("m{index}"));
        new.payload = vec![b'x'; 60_000].into();
        new.not_before = Some(waybill_core::time::UnixMillis(WALL + 1_000));
        new
    };
    bench.enqueue((0..100).map(large).collect());
    bench.pass_time(1_000);
    bench.prepare();
    let lost = bench.build().commit.unwrap();
    bench.give_up();
    assert!(bench.store.apply(&lost).is_err());
    bench.commit();
    assert_eq!(bench.read(|tables| tables.scheduled.len()), 0);
    let mut taken = 0;
    while let more @ 1.. = bench.take(1_000).len() {
        taken += more;
    }
    assert_eq!(taken, 100);
}

#[test]
fn callers_hear_of_a_store_that_gives_no_word_and_not_of_a_commit_that_is_refused() {
    let mut bench = Bench::new();
    let mut door: DoorWatch<()> = DoorWatch::new(DoorTimes::default());
    bench.ask(vec![waybill_core::new_message::NewMessage { id: Some("order-7".to_owned()), ..message("one") }]);
    bench.prepare();
    bench.build().commit.unwrap();
    let now = bench.now();
    let mut take = |answer| take_answer(&mut bench.owner, &mut door, answer, now, || 7);
    let refused = StoreError::Conflict("another came first".to_owned());
    let Step::Read(read) = take(StoreAnswer::Committed(Err(refused))) else { panic!() };
    assert_eq!(read, Read::default());
    let gone = StoreError::Unavailable("no answer".to_owned());
    let Step::Read(read) = take(StoreAnswer::Record(Err(gone.clone()))) else { panic!() };
    assert_eq!(read, Read { trouble: Some(gone.clone()), abandon: true, pause: true });
    let record = now_or(bench.store.shard(SHARD));
    let Step::Barrier(barrier) = take(StoreAnswer::Record(Ok(record))) else { panic!() };
    let Step::Read(read) = take(StoreAnswer::Barrier(Err(gone.clone()))) else { panic!() };
    assert_eq!(read, Read { trouble: Some(gone), abandon: false, pause: true });
    bench.store.apply(&barrier).unwrap();
    let record = now_or(bench.store.shard(SHARD));
    let Step::NotApplied(recalled) = take(StoreAnswer::Record(Ok(record))) else { panic!() };
    assert_eq!(recalled.len(), 1, "its id is looked up again");
}

#[test]
fn an_unknown_commit_is_told_as_such_and_its_record_read_at_once() {
    let mut bench = Bench::new();
    let mut door: DoorWatch<()> = DoorWatch::new(DoorTimes::default());
    bench.ask(vec![message("one")]);
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    bench.store.apply(&commit).unwrap();
    let now = bench.now();
    let gone = StoreError::Unavailable("no answer".to_owned());
    let step = take_answer(&mut bench.owner, &mut door, StoreAnswer::Committed(Err(gone.clone())), now, || 7);
    let Step::Read(read) = step else { panic!() };
    assert_eq!(read, Read { trouble: Some(gone), abandon: true, pause: false });
    let record = now_or(bench.store.shard(SHARD));
    let step = take_answer(&mut bench.owner, &mut door, StoreAnswer::Record(Ok(record)), now, || 7);
    assert!(matches!(step, Step::Applied(applied) if applied.enqueued.len() == 1));
}

#[test]
fn a_commit_that_is_too_large_goes_again_without_a_barrier() {
    let mut bench = Bench::new();
    let mut door: DoorWatch<()> = DoorWatch::new(DoorTimes::default());
    let ticket = bench.ask(vec![message("one")]);
    bench.prepare();
    bench.build().commit.unwrap();
    let now = bench.now();
    let answer = StoreAnswer::Committed(Err(StoreError::TooLarge));
    let step = take_answer(&mut bench.owner, &mut door, answer, now, || unreachable!("no barrier follows"));
    let Step::TooLarge(TooLarge { refused, recalled }) = step else { panic!() };
    assert!(refused.is_empty() && recalled.is_empty());
    let enqueued = bench.commit().enqueued;
    assert!(enqueued.len() == 1 && enqueued[0].0 == ticket);
    assert_eq!(bench.take_names(1), ["one"]);
}

#[test]
fn a_drain_is_over_when_the_shard_is_given_back_or_its_time_is_over() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    let sending = bench.take(1);
    let (mut drain, now) = (Drain::<u64>::default(), bench.now());
    assert_eq!(drain.end(&bench.owner, true, 5), None);
    drain.begin(&mut bench.owner, 10, now);
    assert_eq!(drain.end(&bench.owner, true, 9), None, "a send is under way");
    assert_eq!(drain.end(&bench.owner, true, 10), Some(DrainEnd::TimeIsOver));
    assert!(bench.settle(&sending[0], ack()));
    bench.commit();
    assert_eq!(drain.end(&bench.owner, false, 9), None, "a commit is out");
    assert_eq!(drain.end(&bench.owner, true, 9), Some(DrainEnd::InOrder));
}
