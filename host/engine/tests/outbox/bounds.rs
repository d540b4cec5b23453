//! Past every bound there is a clear answer.

use std::sync::Arc;

use waybill_api::status::CheckStatus;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn callers_past_the_bound_of_waiting_messages_are_told_to_come_back() {
    let world = World::new();
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(seconds(1)) } else { Act::Pass });
    let host = world.start_with(|config| config.waiting_messages_max = 10).await;
    let asks = (0..30).map(|index| host.try_send([message(&index.to_string())]));
    let answers = futures::future::join_all(asks).await;
    let busy = answers
        .iter()
        .filter(|answer| matches!(answer, Err(ServiceError::Busy { count: 10, count_max: 10, .. })))
        .count();
    assert_eq!((busy, answers.iter().filter(|answer| answer.is_ok()).count()), (20, 10));
    assert_eq!(answers.iter().find_map(|answer| answer.as_ref().err()).unwrap().code().as_str(), "OUTBOX.BUSY");
    host.send([message("room again")]).await;
}

#[tokio::test(start_paused = true)]
async fn callers_who_hang_up_keep_their_room_until_their_messages_are_dealt_with() {
    let world = World::new();
    let host = Arc::new(world.start_with(|config| config.waiting_messages_max = 10).await);
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(seconds(3)) } else { Act::Pass });
    for index in 0..10 {
        let asking = Arc::clone(&host);
        let ask = tokio::spawn(async move { asking.try_send([message(&index.to_string())]).await });
        pass(millis(1)).await;
        ask.abort();
    }
    assert!(matches!(host.try_send([message("x")]).await, Err(ServiceError::Busy { .. })));
    pass(seconds(30)).await;
    host.send([message("room again")]).await;
    world.main.until_sent(11).await;
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_cannot_be_read_is_set_aside_and_shown_and_the_rest_goes_on() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    host.send([message("lost")]).await;
    let fine = host.send((0..5).map(|index| message(&index.to_string()))).await;
    host.drain().await;
    let (shard, first) = world.memory.read(|tables| *tables.segments.keys().next().unwrap());
    let malformed = waybill_core::outbox::records::Malformed { reason: "bad checksum".into(), raw: "AAAA".into() };
    world.memory.spoil_segment(shard, first, malformed);
    let host = world.start().await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_done(&fine).await;
    let check = host.outbox.ready().await.into_iter().find(|check| check.name == "quarantine").unwrap();
    assert!(check.status == CheckStatus::Warn && check.detail.contains("1 of outbox"), "{}", check.detail);
}

#[tokio::test(start_paused = true)]
async fn a_doorstep_row_that_cannot_be_read_is_a_visible_dead_letter() {
    let world = World::new();
    let host = world.start().await;
    let key = waybill_core::outbox::records::DoorKey { nanos: world.memory.clock(), ordinal: 0, ulid: "x".into() };
    let malformed = waybill_core::outbox::records::Malformed { reason: "topic is missing".into(), raw: "{}".into() };
    world.memory.put_door(waybill_core::ids::ShardId(0), key, Err(malformed));
    host.engine.wake_door();
    eventually("it is dead", async || host.outbox.count_dead(None, "code=OUTBOX.MALFORMED").await.unwrap().value == 1)
        .await;
    assert!(world.memory.read(|tables| tables.door.is_empty()));
    eventually("it is counted", async || host.outbox.totals().dead == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_doorstep_commit_that_failed_to_be_taken_in_is_taken_in_by_the_next() {
    let world = World::new();
    let host = world.start().await;
    let mut failures = 0;
    world.shim.on(move |call| match call {
        Call::Commit(commit) if !commit.writes.is_empty() && failures < 3 => {
            failures += 1;
            if failures == 2 {
                Act::Fail(StoreError::Unavailable("test".into()))
            } else {
                Act::Fail(StoreError::Conflict("test".into()))
            }
        }
        _ => Act::Pass,
    });
    let done = host.outbox.transact(Vec::new(), vec![message("a")], Default::default(), None).await.unwrap();
    // Nobody asks for it, so nothing but the owner itself looks at the doorstep again.
    world.main.until_sent(1).await;
    host.until_done(&done.ids).await;
    assert!(world.clock.wall() < at(seconds(30)), "it took until {}", world.clock.wall());
}
