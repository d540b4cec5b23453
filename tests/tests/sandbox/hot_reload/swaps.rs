//! Two hundred changes of plugin under load: nothing is lost, nothing is out of order, and every attempt names the plugin
//! that served it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use waybill_api::OutboxService;
use waybill_api::messages::MessageView;
use waybill_core::endpoint::SlotPolicy;
use waybill_core::ids::Tenant;
use waybill_core::port::service::MessageState;
use waybill_sandbox::{Phase, Reload, Reloaded, SwapError, Trust};
use waybill_tests::guests;

use super::support::{Deliveries, PATIENCE, Place, acked_by_key, component, engine, good, message, until};

const SWAPS: usize = 200;
/// Messages a second.
const RATE: u64 = 500;
/// Keys; each gets every n-th message.
const KEYS: u64 = 40;

/// Sends at fixed instants until told to stop; the ids.
async fn load(outbox: Arc<dyn OutboxService>, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut every = interval(Duration::from_millis(20));
    every.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut ids, mut count) = (Vec::new(), 0_u64);
    while !stop.load(Ordering::Acquire) {
        every.tick().await;
        let next = count + RATE / 50;
        let messages = (count..next).map(|number| message(number % KEYS, number / KEYS)).collect();
        count = next;
        ids.extend(outbox.enqueue(messages).await.unwrap().ids);
    }
    ids
}

/// A message once its settlement is committed.
async fn done(outbox: &Arc<dyn OutboxService>, tenant: &Tenant, id: &str) -> MessageView {
    let waiting = async {
        loop {
            let view = outbox.message(tenant, id).await.unwrap();
            if view.state == MessageState::Done {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{id} was lost"))
}

#[derive(Debug, Default)]
struct Account {
    live: usize,
    refused: BTreeMap<&'static str, usize>,
    rolled_back: usize,
    /// From the moment the failing one was live to the moment another was.
    longest: Duration,
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_swaps_under_load_lose_nothing_and_keep_the_order_of_keys() {
    let place = Place::new(Trust::default());
    let versions = [good("1.0.0"), good("1.1.0"), good("2.0.0")];
    let fails_its_probe = [component(guests::OPEN_PANICS, "3.0.0"), component(guests::OPEN_DENIED, "3.0.1")];
    let fails_at_work = component(guests::SEND_PANICS, "4.0.0");
    let core_module = b"\0asm\x01\0\0\0".to_vec();
    place.put(&versions[0]);
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    let first = slot.plugin().digest().to_owned();
    let seen = Arc::new(Deliveries::default());
    let engine = engine(&slot, &seen);
    let outbox = engine.outbox();
    let stop = Arc::new(AtomicBool::new(false));
    let loading = tokio::spawn(load(outbox.clone(), Arc::clone(&stop)));

    let began = Instant::now();
    let mut account = Account::default();
    let mut never_live = BTreeSet::new();
    let mut may_serve = BTreeSet::from([first]);
    for number in 0..SWAPS {
        let (bytes, force) = match number % 8 {
            0 => (&versions[1], false),
            1 => (&fails_its_probe[0], false),
            2 => (&versions[2], false),
            // An older one.
            3 => (&versions[0], false),
            4 => (&fails_its_probe[1], false),
            5 => (&fails_at_work, true),
            6 => (&versions[2], false),
            _ => (&core_module, false),
        };
        place.put(bytes);
        match place.fleet.reload("orders", Reload { force, sha256: None }).await {
            Ok(Reloaded::Live(swapped)) => {
                account.live += 1;
                may_serve.insert(slot.life().record(swapped.number).unwrap().digest.clone());
                if number % 8 == 5 {
                    let since = Instant::now();
                    until(&slot, "it is rolled back by itself", |records| {
                        let failed = records.iter().find(|record| record.number == swapped.number)?;
                        let again =
                            records.iter().any(|record| record.number > swapped.number && record.phase == Phase::Live);
                        (again && failed.why.as_ref()?.code == "PLUGIN.PROBATION_FAILED").then_some(())
                    })
                    .await;
                    account.rolled_back += 1;
                    account.longest = account.longest.max(since.elapsed());
                }
            }
            Ok(Reloaded::Unchanged) => panic!("{number}: nothing changed"),
            Err(error) => {
                *account.refused.entry(error.code().as_str()).or_default() += 1;
                if let SwapError::ProbeFailed { .. } = error {
                    never_live.insert(slot.life().records().last().unwrap().digest.clone());
                }
            }
        }
        // Let it serve for a while.
        tokio::time::sleep(Duration::from_millis(25)).await;
    }

    stop.store(true, Ordering::Release);
    let ids = loading.await.unwrap();
    let took = began.elapsed();
    let tenant = Tenant::new("default").unwrap();
    // A slow machine may have a long backlog by now: something is lost when nothing moves any more.
    let (mut acked, mut moved) = (0, Instant::now());
    while acked < ids.len() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = acked_by_key(&seen).values().map(Vec::len).sum::<usize>();
        if now != acked {
            (acked, moved) = (now, Instant::now());
        }
        assert!(moved.elapsed() < PATIENCE, "{acked} of {} are acknowledged, and nothing moves", ids.len());
    }
    println!("{} messages in {took:?}, {} attempts, {account:?}", ids.len(), seen.met().len());

    assert!(seen.out_of_turn().is_empty(), "out of order: {:?}", &seen.out_of_turn()[..3]);
    for (key, places) in acked_by_key(&seen) {
        let expected: Vec<u64> = (0..places.len() as u64).collect();
        assert_eq!(places, expected, "{key}");
    }
    let acked: usize = acked_by_key(&seen).values().map(Vec::len).sum();
    assert_eq!(acked, ids.len(), "each was acknowledged once");
    let acked: BTreeSet<String> = seen.met().into_iter().filter(|met| met.acked).map(|met| met.id).collect();
    assert_eq!(acked, ids.iter().cloned().collect());

    // What the history says of each attempt is what served it.
    let mut served: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
    for met in seen.met() {
        assert!(may_serve.contains(&met.digest), "{met:?}");
        assert!(!never_live.contains(&met.digest), "a plugin that failed its probe served {met:?}");
        served.entry(met.id).or_default().push((met.attempt, met.digest));
    }
    for id in ids.iter().step_by(11) {
        let view = done(&outbox, &tenant, id).await;
        let told: BTreeSet<String> =
            view.history.iter().map(|attempt| attempt.plugin.as_ref().unwrap().digest.clone()).collect();
        let really: BTreeSet<String> = served[id].iter().map(|(_, digest)| digest.clone()).collect();
        assert!(told.is_subset(&really), "{id}: {told:?}, {really:?}");
        let last = &view.history.last().unwrap().plugin.as_ref().unwrap().digest;
        assert_eq!(*last, served[id].last().unwrap().1, "{id}");
    }
    assert_eq!(account.rolled_back, SWAPS / 8);
    assert_eq!(account.live, SWAPS / 8 * 5);
    assert_eq!(
        account.refused,
        BTreeMap::from([("PLUGIN.CORE_MODULE", SWAPS / 8), ("PLUGIN.PROBE_FAILED", SWAPS / 4)])
    );
    assert_eq!(never_live.len(), 2);
    assert!(engine.drain(PATIENCE).await);
}
