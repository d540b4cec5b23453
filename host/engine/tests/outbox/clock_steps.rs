//! A wall clock that somebody sets while hosts run, or between two of them.

use waybill_api::idempotency::BeginRequest;
use waybill_api::status::CheckStatus;
use waybill_core::idempotency::EntryKey;
use waybill_core::ids::{IdempotencyKey, MessageId, RequestHash, ShardId};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::service::MessageState;
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{ack, blocked, retryable};

use crate::support::*;

const HOUR: i64 = 3_600;
const YEAR: i64 = 365 * 24 * HOUR;

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_holds_no_retry() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 4 { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    pass(millis(100)).await;
    world.stepped.step(-HOUR);
    pass(millis(100)).await;
    let (view, now) = (host.view(&id).await, at(millis(0)).0 - HOUR.unsigned_abs() * 1_000);
    let until = view.waiting.unwrap().until.unwrap().0.0;
    assert!((now..now + 10_000).contains(&until), "what people see is the clock as it is set: {until}");
    pass(seconds(10)).await;
    assert_eq!(world.main.log().sent.len(), 4);
    assert_eq!(host.view(&id).await.state, MessageState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_holds_no_probe() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt == 1 { blocked("", "HTTP.401") } else { ack() });
    let host = world.start().await;
    host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    pass(millis(100)).await;
    world.stepped.step(-HOUR);
    pass(seconds(10)).await;
    assert!(world.main.log().sent.len() > 1, "the destination is tried again");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_ahead_fires_no_retry_early() {
    let world = World::new();
    world.main.tell(|_| retryable("HTTP.503"));
    let host = world.start_with(|config| config.retries.policy.base_ms = 60_000).await;
    host.send((0..20).map(|index| message(&index.to_string()))).await;
    world.main.until_sent(20).await;
    pass(seconds(1)).await;
    // Not so far that it wouldn't be believed.
    world.stepped.step(240);
    pass(seconds(50)).await;
    assert_eq!(world.main.log().sent.len(), 20);
    pass(seconds(20)).await;
    assert_eq!(world.main.log().sent.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_no_longer_than_its_backoff_after_a_restart_with_an_earlier_clock() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt == 1 { retryable("HTTP.503") } else { ack() });
    let host = world.start_with(|config| config.retries.policy.base_ms = 60_000).await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    pass(seconds(1)).await;
    host.drain().await;
    world.stepped.step(-HOUR);
    let host = world.start().await;
    pass(seconds(61)).await;
    assert_eq!(host.view(&id).await.state, MessageState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_an_operator_moved_keeps_its_time_over_a_restart() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt == 1 { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    pass(millis(100)).await;
    host.outbox.reschedule(&tenant("default"), &id, at(seconds(1_000)), "", "test").await.unwrap();
    host.drain().await;
    let host = world.start().await;
    pass(seconds(900)).await;
    assert_eq!(world.main.log().sent.len(), 1);
    pass(seconds(110)).await;
    assert_eq!(host.view(&id).await.state, MessageState::Done);
}

#[tokio::test(start_paused = true)]
async fn one_bad_reading_ahead_lets_nothing_expire_and_is_told() {
    let world = World::new();
    let host = world.start().await;
    let expiring =
        NewMessage { not_before: Some(at(seconds(100))), expires_at: Some(at(seconds(10_000))), ..message("expiring") };
    let id = host.send_one(expiring).await;
    world.stepped.step(YEAR);
    pass(seconds(30)).await;
    let checks = host.outbox.ready().await;
    let clock = checks.iter().find(|check| check.name == "clock").unwrap();
    assert_eq!(clock.status, CheckStatus::Warn);
    assert!(clock.detail.contains("jumped ahead by 31536000 s"), "{}", clock.detail);
    world.stepped.step(-YEAR);
    pass(seconds(30)).await;
    assert!(host.outbox.ready().await.iter().all(|check| check.name != "clock"));
    assert_eq!(host.view(&id).await.state, MessageState::Pending);
    host.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_stays_ahead_counts_after_a_while() {
    let world = World::new();
    let host = world.start().await;
    let scheduled = NewMessage { not_before: Some(at(seconds(24 * 3_600))), ..message("later") };
    let id = host.send_one(scheduled).await;
    world.stepped.step(24 * HOUR);
    pass(seconds(290)).await;
    assert_eq!(host.view(&id).await.state, MessageState::Pending);
    pass(seconds(20)).await;
    assert_eq!(host.view(&id).await.state, MessageState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_doorstep_row_stamped_by_a_clock_that_was_ahead_is_taken_in_at_once() {
    let world = World::new();
    let now = at(seconds(0)).0 * 1_000_000;
    world.memory.set_clock(now);
    let put = |name: &str, nanos: u64| {
        let draft = named(name, name).check(at(seconds(0)), 1 << 20).unwrap();
        let message = draft.finish(|| MessageId::new("unused").unwrap());
        let key = DoorKey { nanos, ordinal: 0, ulid: name.to_owned() };
        world.memory.put_door(ShardId(0), key, Ok(vec![message]));
    };
    put("ahead", now + 3_600_000_000_000);
    let host = world.start().await;
    pass(seconds(2)).await;
    assert_eq!(host.view("ahead").await.state, MessageState::Done);
    // Also one that comes while the host runs.
    put("further", now + 7_200_000_000_000);
    host.engine.wake_door();
    pass(seconds(2)).await;
    assert_eq!(host.view("further").await.state, MessageState::Done);
}

/// A process believes the first reading of its clock: what it would remove by it waits for as long as a jump has to stand.
#[tokio::test(start_paused = true)]
async fn a_start_with_a_clock_that_is_ahead_for_minutes_retires_nothing() {
    let world = World::new();
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Done).await;
    let of = EntryKey { tenant: tenant("default"), key: IdempotencyKey::new("k").unwrap() };
    let begin = BeginRequest { of, hash: RequestHash::new("h").unwrap(), ttl: None, lease: None };
    host.engine.idempotency().begin(begin).await.unwrap();
    host.drain().await;
    world.stepped.step(YEAR);
    let host = world.start_with(|config| config.retire_after = EngineConfig::new("a").retire_after).await;
    pass(seconds(290)).await;
    world.stepped.step(-YEAR);
    pass(seconds(600)).await;
    assert_eq!(host.view(&id).await.state, MessageState::Done);
    assert_eq!(world.memory.read(|tables| tables.idempotency.len()), 1);
}
