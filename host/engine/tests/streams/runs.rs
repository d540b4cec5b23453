//! Events of one key together in a call, to a transport that keeps their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::message::Delivery;
use waybill_core::port::transport::Outcome;
use waybill_core::streams::settings::StreamsSettings;
use waybill_testkit::fake_transport::{Answer, End, ack, permanent, released, retryable};

use crate::support::*;

/// A host with a relay whose transport names the feature.
fn world(change: impl FnOnce(&mut StreamsSettings)) -> World {
    let world = World::with(|settings| {
        settings.relays = vec![plan("out")];
        change(settings);
    });
    world.bus.set_limits(|limits| {
        limits.key_runs = true;
        limits.calls_per_lane = 4;
    });
    world
}

async fn until_settled(host: &Host) {
    eventually("the relay has caught up", async || {
        let relay = host.relay("out").await;
        relay.streams_behind == 0 && relay.in_flight == 0 && relay.lag.is_none()
    })
    .await;
}

/// Has the transport do as the feature says, with what `tell` has for each message that it sends: what follows one of its key that isn't
/// acknowledged is released. Answers what it acknowledged, in order.
fn keeping_runs(world: &World, tell: impl Fn(&Delivery) -> Outcome + Send + Sync + 'static) -> Arc<Mutex<Vec<String>>> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&taken);
    world.bus.answer(move |batch| {
        let mut cut = BTreeSet::new();
        let outcomes = batch.deliveries.iter().map(|delivery| {
            let key = delivery.message.key.clone();
            if cut.contains(&key) {
                return released("TEST.BEHIND");
            }
            let outcome = tell(delivery);
            if matches!(outcome, Outcome::Ack(_)) {
                noted.lock().push(delivery.message.id.to_string());
            } else {
                cut.insert(key);
            }
            outcome
        });
        Answer::ending(End::Outcomes(outcomes.collect()))
    });
    taken
}

fn numbered(resource: &str, count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{resource}-{number}")).collect()
}

async fn append(host: &Host, stream: &str, ids: &[String]) {
    host.append(stream, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// Of each call, how many messages of each key it had.
fn keys_by_call(world: &World) -> BTreeMap<u64, BTreeMap<String, usize>> {
    let mut calls = BTreeMap::<u64, BTreeMap<String, usize>>::new();
    for sent in world.bus.log().sent {
        *calls.entry(sent.call).or_default().entry(sent.key.unwrap_or_default()).or_default() += 1;
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn a_run_of_one_key_goes_in_one_call_where_the_transport_keeps_its_order_and_in_no_other_transport() {
    for key_runs in [true, false] {
        let world = world(|_| {});
        world.bus.set_limits(|limits| limits.key_runs = key_runs);
        let host = world.start().await;
        append(&host, "a", &numbered("x", 10)).await;
        until_settled(&host).await;
        let sent: Vec<String> = world.bus.log().sent.iter().map(|sent| sent.id.clone()).collect();
        assert_eq!(sent, numbered("x", 10));
        let most = keys_by_call(&world).values().flat_map(|keys| keys.values()).max().copied();
        assert_eq!(most, Some(if key_runs { 10 } else { 1 }));
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_an_event_that_is_not_taken_comes_behind_it_and_costs_no_attempt() {
    let world = world(|settings| settings.relays[0].attempts_max = 4);
    let taken = keeping_runs(&world, |delivery| match delivery.message.id.as_str() {
        "x-3" if delivery.attempt < 4 => retryable("BUSY"),
        "y-2" => permanent("NEVER"),
        _ => ack(),
    });
    let host = world.start().await;
    let ids: Vec<String> = numbered("x", 8).into_iter().zip(numbered("y", 8)).flat_map(|(x, y)| [x, y]).collect();
    append(&host, "a", &ids).await;
    until_settled(&host).await;
    let taken = taken.lock().clone();
    let of = |resource: &str| taken.iter().filter(|id| id.starts_with(resource)).cloned().collect::<Vec<_>>();
    let without = |count, gone: &str| numbered("y", count).into_iter().filter(|id| id != gone).collect::<Vec<_>>();
    assert_eq!((of("x"), of("y")), (numbered("x", 8), without(8, "y-2")));
    let first_behind = world.bus.log().sent.iter().filter(|sent| sent.id == "x-4").map(|sent| sent.attempt).max();
    assert_eq!(first_behind, Some(1), "it wasn't tried when the one before it failed");
    assert_eq!(host.relay("out").await.refused, 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_too_much_for_a_call_is_cut_and_its_rest_never_overtakes() {
    for (batch, batch_bytes) in [(3, u32::MAX), (50, 200)] {
        let world = world(|settings| (settings.relays[0].batch, settings.relays[0].batch_bytes) = (batch, batch_bytes));
        let taken = keeping_runs(&world, |delivery| match delivery.message.id.as_str() {
            "x-1" if delivery.attempt < 3 => retryable("BUSY"),
            _ => ack(),
        });
        let host = world.start().await;
        append(&host, "a", &numbered("x", 9)).await;
        append(&host, "b", &numbered("x2", 9)).await;
        until_settled(&host).await;
        let taken = taken.lock().clone();
        let of = |stream: &str| taken.iter().filter(|id| id.starts_with(stream)).cloned().collect::<Vec<_>>();
        assert_eq!((of("x-"), of("x2-")), (numbered("x", 9), numbered("x2", 9)), "{batch} {batch_bytes}");
        let most = keys_by_call(&world).values().map(|keys| keys.values().sum::<usize>()).max().unwrap();
        assert!(most <= batch as usize && most < 9, "{most} in a call of at most {batch}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_loses_the_feature_gets_one_event_a_key_again() {
    let world = world(|_| {});
    let host = world.start().await;
    append(&host, "a", &numbered("x", 4)).await;
    until_settled(&host).await;
    world.bus.set_limits(|limits| limits.key_runs = false);
    append(&host, "a", &numbered("y", 4)).await;
    until_settled(&host).await;
    let alone = keys_by_call(&world).into_values().flatten().filter(|(key, _)| key == "y");
    assert!(alone.into_iter().all(|(_, count)| count == 1), "{:?}", keys_by_call(&world));
}
