//! However much there is to commit, the store gets it in commits that it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waybill_core::ids::ShardId;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_testkit::fake_transport::{Answer, Gate, ack, retryable};

use crate::support::*;

/// Largest commit that the store takes: about eight of the messages here when they wait for a retry.
const STORE_BYTES: usize = 256 * 1024;
/// Of each of two messages.
const KEYS: usize = 60;

fn large(text: &str, key: &str) -> NewMessage {
    keyed(&format!("{text}{}", ".".repeat(10 * 1024)), key)
}

/// A store that takes commits of this size only, and the largest one that it was asked to take.
fn bounded() -> (World, Arc<AtomicUsize>) {
    let world = World::new();
    world.memory.bound_commits(STORE_BYTES);
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    world.shim.on(move |call| {
        if let Call::Commit(commit) = call {
            seen.fetch_max(commit.weight(), Ordering::Relaxed);
        }
        Act::Pass
    });
    (world, largest)
}

async fn start(world: &World) -> Host {
    world.start_with(|config| config.limits.commit_bytes = STORE_BYTES / 2).await
}

/// Two messages a key; the first of each waits for a retry.
async fn all_parked(world: &World, host: &Host) -> Vec<String> {
    world.main.tell(|_| retryable("HTTP.503"));
    let mut ids = Vec::new();
    for key in 0..KEYS {
        let name = format!("k-{key}");
        ids.extend(host.send([large("a", &name), large("b", &name)]).await);
    }
    until_parked(world, "all heads wait for a retry", |_| true).await;
    ids
}

async fn until_parked(world: &World, what: &str, is: fn(&waybill_core::outbox::records::Parked) -> bool) {
    let count = || world.memory.read(|tables| tables.parked.values().filter(|parked| is(parked)).count());
    eventually(what, async || count() == KEYS).await;
}

fn expect_order(world: &World, largest: &AtomicUsize) {
    let log = world.main.log();
    for key in 0..KEYS {
        let sent = log.of_key(&format!("k-{key}"));
        assert!(sent.is_sorted() && sent.last().is_some_and(|last| last.starts_with('b')), "key {key}");
    }
    let largest = largest.load(Ordering::Relaxed);
    assert!(largest <= STORE_BYTES, "a commit had {largest} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_taken_over_however_many_retries_were_claimed_when_its_host_died() {
    let (world, largest) = bounded();
    let host = start(&world).await;
    let ids = all_parked(&world, &host).await;
    world.main.answer(|_| Answer::never());
    until_parked(&world, "all are claimed", |parked| parked.claimed).await;
    drop(host);
    world.main.tell(|_| ack());
    let host = start(&world).await;
    host.until_done(&ids).await;
    expect_order(&world, &largest);
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_back_however_many_retries_are_claimed() {
    let (world, largest) = bounded();
    world.main.set_limits(|limits| limits.max_batch = 1);
    let host = start(&world).await;
    let ids = all_parked(&world, &host).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    until_parked(&world, "all are claimed", |parked| parked.claimed).await;
    let opening = async {
        pass(millis(50)).await;
        gate.open();
    };
    futures::future::join(host.drain(), opening).await;
    drop(host);
    let (record, claimed) = world
        .memory
        .read(|tables| (tables.shard(ShardId(0)), tables.parked.values().filter(|parked| parked.claimed).count()));
    assert!(record.released && claimed == 0, "{claimed} are claimed");
    let host = start(&world).await;
    host.until_done(&ids).await;
    expect_order(&world, &largest);
}

#[tokio::test(start_paused = true)]
async fn retries_that_came_due_while_no_host_ran_all_go_on() {
    let (world, largest) = bounded();
    let host = start(&world).await;
    let ids = all_parked(&world, &host).await;
    host.drain().await;
    drop(host);
    world.main.tell(|_| ack());
    pass(seconds(60)).await;
    let host = start(&world).await;
    host.until_done(&ids).await;
    expect_order(&world, &largest);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_store_never_takes_is_refused_and_the_others_go_on() {
    let (world, _) = bounded();
    // The owner doesn't know how little the store takes.
    let host = world.start().await;
    let commits = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&commits);
    world.shim.on(move |call| {
        seen.fetch_add(usize::from(matches!(call, Call::Commit(_))), Ordering::Relaxed);
        Act::Pass
    });
    let request = (0..30).map(|index| large(&index.to_string(), "k"));
    let error = host.try_send(request).await.unwrap_err();
    assert!(matches!(error, ServiceError::Store(StoreError::TooLarge)), "{error}");
    let small = host.send([message("small")]).await;
    host.until_done(&small).await;
    pass(seconds(2)).await;
    let commits = commits.load(Ordering::Relaxed);
    assert!(commits < 50, "{commits} commits");
    assert_eq!(world.main.log().texts(), ["small"]);
}
