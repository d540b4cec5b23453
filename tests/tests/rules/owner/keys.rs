//! One at a time within a key, and a stuck key blocks only itself.

use super::bench::*;
use waybill_core::annotation::Annotation;
use waybill_core::outbox::owner::Command;

#[test]
fn messages_of_a_key_go_one_at_a_time_and_others_beside_them() {
    let mut bench = Bench::new();
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), message("x")]);
    assert_eq!(bench.take_names(10), ["a1", "b1", "x"]);
    assert_eq!(bench.take_names(10), [""; 0]);
}

#[test]
fn a_key_moves_on_only_when_the_settlement_is_committed() {
    let mut bench = Bench::new();
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a")]);
    bench.send_one("a1", ack());
    assert!(bench.take(10).is_empty());
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    assert!(bench.take(10).is_empty(), "the commit is out, its fate unknown");
    bench.store.apply(&commit).unwrap();
    bench.owner.committed(bench.now());
    assert_eq!(bench.take_names(10), ["a2"]);
}

#[test]
fn a_nack_holds_its_key_until_it_is_due_and_nobody_elses() {
    let mut bench = Bench::new();
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b")]);
    let retry = bench.retry_in(500);
    bench.send_one("a1", retry);
    bench.commit();
    assert_eq!(bench.take_names(10), ["b1"]);
    bench.pass_time(499);
    bench.commit();
    assert!(bench.take(10).is_empty());
    bench.pass_time(1);
    bench.commit();
    let again = bench.take(10);
    assert_eq!((names(&again), again[0].attempt), (vec!["a1".to_owned()], 2));
}

#[test]
fn followers_of_a_failed_head_stay_packed() {
    let mut bench = Bench::new();
    bench.enqueue((1..=20).map(|n| keyed(&format!("a{n}"), "a")).collect());
    let retry = bench.retry_in(500);
    bench.send_one("a1", retry);
    bench.commit();
    assert_eq!(bench.parked().len(), 1);
    assert_eq!(bench.read(|tables| tables.segments.len()), 1);
    let head = &bench.parked()[0];
    assert_eq!((head.attempts, head.message.annotation(Annotation::CorrelationId)), (1, Some("a1")));
}

#[test]
fn a_dead_letter_frees_its_key() {
    let mut bench = Bench::new();
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a")]);
    bench.send_one("a1", dead());
    bench.commit();
    assert_eq!(bench.dead().len(), 1);
    assert_eq!(bench.take_names(10), ["a2"]);
}

#[test]
fn with_hold_key_a_dead_letter_keeps_its_key_until_it_is_gone() {
    let mut bench = Bench::with(waybill_core::outbox::owner::OwnerConfig { dead_holds_key: true, ..config() });
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b")]);
    bench.send_one("a1", dead());
    bench.commit();
    assert_eq!(bench.take_names(10), ["b1"]);
    // Also after a crash.
    bench.crash();
    bench.commit();
    assert!(!bench.take_names(10).contains(&"a2".to_owned()));
    let dead = bench.dead().remove(0);
    bench.command(Command::Purge(dead)).unwrap();
    bench.commit();
    assert!(bench.take_names(10).contains(&"a2".to_owned()));
}

#[test]
fn two_dead_letters_of_a_key_both_hold_it() {
    let mut bench = Bench::with(waybill_core::outbox::owner::OwnerConfig { dead_holds_key: true, ..config() });
    bench.enqueue(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("a3", "a")]);
    bench.send_one("a1", dead());
    bench.commit();
    // The first is put back and the second dies behind it; then the first dies again.
    let first = bench.dead().remove(0);
    bench.command(Command::Purge(first)).unwrap();
    bench.commit();
    bench.send_one("a2", dead());
    bench.commit();
    assert!(bench.take(10).is_empty());
    let second = bench.dead().remove(0);
    bench.command(Command::Replay { dead: second, by: None }).unwrap();
    bench.commit();
    bench.send_one("a2", dead());
    bench.commit();
    assert!(bench.take(10).is_empty());
    let second = bench.dead().remove(0);
    bench.command(Command::Quarantine { dead: second, note: "looked at".to_owned() }).unwrap();
    bench.commit();
    assert_eq!(bench.take_names(10), ["a3"]);
}

#[test]
fn a_scheduled_message_joins_when_due_and_blocks_nobody_before() {
    let mut bench = Bench::new();
    let later = waybill_core::time::UnixMillis(WALL + 1_000);
    let mut scheduled = keyed("a1", "a");
    scheduled.not_before = Some(later);
    bench.enqueue(vec![scheduled, keyed("a2", "a")]);
    assert_eq!(bench.read(|tables| tables.scheduled.len()), 1);
    bench.send_one("a2", ack());
    bench.commit();
    assert!(bench.take(10).is_empty());
    bench.pass_time(1_000);
    bench.commit();
    assert_eq!(bench.read(|tables| tables.scheduled.len()), 0);
    assert_eq!(bench.take_names(10), ["a1"]);
}

#[test]
fn an_owner_finds_what_was_scheduled_before_its_time() {
    let mut bench = Bench::new();
    let mut scheduled = message("later");
    scheduled.not_before = Some(waybill_core::time::UnixMillis(WALL + 1_000));
    bench.enqueue(vec![scheduled]);
    bench.crash();
    bench.pass_time(1_000);
    bench.commit();
    assert_eq!(bench.take_names(10), ["later"]);
}
