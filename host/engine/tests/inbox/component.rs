//! Handlers that are components: batches, early verdicts, and calls that fail as a whole.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::port::followup::Outgoing;
use waybill_core::port::handler::{Handled, Inbound, SagaSignal, Verdict};
use waybill_core::port::transport::{Blame, Fault};
use waybill_engine::{ConsumerConfig, ConsumerTarget};
use waybill_testkit::fake_handler::{FakeHandler, Handling};

use crate::support::*;

impl World {
    fn component(&self, handler: &Arc<FakeHandler>) -> ConsumerConfig {
        ConsumerConfig { target: ConsumerTarget::Component(handler.clone()), ..self.consumer() }
    }
}

fn processed() -> Verdict {
    Verdict::Processed(Handled::default())
}

#[tokio::test(start_paused = true)]
async fn messages_go_in_batches_and_those_of_a_key_through_one_lane() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    let _host = world.start_consumer(world.component(&handler)).await;
    for number in 0..40 {
        world.shop.send_keyed(&format!("m-{number}"), &format!("key-{}", number % 5), "1");
    }
    world.until_acknowledged(40).await;
    let mut lanes = std::collections::BTreeMap::new();
    for (lane, batch) in handler.calls() {
        let mut keys: Vec<Option<String>> = batch.iter().map(|inbound| inbound.key.clone()).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), batch.len(), "no two of a key in one call");
        for key in keys {
            assert_eq!(*lanes.entry(key).or_insert(lane), lane);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_verdict_has_its_fate() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    let host = world.start_consumer(world.component(&handler)).await;
    let fault = || Fault::new("SHOP.NO", "no");
    handler.handle_with(move |batch| {
        Handling::each(batch, |inbound| match (inbound.id.as_str(), inbound.attempt) {
            ("poison", _) => Verdict::Poison(fault()),
            ("again", 1) => Verdict::Retry(fault()),
            ("before", _) => Verdict::Duplicate,
            _ => processed(),
        })
    });
    for id in ["poison", "again", "before", "fine"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(4).await;
    assert_eq!((world.dead_count(), world.seen()), (1, 4));
    assert_eq!(host.dead().await[0].code, "SHOP.NO");
}

#[tokio::test(start_paused = true)]
async fn what_a_component_leaves_is_checked_and_committed() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    let _host = world.start_consumer(world.component(&handler)).await;
    let outgoing = Outgoing {
        id: None,
        topic: "bus:shipping".to_owned(),
        key: None,
        headers: Vec::new(),
        payload: "1".into(),
        event_type: None,
        annotations: [(Annotation::AggregateType, "shipment")].into(),
        not_before: None,
        attributes: Vec::new(),
    };
    let signal =
        SagaSignal { saga: "order-7".to_owned(), name: "paid".to_owned(), content_type: None, payload: "1".into() };
    let handled = Handled { messages: vec![outgoing], signals: vec![signal], ..Handled::default() };
    handler.handle_with(move |batch| Handling::each(batch, |_| Verdict::Processed(handled.clone())));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    eventually("the message went on", async || world.messages().len() == 1).await;
    assert_eq!(world.messages()[0].annotation(Annotation::AggregateType), Some("shipment"));
    assert_eq!(world.memory.read(|tables| tables.inbox.saga_door.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn a_trap_is_a_failed_attempt_of_the_one_to_blame_alone() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    let host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch: &[Inbound]| match batch.iter().any(|inbound| inbound.id == "bad") {
        true => Handling::trap(),
        false => Handling::each(batch, |_| processed()),
    });
    for id in ["a", "b", "bad", "c", "d"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(5).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), dead[0].message_id.as_str(), dead[0].attempts), (1, "bad", 3));
    let again = handler.calls().into_iter().flat_map(|(_, batch)| batch).filter(|inbound| inbound.id == "a");
    let told: Vec<bool> = again.map(|inbound| inbound.maybe_handled).collect();
    assert!(told.len() == 1 || told[1..].iter().all(|told| *told), "a repeat says so: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_told_before_a_trap_counts() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    let _host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch| {
        let mut trap = Handling::trap();
        trap.early = (0..batch.len()).map(|index| (index, processed())).collect();
        trap
    });
    for id in ["a", "b", "c"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(3).await;
    let calls: usize = handler.calls().iter().map(|(_, batch)| batch.len()).sum();
    assert_eq!((calls, world.dead_count(), world.rows().len()), (3, 0, 0));
}

/// Attempts and `maybe-handled` of the calls with a message.
fn tries_of(handler: &FakeHandler, id: &str) -> Vec<(u32, bool)> {
    let inbound = handler.calls().into_iter().flat_map(|(_, batch)| batch);
    inbound.filter(|inbound| inbound.id == id).map(|inbound| (inbound.attempt, inbound.maybe_handled)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_instance_another_one_brought_down_costs_no_attempt_and_is_told() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    handler.set_calls_at_once(4);
    let host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch: &[Inbound]| match &batch[0] {
        inbound if inbound.id == "bad" => Handling::trap(),
        inbound if !inbound.maybe_handled => Handling::trap_of(Blame::Another),
        _ => Handling::each(batch, |_| processed()),
    });
    for id in ["a", "bad", "b"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(3).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), dead[0].message_id.as_str(), dead[0].attempts), (1, "bad", 3));
    for id in ["a", "b"] {
        assert_eq!(tries_of(&handler, id), [(1, false), (1, true)], "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_any_of_several_calls_may_be_to_blame_each_is_repeated_alone() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    handler.set_calls_at_once(4);
    let host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch: &[Inbound]| match &batch[0] {
        inbound if !inbound.maybe_handled => Handling::trap_of(Blame::Unknown).delayed(seconds(1)),
        inbound if inbound.id == "bad" => Handling::trap().delayed(seconds(1)),
        _ => Handling::each(batch, |_| processed()).delayed(seconds(1)),
    });
    for id in ["a", "bad", "b"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(3).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), dead[0].message_id.as_str(), dead[0].attempts), (1, "bad", 3));
    for id in ["a", "b"] {
        assert_eq!(tries_of(&handler, id), [(1, false), (1, true)], "{id}");
    }
    let again = handler.calls().into_iter().zip(handler.beside()).filter(|((_, batch), _)| batch[0].maybe_handled);
    assert!(again.into_iter().all(|(_, beside)| beside == 0), "{:?}", handler.beside());
}

#[tokio::test(start_paused = true)]
async fn of_a_call_that_failed_each_message_is_repeated_once_and_beside_the_others() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    handler.set_calls_at_once(4);
    handler.set_batch(10);
    let host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch: &[Inbound]| match batch {
        [inbound] if inbound.id == "bad" => Handling::trap().delayed(seconds(1)),
        [_] => Handling::each(batch, |_| processed()).delayed(seconds(1)),
        _ => Handling::trap(),
    });
    let ids = ["a", "b", "bad", "c", "d", "e", "f", "g"];
    for id in ids {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_acknowledged(8).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), dead[0].message_id.as_str(), dead[0].attempts), (1, "bad", 3));
    for id in ids.iter().filter(|id| **id != "bad") {
        assert_eq!(tries_of(&handler, id), [(1, false), (1, true)], "{id}");
    }
    let single = handler.calls().into_iter().zip(handler.beside()).filter(|((_, batch), _)| batch.len() == 1);
    assert_eq!(single.map(|(_, beside)| beside).max(), Some(3));
}

#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_call_that_failed_does_not_wait_for_its_repeats() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    handler.set_calls_at_once(1);
    handler.set_batch(10);
    let _host = world.start_consumer(world.component(&handler)).await;
    handler.handle_with(|batch: &[Inbound]| match batch {
        [_] => Handling::each(batch, |_| processed()).delayed(seconds(10)),
        _ => Handling { early: vec![(0, processed())], ..Handling::trap() },
    });
    for id in ["told", "first", "second"] {
        world.shop.send(id, "orders.paid", "1");
    }
    for count in 1..=3 {
        world.until_acknowledged(count).await;
    }
    assert_eq!(handler.calls().len(), 3);
}
