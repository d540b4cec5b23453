//! What senders and handlers get wrong: each has an outcome and a code, and nothing is lost.

use bytes::Bytes;
use waybill_core::port::source::SourceDelivery;
use waybill_engine::{ConsumerConfig, ConsumerTarget};
use waybill_testkit::fake_handler::Reply;

use crate::support::*;

fn delivery(id: &str, topic: &str, payload: &'static [u8]) -> SourceDelivery {
    let bare = SourceDelivery::new("", topic, Bytes::from_static(payload));
    SourceDelivery { id: Some(id.to_owned()), ..bare }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_is_no_json_reaches_its_handler_whole() {
    let world = World::new();
    let _host = world.start().await;
    world.shop.push(delivery("m-1", "orders.paid", b"\xff\x00"));
    world.shop.push(delivery("m-2", "orders.paid", b"{\"order\":"));
    world.shop.push(delivery("m-3", "orders.paid", b""));
    world.until_acknowledged(3).await;
    for (id, base64) in [("m-1", "/wA="), ("m-2", "eyJvcmRlciI6"), ("m-3", "")] {
        let body = world.http.calls_with(id).remove(0).body;
        assert_eq!((body["payload_base64"].as_str(), body.get("payload")), (Some(base64), None), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subject_of_another_form_tells_no_type_and_is_handled() {
    let world = World::new();
    let _host = world.start().await;
    let subjects = ["plain", "sales.event.order_paid", "sales.event.order_paid.v0x", "sales.events.order_paid.v1"];
    for (number, subject) in subjects.iter().enumerate() {
        world.shop.send(&format!("m-{number}"), subject, "1");
    }
    world.until_acknowledged(subjects.len()).await;
    for (number, subject) in subjects.iter().enumerate() {
        let body = world.http.calls_with(&format!("m-{number}")).remove(0).body;
        assert_eq!(body["subject"], *subject);
        assert!(body["event_type"].is_null() && body["event_version"].is_null(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_that_can_not_be_read_is_none_and_its_message_is_handled_as_it_came() {
    let world = World::new();
    let mut source = world.source();
    (source.names.time, source.id_time_occurred) = (Some("happened-at".to_owned()), true);
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let of = |id: &str, time: &str| SourceDelivery {
        headers: vec![("Happened-At".to_owned(), time.to_owned())],
        ..delivery(id, "orders.paid", b"{\"order\":17}")
    };
    let times = [
        "2026-11-26T09:00:00Z",
        "1764147600000",
        "yesterday",
        "2026-13-45T00:00:00Z",
        "-7",
        "",
        "99999999999999999999",
    ];
    for (number, time) in times.iter().enumerate() {
        world.shop.push(of(&format!("m-{number}"), time));
    }
    world.until_acknowledged(times.len()).await;
    for (number, time) in times.iter().enumerate() {
        let body = world.http.calls_with(&format!("m-{number}")).remove(0).body;
        assert_eq!(body["occurred_at"].is_null(), number > 1, "{time:?}: {body}");
        assert_eq!(body["payload"]["order"], 17, "{time:?}");
    }
    // The same again: known, although nobody can say when it happened.
    for (number, time) in times.iter().enumerate() {
        world.shop.push(of(&format!("m-{number}"), time));
    }
    world.until_acknowledged(2 * times.len()).await;
    assert_eq!((world.http.posted().len(), host.dead().await.len()), (times.len(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_outside_the_list_of_its_source_is_a_dead_letter() {
    let world = World::new();
    let mut source = world.source();
    source.tenants = vec![tenant("acme"), tenant("globex")];
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let of = |id: &str, named: Option<&str>| {
        world.shop.push(SourceDelivery { tenant: named.map(str::to_owned), ..delivery(id, "orders.paid", b"1") });
    };
    of("m-1", Some("globex"));
    of("m-2", Some("stranger"));
    of("m-3", None);
    world.until_acknowledged(3).await;
    let mut dead = host.dead().await;
    dead.sort_by(|one, other| one.message_id.cmp(&other.message_id));
    let told: Vec<(&str, &str)> = dead.iter().map(|dead| (dead.message_id.as_str(), dead.code.as_str())).collect();
    assert_eq!(told, [("m-2", "INBOX.TENANT"), ("m-3", "INBOX.TENANT")]);
    assert!(dead[0].reason.contains("stranger"), "{}", dead[0].reason);
    assert_eq!(world.http.ids(), ["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_made_anew_brings_new_messages_although_they_lie_where_others_lay() {
    let world = World::new();
    let _host = world.start().await;
    let at = |position: &str| {
        let bare = SourceDelivery::new("", "orders.beat", "{}");
        world.shop.push(SourceDelivery { position: Some(position.to_owned()), ..bare });
    };
    at("ORDERS@1/1");
    world.until_acknowledged(1).await;
    at("ORDERS@2/1");
    world.until_acknowledged(2).await;
    at("ORDERS@2/1");
    world.until_acknowledged(3).await;
    assert_eq!(world.http.ids(), ["ORDERS@1/1", "ORDERS@2/1"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_can_not_be_read_is_a_dead_letter() {
    let world = World::new();
    let consumer = ConsumerConfig { target: ConsumerTarget::Saga, ..world.consumer() };
    let host = world.start_consumer(consumer).await;
    let mut reply = delivery("m-1", "payments.reply", b"{\"output\":");
    reply.correlation_id = Some("order-7/charge/execute".into());
    reply.content_type = Some("application/vnd.waybill.reply+json".into());
    world.shop.push(reply);
    world.until_acknowledged(1).await;
    assert_eq!(host.dead().await[0].code, "INBOX.NO_SAGA");
    assert_eq!(world.memory.read(|tables| tables.inbox.saga_door.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_answers_with_a_page_has_handled_its_message() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|_| {
        Reply::status(200).with(|answer| {
            answer.content_type = Some("text/html".to_owned());
            answer.body = Bytes::from("<p>".repeat(700_000));
            answer.truncated = true;
        })
    });
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!((world.seen(), world.rows().len(), host.dead().await.len()), (1, 0, 0));
    assert_eq!(world.http.posted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_handled_it_before_leaves_nothing_behind() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|_| {
        Reply::handled("{\"messages\":[{\"topic\":\"bus:shipping.ordered\",\"payload\":1}]}")
            .with(|answer| answer.status = 409)
    });
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    pass(seconds(5)).await;
    assert_eq!((world.seen(), world.messages().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_is_a_failed_attempt() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(2);
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|posted| Reply::status(200).delayed(seconds(if posted.attempt() == 1 { 5 } else { 1 })));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_rows(1).await;
    assert_eq!(world.rows()[0].last_error.as_ref().map(|error| error.code.as_str()), Some("HTTP.TIMEOUT"));
    world.until_acknowledged(1).await;
    let tries: Vec<(u32, bool)> =
        world.http.posted().iter().map(|call| (call.attempt(), call.is_maybe_handled())).collect();
    assert_eq!(tries, [(1, false), (2, true)]);
}

#[tokio::test(start_paused = true)]
async fn one_message_that_is_always_answered_503_holds_its_consumer_no_longer_than_its_attempts() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|posted| match posted.id.as_str() {
        "bad" => Reply::status(503).after(seconds(1)),
        _ => Reply::status(200),
    });
    world.shop.send("bad", "orders.paid", "1");
    pass(seconds(120)).await;
    assert!(world.http.calls_with("bad").iter().all(|call| call.attempt() == 1), "a pause alone costs nothing");
    for number in 0..20 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
        pass(seconds(10)).await;
    }
    world.until_dead(1).await;
    let dead = host.dead().await.remove(0);
    assert_eq!((dead.message_id.as_str(), dead.code.as_str(), dead.attempts), ("bad", "HTTP.503", 3));
    world.until_acknowledged(21).await;
}
