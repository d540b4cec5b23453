//! Bulk acts on dead letters, and provisioning.

use waybill_api::dead_letters::Replay;
use waybill_core::port::dead::DeadId;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::service::{MessageState, OperationRequest, Planned, ServiceError};
use waybill_core::port::transact::{Operation, OperationState};
use waybill_core::port::transport::{CallError, ErrorKind, Fault};
use waybill_testkit::fake_transport::{ack, permanent, retryable};

use crate::support::*;

async fn with_dead(world: &World, count: usize) -> (Host, Vec<String>) {
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    let ids = host.send((0..count).map(|index| keyed(&index.to_string(), &format!("k-{}", index % 3)))).await;
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == count as u64).await;
    world.main.tell(|_| ack());
    (host, ids)
}

fn request(kind: &str, filter: &str, rate: u32) -> OperationRequest {
    OperationRequest {
        kind: kind.into(),
        filter: filter.into(),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        tenant: None,
        rate: Some(rate),
        reason: "fixed".into(),
        actor: "ops".into(),
    }
}

async fn until_over(host: &Host, id: &str) -> Operation {
    eventually("the operation is over", async || {
        host.outbox.operation(id).await.unwrap().state != OperationState::Running
    })
    .await;
    host.outbox.operation(id).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_bulk_replay_keeps_its_rate_and_the_order_of_each_key() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 250).await;
    let began = world.clock.wall();
    let operation = host.outbox.start_operation(request("replay", "code=HTTP.*", 50)).await.unwrap();
    assert_eq!(operation.matched, 250);
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.state, over.done, over.failed), (OperationState::Done, 250, 0));
    let took = world.clock.wall().since(began).as_millis();
    assert!((4_700..6_500).contains(&took), "250 at 50 a second took {took} ms");
    host.until_done(&ids).await;
    let sent = world.main.log().sent;
    for key in ["k-0", "k-1", "k-2"] {
        let numbers: Vec<u32> = sent[250..]
            .iter()
            .filter(|one| one.key.as_deref() == Some(key))
            .map(|one| one.text().parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
    assert_eq!(host.audit_of("TxReplayRequested").await[0].object, operation.id);
}

#[tokio::test(start_paused = true)]
async fn a_bulk_act_can_be_cancelled_half_way() {
    let world = World::new();
    let (host, _) = with_dead(&world, 200).await;
    let operation = host.outbox.start_operation(request("purge", "", 10)).await.unwrap();
    pass(seconds(5)).await;
    let stopped = host.outbox.cancel_operation(&operation.id, "ops").await.unwrap();
    assert_eq!(stopped.state, OperationState::Cancelled);
    let left = host.outbox.count_dead(None, "").await.unwrap().value;
    assert!((140..160).contains(&left), "{left} left");
    assert_eq!(stopped.done, 200 - left);
    pass(seconds(60)).await;
    assert_eq!(host.outbox.count_dead(None, "").await.unwrap().value, left);
    let again = host.outbox.cancel_operation(&operation.id, "ops").await.unwrap_err();
    assert!(matches!(&again, ServiceError::State { state, .. } if state == "cancelled"));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_bulk_act_goes_on_after_a_restart_and_counts_right() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 300).await;
    let operation = host.outbox.start_operation(request("replay", "", 20)).await.unwrap();
    pass(seconds(8)).await;
    host.drain().await;
    let left = world.memory.read(|tables| tables.dead.len());
    assert!((100..200).contains(&left), "{left} left");
    pass(seconds(100)).await;
    let host = world.start().await;
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.state, over.failed), (OperationState::Done, 0));
    assert!(over.done + 20 >= 300 && over.done <= 300, "{} counted", over.done);
    host.until_done(&ids).await;
    assert_eq!(world.main.log().sent.len(), 600, "each died once and was replayed once");
}

#[tokio::test(start_paused = true)]
async fn a_bulk_replay_leaves_quarantined_ones_alone_and_takes_nothing_twice() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 20).await;
    host.outbox.quarantine(&DeadId::new(&tenant("default"), &ids[3]), "poison", "ops").await.unwrap();
    world.main.tell(|_| permanent("HTTP.400"));
    let operation = host.outbox.start_operation(request("replay", "", 1_000)).await.unwrap();
    assert_eq!(operation.matched, 19);
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.done, over.failed), (19, 0));
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 20 + 19, "what died again isn't replayed again");
    assert_eq!(host.view(&ids[3]).await.state, MessageState::Quarantined);
}

#[tokio::test(start_paused = true)]
async fn bulk_quarantine_and_purge_do_what_they_say() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 30).await;
    let operation = host.outbox.start_operation(request("quarantine", "key=k-1", 1_000)).await.unwrap();
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.done, over.failed), (10, 0));
    assert_eq!(host.view(&ids[1]).await.note.as_deref(), Some("fixed"));
    let operation = host.outbox.start_operation(request("purge", "state=dead", 1_000)).await.unwrap();
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.matched, over.done), (20, 20));
    assert_eq!(host.outbox.count_dead(None, "").await.unwrap().value, 10);
    let purged = host.view(&ids[0]).await;
    assert_eq!(purged.state, MessageState::Purged, "that it was there stays in the history for its time");
    assert_eq!((purged.bytes.unwrap_or_default().len(), purged.history.len()), (0, 0), "what it said doesn't");
    let ended = host.audit_of("OperationEnded").await;
    assert_eq!(
        (ended.len(), &ended[1].detail["kind"], &ended[1].detail["done"]),
        (2, &serde_json::json!("purge"), &serde_json::json!(20))
    );
    let unknown = host.outbox.start_operation(request("explode", "", 1)).await.unwrap_err();
    assert_eq!(unknown.code().as_str(), "OPERATION.NOT_FOUND");
    assert_eq!(host.outbox.operation("nobody").await.unwrap_err().code().as_str(), "OPERATION.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_bulk_act_survives_trouble_of_the_store_and_counts_right() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 60).await;
    let mut commits = 0;
    world.shim.on(move |call| match call {
        Call::Commit(commit) if !commit.writes.is_empty() => {
            commits += 1;
            if commits % 10 == 0 {
                Act::Fail(waybill_core::port::store::StoreError::Unavailable("test".into()))
            } else {
                Act::Pass
            }
        }
        _ => Act::Pass,
    });
    let operation = host.outbox.start_operation(request("replay", "", 1_000)).await.unwrap();
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.state, over.done + over.failed), (OperationState::Done, 60));
    host.until_done(&ids).await;
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_a_crash_interrupts_is_waited_for_by_the_next_host() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 30).await;
    world.main.tell(|_| retryable("HTTP.503"));
    let trial = Planned { trial: Some(3), ..Planned::default() };
    let asked = OperationRequest { planned: trial, ..request("replay", "", 1_000) };
    let operation = host.outbox.start_operation(asked).await.unwrap();
    pass(seconds(5)).await;
    let under_way = host.outbox.operation(&operation.id).await.unwrap();
    assert_eq!((under_way.state, under_way.done), (OperationState::Running, 3), "the rest waits for the trial");
    let fates = host.outbox.fates(&under_way).await.unwrap();
    assert_eq!((fates.put_back, fates.on_the_way()), (3, 3));
    host.drain().await;
    world.main.tell(|_| ack());
    let host = world.start().await;
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.state, over.done), (OperationState::Done, 30));
    host.until_done(&ids).await;
    let fates = host.outbox.fates(&over).await.unwrap();
    assert_eq!((fates.put_back, fates.delivered, fates.died), (30, 30, 0));
}

#[tokio::test(start_paused = true)]
async fn a_trial_that_waits_can_be_cancelled() {
    let world = World::new();
    let (host, _) = with_dead(&world, 10).await;
    world.main.tell(|_| retryable("HTTP.503"));
    let trial = Planned { trial: Some(2), ..Planned::default() };
    let asked = OperationRequest { planned: trial, ..request("replay", "", 1_000) };
    let operation = host.outbox.start_operation(asked).await.unwrap();
    pass(seconds(5)).await;
    let stopped = host.outbox.cancel_operation(&operation.id, "ops").await.unwrap();
    assert_eq!((stopped.state, stopped.done), (OperationState::Cancelled, 2));
}

#[tokio::test(start_paused = true)]
async fn a_bulk_act_takes_what_died_before_the_clock_was_set_back_and_takes_nothing_twice() {
    let world = World::new();
    let (host, _) = with_dead(&world, 20).await;
    pass(seconds(10)).await;
    world.main.tell(|_| permanent("HTTP.400"));
    world.stepped.step(-3_600);
    let operation = host.outbox.start_operation(request("replay", "", 1_000)).await.unwrap();
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.matched, over.done, over.failed), (20, 20, 0));
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 40, "what died again isn't replayed again");
}

/// Those of them that are dead letters, in the order that they were sent in.
async fn still_dead(host: &Host, ids: &[String]) -> Vec<usize> {
    let mut dead = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        if host.view(id).await.state == MessageState::Dead {
            dead.push(index);
        }
    }
    dead
}

#[tokio::test(start_paused = true)]
async fn what_others_put_back_while_a_trial_waits_is_no_failure_of_it() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 10).await;
    world.main.tell(|_| retryable("HTTP.503"));
    let trial = Planned { trial: Some(2), ..Planned::default() };
    let asked = OperationRequest { planned: trial, ..request("replay", "", 1_000) };
    let operation = host.outbox.start_operation(asked).await.unwrap();
    pass(seconds(5)).await;
    let left = still_dead(&host, &ids).await;
    assert_eq!(left.len(), 8, "the rest waits for the trial");
    let other = DeadId::new(&tenant("default"), &ids[left[4]]);
    host.outbox.replay(&other, Replay::because("fixed"), "ops").await.unwrap();
    world.main.tell(|_| ack());
    let over = until_over(&host, &operation.id).await;
    assert_eq!((over.state, over.done, over.failed), (OperationState::Done, 9, 0), "{:?}", over.refusals);
    host.until_done(&ids).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_a_trial_waits_is_refused_once() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 10).await;
    let first = still_dead(&host, &ids).await[0];
    host.outbox.quarantine(&DeadId::new(&tenant("default"), &ids[first]), "poison", "ops").await.unwrap();
    world.main.tell(|_| ack());
    let trial = Planned { trial: Some(2), ..Planned::default() };
    let asked = OperationRequest { planned: trial, ..request("replay", "state=*", 1_000) };
    let operation = host.outbox.start_operation(asked).await.unwrap();
    let over = until_over(&host, &operation.id).await;
    let refused: u64 = over.refusals.iter().map(|refusal| refusal.count).sum();
    assert_eq!((over.done, over.failed, refused), (9, 1, 1), "{:?}", over.refusals);
}

#[tokio::test(start_paused = true)]
async fn what_died_again_since_its_page_was_read_is_left_alone() {
    for kind in ["replay", "quarantine", "purge"] {
        let world = World::new();
        let (host, ids) = with_dead(&world, 10).await;
        let operation = host.outbox.start_operation(request(kind, "", 1)).await.unwrap();
        pass(seconds(2)).await;
        let last = *still_dead(&host, &ids).await.last().unwrap();
        let text = last.to_string();
        world.main.tell({
            let text = text.clone();
            move |delivery| if delivery.payload == text.as_str() { permanent("HTTP.422") } else { ack() }
        });
        let again = DeadId::new(&tenant("default"), &ids[last]);
        host.outbox.replay(&again, Replay::because("one more try"), "ops").await.unwrap();
        eventually("it is sent again", async || world.main.log().count(&text) == 2).await;
        host.until_state(&ids[last], MessageState::Dead).await;
        let over = until_over(&host, &operation.id).await;
        assert_eq!((over.state, over.done, over.failed), (OperationState::Done, 9, 1), "{kind}");
        assert!(over.refusals[0].detail.contains("dead again since it was read"), "{:?}", over.refusals);
        assert_eq!(world.main.log().count(&text), 2, "{kind}");
        assert_eq!(host.view(&ids[last]).await.state, MessageState::Dead, "{kind}");
    }
}

/// A plan leaves no trace; what was applied, or tried, does.
#[tokio::test(start_paused = true)]
async fn what_was_provisioned_is_in_the_audit() {
    let world = World::new();
    let host = world.start().await;
    let bare = host.outbox.provision("main", true, "ops").await;
    assert!(matches!(bare, Err(ServiceError::NoProvisioning { .. })), "{bare:?}");
    let gone = host.outbox.provision("gone", true, "ops").await;
    assert!(matches!(gone, Err(ServiceError::NotFound { .. })), "{gone:?}");

    let change = |target: &str, action| ProvisionChange { target: target.into(), action, detail: String::new() };
    let changes = vec![change("stream A", ProvisionAction::Create), change("stream B", ProvisionAction::Conflict)];
    world.main.set_provisioned(Ok(changes.clone()));
    assert_eq!(host.outbox.provision("main", false, "ops").await, Ok(changes.clone()));
    assert!(host.audit_of("TransportProvisioned").await.is_empty());
    assert_eq!(host.outbox.provision("main", true, "ops").await, Ok(changes));

    let fault = Fault::new("NATS.GONE", "nobody listens");
    world.main.set_provisioned(Err(ProvisionError::Failed(CallError { kind: ErrorKind::Unavailable, fault })));
    let failed = host.outbox.provision("main", true, "ops").await;
    assert!(matches!(failed, Err(ServiceError::ProvisionFailed { .. })), "{failed:?}");

    let events = host.audit_of("TransportProvisioned").await;
    let told: Vec<_> = events.iter().map(|event| (event.actor.as_str(), event.object.as_str())).collect();
    assert_eq!(told, [("ops", "main"), ("ops", "main")]);
    let mut details: Vec<String> = events.iter().map(|event| event.detail.to_string()).collect();
    details.sort();
    assert!(details[0].contains("stream A") && details[0].contains("conflicts"), "{details:?}");
    assert!(details[1].contains("NATS.GONE"), "{details:?}");
}
