//! A store that stalls for seconds under two hosts that share it: no takeover while the stall is shorter than what a rival
//! waits for, nothing sent past the owner's own lease, and everything goes on afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use waybill_api::status::CheckStatus;
use waybill_core::port::service::MessageState;
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, ack};

use crate::support::*;

/// The owner sends for ten seconds after its last good commit; a rival waits for fifteen.
fn shared(config: &mut EngineConfig) {
    config.exclusive = false;
    config.owner_ttl = seconds(10);
}

/// Lets commits of `host-a` stall for as long as it says, in milliseconds.
fn stall(world: &World) -> Arc<AtomicU64> {
    let millis = Arc::new(AtomicU64::new(0));
    let of_hook = Arc::clone(&millis);
    world.shim.on(move |call| match (call, of_hook.load(Ordering::Relaxed)) {
        (Call::Commit(commit), stall) if stall > 0 && commit.record.owner == "host-a" => {
            Act::Slow(Duration::from_millis(stall))
        }
        _ => Act::Pass,
    });
    millis
}

#[tokio::test(start_paused = true)]
async fn stalls_shorter_than_a_rival_waits_for_trip_no_takeover() {
    let world = World::new();
    let host = world.start_with(shared).await;
    let rival = world.launch("host-b", shared);
    let stall = stall(&world);
    let mut ids = Vec::new();
    for round in 0..40_u64 {
        stall.store(if round % 3 == 0 { 9_000 } else { 0 }, Ordering::Relaxed);
        ids.extend(host.send((0..5).map(|key| keyed(&round.to_string(), &format!("k-{key}")))).await);
    }
    stall.store(0, Ordering::Relaxed);
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), ids.len(), "something was sent twice");
    assert!(log.sent.iter().all(|sent| sent.epoch == log.sent[0].epoch), "the shard changed hands");
    for key in 0..5 {
        let numbers: Vec<u64> = log.of_key(&format!("k-{key}")).iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers.len() == 40, "{numbers:?}");
    }
    let watches = rival.outbox.ready().await;
    assert!(watches.iter().any(|check| check.detail == "owns 0 of 1 shards"), "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn the_owner_stops_sending_at_the_end_of_its_own_lease_and_goes_on_after_the_stall() {
    let world = World::new();
    world.main.set_limits(|limits| {
        limits.lanes = 1;
        limits.calls_per_lane = 1;
        limits.max_batch = 1;
    });
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(1)));
    let host = world.start_with(shared).await;
    let _rival = world.launch("host-b", shared);
    // One commit brings and claims all of them: from then on nothing but time keeps them from being sent.
    let ids = host.send((0..40).map(|number| message(&number.to_string()))).await;
    world.main.until_sent(2).await;
    let stall = stall(&world);
    // The last commit may be a second old by then, and a rival counts from it.
    stall.store(13_000, Ordering::Relaxed);
    let before = world.clock.wall();
    pass(millis(12_900)).await;
    let sent = world.main.log().sent.len();
    assert!((8..=13).contains(&sent), "{sent} were sent within a lease of ten seconds, one a second");
    stall.store(0, Ordering::Relaxed);
    host.until_done(&ids).await;
    assert!(world.clock.wall().since(before) > seconds(30));
    let log = world.main.log();
    assert_eq!(log.sent.len(), 40, "something was sent twice");
    assert!(log.sent.iter().all(|sent| sent.epoch == log.sent[0].epoch), "the shard changed hands");
}

#[tokio::test(start_paused = true)]
async fn a_stall_longer_than_a_rival_waits_for_hands_over_and_loses_nothing() {
    let world = World::new();
    let host = world.start_with(shared).await;
    let rival = world.launch("host-b", shared);
    let stall = stall(&world);
    let first = host.send((0..20).map(|number| message(&number.to_string()))).await;
    stall.store(60_000, Ordering::Relaxed);
    pass(seconds(40)).await;
    rival.until_state(&first[0], MessageState::Done).await;
    rival.until_done(&first).await;
    stall.store(0, Ordering::Relaxed);
    let later = rival.send([message("later")]).await;
    rival.until_done(&later).await;
    assert!(world.main.log().sent.iter().any(|sent| sent.epoch > 1), "the rival owns the shard");
}

#[tokio::test(start_paused = true)]
async fn readiness_says_what_is_slow_and_turns_nobody_away() {
    let world = World::new();
    let host = Arc::new(world.start_with(shared).await);
    let stall = stall(&world);
    stall.store(6_000, Ordering::Relaxed);
    let sending = tokio::spawn({
        let host = Arc::clone(&host);
        async move { host.send([message("a")]).await }
    });
    let warned = AtomicBool::new(false);
    for _ in 0..50 {
        let checks = host.outbox.ready().await;
        assert!(checks.iter().all(|check| check.status != CheckStatus::Fail), "{checks:?}");
        let outbox = checks.iter().find(|check| check.name == "outbox").unwrap();
        if outbox.status == CheckStatus::Warn {
            assert!(outbox.detail.contains("slow"), "{outbox:?}");
            warned.store(true, Ordering::Relaxed);
        }
        pass(millis(100)).await;
    }
    assert!(warned.load(Ordering::Relaxed), "a commit of six seconds was never mentioned");
    stall.store(0, Ordering::Relaxed);
    host.until_done(&sending.await.unwrap()).await;
    pass(seconds(10)).await;
    assert!(host.outbox.ready().await.iter().all(|check| check.status == CheckStatus::Ok));
}
