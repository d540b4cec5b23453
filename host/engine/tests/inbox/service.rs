//! The inbox as people see it: what is known of a message, what waits, how it does.

use waybill_api::inbox::{InboxState, StoredOrder};
use waybill_core::code::Code;
use waybill_core::ids::InboundId;
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::port::source::SourceDelivery;
use waybill_core::time::UnixMillis;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_shown_on_its_whole_way() {
    let world = World::new();
    let host = world.start().await;
    assert_eq!(host.status("m-1").await.state, InboxState::Unseen);
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |posted| match posted.attempt() {
        1 => Reply::status(500).behind(&behind),
        _ => Reply::status(200),
    });
    world.shop.send("m-1", "orders.paid", "{\"n\":1}");
    world.until_called(1).await;
    let status = host.status("m-1").await;
    assert_eq!((status.state, status.seen), (InboxState::InHand, false));
    assert_eq!(status.message.unwrap().place, None);
    gate.open();
    world.until_rows(1).await;
    let status = host.status("m-1").await;
    let message = status.message.unwrap();
    assert_eq!((status.state, message.attempts), (InboxState::Stored, 1));
    assert_eq!(message.waiting.unwrap().on.as_str(), "retry");
    assert_eq!(message.payload.unwrap().get(), "{\"n\":1}");
    let place = message.place.unwrap();
    assert_eq!(host.status(&place).await.id, "m-1");
    world.until_acknowledged(1).await;
    let status = host.status("m-1").await;
    assert_eq!((status.state, status.seen, status.ended.len()), (InboxState::Seen, true, 1));
    assert_eq!(status.ended[0].attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_named_and_another_tenant_s_message_is_not_found() {
    let world = World::new();
    let mut source = world.source();
    source.tenants = vec![tenant("acme")];
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    world.http.answer(|_| Reply::status(422));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let status = host.status("m-1").await;
    assert_eq!((status.state, status.dead_letter.is_some()), (InboxState::Dead, true));
    let of = async |name: &str| {
        let id = InboundId::new("m-1").unwrap();
        host.inbound.status_of(Some(&tenant(name)), &consumer("ship"), &id).await.unwrap()
    };
    assert!(of("acme").await.seen);
    let other = of("other").await;
    assert_eq!((other.state, other.seen, other.dead_letter), (InboxState::Unseen, false, None));
    let nobody = host.inbound.status_of(None, &consumer("nobody"), &InboundId::new("m-1").unwrap()).await;
    assert_eq!(nobody.unwrap_err().code(), Code::INBOX_NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_counted_by_context_and_by_consumer() {
    let world = World::new();
    let mut slow = world.consumer();
    (slow.concurrency, slow.retry.base_ms) = (2, 600_000);
    let host = world.start_consumer(slow).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |posted| match posted.id.as_str() {
        "bad" => Reply::status(500),
        _ => Reply::status(200).behind(&behind),
    });
    world.shop.send("bad", "sales.paid", "1");
    world.until_rows(1).await;
    for number in 0..5 {
        world.shop.send(&format!("m-{number}"), "stock.low", "1");
    }
    world.until_called(3).await;
    let stats = host.inbound.inbox_stats(None).await.unwrap();
    let contexts: Vec<(&str, u64)> =
        stats.contexts.iter().map(|context| (context.context.as_str(), context.unprocessed.count)).collect();
    assert_eq!(contexts, [("sales", 1), ("stock", 5)]);
    let ship = &stats.consumers[0];
    assert_eq!((ship.in_hand, ship.in_calls, ship.stored, ship.stored_max), (5, 2, 1, 5_000));
    assert_eq!((ship.configured, ship.home.as_str()), (true, "shop"));
    gate.open();
}

#[tokio::test(start_paused = true)]
async fn stored_messages_are_listed_page_by_page() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.retry.base_ms = 600_000;
    let host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(500));
    for number in 0..25 {
        world.shop.send(&format!("m-{number:02}"), "orders.paid", "1");
    }
    world.until_rows(25).await;
    let filter = StoredFilter::parse("consumer=ship code=HTTP.500", START).unwrap();
    let (mut ids, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = host.inbound.stored(&filter, StoredOrder::Place, cursor.as_deref(), 10).await.unwrap();
        assert!(page.items.len() <= 10);
        ids.extend(page.items.into_iter().map(|message| message.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((ids.len(), ids[0].as_str()), (25, "m-00"));
    let newest = host.inbound.stored(&filter, StoredOrder::Newest, None, 2).await.unwrap();
    assert_eq!(newest.items.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["m-24", "m-23"]);
    let waits = async |what: &str| {
        let filter = StoredFilter::parse(&format!("waits={what}"), START).unwrap();
        host.inbound.stored(&filter, StoredOrder::Place, None, 100).await.unwrap().items.len()
    };
    assert_eq!((waits("retry").await, waits("key").await, waits("*").await), (25, 0, 25));
    let none = StoredFilter::parse("id=m-99", START).unwrap();
    assert!(host.inbound.stored(&none, StoredOrder::Place, None, 10).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_was_taken_out_keeps_what_is_stored_for_it() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.retry.base_ms = 600_000;
    let host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(500));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_rows(1).await;
    host.drain().await;
    let host = world.start_with(world.inbound(vec![world.source()], vec![world.consumer_named("bill")])).await;
    let stats = host.inbound.inbox_stats(None).await.unwrap();
    let ship = stats.consumers.iter().find(|stats| stats.consumer == "ship").unwrap();
    assert_eq!((ship.configured, ship.stored), (false, 1));
    assert_eq!(host.status("m-1").await.state, InboxState::Stored);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_filed_by_its_sender_s_stamp_is_shown_as_seen() {
    let world = World::new();
    let mut source = world.source();
    source.id_time_occurred = true;
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let ids = ["0f8fad5b-d9cb-469f-a165-708677289501", "outbox-17", "0f8fad5b-d9cb-469f-a165-708677289502"];
    // Of this minute, of one long ago, and one so long ago that it lies with those that have none.
    let stamps = [START, UnixMillis(START.0 - 86_400_000), UnixMillis(1)];
    for (id, stamp) in ids.iter().zip(stamps) {
        let delivery = SourceDelivery::new("", "orders.paid", "1");
        world.shop.push(SourceDelivery { id: Some((*id).to_owned()), occurred_at: Some(stamp), ..delivery });
    }
    world.until_acknowledged(3).await;
    for id in ids {
        let status = host.status(id).await;
        assert_eq!((status.state, status.seen), (InboxState::Seen, true), "{id}");
    }
    assert!(!host.status("0f8fad5b-d9cb-469f-a165-708677289503").await.seen);
}
