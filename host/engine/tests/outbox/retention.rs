//! What is old goes: history after `keep_done`, dead letters after `dead.keep`.

use waybill_core::port::dead::{DeadId, Replay};
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_transport::{ack, permanent};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn finished_messages_are_kept_for_their_time_and_then_gone_with_their_ids_and_blobs() {
    let world = World::new();
    let host = world.start_with(|config| config.keep_done = seconds(600)).await;
    let ids = host.send((0..300).map(|index| message(&index.to_string()))).await;
    let big = host.send_one(named(&"x".repeat(100_000), "order-1")).await;
    host.until_done(&ids).await;
    host.until_state(&big, MessageState::Done).await;
    pass(seconds(500)).await;
    assert_eq!(host.view(&ids[0]).await.state, MessageState::Done);
    pass(seconds(200)).await;
    assert_eq!(host.outbox.message(&tenant("default"), &ids[0]).await.unwrap_err().code(), "OUTBOX.NOT_FOUND");
    let left =
        world.memory.read(|tables| (tables.history.len(), tables.ids.len(), tables.blobs.len(), tables.segments.len()));
    assert_eq!(left, (0, 0, 0, 0));
    let again = host.try_send([named("anew", "order-1")]).await.unwrap();
    assert!(again.duplicates.is_empty(), "an id may be used again after keep_done");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_kept_for_their_time() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world
        .start_with(|config| {
            config.keep_dead = seconds(600);
            config.keep_done = seconds(60);
        })
        .await;
    let ids = host.send((0..250).map(|index| named(&index.to_string(), &format!("order-{index}")))).await;
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap() == 250).await;
    world.main.tell(|_| ack());
    pass(seconds(500)).await;
    host.outbox.replay(&DeadId::new(&tenant("default"), &ids[7]), Replay::because("one of them"), "ops").await.unwrap();
    pass(seconds(300)).await;
    assert_eq!(host.outbox.count_dead(None, "").await.unwrap(), 0);
    pass(seconds(300)).await;
    let left = world.memory.read(|tables| (tables.dead.len(), tables.history.len(), tables.ids.len()));
    assert_eq!(left, (0, 0, 0));
}
