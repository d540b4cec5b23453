//! Payload dedup.

use std::time::Duration;

use waybill_core::ids::{MessageId, Tenant};
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, FirstDelivery, Reservation};
use waybill_core::port::transport::Receipt;
use waybill_core::time::UnixMillis;

use super::Store;

const HOUR: Duration = Duration::from_secs(3_600);

fn at(ms: u64) -> UnixMillis {
    UnixMillis(1_700_000_000_000 + ms)
}

fn key(tenant: &str, transport: &str, target: &str, sha256: &str) -> DedupKey {
    DedupKey {
        tenant: Tenant::new(tenant).unwrap(),
        transport: transport.to_owned(),
        target: target.to_owned(),
        sha256: sha256.to_owned(),
    }
}

fn ask(id: &str) -> DedupAsk {
    DedupAsk { key: key("t", "web", "out.memory", "ab"), id: MessageId::new(id).unwrap(), window: HOUR }
}

fn receipt() -> Receipt {
    Receipt { broker_ref: Some("r-1".to_owned()), duplicate: false, attributes: vec![("a".into(), "b".into())] }
}

fn delivered(id: &str) -> DedupEnd {
    DedupEnd { ask: ask(id), receipt: Some(receipt()) }
}

fn failed(id: &str) -> DedupEnd {
    DedupEnd { ask: ask(id), receipt: None }
}

async fn reserve(store: &impl Store, id: &str, now: u64) -> Reservation {
    store.reserve(&[ask(id)], at(now), at(now.saturating_sub(60_000))).await.unwrap().remove(0)
}

pub async fn the_first_reserves_the_next_is_held_and_then_hears_of_the_delivery(store: &impl Store) {
    assert_eq!(reserve(store, "m-1", 100_000).await, Reservation::Reserved);
    assert_eq!(reserve(store, "m-2", 100_001).await, Reservation::Held);
    assert_eq!(reserve(store, "m-1", 100_002).await, Reservation::Reserved);
    assert_eq!(store.delivered(&ask("m-1").key, at(100_002)).await.unwrap(), None);
    store.conclude(&[delivered("m-1")], at(100_003)).await.unwrap();
    let first = FirstDelivery { id: "m-1".to_owned(), receipt: receipt(), at: at(100_003) };
    for id in ["m-1", "m-2"] {
        assert_eq!(reserve(store, id, 100_004).await, Reservation::Delivered(first.clone()));
    }
    assert_eq!(store.delivered(&ask("m-1").key, at(100_004)).await.unwrap(), Some(first));
}

pub async fn two_of_one_call_are_a_first_and_a_held(store: &impl Store) {
    let other = DedupAsk { key: key("t", "web", "out.memory", "cd"), ..ask("m-3") };
    let answers = store.reserve(&[ask("m-1"), ask("m-2"), other], at(0), at(0)).await.unwrap();
    assert_eq!(answers, [Reservation::Reserved, Reservation::Held, Reservation::Reserved]);
    assert!(store.reserve(&[], at(0), at(0)).await.unwrap().is_empty());
    store.conclude(&[], at(0)).await.unwrap();
}

pub async fn what_failed_lets_the_next_one_go(store: &impl Store) {
    assert_eq!(reserve(store, "m-1", 0).await, Reservation::Reserved);
    // Only its own.
    store.conclude(&[failed("m-2")], at(1)).await.unwrap();
    assert_eq!(reserve(store, "m-2", 2).await, Reservation::Held);
    store.conclude(&[failed("m-1")], at(3)).await.unwrap();
    assert_eq!(reserve(store, "m-2", 4).await, Reservation::Reserved);
    store.conclude(&[delivered("m-2"), failed("m-2")], at(5)).await.unwrap();
    assert!(matches!(reserve(store, "m-3", 6).await, Reservation::Delivered(_)));
}

pub async fn a_reservation_that_nobody_decided_is_taken_over_when_it_is_stale(store: &impl Store) {
    assert_eq!(reserve(store, "m-1", 100_000).await, Reservation::Reserved);
    assert_eq!(reserve(store, "m-2", 160_000).await, Reservation::Held);
    assert_eq!(reserve(store, "m-2", 160_001).await, Reservation::Reserved);
    // A late word of the first is a delivery all the same; the first delivery stays.
    store.conclude(&[delivered("m-1")], at(160_002)).await.unwrap();
    store.conclude(&[delivered("m-2")], at(160_003)).await.unwrap();
    let first = store.delivered(&ask("m-1").key, at(160_004)).await.unwrap().unwrap();
    assert_eq!((first.id.as_str(), first.at), ("m-1", at(160_002)));
}

pub async fn a_delivery_is_remembered_for_its_window_and_then_collected(store: &impl Store) {
    let hour = 3_600_000;
    assert_eq!(reserve(store, "m-1", 0).await, Reservation::Reserved);
    store.conclude(&[delivered("m-1")], at(10)).await.unwrap();
    // One without a reservation: a worker outside delivered it.
    let outside = DedupAsk { key: key("t", "external", "out.memory", "ab"), ..ask("m-9") };
    store.conclude(&[DedupEnd { ask: outside.clone(), receipt: Some(receipt()) }], at(20)).await.unwrap();
    assert!(matches!(reserve(store, "m-2", hour - 1).await, Reservation::Delivered(_)));
    assert_eq!(store.purge_dedup(at(hour - 1), 10).await.unwrap(), 0);
    assert_eq!(store.delivered(&ask("m-1").key, at(hour)).await.unwrap(), None);
    assert_eq!(store.purge_dedup(at(hour), 10).await.unwrap(), 1);
    assert!(store.delivered(&outside.key, at(hour)).await.unwrap().is_some());
    assert_eq!(store.purge_dedup(at(hour + 20), 10).await.unwrap(), 1);
    assert_eq!(store.purge_dedup(at(hour + 20), 10).await.unwrap(), 0);
    assert_eq!(reserve(store, "m-2", hour).await, Reservation::Reserved);
}

pub async fn an_entry_that_began_anew_outlives_the_old_ones_end(store: &impl Store) {
    let hour = 3_600_000;
    assert_eq!(reserve(store, "m-1", 0).await, Reservation::Reserved);
    store.conclude(&[delivered("m-1")], at(10)).await.unwrap();
    // Over, and not collected yet.
    assert_eq!(reserve(store, "m-2", hour + 5).await, Reservation::Reserved);
    store.conclude(&[delivered("m-2")], at(hour + 6)).await.unwrap();
    store.purge_dedup(at(hour + 7), 10).await.unwrap();
    assert!(matches!(reserve(store, "m-3", hour + 8).await, Reservation::Delivered(first) if first.id == "m-2"));
    let mut purged = 0;
    for _ in 0..5 {
        purged += store.purge_dedup(at(3 * hour), 1).await.unwrap();
    }
    assert!((1..=2).contains(&purged), "{purged}");
    assert_eq!(store.delivered(&ask("m-1").key, at(hour + 8)).await.unwrap(), None);
}

pub async fn tenants_transports_targets_and_payloads_are_apart(store: &impl Store) {
    reserve(store, "m-1", 0).await;
    store.conclude(&[delivered("m-1")], at(1)).await.unwrap();
    for other in [
        key("u", "web", "out.memory", "ab"),
        key("t", "external", "out.memory", "ab"),
        key("t", "web", "out.memory2", "ab"),
        key("t", "web", "out.memory", "ac"),
    ] {
        let ask = DedupAsk { key: other.clone(), ..ask("m-2") };
        assert_eq!(store.reserve(&[ask], at(2), at(0)).await.unwrap(), [Reservation::Reserved], "{other:?}");
    }
}
