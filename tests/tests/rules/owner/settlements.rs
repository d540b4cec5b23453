//! What becomes of a send.

use super::bench::*;
use bytes::Bytes;
use waybill_core::annotation::Annotation;
use waybill_core::outbox::owner::Verdict;
use waybill_core::outbox::records::DoneEnd;
use waybill_core::port::store::Write;
use waybill_core::time::UnixMillis;

#[test]
fn a_finished_segment_goes_to_the_history_and_away_in_one_commit() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one"), message("two")]);
    for sending in bench.take(10) {
        assert!(bench.settle(&sending, ack()));
    }
    let (commit, applied) = bench.commit_one();
    let writes = commit.unwrap().writes;
    assert_eq!(applied.settled.len(), 2);
    assert!(
        matches!(writes.as_slice(), [Write::DeleteSegment(_), Write::PutHistory(chunk)] if chunk.entries.len() == 2),
        "{writes:?}"
    );
    let history = bench.history();
    assert!(history.iter().all(|done| done.end == DoneEnd::Delivered && done.receipt.is_some() && done.attempts == 1));
}

#[test]
fn a_settlement_alone_is_a_bit_in_the_shard_record() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one"), message("two")]);
    bench.send_one("one", ack());
    let (commit, _) = bench.commit_one();
    let commit = commit.unwrap();
    assert!(commit.writes.is_empty());
    assert!(commit.record.open.values().all(|open| open.acked.contains(0) && !open.acked.contains(1)));
}

#[test]
fn a_stale_settlement_changes_nothing() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    let old = bench.take(1).remove(0);
    bench.crash();
    bench.commit();
    assert!(!bench.settle(&old, ack()), "its token is the last owner's");
    bench.commit();
    let new = bench.take(1).remove(0);
    assert!(new.epoch > old.epoch);
    assert!(bench.settle(&new, ack()));
    assert!(!bench.settle(&new, ack()), "the first word counts");
}

#[test]
fn a_commit_of_an_owner_that_was_replaced_is_refused() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.send_one("one", ack());
    bench.prepare();
    let commit = bench.build().commit.unwrap();
    bench.crash();
    assert!(bench.store.apply(&commit).is_err());
    assert!(bench.history().is_empty());
}

#[test]
fn a_blocked_destination_burns_no_attempt_and_is_tried_with_one_message() {
    let mut bench = Bench::new();
    let to = |n: usize| {
        let mut new = message("shop");
        new.annotations.set(Annotation::CorrelationId, Some(format!("m{n}")));
        new
    };
    bench.enqueue((0..5).map(to).collect());
    bench.send_one("m0", blocked());
    assert!(bench.take(10).is_empty(), "the destination is held");
    assert!(bench.parked().is_empty() && bench.dead().is_empty());
    bench.pass_time(1_000);
    let probe = bench.take(10);
    assert_eq!((probe.len(), probe[0].attempt), (1, 1));
    assert!(bench.settle(&probe[0], ack()));
    assert_eq!(bench.take(10).len(), 4, "it is back");
}

#[test]
fn a_message_that_is_always_refused_doesnt_speak_for_its_destination() {
    let mut bench = Bench::new();
    let to = |n: usize| {
        let mut new = message("shop");
        new.annotations.set(Annotation::CorrelationId, Some(format!("m{n}")));
        new
    };
    bench.enqueue((0..3).map(to).collect());
    bench.send_one("m0", blocked());
    for (name, pause) in [("m0", 1_000), ("m1", 2_000)] {
        bench.pass_time(pause);
        bench.send_one(name, blocked());
    }
    bench.pass_time(4_000);
    bench.send_one("m2", ack());
    assert_eq!(bench.take_names(10), ["m0", "m1"], "the destination is back");
}

#[test]
fn a_probe_that_expires_or_is_cancelled_lets_the_next_one_try() {
    let mut bench = Bench::new();
    let to = |n: usize| {
        let mut new = message("shop");
        new.annotations.set(Annotation::CorrelationId, Some(format!("m{n}")));
        new.expires_at = (n == 0).then_some(UnixMillis(WALL + 900));
        new
    };
    bench.enqueue((0..3).map(to).collect());
    bench.send_one("m0", blocked());
    bench.pass_time(1_000);
    assert!(bench.take(10).is_empty(), "the first probe was over before it could be sent");
    bench.commit();
    bench.pass_time(0);
    assert_eq!(bench.take_names(10), ["m1"]);
    assert_eq!(bench.history()[0].end, DoneEnd::Expired);
}

#[test]
fn one_tenants_blocked_destination_never_stops_anothers() {
    let mut bench = Bench::new();
    let to = |name: &str, tenant: &str| {
        let mut new = of_tenant("shop", tenant);
        new.annotations.set(Annotation::CorrelationId, Some(name.to_owned()));
        new
    };
    bench.enqueue(vec![to("a1", "a"), to("a2", "a"), to("b1", "b")]);
    bench.send_one("a1", blocked());
    assert_eq!(bench.take_names(10), ["b1"]);
}

#[test]
fn a_message_given_back_burns_no_attempt() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    let due = Some(bench.now().wall.plus(std::time::Duration::from_millis(100)));
    bench.send_one("one", Verdict::Release { due });
    assert!(bench.take(1).is_empty());
    bench.pass_time(100);
    assert_eq!(bench.take(1)[0].attempt, 1);
}

#[test]
fn a_message_past_its_time_is_not_sent_and_says_so_in_the_history() {
    let mut bench = Bench::new();
    let mut new = message("old");
    new.expires_at = Some(UnixMillis(WALL + 100));
    bench.enqueue(vec![new, message("fresh")]);
    bench.pass_time(100);
    assert_eq!(bench.take_names(10), ["fresh"]);
    bench.commit();
    // Its neighbour is still being sent: the segment stays, the history has it already.
    assert_eq!(bench.history().iter().map(|done| done.end).collect::<Vec<_>>(), [DoneEnd::Expired]);
}

#[test]
fn nothing_is_sent_after_the_lease_ended_by_our_own_clock() {
    let mut bench = Bench::new();
    bench.enqueue(vec![message("one")]);
    bench.pass_time(15_000);
    assert!(bench.take(1).is_empty());
    bench.commit();
    assert_eq!(bench.take(1).len(), 1, "a commit renews it");
}

#[test]
fn a_large_payload_becomes_a_blob() {
    let mut bench = Bench::new();
    let mut new = message("large");
    new.payload = Bytes::from(vec![7_u8; 70_000]);
    bench.enqueue(vec![new]);
    let sending = bench.take(1).remove(0);
    let waybill_core::message::Payload::Blob { blob, bytes } = &sending.message.payload else { panic!("it is inline") };
    assert_eq!(*bytes, 70_000);
    assert_eq!(bench.read(|tables| tables.blobs.get(blob).map(bytes::Bytes::len)), Some(70_000));
}

#[test]
fn a_held_destination_is_tried_with_a_retry_when_its_tenant_has_too_many_of_those() {
    let mut bench = Bench::with(waybill_core::outbox::owner::OwnerConfig { parked_per_tenant: 1, ..config() });
    let to = |n: usize| {
        let mut new = message("shop");
        new.annotations.set(Annotation::CorrelationId, Some(format!("m{n}")));
        new
    };
    bench.enqueue((0..3).map(to).collect());
    let sending = bench.take(2);
    assert!(bench.settle(&sending[0], blocked()));
    let retry = bench.retry_in(100);
    assert!(bench.settle(&sending[1], retry));
    bench.commit();
    bench.pass_time(2_000);
    bench.commit();
    assert_eq!(bench.take_names(10), ["m1"]);
}

#[test]
fn a_message_under_two_holds_tries_both_when_both_are_due() {
    let mut bench = Bench::with(waybill_core::outbox::owner::OwnerConfig { parked_per_tenant: 1, ..config() });
    let to = |name: &str, topic: &str| {
        let mut new = message(topic);
        new.annotations.set(Annotation::CorrelationId, Some(name.to_owned()));
        new
    };
    bench.enqueue(vec![to("m0", "shop"), to("m1", "shop"), to("other", "else")]);
    let sending = bench.take(2);
    assert!(bench.settle(&sending[0], blocked()));
    let retry = bench.retry_in(100);
    assert!(bench.settle(&sending[1], retry));
    bench.commit();
    let whole = waybill_core::outbox::owner::HoldKey {
        tenant: None,
        transport: Some(waybill_core::outbox::owner::TransportId(0)),
        scope: std::sync::Arc::from(""),
    };
    let now = bench.now();
    bench.owner.hold(whole, "PROVIDER.UNAVAILABLE", "the broker is away", None, now);
    bench.pass_time(2_000);
    bench.commit();
    // Only the retry may be sent, and it waits for the shop.
    bench.send_one("m1", ack());
    bench.commit();
    let mut rest = bench.take_names(10);
    rest.sort();
    assert_eq!(rest, ["m0", "other"]);
}
