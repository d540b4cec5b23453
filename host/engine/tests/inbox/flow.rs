//! A message from its source to its end.

use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_handled_seen_and_then_acknowledged() {
    let world = World::new();
    let _host = world.start().await;
    world.shop.send("m-1", "sales.event.order_paid.v1", "{\"order\":7}");
    world.until_acknowledged(1).await;
    let posted = world.http.posted();
    assert_eq!(posted.len(), 1);
    assert_eq!(posted[0].body["event_type"], "order_paid");
    assert_eq!(posted[0].body["payload"]["order"], 7);
    assert_eq!(posted[0].header("idempotency-key"), Some("ship/m-1"));
    assert_eq!((posted[0].attempt(), posted[0].is_maybe_handled()), (1, false));
    assert_eq!((world.seen(), world.rows().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_before_the_commit_that_holds_it_is_known() {
    let world = World::new();
    let _host = world.start().await;
    world.memory.plan_inbox([Fate::Hold]);
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    pass(millis(50)).await;
    // The barrier or the commit itself decides; whichever it was, the message is handled once and then acknowledged.
    world.until_acknowledged(1).await;
    assert_eq!(world.seen(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nothing_is_acknowledged() {
    let world = World::new();
    let _host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    let away = waybill_core::port::store::StoreError::Unavailable("away".into());
    world.memory.fail_all(Some(away));
    gate.open();
    pass(seconds(5)).await;
    assert_eq!(world.shop.standings(), [Standing::Out]);
    world.memory.fail_all(None);
    world.until_acknowledged(1).await;
    assert_eq!(world.http.posted().len(), 1, "it was handled once");
}

#[tokio::test(start_paused = true)]
async fn what_was_finished_is_acknowledged_and_not_handled_again() {
    let world = World::new();
    let _host = world.start().await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(2).await;
    assert_eq!(world.http.posted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_copy_of_what_is_in_hand_is_settled_with_it() {
    let world = World::new();
    let _host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let first = world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    let second = world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(2)).await;
    assert_eq!(world.shop.standings(), [Standing::Out, Standing::Out], "neither acknowledged nor given back early");
    gate.open();
    world.until_acknowledged(2).await;
    assert_eq!(world.http.posted().len(), 1);
    assert_eq!(world.shop.kept(first).released + world.shop.kept(second).released, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_acknowledged_when_every_consumer_of_it_has_it() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    let slow = world.consumer_named("bill");
    let inbound = world.inbound(vec![world.source()], vec![world.consumer(), slow]);
    let _host = world.start_with(inbound).await;
    world.http.answer(move |posted| match posted.header("idempotency-key") {
        Some("bill/m-1") => Reply::status(200).behind(&behind),
        _ => Reply::status(200),
    });
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(2).await;
    pass(seconds(2)).await;
    assert_eq!((world.seen(), world.shop.standings()), (1, vec![Standing::Out]));
    gate.open();
    world.until_acknowledged(1).await;
    assert_eq!(world.seen(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_is_unsettled_than_the_window_and_no_more_is_called_than_the_concurrency() {
    let world = World::new();
    let mut source = world.source();
    source.window = 8;
    let mut consumer = world.consumer();
    consumer.concurrency = 3;
    let _host = world.start_with(world.inbound(vec![source], vec![consumer])).await;
    world.http.answer(|_| Reply::status(200).delayed(millis(20)));
    for number in 0..60 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    world.until_acknowledged(60).await;
    assert!(world.shop.most_unsettled() <= 8, "{} were out", world.shop.most_unsettled());
    assert_eq!(world.http.most_at_once(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_long_call_is_extended_at_its_source() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(300);
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(200).delayed(seconds(200)));
    let number = world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let kept = world.shop.kept(number);
    assert!(kept.extended >= 6 && kept.deliveries == 1, "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn settling_that_fails_is_tried_again() {
    let world = World::new();
    let _host = world.start().await;
    world.shop.fail_settling(true);
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    pass(seconds(3)).await;
    assert_eq!(world.shop.standings(), [Standing::Out]);
    world.shop.fail_settling(false);
    world.until_acknowledged(1).await;
    assert_eq!(world.http.posted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_finishes_what_is_called_and_gives_back_the_rest() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.concurrency = 1;
    let host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(200).delayed(seconds(2)));
    for number in 0..3 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    world.until_called(1).await;
    host.drain().await;
    assert_eq!(world.shop.standings(), [Standing::Acknowledged, Standing::Waits, Standing::Waits]);
    assert_eq!((world.http.posted().len(), world.shop.closed()), (1, 1));
    assert_eq!(world.shop.kept(1).released, 1);
}

#[tokio::test(start_paused = true)]
async fn what_closes_slowly_behind_a_call_that_took_the_whole_drain_time_does_not_hold_up_the_end() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let never = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&never));
    world.shop.set_close_time(seconds(60));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    assert!(host.engine.drain(seconds(10)).await, "the inbox was cut off");
    assert_eq!(world.shop.closed(), 1);
}
