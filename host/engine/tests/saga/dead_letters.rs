//! Stuck sagas among the dead letters.

use waybill_api::dead_letters::{DeadLetterView, Replay, Replayed};
use waybill_core::audit::AuditQuery;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::participant::Direction;
use waybill_core::port::saga::{RetryMode, SagaAct};
use waybill_core::port::service::{MessageState, OperationRequest, Planned};
use waybill_core::port::transact::{Operation, OperationState};
use waybill_core::saga::state::SagaState;
use waybill_testkit::fake_transport::{ack, permanent as refused};

use crate::support::*;

/// Sagas `one`, `two`, ... of steps a and b, each stuck in the compensation of a. The shop is well again.
async fn with_stuck(world: &World, names: &[&str]) -> Host {
    let host = world.start().await;
    world.shop.on(|call| match (call.step.as_str(), call.direction) {
        ("b", Direction::Execute) | ("a", Direction::Compensate) => Some(permanent("SHOP.NO")),
        _ => None,
    });
    host.define(&definition(&steps(&["a", "b"]))).await;
    for name in names {
        host.begin(name).await;
        host.until(name, SagaState::Failed).await;
    }
    world.shop.on(|_| None);
    host
}

/// Dead messages `m-0`, `m-1`, ...
async fn with_messages(world: &World, host: &Host, count: usize) {
    world.bus.tell(|_| refused("BUS.NO"));
    for index in 0..count {
        host.send(&format!("m-{index}")).await;
    }
    let wanted = count as u64;
    eventually("the messages are dead", async || host.count("kind=message").await == wanted).await;
    world.bus.tell(|_| ack());
}

impl Host {
    async fn send(&self, id: &str) {
        let message = waybill_core::new_message::NewMessage {
            topic: "bus:orders".to_owned(),
            payload: "1".into(),
            id: Some(id.to_owned()),
            ..waybill_core::new_message::NewMessage::default()
        };
        self.outbox.enqueue(vec![message]).await.unwrap();
    }

    async fn count(&self, filter: &str) -> u64 {
        self.outbox.count_dead(None, filter).await.unwrap().value
    }

    /// Ids page by page, sagas with a `~` before theirs.
    async fn dead(&self, filter: &str, limit: usize) -> Vec<String> {
        let (mut ids, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.outbox.dead_letters(None, filter, cursor.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit);
            ids.extend(page.items.iter().map(|dead| match dead {
                DeadLetterView::Message(message) => message.id.clone(),
                DeadLetterView::Saga(saga) => format!("~{}", saga.id),
                DeadLetterView::Inbox(inbox) => inbox.id.clone(),
                DeadLetterView::Event(event) => event.id.clone(),
            }));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return ids;
            }
            assert!(!page.items.is_empty(), "a cursor is given only where there is more");
        }
    }

    async fn act_on_dead_letters(&self, kind: &str, filter: &str) -> Operation {
        let request = OperationRequest {
            kind: kind.to_owned(),
            filter: filter.to_owned(),
            step: None,
            mode: None,
            not_before: None,
            planned: Planned::default(),
            tenant: None,
            rate: None,
            reason: "because".to_owned(),
            actor: "ann".to_owned(),
        };
        let id = self.outbox.start_operation(request).await.unwrap().id;
        eventually("the operation ends", async || {
            self.outbox.operation(&id).await.unwrap().state != OperationState::Running
        })
        .await;
        self.outbox.operation(&id).await.unwrap()
    }
}

fn dead(id: &str) -> DeadId {
    DeadId::new(&tenant("default"), id)
}

#[tokio::test(start_paused = true)]
async fn both_kinds_are_one_list_that_no_page_size_changes() {
    let world = World::new();
    let host = with_stuck(&world, &["one", "three", "two"]).await;
    with_messages(&world, &host, 3).await;
    let all = ["m-2", "m-1", "m-0", "~one", "~three", "~two"];
    for limit in 1..=7 {
        assert_eq!(host.dead("", limit).await, all, "{limit}");
    }
    for (filter, wanted) in [
        ("kind=message", &all[..3]),
        ("kind=saga", &all[3..]),
        ("code=SHOP.*", &all[3..]),
        ("definition=s step=a", &all[3..]),
        ("definition=other", &[]),
        ("topic=bus:*", &all[..3]),
        ("id=t*", &all[4..]),
        ("tenant=default age<1d", &all[..]),
        ("tenant=acme", &[]),
        ("state=quarantined", &[]),
    ] {
        assert_eq!(host.dead(filter, 2).await, wanted, "{filter}");
        assert_eq!(host.count(filter).await, wanted.len() as u64, "{filter}");
    }
    assert_eq!(host.outbox.count_dead(Some(&tenant("acme")), "").await.unwrap().value, 0);
    let groups = host.outbox.dead_groups(None, "").await.unwrap().value;
    let seen: Vec<_> = groups.iter().map(|group| (group.kind, group.code.as_str(), group.count)).collect();
    assert_eq!(seen, [(DeadKind::Message, "BUS.NO", 3), (DeadKind::Saga, "SHOP.NO", 3)]);
    assert_eq!(groups[1].topic, "saga:s/a");
    assert!(host.outbox.dead_letters(None, "", Some("saga:nonsense"), 5).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_replay_tries_the_compensation_again() {
    let world = World::new();
    let host = with_stuck(&world, &["one", "two"]).await;
    let shown = host.outbox.dead_letter(&dead("one")).await.unwrap();
    let saga = shown.saga().unwrap();
    assert_eq!((&*saga.step, &*saga.code, saga.attempts, saga.state), ("a", "SHOP.NO", 1, MessageState::Dead));
    let done = host.outbox.replay(&dead("one"), Replay::because("the shop is back"), "ann").await.unwrap();
    assert!(matches!(done, Replayed::Saga { .. }) && done.message().is_none(), "{done:?}");
    host.until("one", SagaState::Cancelled).await;
    assert_eq!(host.outbox.dead_letter(&dead("one")).await.unwrap_err().code().as_str(), "DEAD.NOT_FOUND");
    assert_eq!(host.dead("", 10).await, ["~two"]);
    // Nothing was compensated: it may also go forward.
    let forward = Replay { mode: Some(RetryMode::Retry), reason: String::new() };
    host.outbox.replay(&dead("two"), forward, "ann").await.unwrap();
    host.until("two", SagaState::Completed).await;
    let asked = host.outbox.audit(&AuditQuery::default(), None, 100).await.unwrap().items;
    let asked: Vec<_> = asked.iter().filter(|event| event.kind == "TxReplayRequested").collect();
    assert_eq!((asked[0].object.as_str(), asked[0].detail["mode"].as_str()), ("two", Some("retry")));
    assert_eq!((asked[1].object.as_str(), asked[1].detail["kind"].as_str()), ("one", Some("saga")));
}

#[tokio::test(start_paused = true)]
async fn sagas_that_an_operator_ended_are_no_dead_letters() {
    let world = World::new();
    let host = with_stuck(&world, &["one", "three", "two"]).await;
    host.act("one", SagaAct::Accept).await.unwrap();
    host.act("two", SagaAct::Kill).await.unwrap();
    host.act("three", SagaAct::Skip { step: "a".to_owned() }).await.unwrap();
    eventually("none is left", async || host.count("").await == 0).await;
    let replayed = host.outbox.replay(&dead("one"), Replay::default(), "ann").await.unwrap_err();
    assert_eq!(replayed.code().as_str(), "DEAD.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_bulk_replay_takes_both_kinds_and_leaves_quarantined_ones() {
    let world = World::new();
    let host = with_stuck(&world, &["one", "three", "two"]).await;
    with_messages(&world, &host, 2).await;
    let fenced = host.outbox.quarantine(&dead("two"), "ask the bank", "ann").await.unwrap();
    let saga = fenced.saga().unwrap();
    assert_eq!((saga.state, saga.note.as_deref()), (MessageState::Quarantined, Some("ask the bank")));
    let ended = host.act_on_dead_letters("replay", "age<1d").await;
    assert_eq!((ended.state, ended.matched, ended.done, ended.failed), (OperationState::Done, 4, 4, 0));
    host.until("one", SagaState::Cancelled).await;
    host.until("three", SagaState::Cancelled).await;
    assert_eq!(host.dead("", 10).await, ["~two"]);
    host.outbox.replay(&dead("two"), Replay::default(), "ann").await.unwrap();
    host.until("two", SagaState::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn what_fails_again_is_taken_once() {
    let world = World::new();
    let host = with_stuck(&world, &["one"]).await;
    pass(seconds(1)).await;
    world.shop.on(|call| (call.direction == Direction::Compensate).then(|| permanent("SHOP.STILL")));
    let ended = host.act_on_dead_letters("replay", "kind=saga").await;
    assert_eq!((ended.done, ended.failed), (1, 0));
    eventually("it is stuck again", async || host.count("code=SHOP.STILL").await == 1).await;
    assert_eq!(world.shop.count("-a"), 2);
}

#[tokio::test(start_paused = true)]
async fn acts_that_are_not_for_sagas_say_so() {
    let world = World::new();
    let host = with_stuck(&world, &["m-0"]).await;
    let edited = host.outbox.edit(&dead("m-0"), Default::default(), "", "ann").await.unwrap_err();
    assert_eq!(edited.code().as_str(), "DEAD.KIND");
    with_messages(&world, &host, 1).await;
    // One of each kind with the same id: nobody acts on the wrong one.
    let replayed = host.outbox.replay(&dead("m-0"), Replay::default(), "ann").await.unwrap_err();
    assert_eq!(replayed.code().as_str(), "DEAD.KIND", "{replayed}");
    let message = DeadId { kind: Some(DeadKind::Message), ..dead("m-0") };
    let forward = Replay { mode: Some(RetryMode::Retry), reason: String::new() };
    assert_eq!(host.outbox.replay(&message, forward, "ann").await.unwrap_err().code().as_str(), "DEAD.KIND");
    let purged = host.act_on_dead_letters("purge", "id=*").await;
    assert_eq!((purged.matched, purged.done), (1, 1));
    assert_eq!(host.act_on_dead_letters("purge", "kind=saga").await.matched, 0);
    assert_eq!(host.dead("", 10).await, ["~m-0"]);
}
