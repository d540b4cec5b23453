//! The window: its bounds, and what stuck messages may not do to it.

use super::bench::*;
use waybill_core::annotation::Annotation;
use waybill_core::limits::SchedulerLimits;
use waybill_core::outbox::owner::{Command, OwnerConfig};

/// Messages of a small window. Its one tenant may always hold as many besides.
const WINDOW: usize = 10;

fn small() -> OwnerConfig {
    let limits =
        SchedulerLimits { window_messages: WINDOW, key_messages: 3, open_segments: 2, ..SchedulerLimits::default() };
    OwnerConfig { limits, ..config() }
}

fn drain(bench: &mut Bench) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let batch = bench.take(100);
        if batch.is_empty() {
            return all;
        }
        for sending in &batch {
            all.extend(names(std::slice::from_ref(sending)));
            assert!(bench.settle(sending, ack()));
        }
        bench.commit();
        let (messages, _, open) = bench.owner.memory();
        assert!(messages <= 2 * WINDOW && open <= 2);
    }
}

#[test]
fn a_backlog_larger_than_memory_is_delivered_in_key_order() {
    let mut bench = Bench::with(small());
    for batch in 0..20 {
        bench.enqueue(
            (0..10).map(|n| keyed(&format!("{}-{:03}", n % 4, batch * 10 + n), &format!("k{}", n % 4))).collect(),
        );
    }
    let order = drain(&mut bench);
    assert_eq!(order.len(), 200);
    for key in ["0-", "1-", "2-", "3-"] {
        let of_key: Vec<&String> = order.iter().filter(|name| name.starts_with(key)).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    assert_eq!(bench.history().len(), 200);
    assert_eq!(bench.owner.memory().0, 0);
}

#[test]
fn messages_behind_failed_heads_make_room_for_others() {
    let mut bench = Bench::with(small());
    bench.enqueue(
        (0..5).flat_map(|k| (0..6).map(move |n| keyed(&format!("stuck{k}-{n}"), &format!("stuck{k}")))).collect(),
    );
    for sending in bench.take(10) {
        let retry = bench.retry_in(300_000);
        assert!(bench.settle(&sending, retry));
    }
    bench.commit();
    for sending in bench.take(10) {
        let retry = bench.retry_in(300_000);
        assert!(bench.settle(&sending, retry));
    }
    bench.commit();
    bench.enqueue((0..30).map(|n| keyed(&format!("free{n}"), &format!("free{n}"))).collect());
    let sent = drain(&mut bench);
    assert_eq!(sent.iter().filter(|name| name.starts_with("free")).count(), 30, "{sent:?}");
}

#[test]
fn messages_behind_a_dead_letter_that_holds_their_key_make_room_for_others() {
    let mut bench = Bench::with(OwnerConfig { dead_holds_key: true, ..small() });
    bench.enqueue(
        (0..3).flat_map(|k| (0..6).map(move |n| keyed(&format!("held{k}-{n}"), &format!("held{k}")))).collect(),
    );
    bench.enqueue((0..20).map(|n| keyed(&format!("free{n}"), &format!("free{n}"))).collect());
    for _ in 0..3 {
        for sending in
            bench.take(3).into_iter().filter(|sending| names(std::slice::from_ref(sending))[0].starts_with("held"))
        {
            assert!(bench.settle(&sending, dead()));
        }
        bench.commit();
    }
    bench.crash();
    bench.commit();
    let sent = drain(&mut bench);
    assert_eq!(sent.iter().filter(|name| name.starts_with("free")).count(), 20, "{sent:?}");
    // When the keys are free again, their messages are read again.
    for dead in bench.dead() {
        bench.command(Command::Purge(dead)).unwrap();
    }
    bench.commit();
    assert_eq!(drain(&mut bench).len(), 15);
}

#[test]
fn messages_of_a_held_destination_make_room_for_others() {
    for key in [None, Some("k")] {
        let mut bench = Bench::with(small());
        let held = |n: usize| {
            let mut new = message("held");
            new.annotations.set(Annotation::CorrelationId, Some(format!("held{n}")));
            new.key = key.map(|key| format!("{key}{n}"));
            new
        };
        bench.enqueue((0..40).map(held).collect());
        bench.send_one("held0", blocked());
        bench.enqueue((0..30).map(|n| message(&format!("free{n}"))).collect());
        let sent = drain(&mut bench);
        assert_eq!(sent.len(), 30, "{sent:?}");
        // Back after a second: the first tries, the rest follows.
        let mut back = Vec::new();
        for _ in 0..20 {
            bench.pass_time(1_000);
            bench.commit();
            back.extend(drain(&mut bench));
        }
        assert_eq!(back.len(), 40, "{back:?}");
    }
}

#[test]
fn idle_segments_of_a_tenant_make_room_for_its_own() {
    let mut bench = Bench::with(small());
    // Two segments stay claimed, each with a failed head and a follower.
    for n in 0..2 {
        bench.enqueue(vec![keyed(&format!("head{n}"), &format!("k{n}")), keyed(&format!("tail{n}"), &format!("k{n}"))]);
    }
    for sending in bench.take(10) {
        let retry = bench.retry_in(300_000);
        assert!(bench.settle(&sending, retry));
    }
    bench.commit();
    bench.enqueue(vec![of_tenant("other", "other"), message("mine")]);
    bench.commit();
    let mut sent = drain(&mut bench);
    sent.sort();
    assert_eq!(sent, ["mine", "other"]);
}

#[test]
fn segments_that_wait_for_a_claim_go_before_new_ones() {
    let mut bench = Bench::with(small());
    for tenant in ["a", "b", "c", "d"] {
        bench.enqueue(vec![of_tenant(tenant, tenant)]);
    }
    let first = bench.take(10);
    assert_eq!(names(&first), ["a", "b"]);
    for sending in &first {
        assert!(bench.settle(sending, ack()));
    }
    bench.ask(vec![of_tenant("e", "e"), of_tenant("f", "f")]);
    bench.commit_one();
    assert_eq!(bench.take_names(10), ["c", "d"]);
}
