//! Crashes, takeover, drain.

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::ShardId;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::saga::SagaAct;
use waybill_core::port::store::StoreError;
use waybill_core::saga::limits::LOST_MAX;
use waybill_core::saga::state::SagaState;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_call_under_way_is_repeated_with_its_key_and_nothing_else_is() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "b" && call.before == 0).then_some(Does::Never));
    host.run(&steps(&["a", "b", "c"])).await;
    eventually("b is called", async || world.shop.count("b") == 1).await;
    host.crash().await;
    let host = world.start().await;
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "b", "b", "c"]);
    let calls = world.shop.calls();
    assert_eq!(calls[1].key, calls[2].key);
    assert!(view.history.as_ref().unwrap().iter().any(|line| line.kind == "call_lost"));
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_there_after_a_restart_with_its_timers() {
    let world = World::new();
    let host = world.start().await;
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\ntimeout_ms = 3600000\n";
    host.run(&format!("{}{wait}", step("a", ""))).await;
    host.begin("two").await;
    host.until_waiting("one", "signal:go").await;
    host.until_waiting("two", "signal:go").await;
    host.crash().await;
    let host = world.start().await;
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    let view = host.until("two", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.TIMEOUT"));
    assert_eq!(world.shop.names(), ["a", "a", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn the_configured_retries_count_for_sagas_that_begin_and_those_that_run_keep_theirs() {
    let world = World::new();
    world.shop.on(|_| Some(retryable("SHOP.BUSY")));
    let configured =
        |max_attempts, base_ms| RetryPolicy { max_attempts, base_ms, jitter: 0.0, ..RetryPolicy::default() };
    let host = world.start_with(|config| config.sagas.default_retry = configured(2, 60_000)).await;
    host.run("[[steps]]\nname = \"a\"\naction = \"fn:shop/a\"\n").await;
    host.until_waiting("one", "retry").await;
    host.crash().await;
    let host = world.start_with(|config| config.sagas.default_retry = configured(4, 60_000)).await;
    host.begin("two").await;
    host.until("one", SagaState::Cancelled).await;
    host.until("two", SagaState::Cancelled).await;
    let attempts = |saga: &str| world.shop.calls().iter().filter(|call| call.saga == saga).count();
    assert_eq!((attempts("one"), attempts("two")), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_sagas_survive_ten_crashes_in_the_middle_of_everything() {
    let world = World::new();
    world.shop.on(|call| {
        let wait = millis(u64::try_from(call.saga.len()).unwrap());
        match (call.saga.ends_with('7'), call.step.as_str()) {
            (true, "c") => Some(permanent("SHOP.NO")),
            _ => Some(Does::DoneAfter(wait, serde_json::json!({}))),
        }
    });
    let mut host = world.start().await;
    host.define(&definition(&steps(&["a", "b", "c"]))).await;
    for round in 0..10 {
        for index in 0..10 {
            host.begin(&format!("s{}", round * 10 + index)).await;
        }
        pass(millis(3 + round)).await;
        host.crash().await;
        host = world.start().await;
    }
    eventually("all have ended", async || {
        host.list("state=completed", 1_000).await.len() == 90 && host.list("state=cancelled", 1_000).await.len() == 10
    })
    .await;
    for call in world.shop.calls() {
        assert_eq!(call.key, format!("{}/{}/{}", call.saga, call.step, call.direction.as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_calls_under_way_and_begins_no_new_ones() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|_| Some(Does::DoneAfter(seconds(2), serde_json::json!({}))));
    host.run(&step("a", "idempotent = false")).await;
    host.begin("two").await;
    pass(seconds(1)).await;
    assert!(host.engine.drain(seconds(30)).await);
    let refused = host.sagas.start(start("three")).await.unwrap_err();
    assert!(refused.retryable(), "{refused}");
    assert_eq!(world.shop.names(), ["a", "a"]);
    drop(host);
    let host = world.start().await;
    host.until("one", SagaState::Completed).await;
    host.until("two", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "a"], "what had ended before the drain isn't called again");
}

#[tokio::test(start_paused = true)]
async fn steps_that_follow_during_a_drain_wait_for_the_next_start_without_being_unknown() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "a").then_some(Does::DoneAfter(seconds(2), serde_json::json!({}))));
    host.run(&format!("{}{}", step("a", ""), step("b", "idempotent = false"))).await;
    pass(seconds(1)).await;
    assert!(host.engine.drain(seconds(30)).await);
    assert_eq!(world.shop.names(), ["a"]);
    drop(host);
    let host = world.start().await;
    host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_past_the_drain_time_is_cut_off_and_made_again() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.before == 0).then_some(Does::DoneAfter(seconds(25), serde_json::json!({}))));
    host.run(&steps(&["a"])).await;
    pass(seconds(1)).await;
    host.engine.drain(seconds(5)).await;
    drop(host);
    let host = world.start().await;
    host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn another_host_takes_over_and_the_old_one_changes_nothing_more() {
    let world = World::new();
    let shared = |config: &mut waybill_engine::EngineConfig| config.exclusive = false;
    let first = world.start_with(shared).await;
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
    first.run(&format!("{}{wait}", step("a", ""))).await;
    first.until_waiting("one", "signal:go").await;
    let second = world.launch("host-b", shared);
    pass(seconds(5)).await;
    let refused = second.signal("one", "go", serde_json::json!(1)).await.unwrap_err();
    assert!(refused.retryable() && refused.to_string().contains("host-a"), "{refused}");
    assert_eq!(second.view("one").await.waiting_for.as_deref(), Some("signal:go"), "its row tells");
    assert_eq!(second.list("", 10).await, ["one"]);
    first.engine.drain(seconds(5)).await;
    eventually("the second host takes over", async || second.signal("one", "go", serde_json::json!(1)).await.is_ok())
        .await;
    second.until("one", SagaState::Completed).await;
    let late = first.act("one", SagaAct::Kill).await.unwrap_err();
    assert!(late.retryable(), "{late}");
}

#[tokio::test(start_paused = true)]
async fn deaths_of_the_host_make_a_step_suspect_and_deploys_do_not() {
    let world = World::new();
    world.shop.on(|_| Some(Does::Never));
    let mut host = world.start().await;
    host.run(&step("a", "")).await;
    let called = async |times: u32| {
        let times = usize::try_from(times).unwrap();
        eventually("it is called", async || world.shop.count("a") == times).await;
    };
    for times in 1..=2 * LOST_MAX {
        called(times).await;
        host.engine.drain(seconds(1)).await;
        drop(host);
        host = world.start().await;
    }
    for times in 0..=LOST_MAX {
        called(2 * LOST_MAX + 1 + times).await;
        assert_eq!(host.state("one").await, SagaState::Running);
        host.crash().await;
        host = world.start().await;
    }
    let view = host.until("one", SagaState::Paused).await;
    assert_eq!(
        view.saga.as_ref().unwrap().steps[0].failure.as_ref().map(|failure| &*failure.code),
        Some("SUSPECTED_POISON")
    );
}

#[tokio::test(start_paused = true)]
async fn kills_within_seconds_pause_no_saga() {
    let world = World::new();
    world.shop.on(|_| Some(Does::DoneAfter(seconds(20), serde_json::json!({}))));
    let mut host = world.start().await;
    host.define(&definition(&step("a", ""))).await;
    for index in 0..50 {
        host.begin(&format!("s{index}")).await;
    }
    for _ in 0..2 * LOST_MAX {
        pass(millis(400)).await;
        host.crash().await;
        host = world.start().await;
    }
    eventually("all are completed", async || host.list("state=completed", 1_000).await.len() == 50).await;
}

#[tokio::test(start_paused = true)]
async fn a_death_counts_also_when_nobody_heard_that_the_takeover_after_it_went_in() {
    let world = World::new();
    world.shop.on(|_| Some(Does::Never));
    let mut host = world.start().await;
    host.run(&step("a", "")).await;
    for times in 1..=LOST_MAX + 1 {
        let times = usize::try_from(times).unwrap();
        eventually("it is called", async || world.shop.count("a") == times).await;
        assert_eq!(host.state("one").await, SagaState::Running);
        host.crash().await;
        world.memory.plan([Fate::ApplyAndBreak]);
        host = world.launch("host-a", |_| {});
        pass(millis(50)).await;
        world.memory.fail_all(None);
    }
    eventually("it waits for an operator", async || {
        world.memory.read(|tables| tables.sagas.open.values().any(|row| row.summary.state == SagaState::Paused))
    })
    .await;
    let view = host.view("one").await;
    assert_eq!(
        view.saga.as_ref().unwrap().steps[0].failure.as_ref().map(|failure| &*failure.code),
        Some("SUSPECTED_POISON")
    );
}

/// What another host made of the outbox's shard.
fn rewrite(world: &World, change: impl FnOnce(&mut ShardRecord)) {
    world.memory.write(|tables| {
        let record = tables.shards.get_mut(&ShardId(0)).unwrap();
        (record.beat, record.nonce) = (record.beat + 1, record.nonce.wrapping_add(1));
        change(record);
    });
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lived_when_a_takeover_was_refused_and_gave_the_shard_back_is_no_death() {
    let world = World::new();
    world.shop.on(|_| Some(Does::Never));
    let mut host = world.start().await;
    host.run(&step("a", "")).await;
    for times in 1..=LOST_MAX + 2 {
        let times = usize::try_from(times).unwrap();
        eventually("it is called", async || world.shop.count("a") == times).await;
        host.crash().await;
        world.memory.plan([Fate::Refuse(StoreError::Conflict("it was written meanwhile".into()))]);
        host = world.launch("host-b", |_| {});
        pass(millis(50)).await;
        rewrite(&world, |record| record.released = true);
    }
    let all = usize::try_from(LOST_MAX + 3).unwrap();
    eventually("it is called", async || world.shop.count("a") == all).await;
    assert_eq!(host.state("one").await, SagaState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_died_before_it_wrote_the_sagas_is_no_death_in_calls_of_the_one_before() {
    let world = World::new();
    world.shop.on(|_| Some(Does::Never));
    let host = world.start_with(|config| config.exclusive = false).await;
    host.run(&step("a", "timeout_ms = 86400000")).await;
    for times in 1..=LOST_MAX + 2 {
        let times = usize::try_from(times).unwrap();
        eventually("it is called", async || world.shop.count("a") == times).await;
        // It takes the outbox's shard, and then its beat stands still.
        rewrite(&world, |record| {
            record.owner = "host-b".to_owned();
            (record.token, record.taken) = (record.token + 1, record.nonce);
        });
    }
    let all = usize::try_from(LOST_MAX + 3).unwrap();
    eventually("it is called", async || world.shop.count("a") == all).await;
    assert_eq!(host.state("one").await, SagaState::Running);
}
