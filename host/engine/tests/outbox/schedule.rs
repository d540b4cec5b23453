//! Messages with a time: not before, not after; cancelled or moved.

use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_testkit::fake_transport::{Answer, Gate, ack, retryable};

use crate::support::*;

fn due(text: &str, after: u64) -> NewMessage {
    NewMessage { not_before: Some(at(seconds(after))), ..message(text) }
}

#[tokio::test(start_paused = true)]
async fn a_scheduled_message_waits_for_its_time_and_blocks_nobody_before() {
    let world = World::new();
    let host = world.start().await;
    let mut later = keyed("later", "k");
    later.not_before = Some(at(seconds(100)));
    let ids = host.send([later, keyed("now", "k")]).await;
    host.until_state(&ids[1], MessageState::Done).await;
    let view = host.view(&ids[0]).await;
    assert_eq!((view.state, view.not_before), (MessageState::Pending, Some(at(seconds(100)).into())));
    assert_eq!(view.waiting.unwrap().on, WaitKind::Schedule);
    pass(seconds(98)).await;
    assert_eq!(world.main.log().texts(), ["now"]);
    host.until_state(&ids[0], MessageState::Done).await;
    assert!(world.clock.wall() >= at(seconds(100)) && world.clock.wall() < at(seconds(102)));
    assert_eq!(world.main.log().texts(), ["now", "later"]);
}

#[tokio::test(start_paused = true)]
async fn scheduled_messages_are_sent_after_a_restart_too() {
    let world = World::new();
    let host = world.start().await;
    let ids = host.send((0..1_500).map(|index| due(&index.to_string(), 100 + index % 3))).await;
    host.drain().await;
    let host = world.start().await;
    host.until_done(&ids).await;
    assert_eq!(world.main.log().sent.len(), 1_500);
}

#[tokio::test(start_paused = true)]
async fn a_message_past_its_end_is_not_sent() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let ids =
        host.send([NewMessage { expires_at: Some(at(seconds(10))), ..keyed("old", "k") }, keyed("fresh", "k")]).await;
    pass(seconds(20)).await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_state(&ids[0], MessageState::Expired).await;
    host.until_state(&ids[1], MessageState::Done).await;
    assert_eq!(world.main.log().texts(), ["fresh"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_message_can_be_cancelled_wherever_it_waits() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "parked" { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let parked = host.send_one(message("parked")).await;
    let stuck = host.send([keyed("parked", "k"), keyed("behind", "k")]).await;
    eventually("it is parked", async || host.view(&parked).await.attempts > 0).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let flowing = host.send_one(message("flowing")).await;
    let scheduled = host.send_one(due("scheduled", 500)).await;
    for id in [&parked, &flowing, &scheduled, &stuck[1]] {
        let view = host.outbox.cancel(&tenant("default"), id, "", "ops").await.unwrap();
        assert_eq!(view.state, MessageState::Cancelled, "{:?}", view.payload);
        let again = host.outbox.cancel(&tenant("default"), id, "", "ops").await.unwrap_err();
        assert!(matches!(&again, ServiceError::State { state, .. } if state == "cancelled"), "{again}");
    }
    host.outbox.resume("main", "", "ops").await.unwrap();
    pass(seconds(1_000)).await;
    let log = world.main.log();
    assert_eq!((log.count("flowing"), log.count("scheduled"), log.count("behind")), (0, 0, 0));
    assert_eq!(host.audit_of("MessageCancelled").await.len(), 4);
    host.drain().await;
    let host = world.start().await;
    pass(seconds(1_000)).await;
    let log = world.main.log();
    assert_eq!((log.count("flowing"), log.count("scheduled"), log.count("behind")), (0, 0, 0));
    assert_eq!(host.view(&flowing).await.state, MessageState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_sent_can_be_neither_cancelled_nor_moved() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    assert_eq!(host.view(&id).await.state, MessageState::Leased);
    let refused = host.outbox.cancel(&tenant("default"), &id, "", "ops").await.unwrap_err();
    assert!(
        matches!(&refused, ServiceError::State { id: named, state, .. } if *named == id && state.contains("being sent")),
        "{refused}"
    );
    let refused = host.outbox.reschedule(&tenant("default"), &id, at(seconds(500)), "", "ops").await.unwrap_err();
    assert_eq!(refused.code().as_str(), "OUTBOX.STATE");
    gate.open();
    host.until_state(&id, MessageState::Done).await;
    let refused = host.outbox.cancel(&tenant("default"), &id, "", "ops").await.unwrap_err();
    assert!(matches!(&refused, ServiceError::State { state, .. } if state == "done"), "{refused}");
    let unknown = host.outbox.cancel(&tenant("default"), "nobody", "", "ops").await.unwrap_err();
    assert_eq!(unknown.code().as_str(), "OUTBOX.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn scheduled_and_parked_messages_can_be_moved() {
    let world = World::new();
    world.main.tell(
        |delivery| if delivery.payload == "parked" && delivery.attempt == 1 { retryable("HTTP.503") } else { ack() },
    );
    let host = world.start_with(|config| config.retries.policy.base_ms = 60_000).await;
    let ids = host.send([message("parked"), due("sooner", 5_000), due("later", 100)]).await;
    eventually("it is parked", async || host.view(&ids[0]).await.attempts > 0).await;
    let reschedule = async |id: &str, after| {
        host.outbox.reschedule(&tenant("default"), id, at(seconds(after)), "", "ops").await.unwrap()
    };
    assert_eq!(reschedule(&ids[0], 2_000).await.not_before, Some(at(seconds(2_000)).into()));
    assert_eq!(reschedule(&ids[1], 50).await.not_before, Some(at(seconds(50)).into()));
    assert_eq!(reschedule(&ids[2], 3_000).await.not_before, Some(at(seconds(3_000)).into()));
    assert_eq!(reschedule(&ids[2], 1_000).await.not_before, Some(at(seconds(1_000)).into()));
    host.until_done(&ids).await;
    assert_eq!(world.main.log().texts(), ["parked", "sooner", "later", "parked"]);
    let sent = world.main.log().sent;
    let offsets: Vec<u64> = sent.iter().map(|one| (one.at - sent[0].at + millis(500)).as_secs()).collect();
    assert_eq!(offsets, [0, 50, 1_000, 2_000]);
}

#[tokio::test(start_paused = true)]
async fn two_operators_who_move_and_cancel_one_message_at_once_do_not_make_two_of_it() {
    let world = World::new();
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(20)) } else { Act::Pass });
    let host = world.start().await;
    for round in 0..10 {
        let id = host.send_one(due(&format!("round-{round}"), 1_000_000)).await;
        let tenant = tenant("default");
        let (moved, cancelled, again) = futures::join!(
            host.outbox.reschedule(&tenant, &id, at(seconds(2_000_000)), "", "a"),
            host.outbox.cancel(&tenant, &id, "", "b"),
            host.outbox.cancel(&tenant, &id, "", "c"),
        );
        let done = [moved.is_ok(), cancelled.is_ok(), again.is_ok()];
        assert_eq!(done.iter().filter(|ok| **ok).count(), 1, "{moved:?} {cancelled:?} {again:?}");
        let (scheduled, finished) = world.memory.read(|tables| {
            let finished: usize = tables.history.values().map(|chunk| chunk.entries.len()).sum();
            (tables.scheduled.len(), finished)
        });
        assert_eq!(scheduled + finished, round + 1);
    }
}
