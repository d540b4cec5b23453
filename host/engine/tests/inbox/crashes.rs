//! A crash between two steps: the table of crashes.

use waybill_core::outbox::suspicion::Caution;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn what_was_called_and_not_committed_is_called_again_with_a_word_of_it() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    host.crash().await;
    world.http.answer(|_| Reply::status(200));
    let _next = world.start().await;
    world.until_acknowledged(1).await;
    let calls = world.http.calls_with("m-1");
    assert_eq!((calls.len(), calls[1].is_maybe_handled(), calls[1].attempt()), (2, true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_fate_that_went_in_isn_t_made_twice() {
    let world = World::new();
    let _host = world.start().await;
    world.memory.plan_inbox([Fate::ApplyUnknown]);
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!((world.http.posted().len(), world.seen()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_unknown_fate_that_is_lost_is_made_again() {
    let world = World::new();
    let _host = world.start().await;
    world.memory.plan_inbox([Fate::Lose, Fate::Lose]);
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!((world.http.posted().len(), world.seen()), (1, 1), "its outcome was kept in memory");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_comes_late_is_shut_out_by_a_barrier() {
    let world = World::new();
    let _host = world.start().await;
    world.memory.plan_inbox([Fate::Hold]);
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let late = world.memory.release_inbox().unwrap();
    assert!(late.is_err(), "the barrier took its place");
    assert_eq!(world.seen(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_committed_and_not_acknowledged_comes_again_is_seen_and_acknowledged() {
    let world = World::new();
    let host = world.start().await;
    world.shop.fail_settling(true);
    world.shop.send("m-1", "orders.paid", "1");
    eventually("it is committed", async || world.seen() == 1).await;
    host.crash().await;
    world.shop.fail_settling(false);
    let _next = world.start().await;
    world.until_acknowledged(1).await;
    assert_eq!((world.http.posted().len(), world.shop.kept(0).deliveries), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_row_and_a_redelivery_of_it_are_one_message() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.retry.base_ms = 60_000;
    let host = world.start_consumer(consumer.clone()).await;
    world.http.answer(|_| Reply::status(500));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_rows(1).await;
    host.crash().await;
    world.http.answer(|_| Reply::status(200));
    let _next = world.start_consumer(consumer).await;
    eventually("the redelivery joins the row and is acknowledged", async || {
        world.shop.standings() == [Standing::Acknowledged]
    })
    .await;
    assert_eq!(world.http.posted().len(), 1, "it isn't due");
    world.until_rows(0).await;
    let calls = world.http.posted();
    assert_eq!((calls.len(), calls[1].attempt()), (2, 2), "its attempts are kept");
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_loses_tokens_and_no_work() {
    let world = World::new();
    let _host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    world.shop.break_connections();
    pass(seconds(1)).await;
    gate.open();
    world.until_acknowledged(1).await;
    assert_eq!(world.http.posted().len(), 1);
    assert_eq!(world.shop.kept(0).deliveries, 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_host_again_and_again_is_a_dead_letter() {
    let world = World::new();
    let caution = Caution { first: seconds(2), quiet: millis(100), ..Caution::default() };
    let launch = || {
        let inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
        world.launch("host-a", inbound, move |config| config.caution = caution)
    };
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |posted| match posted.id.as_str() {
        "poison" => Reply::status(200).behind(&behind),
        _ => Reply::status(200),
    });
    world.shop.send("poison", "orders.paid", "1");
    let mut calls = 0;
    for _ in 0..12 {
        let host = launch();
        let is_over = async || world.http.calls_with("poison").len() > calls || world.dead_count() == 1;
        eventually("it is called, or found out", is_over).await;
        calls = world.http.calls_with("poison").len();
        if world.dead_count() == 1 {
            assert_eq!(host.dead().await[0].code, "SUSPECTED_POISON");
            world.until_acknowledged(1).await;
            return;
        }
        // What it does to its host.
        pass(seconds(1)).await;
        host.crash().await;
    }
    panic!("it killed its host twelve times");
}

#[tokio::test(start_paused = true)]
async fn what_was_called_when_another_configuration_cut_it_off_is_called_with_a_word_of_it() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(600);
    let host = world.start_consumer(consumer.clone()).await;
    world.http.answer(|posted| Reply::status(200).delayed(seconds(if posted.is_maybe_handled() { 0 } else { 500 })));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    consumer.concurrency = 4;
    let inbound = world.inbound(vec![world.source()], vec![consumer]);
    host.engine.reconfigure(world.config("host-a", inbound)).await;
    world.until_acknowledged(1).await;
    let calls = world.http.posted();
    assert_eq!((calls.len(), calls[1].is_maybe_handled()), (2, true));
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_undone_is_told_of_although_an_owner_in_between_ended_in_good_order() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let first = world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    host.crash().await;
    // Its sender sends it anew, which no broker calls a redelivery, and not before another host had the shard.
    world.shop.give_up(first);
    world.http.answer(|_| Reply::status(200));
    let between = world.start().await;
    between.drain().await;
    drop(between);
    let _next = world.start().await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(2).await;
    assert!(world.http.calls_with("m-1")[1].is_maybe_handled());
}
