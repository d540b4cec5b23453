//! What an answer of a handler means: the table of verdicts.

use waybill_core::annotation::Annotation;
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn done_and_done_before_end_a_message() {
    for status in [200, 201, 204, 409] {
        let world = World::new();
        let _host = world.start().await;
        world.http.answer(move |_| Reply::status(status));
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(1).await;
        assert_eq!((world.seen(), world.rows().len(), world.dead_count()), (1, 0, 0), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_handled_is_a_dead_letter_at_once() {
    for status in [400, 406, 411, 413, 414, 415, 422, 431] {
        let world = World::new();
        let host = world.start().await;
        world.http.answer(move |_| Reply::status(status).with(|answer| answer.body = "no such order".into()));
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(1).await;
        let dead = host.dead().await;
        assert_eq!((dead.len(), dead[0].attempts, world.seen()), (1, 1, 1), "{status}");
        assert_eq!(dead[0].code, format!("HTTP.{status}"));
        assert!(dead[0].reason.contains("no such order"), "{}", dead[0].reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_stored_and_tried_again_until_the_attempts_are_used_up() {
    let answers = [
        Reply::status(408),
        Reply::status(425),
        Reply::status(500),
        Reply::status(503),
        Reply::failing(ErrorKind::TimedOut, "HTTP.TIMEOUT"),
        Reply::failing(ErrorKind::Internal, "HTTP.RESET"),
        Reply::handled("not json"),
        Reply::handled("{}").with(|answer| answer.truncated = true),
        Reply::handled("{\"messages\":[{\"topic\":\"nowhere:x\",\"payload\":1}]}"),
        Reply::handled("{\"messages\":[{\"topic\":\"custom:x\",\"payload\":1}]}"),
        Reply::handled("{\"messages\":[{\"topic\":\"bus:x\",\"tenant\":\"other\",\"payload\":1}]}"),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let world = World::new();
        let host = world.start().await;
        let told = answer.clone();
        world.http.answer(move |_| told.clone());
        world.shop.send("m-1", "orders.paid", "1");
        world.until_rows(1).await;
        assert_eq!(world.rows()[0].attempts, 1, "answer {number}");
        assert_eq!(world.shop.standings(), [Standing::Out], "unacknowledged while there is room");
        world.until_dead(1).await;
        let calls = world.http.calls_with("m-1");
        let attempts: Vec<(u32, bool)> = calls.iter().map(|call| (call.attempt(), call.is_maybe_handled())).collect();
        assert_eq!(attempts, [(1, false), (2, true), (3, true)], "answer {number}");
        assert_eq!((host.dead().await[0].attempts, world.rows().len()), (3, 0));
        world.until_acknowledged(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_succeeds_ends_it() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|posted| Reply::status(if posted.attempt() == 1 { 500 } else { 200 }));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!((world.http.posted().len(), world.rows().len(), world.dead_count()), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn busy_pauses_the_consumer_and_costs_no_attempt() {
    for busy in [Reply::status(429).after(seconds(7)), Reply::status(503).after(seconds(7))] {
        let world = World::new();
        let host = world.start().await;
        let told = busy.clone();
        world.http.answer(move |_| told.clone());
        world.shop.send("m-1", "orders.paid", "1");
        world.until_called(1).await;
        pass(seconds(6)).await;
        assert_eq!(world.http.posted().len(), 1);
        let held = host.ship().await.held.unwrap();
        assert_eq!(held.on.as_str(), "paused");
        world.http.answer(|_| Reply::status(200));
        world.until_acknowledged(1).await;
        assert!(world.http.posted().iter().all(|posted| posted.attempt() == 1));
        assert_eq!(host.ship().await.held, None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_blocked_holds_the_consumer_however_long_and_costs_no_attempt() {
    let answers = [401, 403, 404, 405, 410, 302, 418].map(Reply::status).into_iter();
    let away = [(ErrorKind::Unavailable, "HTTP.CONNECT"), (ErrorKind::Denied, "HTTP.DENIED")];
    for answer in answers.chain(away.map(|(kind, code)| Reply::failing(kind, code))) {
        let world = World::new();
        let host = world.start().await;
        world.http.answer(move |_| answer.clone());
        world.shop.send("m-1", "orders.paid", "1");
        pass(seconds(600)).await;
        assert!(world.http.posted().len() > 3);
        assert!(world.http.posted().iter().all(|posted| posted.attempt() == 1));
        assert_eq!(host.ship().await.held.unwrap().on.as_str(), "destination");
        world.http.answer(|_| Reply::status(200));
        world.until_acknowledged(1).await;
        assert_eq!(world.dead_count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_hold_one_other_message_goes_first() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.concurrency = 4;
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(404));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    for number in 2..6 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    pass(seconds(4)).await;
    assert_eq!(world.http.posted().len(), 1);
    world.until_called(2).await;
    assert_eq!(world.http.ids()[1], "m-2", "another than the one that asked for it");
    assert_eq!(world.http.posted().len(), 2, "one alone");
    world.http.answer(|_| Reply::status(200));
    world.until_acknowledged(5).await;
}

#[tokio::test(start_paused = true)]
async fn one_message_alone_can_not_hold_its_consumer_for_ever() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|posted| if posted.id == "bad" { Reply::status(404) } else { Reply::status(200) });
    world.shop.send("bad", "orders.paid", "1");
    for number in 0..20 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
        pass(seconds(10)).await;
    }
    world.until_dead(1).await;
    assert_eq!(host.dead().await[0].message_id, "bad");
    world.until_acknowledged(21).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_leaves_commits_with_the_mark_that_it_is_processed() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|_| {
        Reply::handled(
            "{\"messages\":[{\"topic\":\"bus:shipping.ordered\",\"payload\":{\"n\":1}}],
              \"signals\":[{\"saga\":\"order-7\",\"name\":\"paid\",\"data\":1}]}",
        )
    });
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    eventually("the message went on", async || world.messages().len() == 1).await;
    assert_eq!(world.messages()[0].topic.as_str(), "bus:shipping.ordered");
    assert_eq!(world.messages()[0].annotation(Annotation::CausationId), Some("m-1"));
    assert_eq!(world.memory.read(|tables| tables.inbox.saga_door.len()), 1);
}
