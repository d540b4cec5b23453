//! Enqueue, delivery, and what the history says.

use waybill_core::error::InputError;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::transport::{Outcome, Receipt};
use waybill_testkit::fake_transport::{Answer, ack};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_delivered_once_and_its_history_shows_receipt_and_plugin() {
    let world = World::new();
    world.main.tell(|_| Outcome::Ack(Receipt { broker_ref: Some("seq 17".into()), ..Receipt::default() }));
    let host = world.start().await;
    let id = host.send_one(message("hello")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.receipt.unwrap().broker_ref.as_deref(), Some("seq 17"));
    assert_eq!(view.attempts, 1);
    let attempt = &view.history[0];
    assert_eq!((&*attempt.worker, &*attempt.transport), ("host-a", "main"));
    assert_eq!(attempt.plugin.as_ref().unwrap().plugin, "fake-main");
    pass(seconds(60)).await;
    let log = world.main.log();
    assert_eq!(log.texts(), ["hello"]);
    assert_eq!((log.sent[0].attempt, log.sent[0].epoch, log.sent[0].destination.as_str()), (1, 1, "orders.created"));
    assert_eq!(log.sent[0].id, id);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_an_id_with_the_same_content_answers_duplicates() {
    let world = World::new();
    let host = world.start().await;
    let first = host.try_send([named("a", "order-1"), message("b")]).await.unwrap();
    assert!(first.duplicates.is_empty());
    let again = host.try_send([named("a", "order-1"), named("c", "order-2")]).await.unwrap();
    assert_eq!(again.ids, ["order-1", "order-2"]);
    assert_eq!(again.duplicates, ["order-1"]);
    host.until_done(&again.ids).await;
    let after = host.try_send([named("a", "order-1")]).await.unwrap();
    assert_eq!(after.duplicates, ["order-1"], "a finished message is remembered for keep_done");
    pass(seconds(60)).await;
    assert_eq!(world.main.log().count("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_id_with_other_content_is_refused_and_nothing_of_the_request_is_taken() {
    let world = World::new();
    let host = world.start().await;
    host.send([named("a", "order-1")]).await;
    let error = host.try_send([message("x"), named("b", "order-1")]).await.unwrap_err();
    assert!(matches!(&error, ServiceError::IdTaken { id, .. } if id == "order-1"));
    assert_eq!(error.code().as_str(), "STORAGE.CONFLICT");
    pass(seconds(60)).await;
    assert_eq!(world.main.log().texts(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn one_id_in_two_tenants_is_two_messages() {
    let world = World::new();
    let host = world.start().await;
    let mut mine = named("a", "order-1");
    mine.tenant = Some("acme".into());
    let answer = host.try_send([named("b", "order-1"), mine]).await.unwrap();
    assert!(answer.duplicates.is_empty());
    world.main.until_sent(2).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_one_id_are_one_message() {
    let world = World::new();
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(5)) } else { Act::Pass });
    let host = world.start().await;
    let asks = (0..20).map(|index| {
        let text = if index == 7 { "other" } else { "same" };
        host.try_send([named(text, "order-1")])
    });
    let answers = futures::future::join_all(asks).await;
    let taken = answers.iter().filter(|answer| matches!(answer, Ok(answer) if answer.duplicates.is_empty())).count();
    let repeated = answers.iter().filter(|answer| matches!(answer, Ok(answer) if answer.duplicates.len() == 1)).count();
    let refused = answers.iter().filter(|answer| matches!(answer, Err(ServiceError::IdTaken { .. }))).count();
    assert_eq!((taken, repeated, refused), (1, 18, 1));
    pass(seconds(60)).await;
    assert_eq!(world.main.log().texts(), ["same"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_payload_travels_as_a_blob_and_arrives_whole() {
    let world = World::new();
    let host = world.start().await;
    let text = "x".repeat(200 * 1024);
    let id = host.send_one(message(&text)).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.payload_bytes, 200 * 1024);
    assert_eq!(view.bytes.unwrap(), text.as_bytes());
    assert_eq!(world.main.log().count(&text), 1);
    assert_eq!(world.memory.read(|tables| tables.blobs.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_the_receiver_cannot_take_is_a_dead_letter_without_a_call() {
    let world = World::new();
    world.main.set_limits(|limits| limits.max_payload_bytes = Some(10));
    let host = world.start().await;
    let id = host.send_one(message("more than ten bytes")).await;
    let view = host.until_state(&id, MessageState::Dead).await;
    assert!(view.last_error.unwrap().starts_with("OUTBOX.PAYLOAD_TOO_LARGE"));
    assert_eq!(world.main.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_no_more_than_the_transport_takes() {
    let world = World::new();
    world.main.set_limits(|limits| {
        limits.max_batch = 7;
        limits.max_batch_bytes = 1_000;
    });
    let host = world.start().await;
    let ids = host.send((0..50).map(|index| message(&format!("{index:0100}")))).await;
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), 50);
    assert!(log.sent.iter().all(|sent| sent.batch <= 7));
    assert!(log.sent.iter().any(|sent| sent.batch > 1));
}

#[tokio::test(start_paused = true)]
async fn a_lane_never_runs_more_calls_than_it_takes() {
    let world = World::new();
    world.main.set_limits(|limits| {
        limits.lanes = 3;
        limits.calls_per_lane = 2;
        limits.max_batch = 5;
    });
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(millis(10)));
    let host = world.start().await;
    let sending = host.send((0..200).map(|index| message(&index.to_string())));
    let (ids, most) = futures::join!(sending, async {
        let mut most = 0;
        for _ in 0..200 {
            pass(millis(1)).await;
            most = most.max(world.main.under_way());
        }
        most
    });
    host.until_done(&ids).await;
    assert_eq!(most, 6);
    assert_eq!(world.main.log().sent.len(), 200);
}

#[tokio::test(start_paused = true)]
async fn what_the_host_cannot_take_is_refused_before_anything_is_written() {
    let world = World::new();
    let host = world.start_with(|config| config.payload_bytes_max = 10).await;
    let no_route = waybill_core::new_message::NewMessage { topic: "http:http://a.example/".into(), ..message("x") };
    let cases = [
        (message("more than ten bytes"), "OUTBOX.PAYLOAD_TOO_LARGE"),
        (waybill_core::new_message::NewMessage { topic: "kafka:x".into(), ..message("x") }, "OUTBOX.TOPIC"),
    ];
    assert!(host.try_send([no_route]).await.is_ok());
    for (bad, code) in cases {
        let error = host.try_send([message("fine"), bad]).await.unwrap_err();
        assert!(matches!(&error, ServiceError::Message { index: 1, .. }), "{error}");
        assert_eq!(error.code().as_str(), code);
    }
    let many = host.try_send((0..10_001).map(|_| message("x"))).await.unwrap_err();
    assert_eq!(many.code().as_str(), "OUTBOX.TOO_MANY");
    pass(seconds(10)).await;
    assert_eq!(world.main.log().texts(), ["x"]);
}

#[tokio::test(start_paused = true)]
async fn an_id_twice_in_one_request_is_refused_and_says_which_and_nothing_is_taken() {
    let world = World::new();
    let host = world.start().await;
    let error = host.try_send([message("x"), named("a", "order-1"), named("a", "order-1")]).await.unwrap_err();
    let ServiceError::Message { index: 2, error: InputError::IdTwice { first: 1 } } = error else {
        panic!("{error:?}");
    };
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 0);
}
