//! What the inbox leaves for sagas at their door.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::port::inbox_store::{InboxStore, SagaDoorKey};
use waybill_core::port::saga::StepReply;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;
use waybill_engine::{EngineConfig, InboundConfig};

use crate::support::*;

const SIGNALS: &str =
    "[[steps]]\nname = \"first\"\naction = \"wait:paid\"\n[[steps]]\nname = \"second\"\naction = \"wait:paid\"\n";
const BUS: &str = "[[steps]]\nname = \"ship\"\naction = \"bus:ship.book\"\n";

fn signal(id: &str) -> SagaDoorItem {
    let (name, data, by) = ("paid".to_owned(), Json::parse("7").unwrap(), "message m-1 of source shop".to_owned());
    SagaDoorItem::Signal { key: key(id), name, data, by }
}

/// Puts rows on the door, as a commit of the inbox does.
fn leave(world: &World, number: u32, item: SagaDoorItem) {
    let key = SagaDoorKey { from: ShardId(0), beat: 1, number };
    world.memory.write(|tables| tables.inbox.saga_door.insert((ShardId(0), key), item));
}

fn left(world: &World) -> usize {
    world.memory.read(|tables| tables.inbox.saga_door.len())
}

/// A host that looks at the door by itself, as one of several on a store.
fn shared(world: &World) -> impl FnOnce(&mut EngineConfig) {
    let store: Option<Arc<dyn InboxStore>> = Some(world.memory.clone());
    move |config| {
        config.exclusive = false;
        config.inbound = Arc::new(InboundConfig { store, ..InboundConfig::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_signal_at_the_door_is_taken_once() {
    let world = World::new();
    let host = world.start_with(shared(&world)).await;
    host.run(SIGNALS).await;
    host.until_waiting("one", "signal:paid").await;
    leave(&world, 1, signal("one"));
    eventually("the door is empty", async || left(&world) == 0).await;
    pass(seconds(10)).await;
    assert_eq!(host.state("one").await, SagaState::Running, "one signal is for one wait");
    leave(&world, 2, signal("one"));
    host.until("one", SagaState::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_at_the_door_completes_its_step() {
    let world = World::new();
    let host = world.start_with(shared(&world)).await;
    host.run(BUS).await;
    eventually("the message is delivered", async || world.messages().len() == 1).await;
    let result = Ok(Json::parse("{\"booked\":true}").unwrap());
    let (id, step) = (SagaId::new("one").unwrap(), "ship".to_owned());
    let reply = StepReply { id, step, way: StepDirection::Execute, attempt: None, result };
    leave(&world, 1, SagaDoorItem::Reply { tenant: tenant("default"), reply: Box::new(reply) });
    host.until("one", SagaState::Completed).await;
    eventually("the door is empty", async || left(&world) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_for_a_saga_that_is_gone_does_not_stay() {
    let world = World::new();
    let host = world.start_with(shared(&world)).await;
    host.run(SIGNALS).await;
    leave(&world, 1, signal("gone"));
    leave(&world, 2, signal("one"));
    eventually("the door is empty", async || left(&world) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_shard_over_finds_what_was_left() {
    let world = World::new();
    let host = world.start_with(shared(&world)).await;
    host.run(SIGNALS).await;
    host.until_waiting("one", "signal:paid").await;
    host.crash().await;
    leave(&world, 1, signal("one"));
    leave(&world, 2, signal("one"));
    let host = world.start_with(shared(&world)).await;
    host.until("one", SagaState::Completed).await;
    eventually("what it took is removed", async || left(&world) == 0).await;
}
