//! Tenants take turns.

use super::bench::*;
use bytes::Bytes;
use std::collections::BTreeMap;
use waybill_core::ids::Tenant;
use waybill_core::outbox::lanes::{LaneLimits, Lanes};
use waybill_core::outbox::owner::{OwnerConfig, TransportId, Verdict};
use waybill_core::outbox::records::AttemptOutcome;

fn count(taken: &[String], prefix: &str) -> usize {
    taken.iter().filter(|name| name.starts_with(prefix)).count()
}

#[test]
fn a_tenant_with_much_waits_for_one_with_little() {
    let mut bench = Bench::new();
    bench.enqueue((0..200).map(|n| of_tenant(&format!("big{n}"), "big")).collect());
    bench.enqueue((0..8).map(|n| of_tenant(&format!("small{n}"), "small")).collect());
    let taken = bench.take_names(16);
    assert_eq!((count(&taken, "big"), count(&taken, "small")), (8, 8));
}

#[test]
fn tenants_take_weighted_turns() {
    let weights = BTreeMap::from([(Tenant::new("gold").unwrap(), 3)]);
    let mut bench = Bench::with(OwnerConfig { weights, ..config() });
    bench.enqueue((0..200).map(|n| of_tenant(&format!("gold{n}"), "gold")).collect());
    bench.enqueue((0..200).map(|n| of_tenant(&format!("tin{n}"), "tin")).collect());
    let taken = bench.take_names(128);
    assert_eq!((count(&taken, "gold"), count(&taken, "tin")), (96, 32));
}

#[test]
fn within_a_tenant_the_oldest_goes_first() {
    let mut bench = Bench::new();
    for n in 0..5 {
        bench.enqueue(vec![message(&format!("m{n}"))]);
    }
    assert_eq!(bench.take_names(10), ["m0", "m1", "m2", "m3", "m4"]);
}

#[test]
fn what_has_to_go_alone_isnt_kept_waiting_by_busy_tenants() {
    let mut bench = Bench::new();
    bench.enqueue(vec![of_tenant("lonely", "a")]);
    let sending = bench.take(1).remove(0);
    let Verdict::Retry { due, delay, fault } = bench.retry_in(1) else { unreachable!() };
    let attempt = waybill_core::outbox::records::AttemptRecord {
        at: due,
        took_ms: 0,
        outcome: AttemptOutcome::Unknown,
        worker: "".into(),
        transport: "".into(),
        plugin: None,
        code: None,
        reason: None,
        maybe_delivered: true,
    };
    let settlement = waybill_core::outbox::owner::Settlement { verdict: Verdict::Retry { due, delay, fault }, attempt };
    assert!(bench.owner.settle(sending.seq, sending.epoch, settlement, bench.now()));
    bench.enqueue((0..500).map(|n| of_tenant(&format!("busy{n}"), "b")).collect());
    bench.pass_time(1);
    bench.commit();
    let batches: Vec<Vec<String>> = (0..3).map(|_| bench.take_names(16)).collect();
    assert!(batches.contains(&vec!["lonely".to_owned()]), "{batches:?}");
}

#[test]
fn a_large_message_isnt_kept_waiting_by_small_ones() {
    let mut bench = Bench::new();
    bench.enqueue((0..300).map(|n| of_tenant(&format!("small{n}"), "a")).collect());
    let mut large = of_tenant("large", "b");
    large.payload = Bytes::from(vec![1_u8; 5_000]);
    bench.enqueue(vec![large]);
    let mut taken = Vec::new();
    for _ in 0..3 {
        let now = bench.now();
        taken.push(names(&bench.owner.take(TransportId(0), 0, 16, 5_000, now)));
    }
    assert!(taken.iter().any(|batch| batch.contains(&"large".to_owned())), "{taken:?}");
}

#[test]
fn past_its_bound_of_retries_a_tenant_sends_only_those() {
    let mut bench = Bench::with(OwnerConfig { parked_per_tenant: 2, ..config() });
    // Many fresh ones that come before the retries in the order.
    bench.enqueue((0..40).map(|n| message(&format!("m{n}"))).collect());
    let sending = bench.take(2);
    for sending in &sending {
        let retry = bench.retry_in(100);
        assert!(bench.settle(sending, retry));
    }
    bench.commit();
    assert!(bench.take(10).is_empty(), "fresh ones wait");
    bench.pass_time(100);
    bench.commit();
    let retries = bench.take(10);
    assert_eq!(names(&retries), ["m0", "m1"]);
    for sending in &retries {
        assert!(bench.settle(sending, ack()));
    }
    bench.commit();
    assert_eq!(bench.take(10).len(), 10);
}

#[test]
fn a_lane_takes_another_call_when_one_of_its_own_has_ended() {
    let mut bench = Bench::new();
    bench.enqueue((0..4).map(|n| message(&format!("m{n}"))).collect());
    let (lane, limits) = ((TransportId(0), 0), LaneLimits { calls: 2, messages: 1, bytes: 1 << 20 });
    let (mut lanes, now, token) = (Lanes::default(), bench.now(), bench.owner.token());
    assert_eq!(lanes.begin(&mut bench.owner, lane, &limits, now).unwrap().len(), 1);
    assert!(lanes.begin(&mut bench.owner, lane, &limits, now).is_some());
    assert!(lanes.begin(&mut bench.owner, lane, &limits, now).is_none());
    assert!(!lanes.end(&bench.owner, token + 1, lane), "a call of another ownership");
    assert!(lanes.begin(&mut bench.owner, lane, &limits, now).is_none());
    assert!(lanes.end(&bench.owner, token, lane));
    assert!(lanes.begin(&mut bench.owner, lane, &limits, now).is_some());
}
