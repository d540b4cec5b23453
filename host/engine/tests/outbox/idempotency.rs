//! Idempotency keys: what memory answers, what commits together, and what trouble with the store leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waybill_api::idempotency::{BeginRequest, FinishWith, IdempotencyService};
use waybill_core::idempotency::{Answer, Begun, EntryKey, Grant, Keep, Settings};
use waybill_core::ids::{IdempotencyKey, RequestHash};
use waybill_core::port::idempotency::Hold;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;

use crate::support::*;

fn of(key: &str) -> EntryKey {
    EntryKey { tenant: tenant("default"), key: IdempotencyKey::new(key).unwrap() }
}

fn request(key: &str, hash: &str) -> BeginRequest {
    BeginRequest { of: of(key), hash: RequestHash::new(hash).unwrap(), ttl: None, lease: None }
}

fn hold(key: &str, grant: &Grant) -> Hold {
    Hold { of: of(key), token: grant.token.clone() }
}

/// Begins a key that nobody has.
async fn begin(keys: &Arc<dyn IdempotencyService>, key: &str) -> Grant {
    match keys.begin(request(key, "h")).await.unwrap() {
        Begun::New(grant) => grant,
        other => panic!("not begun: {other:?}"),
    }
}

/// Counts commits of acts from now on.
fn count_commits(world: &World) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    world.shim.on(move |call| {
        counted.fetch_add(u64::from(matches!(call, Call::Idempotency)), Ordering::Relaxed);
        Act::Pass
    });
    count
}

#[tokio::test(start_paused = true)]
async fn what_is_known_for_sure_is_answered_from_memory() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let commits = count_commits(&world);
    let grant = begin(&keys, "k").await;
    for _ in 0..10 {
        assert_eq!(keys.begin(request("k", "h")).await.unwrap(), Begun::Busy { lease_until: grant.lease_until });
        assert_eq!(keys.begin(request("k", "other")).await.unwrap(), Begun::Mismatch);
    }
    let answer = keys.finish(hold("k", &grant), Answer::of_json("7")).await.unwrap();
    for _ in 0..10 {
        assert_eq!(keys.begin(request("k", "h")).await.unwrap(), Begun::Succeeded(answer.clone()));
    }
    assert_eq!(commits.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn on_a_shared_store_what_is_in_flight_is_asked_every_time() {
    let world = World::new();
    let one = world.start_with(|config| config.exclusive = false).await;
    let other = world.launch("host-b", |config| config.exclusive = false);
    let (one, other) = (one.engine.idempotency(), other.engine.idempotency());
    let grant = begin(&one, "k").await;
    assert!(matches!(other.begin(request("k", "h")).await.unwrap(), Begun::Busy { .. }));
    // Another host finishes it, and an operator there releases it.
    let answer = other.finish(hold("k", &grant), Answer::of_json("7")).await.unwrap();
    assert_eq!(one.begin(request("k", "h")).await.unwrap(), Begun::Succeeded(answer));
    other.forget(&of("k"), true, "again", "ops").await.unwrap();
    pass(seconds(1)).await;
    assert!(matches!(one.begin(request("k", "h")).await.unwrap(), Begun::New(_)));
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_commit_is_out_joins_the_next_one() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let commits = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&commits);
    world.shim.on(move |call| match call {
        Call::Idempotency => {
            counted.fetch_add(1, Ordering::Relaxed);
            Act::Slow(millis(10))
        }
        _ => Act::Pass,
    });
    let names: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    let grants = futures::future::join_all(names.iter().map(|name| begin(&keys, name))).await;
    let tokens: BTreeSet<&str> = grants.iter().map(|grant| grant.token.as_str()).collect();
    assert_eq!(tokens.len(), 200);
    // Two lanes: each commits its first act alone and the rest together.
    assert!(commits.load(Ordering::Relaxed) <= 4, "{commits:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_begins_at_once_one_has_the_key() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let begins = (0..100).map(|_| keys.begin(request("k", "h")));
    let heard: Vec<Begun> = futures::future::join_all(begins).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(heard.iter().filter(|begun| matches!(begun, Begun::New(_))).count(), 1);
    assert_eq!(heard.iter().filter(|begun| matches!(begun, Begun::Busy { .. })).count(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holder_is_taken_over_after_its_lease_and_what_it_says_then_is_refused() {
    let world = World::new();
    let host = world.start_with(|config| config.idempotency.lease = seconds(10)).await;
    let keys = host.engine.idempotency();
    let first = begin(&keys, "k").await;
    pass(seconds(9)).await;
    assert!(matches!(keys.begin(request("k", "h")).await.unwrap(), Begun::Busy { .. }));
    pass(seconds(1)).await;
    let second = begin(&keys, "k").await;
    assert_eq!((second.begun, &second.origin), (2, &first.token));
    let late = keys.finish(hold("k", &first), Answer::of_json("1")).await.unwrap_err();
    assert_eq!(late.code().as_str(), "TX.LEASE_LOST");
    assert_eq!(keys.renew(hold("k", &first), None).await.unwrap_err().code().as_str(), "TX.LEASE_LOST");
    let until = keys.renew(hold("k", &second), Some(seconds(60))).await.unwrap();
    assert_eq!(until, at(seconds(70)).plus(world.clock.wall().since(at(seconds(10)))));
    keys.fail(hold("k", &second), "no stock").await.unwrap();
    assert_eq!(keys.begin(request("k", "h")).await.unwrap(), Begun::Failed("no stock".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn one_bad_reading_of_the_wall_clock_forgets_no_key() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let (held, done) = (begin(&keys, "held").await, begin(&keys, "done").await);
    keys.finish(hold("done", &done), Answer::of_json("1")).await.unwrap();
    world.stepped.step(365 * 24 * 3_600);
    assert!(matches!(keys.begin(request("held", "h")).await.unwrap(), Begun::Busy { .. }));
    assert!(matches!(keys.begin(request("done", "h")).await.unwrap(), Begun::Succeeded(_)));
    world.stepped.step(-365 * 24 * 3_600);
    keys.finish(hold("held", &held), Answer::of_json("2")).await.unwrap();
    pass(seconds(60)).await;
    assert!(matches!(keys.begin(request("done", "h")).await.unwrap(), Begun::Succeeded(_)));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_survives_a_crash_of_the_host_and_so_does_a_reservation() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let (held, done) = (begin(&keys, "held").await, begin(&keys, "done").await);
    keys.finish(hold("done", &done), Answer::of_json("7")).await.unwrap();
    drop((keys, host));
    let host = world.start().await;
    let keys = host.engine.idempotency();
    assert_eq!(keys.begin(request("done", "h")).await.unwrap(), Begun::Succeeded(Answer::of_json("7")));
    assert_eq!(keys.begin(request("held", "h")).await.unwrap(), Begun::Busy { lease_until: held.lease_until });
    // The client outlived the host and still has its key.
    keys.finish(hold("held", &held), Answer::of_json("8")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_is_done_again_and_is_the_same() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let mut lost = 2;
    world.shim.on(move |call| match call {
        Call::Idempotency if lost > 0 => {
            lost -= 1;
            Act::FailAfter(StoreError::Unavailable("the connection broke".to_owned()))
        }
        _ => Act::Pass,
    });
    let grant = begin(&keys, "k").await;
    assert_eq!(grant.begun, 1);
    keys.finish(hold("k", &grant), Answer::of_json("1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn trouble_that_lasts_is_told_and_a_later_begin_finds_what_was_written() {
    let world = World::new();
    let host = world.start_with(|config| config.idempotency.lease = seconds(10)).await;
    let keys = host.engine.idempotency();
    world.shim.on(|call| match call {
        Call::Idempotency => Act::FailAfter(StoreError::Unavailable("the connection broke".to_owned())),
        _ => Act::Pass,
    });
    let error = keys.begin(request("k", "h")).await.unwrap_err();
    assert_eq!((error.code().as_str(), matches!(error, ServiceError::Unsure(_))), ("TX.TIMEOUT", true));
    world.shim.on(|call| match call {
        Call::Idempotency => Act::Fail(StoreError::DiskFull("no space".to_owned())),
        _ => Act::Pass,
    });
    assert_eq!(keys.begin(request("k", "h")).await.unwrap_err().code().as_str(), "STORAGE.DISK_FULL");
    world.shim.on(|call| if matches!(call, Call::Idempotency) { Act::Panic } else { Act::Pass });
    assert_eq!(keys.begin(request("k", "h")).await.unwrap_err().code().as_str(), "TX.TIMEOUT");
    world.shim.calm();
    // The first begin went in, and nobody has its token.
    assert!(matches!(keys.begin(request("k", "h")).await.unwrap(), Begun::Busy { .. }));
    pass(seconds(10)).await;
    assert_eq!(begin(&keys, "k").await.begun, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_went_away_before_it_heard_leaves_no_key_behind() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    world.shim.on(|call| if matches!(call, Call::Idempotency) { Act::Slow(seconds(1)) } else { Act::Pass });
    let impatient = tokio::time::timeout(millis(100), keys.begin(request("k", "h"))).await;
    assert!(impatient.is_err());
    pass(seconds(5)).await;
    assert_eq!(begin(&keys, "k").await.begun, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_tells_callers_to_come_back() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    world.shim.on(|call| if matches!(call, Call::Idempotency) { Act::Slow(seconds(1)) } else { Act::Pass });
    let names: Vec<String> = (0..20_000).map(|n| format!("k{n}")).collect();
    let heard = futures::future::join_all(names.iter().map(|name| keys.begin(request(name, "h")))).await;
    let refused = heard.iter().filter(|heard| matches!(heard, Err(ServiceError::Busy { .. }))).count();
    assert!(refused > 1_000 && refused < 19_000, "{refused}");
    assert!(heard.iter().all(|heard| matches!(heard, Ok(Begun::New(_)) | Err(ServiceError::Busy { .. }))));
}

#[tokio::test(start_paused = true)]
async fn results_are_kept_as_the_settings_in_force_say() {
    let world = World::new();
    let host = world.start_with(|config| config.idempotency.result_bytes_max = 4).await;
    let keys = host.engine.idempotency();
    let grant = begin(&keys, "large").await;
    let kept = keys.finish(hold("large", &grant), Answer::of_json("12345")).await.unwrap();
    assert_eq!((kept.body.clone(), kept.bytes), (None, 5));
    assert_eq!(keys.begin(request("large", "h")).await.unwrap(), Begun::Succeeded(kept));
    let settings = Settings { keep: Keep::Digest, ttl: seconds(5), lease: seconds(1), ..Settings::default() };
    let mut config = world.config("host-a");
    config.idempotency = settings;
    host.engine.reconfigure(config).await;
    assert_eq!(keys.settings(), settings);
    let grant = begin(&keys, "small").await;
    assert_eq!(grant.until.since(grant.lease_until), seconds(4));
    assert_eq!(keys.finish(hold("small", &grant), Answer::of_json("1")).await.unwrap().body, None);
    pass(seconds(5)).await;
    begin(&keys, "small").await;
}

#[tokio::test(start_paused = true)]
async fn keys_are_collected_after_their_time() {
    let world = World::new();
    let host = world.start_with(|config| config.idempotency.ttl = seconds(60)).await;
    let keys = host.engine.idempotency();
    for n in 0..250 {
        let key = format!("k{n}");
        let grant = begin(&keys, &key).await;
        keys.finish(hold(&key, &grant), Answer::of_json("1")).await.unwrap();
    }
    let stored = || world.memory.read(|tables| tables.idempotency.len());
    assert_eq!(stored(), 250);
    pass(seconds(45)).await;
    begin(&keys, "young").await;
    eventually("the old ones are collected", async || stored() == 1).await;
    assert_eq!(keys.entries(None, "", None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_operators_release_is_audited() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    assert_eq!(keys.forget(&of("k"), false, "", "ops").await.unwrap_err().code().as_str(), "TX.IDEMPOTENT_NOT_FOUND");
    assert_eq!(keys.entry(&of("k")).await.unwrap_err().code().as_str(), "TX.IDEMPOTENT_NOT_FOUND");
    let grant = begin(&keys, "k").await;
    keys.forget(&of("k"), false, "its holder is gone", "ops").await.unwrap();
    assert_eq!(
        keys.finish(hold("k", &grant), Answer::of_json("1")).await.unwrap_err().code().as_str(),
        "TX.LEASE_LOST"
    );
    let grant = begin(&keys, "k").await;
    keys.finish(hold("k", &grant), Answer::of_json("1")).await.unwrap();
    assert_eq!(keys.forget(&of("k"), false, "", "ops").await.unwrap_err().code().as_str(), "OUTBOX.STATE");
    assert_eq!(keys.forget(&of("k"), true, "wrong result", "ops").await.unwrap().key, "k");
    let events = host.audit_of("IdempotencyReleased").await;
    let told: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event.detail["reason"].as_str().unwrap(), event.detail["state"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("its holder is gone", "in_flight"), ("wrong result", "succeeded")]);
    begin(&keys, "k").await;
}

fn finish_with(key: &str, grant: &Grant) -> FinishWith {
    let answer = |done: &waybill_api::messages::TransactionDone| Answer::of_json(serde_json::to_vec(done).unwrap());
    FinishWith { hold: hold(key, grant), answer: Arc::new(answer) }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_finishes_its_key_in_its_own_commit() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let statement = || vec![Statement { query: "CREATE a".into(), bindings: serde_json::Map::new() }];
    let grant = begin(&keys, "k").await;
    let commits = count_commits(&world);
    let done = host
        .outbox
        .transact(statement(), vec![message("a")], Default::default(), Some(finish_with("k", &grant)))
        .await
        .unwrap();
    // One look in the key's lane, which writes nothing.
    assert_eq!(commits.load(Ordering::Relaxed), 1);
    let Begun::Succeeded(kept) = keys.begin(request("k", "h")).await.unwrap() else { panic!("not finished") };
    let told: serde_json::Value = serde_json::from_slice(&kept.body.unwrap()).unwrap();
    assert_eq!(told["ids"], serde_json::json!(done.ids));
    assert_eq!(commits.load(Ordering::Relaxed), 1, "from memory");
    // The memory store makes no results of statements; what it does give is in the answer.
    let stale =
        host.outbox.transact(statement(), vec![message("b")], Default::default(), Some(finish_with("k", &grant))).await;
    assert_eq!(stale.unwrap_err().code().as_str(), "TX.LEASE_LOST");
    assert_eq!(world.shim.statements.lock().len(), 1);
    host.until_done(&done.ids).await;
    pass(Duration::from_secs(5)).await;
    assert_eq!(world.main.log().texts(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_late_does_not_hide_that_a_transaction_finished_the_key() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let grant = begin(&keys, "k").await;
    let mut is_first = true;
    world.shim.on(move |call| match call {
        Call::Idempotency if std::mem::take(&mut is_first) => Act::SlowAfter(Duration::from_secs(1)),
        _ => Act::Pass,
    });
    let renewing = tokio::spawn({
        let (keys, held) = (keys.clone(), hold("k", &grant));
        async move { keys.renew(held, None).await }
    });
    pass(Duration::from_millis(100)).await;
    host.outbox
        .transact(Vec::new(), vec![message("a")], Default::default(), Some(finish_with("k", &grant)))
        .await
        .unwrap();
    renewing.await.unwrap().unwrap();
    assert!(matches!(keys.begin(request("k", "h")).await.unwrap(), Begun::Succeeded(_)));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_nothing_new_finishes_its_key_too() {
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    host.send_one(named("a", "order-1")).await;
    let grant = begin(&keys, "k").await;
    let done = host
        .outbox
        .transact(Vec::new(), vec![named("a", "order-1")], Default::default(), Some(finish_with("k", &grant)))
        .await
        .unwrap();
    assert_eq!(done.duplicates, ["order-1"]);
    assert!(matches!(keys.begin(request("k", "h")).await.unwrap(), Begun::Succeeded(_)));
}
