//! What operators ask.

use std::sync::Arc;

use super::bench::*;
use waybill_core::fates::{Death, Fates};
use waybill_core::outbox::owner::{Command, CommandError, Verdict};
use waybill_core::outbox::records::{DeadLetter, DeadState, DoneEnd};
use waybill_core::time::UnixMillis;

fn replay(dead: Arc<DeadLetter>) -> Command {
    Command::Replay { dead, by: None }
}

#[test]
fn a_waiting_message_can_be_cancelled_and_one_being_sent_cannot() {
    let mut bench = Bench::new();
    let ids = bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("a3", "a")]);
    let sending = bench.take(1).remove(0);
    let cancel = |id| Command::Cancel { place: id, segment: None };
    let places: Vec<_> = ids.iter().map(|id| bench.place_of(id)).collect();
    assert_eq!(bench.command(cancel(places[0])), Err(CommandError::BeingSent));
    assert_eq!(bench.command(cancel(places[1])), Ok(()));
    assert_eq!(bench.commit().commands.len(), 1);
    assert!(bench.settle(&sending, ack()));
    bench.commit();
    assert_eq!(bench.take_names(10), ["a3"]);
    let ends: Vec<DoneEnd> = bench.history().iter().map(|done| done.end).collect();
    assert_eq!(ends, [DoneEnd::Cancelled]);
}

#[test]
fn a_packed_message_is_cancelled_with_its_segment() {
    let mut bench = Bench::new();
    let ids = bench.enqueue((0..100).map(|n| keyed(&format!("a{n}"), "a")).collect());
    let place = bench.place_of(&ids[90]);
    assert_eq!(
        bench.command(Command::Cancel { place, segment: None }),
        Err(CommandError::NeedsSegment),
        "it is past the key's bound"
    );
    let segment = now_or(waybill_core::port::store::OwnerStore::segments(&bench.store, SHARD, &[place.segment]))
        .remove(0)
        .segment
        .ok();
    bench.command(Command::Cancel { place, segment: segment.clone() }).unwrap();
    bench.commit();
    assert_eq!(bench.command(Command::Cancel { place, segment }), Err(CommandError::Gone));
    let mut delivered = 0;
    loop {
        let batch = bench.take(10);
        if batch.is_empty() {
            break;
        }
        for sending in &batch {
            assert!(bench.settle(sending, ack()));
            delivered += 1;
        }
        bench.commit();
    }
    assert_eq!(delivered, 99);
    assert_eq!(bench.read(|tables| tables.segments.len()), 0);
}

#[test]
fn a_scheduled_message_can_be_moved_and_cancelled() {
    let mut bench = Bench::new();
    let mut new = message("later");
    new.not_before = Some(UnixMillis(WALL + 5_000));
    bench.enqueue(vec![new]);
    let scheduled = |bench: &Bench| bench.read(|tables| tables.scheduled.values().next().cloned()).unwrap();
    let old = scheduled(&bench);
    bench.command(Command::Reschedule { scheduled: old, due: UnixMillis(WALL + 9_000) }).unwrap();
    bench.commit();
    assert_eq!(scheduled(&bench).due, UnixMillis(WALL + 9_000));
    let moved = scheduled(&bench);
    bench.command(Command::CancelScheduled(moved)).unwrap();
    bench.commit();
    bench.pass_time(9_000);
    bench.commit();
    assert!(bench.take(1).is_empty());
    assert_eq!(bench.history()[0].end, DoneEnd::Cancelled);
}

#[test]
fn a_parked_message_can_be_tried_at_once() {
    let mut bench = Bench::new();
    let ids = bench.enqueue(vec![message("one")]);
    let retry = bench.retry_in(60_000);
    bench.send_one("one", retry);
    bench.commit();
    let place = bench.place_of(&ids[0]);
    let due = bench.now().wall;
    bench.command(Command::RescheduleParked { place, due }).unwrap();
    bench.commit();
    assert_eq!(bench.take(1)[0].attempt, 2);
}

#[test]
fn a_replay_joins_at_its_own_place_with_no_attempts() {
    let mut bench = Bench::new();
    bench.enqueue(vec![keyed("a1", "a")]);
    bench.send_one("a1", dead());
    bench.commit();
    bench.enqueue(vec![keyed("a2", "a")]);
    let letter = bench.dead().remove(0);
    bench.command(replay(letter.clone())).unwrap();
    bench.command(replay(letter)).unwrap();
    bench.prepare();
    let built = bench.build();
    assert_eq!(
        built.refused.iter().map(|(_, error)| *error).collect::<Vec<_>>(),
        [CommandError::Gone],
        "once is enough"
    );
    bench.store.apply(&built.commit.unwrap()).unwrap();
    bench.owner.committed(bench.now());
    bench.commit();
    assert!(bench.dead().is_empty());
    let sending = bench.take(10);
    assert_eq!((names(&sending), sending[0].attempt), (vec!["a1".to_owned()], 1));
    assert_eq!(bench.parked()[0].history.len(), 1, "what happened before is kept");
}

/// What the shard counted of what an operation put back.
fn fates(bench: &Bench, operation: &str) -> Fates {
    bench.read(|tables| tables.fates.get(&(operation.to_owned(), SHARD)).cloned().unwrap_or_default())
}

/// Sends all that can be sent and settles each, and commits that.
fn settle_all(bench: &mut Bench, fate: impl Fn(&str) -> Verdict) {
    for sending in bench.take(100) {
        let verdict = fate(&names(std::slice::from_ref(&sending))[0]);
        assert!(bench.settle(&sending, verdict));
    }
    bench.commit();
}

/// Puts all dead letters back, in their order, each by somebody.
fn put_back(bench: &mut Bench, by: &[Option<&str>]) {
    for (dead, by) in bench.dead().into_iter().zip(by) {
        bench.command(Command::Replay { dead, by: by.map(Arc::from) }).unwrap();
    }
    bench.commit();
}

#[test]
fn what_an_operation_puts_back_is_counted_with_the_commits_that_settle_it() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("a"), message("b"), message("c"), message("d")]);
    settle_all(&mut bench, |_| dead());
    put_back(&mut bench, &[Some("op-1"); 4]);
    assert_eq!(fates(&bench, "op-1"), Fates { put_back: 4, ..Fates::default() });
    let retry = bench.retry_in(1_000);
    settle_all(&mut bench, |name| match name {
        "a" => ack(),
        "b" => dead(),
        _ => retry.clone(),
    });
    let told = fates(&bench, "op-1");
    assert_eq!((told.delivered, told.died, told.on_the_way()), (1, 1, 2), "what is tried again is on its way");
    assert_eq!(told.first_death, bench.dead().first().map(|dead| Death::of(dead)));
    for parked in bench.parked() {
        bench.command(Command::Cancel { place: parked.place, segment: None }).unwrap();
    }
    bench.commit();
    let told = fates(&bench, "op-1");
    assert_eq!((told.ended, told.on_the_way()), (2, 0));
}

#[test]
fn fates_outlive_the_owner_that_began_to_count_them() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("a"), message("b")]);
    settle_all(&mut bench, |_| dead());
    put_back(&mut bench, &[Some("op-1"); 2]);
    bench.crash();
    bench.commit();
    // Behind a crash few may go at a time.
    for _ in 0..5 {
        settle_all(&mut bench, |_| ack());
    }
    assert_eq!(fates(&bench, "op-1"), Fates { put_back: 2, delivered: 2, ..Fates::default() });
}

#[test]
fn what_was_put_back_anew_counts_no_more_for_the_operation_before() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("a"), message("b")]);
    settle_all(&mut bench, |_| dead());
    put_back(&mut bench, &[Some("op-1"); 2]);
    settle_all(&mut bench, |_| dead());
    put_back(&mut bench, &[None, Some("op-2")]);
    settle_all(&mut bench, |_| ack());
    let (first, second) = (fates(&bench, "op-1"), fates(&bench, "op-2"));
    assert_eq!((first.put_back, first.died, first.delivered), (2, 2, 0));
    assert_eq!((second.put_back, second.delivered), (1, 1));
}

#[test]
fn quarantine_fences_off_and_purge_goes_to_the_history() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.send_one("one", dead());
    bench.commit();
    let letter = bench.dead().remove(0);
    bench.command(Command::Quarantine { dead: letter, note: "a bad address".to_owned() }).unwrap();
    bench.commit();
    let letter = bench.dead().remove(0);
    assert!(matches!(&letter.state, DeadState::Quarantined { note, .. } if note == "a bad address"));
    bench.command(Command::Purge(letter)).unwrap();
    bench.commit();
    assert!(bench.dead().is_empty());
    assert_eq!(bench.history().iter().map(|done| done.end).collect::<Vec<_>>(), [DoneEnd::Purged]);
}
