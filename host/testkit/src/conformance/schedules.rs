//! Schedules.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::message::Message;
use waybill_core::outbox::records::{IdOrigin, IdRecord, IdState};
use waybill_core::port::store::{StoreError, Write};
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::json::Json;
use waybill_core::schedule::{LastRun, MessageWork, Missed, Run, SagaWork, Schedule, ScheduleKey, ScheduleName, Work};
use waybill_core::time::UnixMillis;

use super::Store;
use super::door::group;
use super::samples::{Owner, SHARD, id, message, place, seq, tenant};

fn key(of: &str, name: &str) -> ScheduleKey {
    ScheduleKey { tenant: tenant(of), name: ScheduleName::new(name).unwrap() }
}

/// A schedule of messages that hasn't run.
fn schedule(of: &str, name: &str) -> Schedule {
    Schedule {
        key: key(of, name),
        cron: "0 9 * * MON-FRI".to_owned(),
        zone: "Europe/Berlin".to_owned(),
        missed: Missed::Once,
        work: Work::Message(MessageWork {
            topic: "bus:orders.created".to_owned(),
            payload: Bytes::from_static(b"\x00\xff{\"a\": 1e2}"),
            content_type: None,
            key: None,
            headers: vec![("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())],
            event_type: Some("close".to_owned()),
        }),
        is_paused: false,
        revision: 1,
        place: UnixMillis(1_700_000_000_123),
        owed: Vec::new(),
        runs: 0,
        without_run: 0,
        last: None,
        error: None,
        created_at: UnixMillis(1_700_000_000_000),
        created_by: "ops".to_owned(),
    }
}

/// The next record, at another place.
fn next(of: &Schedule, place: u64) -> Schedule {
    Schedule { revision: of.revision + 1, place: UnixMillis(place), ..of.clone() }
}

/// A message of a run.
fn made(name: &str) -> Message {
    Message { caller_id: true, ..message(name) }
}

async fn on_the_doorstep(store: &impl Store) -> Vec<String> {
    let rows = store.door(SHARD, 0, u64::MAX, None, 10_000).await.unwrap();
    let messages = rows.iter().flat_map(|row| row.content.clone().unwrap());
    messages.map(|message| message.id.as_str().to_owned()).collect()
}

fn of_shard(messages: Vec<Message>) -> Vec<DoorGroup> {
    vec![group(SHARD, messages)]
}

pub async fn schedules_come_back_by_tenant_and_name_as_they_were_written(store: &impl Store) {
    assert!(store.schedules().await.unwrap().is_empty());
    let run = Run { due: UnixMillis(1_700_000_060_000), by_hand: true };
    let full = Schedule {
        missed: Missed::All,
        work: Work::Saga(SagaWork {
            definition: "close_of_day".to_owned(),
            version: Some(3),
            input: Json::parse("{\"big\": 12345678901234567890123}").unwrap(),
            headers: vec![("x-b".to_owned(), "ünï".to_owned())],
        }),
        is_paused: true,
        owed: vec![run],
        runs: 7,
        without_run: 8,
        last: Some(LastRun { run, at: UnixMillis(1_700_000_060_500), id: "nightly@x".to_owned() }),
        error: Some("no such definition".to_owned()),
        ..schedule("acme", "nightly")
    };
    let others = [schedule("Größe & Söhne", "a"), schedule("acme", "a.b-c_d")];
    for schedule in [&others[0], &full, &others[1]] {
        store.add_schedule(schedule).await.unwrap();
    }
    let [first, second] = others;
    assert_eq!(store.schedule(&full.key).await.unwrap().as_ref(), Some(&full));
    assert_eq!(store.schedule(&key("acme", "none")).await.unwrap(), None);
    assert_eq!(store.schedules().await.unwrap(), [first, second, full]);
}

pub async fn a_name_is_taken_once_in_a_tenant_until_its_schedule_is_removed(store: &impl Store) {
    store.add_schedule(&schedule("acme", "nightly")).await.unwrap();
    let refused = store.add_schedule(&schedule("acme", "nightly")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Exists(_)), "{refused:?}");
    store.add_schedule(&schedule("other", "nightly")).await.unwrap();
    assert!(store.remove_schedule(&key("acme", "nightly")).await.unwrap());
    assert!(!store.remove_schedule(&key("acme", "nightly")).await.unwrap());
    assert_eq!(store.schedules().await.unwrap(), [schedule("other", "nightly")]);
    store.add_schedule(&schedule("acme", "nightly")).await.unwrap();
}

pub async fn a_record_and_its_messages_go_in_together(store: &impl Store) {
    let first = schedule("acme", "nightly");
    store.add_schedule(&first).await.unwrap();
    let second = next(&first, 1_700_000_100_000);
    store.change_schedule(&second, of_shard(vec![made("n@1"), made("n@2")])).await.unwrap();
    assert_eq!(store.schedule(&first.key).await.unwrap(), Some(second.clone()));
    assert_eq!(on_the_doorstep(store).await, ["n@1", "n@2"]);
    let third = next(&second, 1_700_000_200_000);
    store.change_schedule(&third, Vec::new()).await.unwrap();
    assert_eq!(store.schedule(&first.key).await.unwrap(), Some(third));
    assert_eq!(on_the_doorstep(store).await.len(), 2);
}

pub async fn a_record_that_another_was_made_of_meanwhile_is_not_written_over(store: &impl Store) {
    let first = schedule("acme", "nightly");
    store.add_schedule(&first).await.unwrap();
    let second = next(&first, 1_700_000_100_000);
    store.change_schedule(&second, Vec::new()).await.unwrap();
    let removed = schedule("acme", "removed");
    let ahead = next(&next(&second, 0), 0);
    for stale in [next(&first, 1_700_000_200_000), ahead, first.clone(), next(&removed, 0)] {
        let refused = store.change_schedule(&stale, of_shard(vec![made("n@1")])).await.unwrap_err();
        assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    }
    assert_eq!(store.schedules().await.unwrap(), [second]);
    assert!(on_the_doorstep(store).await.is_empty(), "nothing of a refused commit is there");
}

pub async fn of_two_hosts_that_make_one_run_at_once_exactly_one_writes_it(store: &impl Store) {
    let first = schedule("acme", "nightly");
    store.add_schedule(&first).await.unwrap();
    let second = next(&first, 1_700_000_100_000);
    let (one, other) = tokio::join!(
        store.change_schedule(&second, of_shard(vec![made("n@1")])),
        store.change_schedule(&second, of_shard(vec![made("n@1")])),
    );
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    assert_eq!(on_the_doorstep(store).await, ["n@1"]);
}

pub async fn a_message_whose_id_is_taken_is_left_out(store: &impl Store) {
    let taken = IdRecord {
        tenant: tenant("acme"),
        id: id("n@1"),
        state: IdState::At(place(seq(0, 0), 0)),
        content: None,
        origin: IdOrigin::Alone,
    };
    Owner::new().commit(store, vec![Write::PutId { record: Arc::new(taken), create: true }]).await;
    let first = schedule("acme", "nightly");
    store.add_schedule(&first).await.unwrap();
    let second = next(&first, 1_700_000_100_000);
    let of_others = Message { tenant: tenant("other"), ..made("n@1") };
    store.change_schedule(&second, of_shard(vec![made("n@1"), made("n@2"), of_others])).await.unwrap();
    assert_eq!(store.schedule(&first.key).await.unwrap(), Some(second));
    assert_eq!(on_the_doorstep(store).await, ["n@2", "n@1"]);
}
