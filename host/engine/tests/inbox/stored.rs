//! What is stored although it hasn't failed, and what that bounds.

use std::sync::Arc;

use waybill_api::inbox::StoredOrder;
use waybill_core::ids::Seq;
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::inbox::records::InboxRow;
use waybill_core::inbox::settings::AcknowledgeRows;
use waybill_core::port::source::SourceDelivery;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_window_full_of_one_failing_key_does_not_stop_the_others() {
    let world = World::new();
    let mut source = world.source();
    source.window = 6;
    let mut consumer = world.consumer();
    consumer.retry.max_attempts = 1_000;
    let _host = world.start_with(world.inbound(vec![source], vec![consumer])).await;
    world.http.answer(|posted| Reply::status(if posted.id.starts_with("bad") { 500 } else { 200 }));
    for number in 0..20 {
        world.shop.send_keyed(&format!("bad-{number}"), "bad", "1");
    }
    let good = world.shop.send_keyed("good", "good", "1");
    eventually("the other key is handled", async || world.shop.kept(good).standing == Standing::Acknowledged).await;
    assert!(world.http.posted().iter().all(|posted| posted.id == "good" || posted.id == "bad-0"));
    assert!(!world.rows().is_empty(), "what only waits was stored");
}

#[tokio::test(start_paused = true)]
async fn past_stored_max_the_source_waits() {
    let world = World::new();
    let mut source = world.source();
    source.window = 4;
    let mut consumer = world.consumer();
    (consumer.stored_max, consumer.retry.max_attempts) = (10, 1_000);
    consumer.acknowledge_rows = AcknowledgeRows::AtOnce;
    let _host = world.start_with(world.inbound(vec![source], vec![consumer])).await;
    world.http.answer(|_| Reply::status(500));
    for number in 0..100 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    pass(seconds(60)).await;
    let rows = world.rows().len();
    assert!((10..=14).contains(&rows), "{rows} rows");
    let waits = world.shop.standings().iter().filter(|standing| **standing == Standing::Waits).count();
    assert!(waits >= 80, "{waits} wait at the source");
    world.http.answer(|_| Reply::status(200));
    world.until_acknowledged(100).await;
    assert_eq!(world.rows().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_row_is_acknowledged_at_once_where_its_consumer_says_so() {
    for (when, standing) in
        [(AcknowledgeRows::AtOnce, Standing::Acknowledged), (AcknowledgeRows::WhenFinished, Standing::Out)]
    {
        let world = World::new();
        let mut consumer = world.consumer();
        (consumer.acknowledge_rows, consumer.retry.base_ms) = (when, 600_000);
        let _host = world.start_consumer(consumer).await;
        world.http.answer(|_| Reply::status(500));
        world.shop.send("m-1", "orders.paid", "1");
        world.until_rows(1).await;
        pass(seconds(1)).await;
        assert_eq!(world.shop.standings(), [standing]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_acknowledges_in_order_is_not_kept_by_one_that_fails() {
    let world = World::new();
    world.shop.set_features(&["extend", "ordered-acks"]);
    let mut consumer = world.consumer();
    consumer.retry.base_ms = 600_000;
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|posted| Reply::status(if posted.id == "m-0" { 500 } else { 200 }));
    for number in 0..61 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    // All of them: the first is stored, and its acknowledgement goes before those of the others.
    world.until_acknowledged(61).await;
    assert_eq!(world.rows().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_broker_brings_a_few_times_more_only_is_stored_before_it_is_called() {
    let world = World::new();
    world.shop.set_max_deliveries(3);
    let _host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    assert_eq!(world.rows().len(), 1);
    eventually("it is acknowledged at once", async || world.shop.standings() == [Standing::Acknowledged]).await;
    gate.open();
    world.until_rows(0).await;
    assert_eq!((world.seen(), world.http.posted().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn near_its_deadline_a_delivery_that_can_not_be_extended_is_stored() {
    let world = World::new();
    world.shop.set_features(&[]);
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(300);
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(200).delayed(seconds(100)));
    let number = world.shop.send("m-1", "orders.paid", "1");
    world.until_rows(1).await;
    eventually("it is acknowledged", async || world.shop.kept(number).acknowledged == 1).await;
    world.until_rows(0).await;
    assert_eq!((world.shop.kept(number).deliveries, world.http.posted().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_names_is_stored_before_it_is_called() {
    let world = World::new();
    let _host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let unnamed = SourceDelivery::new("", "orders.paid", "1");
    world.shop.push(SourceDelivery { position: Some(String::new()), ..unnamed });
    world.until_called(1).await;
    assert_eq!(world.rows().len(), 1);
    gate.open();
    world.until_rows(0).await;
    assert_eq!(world.seen(), 0, "there is no use in remembering an id of ours");
}

/// A filter that takes few of many answers how far it came.
#[tokio::test(start_paused = true)]
async fn a_list_of_few_among_many_ends_at_its_bound_and_goes_on_there() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.retry.base_ms = 600_000;
    let host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(500));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_rows(1).await;
    world.memory.write(|tables| {
        let rows = &mut tables.inbox.rows;
        let (&(shard, last), found) = rows.last_key_value().unwrap();
        let found = Arc::clone(found);
        for seq in (last.0 + 1..).take(7_000).map(Seq) {
            rows.insert((shard, seq), Arc::new(InboxRow { seq, ..(*found).clone() }));
        }
    });
    let filter = StoredFilter::parse("tenant=acme", START).unwrap();
    let first = host.inbound.stored(&filter, StoredOrder::Place, None, 100).await.unwrap();
    assert!(first.items.is_empty() && first.next_cursor.is_some(), "it looked through all of them");
    let rest = host.inbound.stored(&filter, StoredOrder::Place, first.next_cursor.as_deref(), 100).await.unwrap();
    assert!(rest.items.is_empty() && rest.next_cursor.is_none());
}
