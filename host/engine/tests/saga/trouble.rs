//! A store that fails, answers late, does without telling, or panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waybill_api::status::CheckStatus;
use waybill_core::port::store::StoreError;
use waybill_core::saga::records::SagaWrite;
use waybill_core::saga::state::SagaState;

use crate::support::*;

fn gone() -> StoreError {
    StoreError::Unavailable("the network is down".to_owned())
}

/// Every `n`-th commit suffers `act`.
fn every(n: usize, act: Act) -> impl FnMut(Call<'_>) -> Act + Send + 'static {
    let mut commits = 0;
    move |call| match call {
        Call::Commit(_) => {
            commits += 1;
            if commits % n == 0 { act.clone() } else { Act::Pass }
        }
        _ => Act::Pass,
    }
}

async fn run_many(world: &World, host: &Host) {
    world.shop.on(|call| match (call.saga.ends_with('3'), call.step.as_str()) {
        (true, "c") => Some(permanent("SHOP.NO")),
        _ => None,
    });
    host.define(&definition(&steps(&["a", "b", "c"]))).await;
    for index in 0..30 {
        let id = format!("s{index}");
        // A caller that isn't told tries again with its id.
        eventually("it is started", async || match host.sagas.start(start(&id)).await {
            Ok(_) => true,
            Err(error) => {
                assert!(error.retryable(), "{error}");
                false
            }
        })
        .await;
    }
    eventually("all have ended", async || {
        host.list("state=completed", 1_000).await.len() == 27 && host.list("state=cancelled", 1_000).await.len() == 3
    })
    .await;
    for call in ["a", "b", "c"] {
        assert_eq!(world.shop.count(call), 30, "{call} was called once by each saga");
    }
    assert_eq!((world.shop.count("-a"), world.shop.count("-b")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn commits_that_never_happened_are_made_again_and_no_effect_comes_before_its_commit() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(every(3, Act::Fail(gone())));
    run_many(&world, &host).await;
}

#[tokio::test(start_paused = true)]
async fn commits_that_happened_without_a_word_count_once() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(every(2, Act::FailAfter(gone())));
    run_many(&world, &host).await;
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_resolved() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(every(3, Act::Fail(StoreError::Conflict("again".to_owned()))));
    run_many(&world, &host).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_gone_starts_are_refused_and_afterwards_all_goes_on() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    host.begin("before").await;
    host.until("before", SagaState::Completed).await;
    world.shim.on(|_| Act::Fail(gone()));
    let first = host.sagas.start(start("one")).await.unwrap_err();
    assert!(first.retryable() && first.code().as_str() == "TX.TIMEOUT", "{first}");
    let refused = host.sagas.start(start("two")).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "PROVIDER.UNAVAILABLE");
    let ready = host.outbox.ready().await;
    assert!(ready.iter().any(|check| check.name == "sagas" && check.status == CheckStatus::Fail));
    pass(seconds(30)).await;
    assert_eq!(world.shop.count("a"), 1);
    world.shim.calm();
    eventually("it is ready", async || host.outbox.ready().await.iter().all(|check| check.status != CheckStatus::Fail))
        .await;
    let again = host.begin("one").await;
    assert!(again.duplicate, "the first try was kept and went in when the store came back");
    host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.count("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn sagas_whose_store_lost_commits_stop_until_the_host_starts_again() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    host.begin("one").await;
    host.until("one", SagaState::Completed).await;
    let kept = world.memory.read(Clone::clone);
    host.begin("lost").await;
    host.until("lost", SagaState::Completed).await;
    world.memory.write(|tables| *tables = kept);
    assert_eq!(host.sagas.start(start("two")).await.unwrap_err().code().as_str(), "TX.TIMEOUT");
    assert_eq!(host.sagas.start(start("three")).await.unwrap_err().code().as_str(), "STORAGE.WENT_BACK");
    pass(seconds(600)).await;
    let ready = host.outbox.ready().await;
    assert!(ready.iter().any(|check| check.name == "sagas" && check.detail.starts_with("STORAGE.WENT_BACK")));
    assert_eq!(world.shop.count("a"), 2);
    host.crash().await;
    let host = world.start().await;
    host.begin("two").await;
    host.until("two", SagaState::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_the_sagas_are_loaded_again() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a", "b"]))).await;
    let panics = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&panics);
    world.shim.on(move |call| match call {
        Call::Commit(commit) if commit.record.beat > 3 && count.fetch_add(1, Ordering::SeqCst) == 0 => Act::Panic,
        _ => Act::Pass,
    });
    host.begin("one").await;
    host.until("one", SagaState::Completed).await;
    assert!(panics.load(Ordering::SeqCst) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_makes_larger_commits_not_more_of_them() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a", "b", "c"]))).await;
    let commits = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&commits);
    world.shim.on(move |call| {
        if matches!(call, Call::Commit(_)) {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Act::Slow(millis(50))
    });
    let starts = (0..64).map(|index| {
        let (sagas, start) = (host.sagas.clone(), start(&format!("s{index}")));
        async move { sagas.start(start).await.unwrap() }
    });
    futures::future::join_all(starts).await;
    eventually("all are done", async || host.list("state=completed", 100).await.len() == 64).await;
    let commits = commits.load(Ordering::SeqCst);
    assert!(commits <= 12, "64 sagas of 3 steps in {commits} commits");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_more_than_the_store_takes_stands_still_and_the_others_go_on() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition("[[steps]]\nname = \"w\"\naction = \"wait:go\"\n")).await;
    let (refused, barriers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&refused), Arc::clone(&barriers));
    world.shim.on(move |call| {
        let Call::Commit(commit) = call else { return Act::Pass };
        seen.fetch_add(usize::from(commit.journal.is_empty() && commit.writes.is_empty()), Ordering::AcqRel);
        let is_big = |write: &SagaWrite| matches!(write, SagaWrite::PutRow(row) if row.tree.key == key("big"));
        if !commit.writes.iter().any(is_big) {
            return Act::Pass;
        }
        counted.fetch_add(1, Ordering::AcqRel);
        Act::Fail(StoreError::TooLarge)
    });
    host.begin("big").await;
    host.begin("one").await;
    pass(seconds(60)).await;
    let tries = refused.load(Ordering::Acquire);
    assert!((1..=2).contains(&tries), "once with others, once by itself: {tries}");
    let error = host.signal("big", "go", serde_json::json!(1)).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE.TOO_LARGE");
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!(barriers.load(Ordering::Acquire), 0, "nothing has to be found out");

    // A store that takes more.
    world.shim.calm();
    host.crash().await;
    let host = world.start().await;
    host.signal("big", "go", serde_json::json!(1)).await.unwrap();
    host.until("big", SagaState::Completed).await;
}
