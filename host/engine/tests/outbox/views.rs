//! What people are told is true.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use waybill_api::glance::DeadCounted;
use waybill_api::status::CheckStatus;
use waybill_api::transports::Breaker;
use waybill_core::port::query::ListOrder;
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_transport::{Answer, Gate, ack, permanent, retryable};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn looks_for_what_is_not_there_share_a_look_at_the_doorstep() {
    let world = World::new();
    let host = world.start_with(|config| config.shards = 4).await;
    pass(seconds(60)).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    world.shim.on(move |call| {
        counted.fetch_add(usize::from(matches!(call, Call::Read("door"))), Ordering::Relaxed);
        Act::Pass
    });
    for number in 0..100 {
        let missing = host.outbox.message(&tenant("default"), &format!("none-{number}")).await.unwrap_err();
        assert_eq!(missing.code().as_str(), "OUTBOX.NOT_FOUND");
    }
    assert!(reads.load(Ordering::Relaxed) <= 8, "{} reads for 100 looks at 4 shards", reads.load(Ordering::Relaxed));
    // What a transaction has just left there is found at once all the same.
    host.outbox.transact(Vec::new(), vec![named("a", "there")], Default::default(), None).await.unwrap();
    host.view("there").await;
}

#[tokio::test(start_paused = true)]
async fn a_delivered_message_is_shown_with_its_receipt_while_others_of_its_commit_still_wait() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "stuck" { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let ids = host.send([keyed("stuck", "k"), keyed("behind", "k"), message("fine")]).await;
    world.main.until(|log| log.count("fine") == 1).await;
    let view = host.until_state(&ids[2], MessageState::Done).await;
    assert_eq!((view.attempts, view.history.len()), (1, 1));
    assert!(view.receipt.is_some());
    assert_eq!(host.view(&ids[1]).await.state, MessageState::Pending);
}

#[tokio::test(start_paused = true)]
async fn depths_count_every_message_once() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| {
        let outcome = |delivery: &waybill_core::message::Delivery| match delivery.payload.as_ref() {
            b"bad" => permanent("HTTP.400"),
            b"later" => retryable("HTTP.503"),
            _ => ack(),
        };
        let answer = Answer::each(batch, outcome);
        if batch.has_payload("slow") { answer.behind(&behind) } else { answer }
    });
    world.main.set_limits(|limits| limits.max_batch = 1);
    let host = world
        .start_with(|config| {
            config.retries.policy.base_ms = 300_000;
            config.send_timeout = seconds(1_000);
        })
        .await;
    host.send([message("bad"), message("later"), message("later")]).await;
    world.main.until_sent(3).await;
    pass(seconds(1)).await;
    host.send([message("slow")]).await;
    world.main.until_sent(4).await;
    pass(seconds(30)).await;
    host.send((0..10).map(|_| message("ready"))).await;
    let mut scheduled = message("scheduled");
    scheduled.not_before = Some(at(seconds(100_000)));
    host.send([scheduled]).await;
    pass(seconds(2)).await;
    let stats = host.outbox.stats(None).await.unwrap();
    let of = |transport: &str| stats.iter().find(|stat| stat.transport == transport).unwrap().clone();
    let main = of("main");
    assert_eq!((main.ready, main.leased, main.parked), (10, 1, 2), "{stats:?}");
    assert!((2_000..2_100).contains(&main.oldest_ready_ms.unwrap()));
    let unrouted = of("-");
    assert_eq!((unrouted.ready, unrouted.scheduled, unrouted.dead), (0, 1, 1));
    assert!(host.outbox.stats(Some(&tenant("nobody"))).await.unwrap().is_empty());
    let transport = host.outbox.transports().await.remove(0);
    assert_eq!((transport.in_flight, transport.breaker), (1, Breaker::Closed));
    gate.open();
    eventually("the rest is delivered", async || world.main.log().sent.len() == 14).await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_larger_than_memory_is_counted_whole() {
    let world = World::new();
    let host = world.start_with(|config| config.limits.window_messages = 100).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    for _ in 0..10 {
        host.send((0..100).map(|index| message(&index.to_string()))).await;
    }
    pass(seconds(10)).await;
    let count = |stats: Vec<waybill_api::status::OutboxStats>| stats.iter().map(|stat| stat.ready).sum::<u64>();
    assert_eq!(count(host.outbox.stats(None).await.unwrap()), 1_000);
    host.drain().await;
    let host = world.start_with(|config| config.limits.window_messages = 100).await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    world.main.until_sent(1_000).await;
    eventually("none is left", async || count(host.outbox.stats(None).await.unwrap()) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn lists_page_through_everything_that_matches() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "retry" { retryable("HTTP.503") } else { ack() });
    let host = world.start_with(|config| config.retries.policy.base_ms = 1_000_000).await;
    let mut wanted = host.send((0..30).map(|_| message("done"))).await;
    wanted.extend(host.send((0..5).map(|_| message("retry"))).await);
    world.main.until_sent(35).await;
    pass(seconds(1)).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    wanted.extend(host.send((0..20).map(|_| message("flowing"))).await);
    let mut scheduled = message("scheduled");
    scheduled.not_before = Some(at(seconds(100_000)));
    wanted.push(host.send_one(scheduled).await);
    let listed = async |filter: &str, order: ListOrder| {
        let mut views = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = host.outbox.messages(None, filter, order, cursor.as_deref(), 7).await.unwrap();
            assert!(page.items.len() <= 7);
            views.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return views;
            }
        }
    };
    let all = async |filter: &str| listed(filter, ListOrder::State).await;
    let newest = async |filter: &str| {
        let views = listed(filter, ListOrder::Newest).await;
        views.into_iter().map(|view| view.id).collect::<Vec<_>>()
    };
    let reversed = |of: &[String]| of.iter().rev().cloned().collect::<Vec<_>>();
    assert_eq!(newest("").await, reversed(&wanted), "the scheduled one first");
    assert_eq!(newest("state=done").await, reversed(&wanted[..30]));
    assert_eq!(newest("state=pending").await, reversed(&wanted[30..]));
    assert_eq!(newest("code=HTTP.503").await, reversed(&wanted[30..35]));
    assert!(newest("state=leased").await.is_empty());
    let mut ids: Vec<String> = all("").await.into_iter().map(|view| view.id).collect();
    ids.sort();
    wanted.sort();
    assert_eq!(ids, wanted);
    assert_eq!(all("state=done").await.len(), 30);
    assert_eq!(all("state=pending").await.len(), 26);
    assert_eq!(all("state=leased").await.len(), 0, "claimed, and yet nothing is being sent");
    assert_eq!(all("state=pending code=HTTP.503").await.len(), 5);
    assert_eq!(all("topic=bus:other.*").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn readiness_names_what_is_wrong() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start_with(|config| config.dead_alert_at = 2).await;
    let check = async |name: &str| host.outbox.ready().await.into_iter().find(|check| check.name == name);
    let none = DeadCounted { count: 0, is_at_least: false };
    assert_eq!(host.outbox.glance().await.unwrap().dead, Some(none), "readiness counted them");
    assert_eq!(check("outbox").await.unwrap().status, CheckStatus::Ok);
    assert_eq!(check("dead letters").await.unwrap().status, CheckStatus::Ok);
    host.send(["a", "b"].map(message)).await;
    eventually("the alert", async || check("dead letters").await.unwrap().status == CheckStatus::Warn).await;
    let counted = DeadCounted { count: 2, is_at_least: false };
    assert_eq!(host.outbox.glance().await.unwrap().dead, Some(counted), "what readiness counted is remembered");
    world.main.set_health(waybill_core::port::transport::Health::Down, Some("MQTT.CONNECT: no instance"));
    let transport = check("transport main").await.unwrap();
    assert_eq!(transport.status, CheckStatus::Warn);
    assert_eq!(transport.detail, "down: MQTT.CONNECT: no instance");
    host.engine.begin_drain();
    assert_eq!(check("drain").await.unwrap().status, CheckStatus::Fail);
    host.drain().await;
    assert_eq!(check("outbox").await.unwrap().status, CheckStatus::Fail);
}
