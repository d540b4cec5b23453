//! Payload dedup: what was delivered to a destination within the window isn't sent there again.

use std::collections::BTreeMap;
use std::time::Duration;

use waybill_api::dead_letters::Replay;
use waybill_api::messages::MessageView;
use waybill_core::new_message::NewMessage;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::MessageState;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{ErrorKind, Outcome, Receipt};
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, ack, permanent, retryable};

use crate::support::*;

/// `bus:` topics are sent once within an hour; the others as ever.
fn with_dedup(config: &mut EngineConfig) {
    for route in &mut config.routes.0 {
        if route.pattern.as_str() == "bus:**" {
            route.dedup = Some(seconds(3_600));
        }
    }
}

/// What a hit says: the id of the message that was delivered.
fn first_of(view: &MessageView) -> Option<&str> {
    let attributes = &view.receipt.as_ref()?.attributes.0;
    attributes.iter().find(|(name, _)| name == "dedup-of").map(|(_, id)| id.as_str())
}

fn receipt(number: &str) -> Outcome {
    Outcome::Ack(Receipt { broker_ref: Some(number.to_owned()), ..Receipt::default() })
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_settled_without_sending_and_keeps_the_first_receipt() {
    let world = World::new();
    world.main.tell(|_| receipt("r-1"));
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    let view = host.until_state(&first, MessageState::Done).await;
    assert_eq!(first_of(&view), None);
    let again = host.send_one(message("a")).await;
    let view = host.until_state(&again, MessageState::Done).await;
    assert_eq!(first_of(&view), Some(&*first));
    let receipt = view.receipt.unwrap();
    assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("r-1"), true));
    assert_eq!(world.main.log().sent.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_identical_messages_in_one_batch_one_is_sent() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let ids = host.send((0..20).map(|_| message("same"))).await;
    let others = host.send((0..20).map(|number| message(&number.to_string()))).await;
    host.until_done(&ids).await;
    host.until_done(&others).await;
    let log = world.main.log();
    assert_eq!((log.count("same"), log.sent.len()), (1, 21));
    let mut firsts = 0;
    for id in &ids {
        let view = host.view(id).await;
        assert_eq!(view.attempts, 1, "waiting for another is no attempt");
        firsts += usize::from(first_of(&view).is_none());
    }
    assert_eq!(firsts, 1);
}

#[tokio::test(start_paused = true)]
async fn other_destinations_tenants_payloads_and_routes_are_apart() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let elsewhere = NewMessage { topic: "bus:orders.cancelled".to_owned(), ..message("a") };
    let free = || NewMessage { topic: "custom:mail".to_owned(), ..message("a") };
    let ids = host.send([message("a"), message("b"), elsewhere, free(), free()]).await;
    host.until_done(&ids).await;
    host.send([of_tenant("a", "acme")]).await;
    world.main.until_sent(4).await;
    pass(seconds(5)).await;
    assert_eq!((world.main.log().sent.len(), world.other.log().sent.len()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn after_the_window_it_is_sent_again_and_what_is_over_is_collected() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    host.until_done(&[first]).await;
    pass(seconds(3_590)).await;
    let within = host.send_one(message("a")).await;
    host.until_done(&[within]).await;
    assert_eq!(world.main.log().sent.len(), 1);
    pass(seconds(20)).await;
    let after = host.send_one(message("a")).await;
    host.until_done(&[after]).await;
    assert_eq!(world.main.log().sent.len(), 2);
    // Also when no route wants it any more.
    drop(host);
    let _host = world.start().await;
    pass(seconds(3_000)).await;
    assert_eq!(world.memory.read(|tables| tables.dedup.len()), 1);
    pass(seconds(700)).await;
    assert_eq!(world.memory.read(|tables| tables.dedup.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn what_failed_may_be_tried_again_and_then_counts() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 3 { retryable("HTTP.503") } else { ack() });
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    let view = host.until_state(&first, MessageState::Done).await;
    assert_eq!((view.attempts, first_of(&view)), (3, None));
    let again = host.send_one(message("a")).await;
    assert_eq!(first_of(&host.until_state(&again, MessageState::Done).await), Some(&*first));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_lets_the_next_one_go() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    world.main.tell(|_| permanent("HTTP.400"));
    let first = host.send_one(message("a")).await;
    host.until_state(&first, MessageState::Dead).await;
    world.main.tell(|_| ack());
    let second = host.send_one(message("a")).await;
    assert_eq!(first_of(&host.until_state(&second, MessageState::Done).await), None);
    // The replay finds that somebody else was first.
    host.outbox.replay(&DeadId::new(&tenant("default"), &first), Replay::because(""), "test").await.unwrap();
    assert_eq!(first_of(&host.until_state(&first, MessageState::Done).await), Some(&*second));
    assert_eq!(world.main.log().sent.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_early_word_counts_and_is_noted_before_it_is_told() {
    let world = World::new();
    world.main.answer(|batch| match batch.index_of("first") {
        Some(index) => Answer::failing(ErrorKind::Trapped, "PLUGIN.TRAPPED").telling(index, receipt("early")),
        None => Answer::each(batch, |_| ack()),
    });
    let host = world.start_with(with_dedup).await;
    host.send([named("a", "first"), message("b")]).await;
    let view = host.until_state("first", MessageState::Done).await;
    assert_eq!(view.receipt.unwrap().broker_ref.as_deref(), Some("early"));
    let again = host.send_one(message("a")).await;
    assert_eq!(first_of(&host.until_state(&again, MessageState::Done).await), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_during_the_call_the_same_message_goes_again_and_its_repeat_waits_for_it() {
    let world = World::new();
    world.main.answer(|_| Answer::stuck());
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    drop(host);
    world.main.tell(|_| ack());
    let host = world.start_with(with_dedup).await;
    let again = host.send_one(message("a")).await;
    assert_eq!(first_of(&host.until_state(&first, MessageState::Done).await), None);
    assert_eq!(first_of(&host.until_state(&again, MessageState::Done).await), Some(&*first));
    assert_eq!(world.main.log().sent.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_between_delivery_and_settlement_it_isnt_sent_again() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    // Its delivery is noted; the settlement never goes in.
    world.shim.on(|call| match call {
        Call::Commit(_) => Act::Slow(Duration::from_secs(1_000)),
        _ => Act::Pass,
    });
    world.main.until_sent(1).await;
    eventually("the delivery is noted", async || world.memory.read(|tables| tables.dedup.len()) == 1).await;
    pass(seconds(1)).await;
    drop(host);
    world.shim.calm();
    let host = world.start_with(with_dedup).await;
    let view = host.until_state(&first, MessageState::Done).await;
    assert_eq!((world.main.log().sent.len(), first_of(&view)), (1, Some(&*first)));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_whose_message_is_gone_is_taken_over() {
    let world = World::new();
    world.main.answer(|_| Answer::stuck());
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    drop(host);
    // It comes back as a message of another transport, so nobody decides its reservation.
    world.main.tell(|_| ack());
    let host = world
        .start_with(|config| {
            with_dedup(config);
            for route in &mut config.routes.0 {
                if route.pattern.as_str() == "bus:**" {
                    route.transport = "other".to_owned();
                }
            }
        })
        .await;
    host.until_done(&[first]).await;
    drop(host);
    let host = world.start_with(with_dedup).await;
    let next = host.send_one(message("a")).await;
    let began = world.clock.wall();
    host.until_done(&[next]).await;
    // As long as a call may take (30 s, three calls of the store, 10 s), and a clock be set ahead (five minutes).
    let took = world.clock.wall().since(began);
    assert!(took < seconds(530), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn trouble_with_the_store_delays_and_loses_nothing() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let down = || Act::Fail(StoreError::Unavailable("the line is down".to_owned()));
    world.shim.on(move |call| if matches!(call, Call::Dedup("reserve")) { down() } else { Act::Pass });
    let first = host.send_one(message("a")).await;
    pass(seconds(5)).await;
    assert_eq!((world.main.log().sent.len(), host.view(&first).await.attempts), (0, 0));
    world.shim.on(move |call| if matches!(call, Call::Dedup("conclude")) { down() } else { Act::Pass });
    host.until_done(&[first]).await;
    // Its delivery isn't noted, so a repeat waits until the reservation is nobody's, and goes.
    world.shim.calm();
    let again = host.send_one(message("a")).await;
    host.until_done(&[again]).await;
    assert_eq!(world.main.log().sent.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn keys_keep_their_order() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let mut ids = Vec::new();
    for round in 0..30 {
        let key = format!("k-{}", round % 3);
        ids.extend(host.send([keyed(&format!("{round}"), &key), keyed(&format!("{}", round / 2), &key)]).await);
    }
    host.until_done(&ids).await;
    let log = world.main.log();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for sent in &log.sent {
        *seen.entry(sent.text().to_owned()).or_default() += 1;
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    assert_eq!(seen.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_stands_for_as_long_as_its_call_may_take() {
    let world = World::new();
    let host = world.start_with(with_dedup).await;
    let (mut reserves, mut blobs) = (0, 0);
    world.shim.on(move |call| {
        let (number, slow) = match call {
            Call::Dedup("reserve") => (&mut reserves, Act::SlowAfter(seconds(55))),
            Call::Read("blob") => (&mut blobs, Act::Slow(seconds(55))),
            _ => return Act::Pass,
        };
        *number += 1;
        if *number == 1 { slow } else { Act::Pass }
    });
    world.main.set_limits(|limits| limits.calls_per_lane = 2);
    let text = "x".repeat(100_000);
    let first = host.send_one(message(&text)).await;
    pass(seconds(1)).await;
    let again = host.send_one(message(&text)).await;
    // Nobody else reads the payload meanwhile.
    pass(seconds(150)).await;
    let view = host.until_state(&again, MessageState::Done).await;
    assert_eq!((world.main.log().sent.len(), first_of(&view)), (1, Some(&*first)));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_ahead_ends_no_reservation() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(25)));
    world.main.set_limits(|limits| limits.calls_per_lane = 2);
    let host = world.start_with(with_dedup).await;
    let first = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    // Not so far that it wouldn't be believed.
    world.stepped.step(290);
    let again = host.send_one(message("a")).await;
    let view = host.until_state(&again, MessageState::Done).await;
    assert_eq!((world.main.log().sent.len(), first_of(&view)), (1, Some(&*first)));
}
