//! Bulk acts on sagas.

use std::collections::BTreeMap;

use waybill_core::audit::AuditQuery;
use waybill_core::port::saga::SagaAct;
use waybill_core::port::service::{OperationRequest, Planned};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Operation, OperationState, Refusal, TransactStore};
use waybill_core::saga::records::{SagaCommit, SagaWrite};
use waybill_core::saga::state::SagaState;

use crate::support::*;

const WAITING: &str = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
const TRIED_RARELY: &str = "[[steps]]\nname = \"a\"\naction = \"fn:shop/a\"\n\
                            retry = { max_attempts = 9, base_ms = 250000, jitter = 0.0 }\n";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("s-{index:02}")).collect()
}

/// Sagas `s-00`, `s-01`, ... of these steps, each waiting for something.
async fn with_sagas(world: &World, steps: &str, count: usize, waits: &str) -> Host {
    let host = world.start().await;
    host.define(&definition(steps)).await;
    for name in names(count) {
        host.begin(&name).await;
        host.until_waiting(&name, waits).await;
    }
    host
}

fn request(kind: &str, filter: &str, rate: u32) -> OperationRequest {
    OperationRequest {
        kind: kind.to_owned(),
        filter: filter.to_owned(),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        tenant: None,
        rate: Some(rate),
        reason: "because".to_owned(),
        actor: "ann".to_owned(),
    }
}

impl Host {
    async fn bulk(&self, kind: &str, filter: &str, rate: u32) -> Operation {
        self.outbox.start_operation(request(kind, filter, rate)).await.unwrap()
    }

    async fn until_over(&self, id: &str) -> Operation {
        eventually("the operation is over", async || {
            self.outbox.operation(id).await.unwrap().state != OperationState::Running
        })
        .await;
        self.outbox.operation(id).await.unwrap()
    }

    async fn in_state(&self, state: SagaState) -> usize {
        self.list(&format!("state={}", state.word()), 100).await.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_act_goes_on_after_a_crash_and_acts_once_on_each() {
    let world = World::new();
    world.shop.on(|_| Some(retryable("SHOP.BUSY")));
    let host = with_sagas(&world, TRIED_RARELY, 60, "retry").await;
    let operation = host.bulk("retry", "waiting_for=retry", 10).await;
    assert_eq!((operation.matched, operation.actor.as_str()), (60, "ann"));
    pass(seconds(3)).await;
    let noted = host.outbox.operation(&operation.id).await.unwrap();
    pass(millis(700)).await;
    host.crash().await;
    // It crashed before it could note the latest.
    let tried = world.shop.count("a");
    assert!(tried < 110 && tried as u64 > 60 + noted.done, "{tried} tries, {} noted", noted.done);
    world.memory.put_operation(&noted).await.unwrap();

    let host = world.start().await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.done, over.unchanged, over.failed), (OperationState::Done, 60, 0, 0));
    pass(seconds(60)).await;
    assert_eq!(world.shop.count("a"), 120, "each waited again as it did before, and was tried once more");
    let mut tries: BTreeMap<String, usize> = BTreeMap::new();
    world.shop.calls().into_iter().for_each(|call| *tries.entry(call.saga).or_default() += 1);
    assert!(tries.values().all(|tries| *tries == 2), "{tries:?}");
    let by = format!("ann (operation {})", operation.id);
    let view = host.view("s-00").await;
    assert_eq!(view.history.unwrap().iter().filter(|line| line.actor.as_deref() == Some(by.as_str())).count(), 1);
    let audit = host.outbox.audit(&AuditQuery::default(), None, 1_000).await.unwrap().items;
    let of = |kind: &str| audit.iter().filter(|event| event.kind == kind).collect::<Vec<_>>();
    assert_eq!((of("OperationStarted").len(), of("OperationEnded").len(), of("SagaRetried").len()), (1, 1, 60));
    assert_eq!(of("OperationEnded")[0].detail["done"], 60);
    assert!(of("SagaRetried").iter().all(|event| event.actor == by && event.detail["reason"] == "because"));
}

#[tokio::test(start_paused = true)]
async fn a_drain_loses_nothing_of_what_was_counted() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 40, "signal:go").await;
    let operation = host.bulk("kill", "definition=s", 10).await;
    pass(seconds(2)).await;
    host.engine.drain(seconds(10)).await;
    drop(host);
    let host = world.start().await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.matched, over.done), (OperationState::Done, 40, 40));
    assert_eq!(host.in_state(SagaState::Failed).await, 40);
}

#[tokio::test(start_paused = true)]
async fn what_moved_or_came_meanwhile_is_left_alone() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 30, "signal:go").await;
    let operation = host.bulk("kill", "state=running", 10).await;
    pass(millis(500)).await;
    // The newest are taken first.
    for name in ["s-00", "s-01"] {
        host.signal(name, "go", serde_json::json!(1)).await.unwrap();
        host.until(name, SagaState::Completed).await;
    }
    host.act("s-02", SagaAct::Pause).await.unwrap();
    host.begin("t-late").await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.matched, over.done, over.failed), (OperationState::Done, 30, 27, 0));
    assert_eq!(host.state("s-02").await, SagaState::Paused);
    assert_eq!(host.state("t-late").await, SagaState::Running);
    assert_eq!(host.in_state(SagaState::Failed).await, 27);
}

#[tokio::test(start_paused = true)]
async fn a_saga_that_an_unheard_act_ended_is_counted_as_done() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 6, "signal:go").await;
    // Every other commit goes in, and nobody hears it.
    let mut commits = 0;
    world.shim.on(move |call| match call {
        Call::Commit(_) => {
            commits += 1;
            if commits % 2 == 0 { Act::FailAfter(StoreError::Unavailable("test".into())) } else { Act::Pass }
        }
        _ => Act::Pass,
    });
    let operation = host.bulk("kill", "id=*", 1_000).await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.matched, over.done, over.failed), (OperationState::Done, 6, 6, 0));
    assert_eq!(host.in_state(SagaState::Failed).await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_heard_while_an_act_has_to_wait() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 3, "signal:go").await;
    world.shim.on(|call| match call {
        Call::Commit(_) => Act::Fail(StoreError::Unavailable("test".into())),
        _ => Act::Pass,
    });
    let operation = host.bulk("kill", "id=*", 1_000).await;
    pass(seconds(2)).await;
    let stopped = host.outbox.cancel_operation(&operation.id, "ann").await.unwrap();
    assert_eq!((stopped.state, stopped.done, stopped.failed), (OperationState::Cancelled, 0, 0));
    world.shim.on(|_| Act::Pass);
    pass(seconds(60)).await;
    // The one whose act was under way may be killed; no other is begun.
    assert!(host.in_state(SagaState::Failed).await <= 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_too_large_for_the_store_is_refused_and_the_others_are_done() {
    let world = World::new();
    // What comes later is acted on first.
    let host = with_sagas(&world, WAITING, 5, "signal:go").await;
    let of_big = |commit: &SagaCommit| {
        let in_journal = commit.journal.iter().any(|entry| entry.key == key("s-04"));
        let is_row = |write: &SagaWrite| matches!(write, SagaWrite::PutRow(row) if row.tree.key == key("s-04"));
        in_journal || commit.writes.iter().any(is_row)
    };
    world.shim.on(move |call| match call {
        Call::Commit(commit) if of_big(commit) => Act::Fail(StoreError::TooLarge),
        _ => Act::Pass,
    });
    // Its act is what the store doesn't take; later it stands still.
    for done in [4, 0] {
        let operation = host.bulk("pause", "id=*", 1_000).await;
        let over = host.until_over(&operation.id).await;
        assert_eq!((over.state, over.matched, over.done, over.failed), (OperationState::Done, 5, done, 1), "{over:?}");
        let [Refusal { code, example, .. }] = over.refusals.as_slice() else { panic!("{:?}", over.refusals) };
        assert_eq!((code.as_str(), example.as_str()), ("STORAGE.TOO_LARGE", "s-04"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_act_on_sagas_can_be_cancelled_half_way() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 40, "signal:go").await;
    let operation = host.bulk("pause", "id=s-*", 10).await;
    pass(seconds(2)).await;
    let stopped = host.outbox.cancel_operation(&operation.id, "ann").await.unwrap();
    assert_eq!(stopped.state, OperationState::Cancelled);
    assert!((10..35).contains(&stopped.done), "{} done", stopped.done);
    pass(seconds(60)).await;
    assert_eq!(host.in_state(SagaState::Paused).await as u64, stopped.done);
    // The rest is another operation's, which finds some paused already.
    let rest = host.bulk("pause", "id=s-*", 1_000).await;
    let over = host.until_over(&rest.id).await;
    assert_eq!((over.done, over.unchanged, over.failed), (40 - stopped.done, stopped.done, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_counted_by_code_with_an_example() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 3, "signal:go").await;
    let operation = host.bulk("accept", "id=*", 1_000).await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.matched, over.done, over.failed), (OperationState::Done, 3, 0, 3));
    let [Refusal { code, count, example, detail }] = over.refusals.as_slice() else { panic!("{:?}", over.refusals) };
    assert_eq!((code.as_str(), *count, example.as_str()), ("SAGA.STATE", 3, "s-02"));
    assert!(detail.contains("only a stuck compensation can be accepted"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn an_operation_of_one_tenant_takes_no_other_and_none_that_ended() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 2, "signal:go").await;
    host.signal("s-00", "go", serde_json::json!(1)).await.unwrap();
    host.until("s-00", SagaState::Completed).await;
    let others = OperationRequest { tenant: Some(tenant("acme")), ..request("kill", "id=*", 1_000) };
    let operation = host.outbox.start_operation(others).await.unwrap();
    assert_eq!((operation.matched, host.until_over(&operation.id).await.done), (0, 0));
    let own = OperationRequest { tenant: Some(tenant("default")), ..request("kill", "id=*", 1_000) };
    let operation = host.outbox.start_operation(own).await.unwrap();
    assert_eq!((operation.matched, host.until_over(&operation.id).await.done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_in_trouble_makes_it_wait_and_nothing_is_done_twice() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 30, "signal:go").await;
    let mut commits = 0;
    world.shim.on(move |call| match call {
        Call::Commit(_) => {
            commits += 1;
            match commits % 5 {
                0 => Act::FailAfter(StoreError::Unavailable("test".into())),
                3 => Act::Fail(StoreError::Unavailable("test".into())),
                _ => Act::Pass,
            }
        }
        _ => Act::Pass,
    });
    let operation = host.bulk("pause", "id=*", 1_000).await;
    let over = host.until_over(&operation.id).await;
    assert_eq!((over.state, over.done + over.unchanged, over.failed), (OperationState::Done, 30, 0));
    for name in names(30) {
        let view = host.view(&name).await;
        assert_eq!(view.history.unwrap().iter().filter(|line| line.kind == "paused").count(), 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_nobody_here_can_do_ends_and_says_why() {
    let world = World::new();
    let host = with_sagas(&world, WAITING, 1, "signal:go").await;
    let operation = host.bulk("pause", "id=*", 1).await;
    host.until_over(&operation.id).await;
    host.crash().await;
    let unknown = Operation { kind: "explode".to_owned(), state: OperationState::Running, ..operation };
    world.memory.put_operation(&unknown).await.unwrap();
    let host = world.start().await;
    let over = host.until_over(&unknown.id).await;
    assert_eq!(over.state, OperationState::Failed);
    assert!(over.error.unwrap().contains("explode"));
    assert_eq!(host.state("s-00").await, SagaState::Paused);
}
