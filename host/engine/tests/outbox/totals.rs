//! What a host counts of messages since it began: at the commits that make it so, whatever way they came and whatever they died of.

use std::sync::Arc;

use waybill_core::ids::{MessageId, ShardId};
use waybill_core::message::Message;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_transport::permanent;

use crate::support::*;

/// A message as a function of the database, the inbox or a saga leaves it.
fn left(id: &str, text: &str) -> Arc<Message> {
    let draft = named(text, id).check(at(seconds(0)), 1 << 20).unwrap();
    draft.finish(|| MessageId::new("unused").unwrap())
}

fn counted(host: &Host) -> (u64, u64) {
    let totals = host.outbox.totals();
    (totals.enqueued, totals.dead)
}

#[tokio::test(start_paused = true)]
async fn what_others_leave_on_a_doorstep_counts_when_it_is_taken_in() {
    let world = World::new();
    let host = world.start().await;
    // The third has the id of the first and says something else: nobody sends it.
    for (ordinal, (id, text)) in (0..).zip([("a", "one"), ("b", "two"), ("a", "three")]) {
        let key = DoorKey { nanos: world.memory.clock(), ordinal, ulid: ordinal.to_string() };
        world.memory.put_door(ShardId(0), key, Ok(vec![left(id, text)]));
    }
    assert_eq!(counted(&host), (0, 0));
    host.engine.wake_door();
    eventually("they are counted", async || counted(&host) == (2, 1)).await;
    for id in ["a", "b"] {
        host.until_state(id, MessageState::Done).await;
    }
    pass(seconds(60)).await;
    assert_eq!(counted(&host), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_counts_once_when_it_enters_and_once_for_each_death() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    let id = host.send_one(named("a", "order-1")).await;
    assert_eq!(host.try_send([named("a", "order-1")]).await.unwrap().duplicates, ["order-1"]);
    host.until_state(&id, MessageState::Dead).await;
    eventually("its death is counted", async || counted(&host) == (1, 1)).await;
    let later = NewMessage { not_before: Some(at(seconds(600))), ..message("later") };
    let later = host.send_one(later).await;
    assert_eq!(counted(&host).0, 2, "it counts when it is taken, not when its time comes");
    pass(seconds(600)).await;
    host.until_state(&later, MessageState::Dead).await;
    eventually("its death is counted", async || counted(&host) == (2, 2)).await;
}
