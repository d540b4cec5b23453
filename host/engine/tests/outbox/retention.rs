//! What is old goes: history after `keep_done`, dead letters after `dead.keep`.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_api::dead_letters::Replay;
use waybill_core::ids::ShardId;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::{MessageState, OperationRequest, Planned};
use waybill_core::port::store::{StoreError, Write};
use waybill_core::port::transact::{Operation, OperationState, TransactStore, first_operation_id};
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
    assert_eq!(host.outbox.message(&tenant("default"), &ids[0]).await.unwrap_err().code().as_str(), "OUTBOX.NOT_FOUND");
    let left =
        world.memory.read(|tables| (tables.history.len(), tables.ids.len(), tables.blobs.len(), tables.segments.len()));
    assert_eq!(left, (0, 0, 0, 0));
    let again = host.try_send([named("anew", "order-1")]).await.unwrap();
    assert!(again.duplicates.is_empty(), "an id may be used again after keep_done");
}

/// A crash between a commit and the kept answer of its request is found by the ids: they are known for as long as the key.
#[tokio::test(start_paused = true)]
async fn ids_made_from_idempotency_keys_are_known_for_their_time_although_history_is_not_kept() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.keep_done = seconds(1);
            config.idempotency.ttl = seconds(7_200);
        })
        .await;
    let id = "0123456789abcdef0123456789abcdef";
    host.send_one(named("charge", id)).await;
    host.until_state(id, MessageState::Done).await;
    pass(seconds(3_600)).await;
    assert!(world.memory.read(|tables| tables.history.is_empty()));
    let again = host.try_send([named("charge", id)]).await.unwrap();
    assert_eq!(again.duplicates, [id]);
    pass(seconds(7_200)).await;
    assert!(world.memory.read(|tables| tables.ids.is_empty() && tables.ids_due.is_empty()));
}

/// What a round removed isn't read over again by the next one.
#[tokio::test(start_paused = true)]
async fn a_round_of_retirement_goes_on_where_the_one_before_ended() {
    let world = World::new();
    let froms = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&froms);
    world.shim.on(move |call| {
        if let Call::History(_, after) = call {
            seen.lock().push(after);
        }
        Act::Pass
    });
    let host = world.start_with(|config| config.keep_done = seconds(1)).await;
    let ids = host.send((0..10).map(|number| message(&number.to_string()))).await;
    for id in &ids {
        host.until_state(id, MessageState::Done).await;
    }
    pass(seconds(300)).await;
    let last = froms.lock().pop();
    assert!(matches!(last, Some(Some(_))), "the last round began at the front: {last:?}");
    pass(seconds(4_000)).await;
    assert!(froms.lock().contains(&None), "now and then it begins at the front");
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_retired_many_in_a_commit() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start_with(|config| config.keep_dead = seconds(600)).await;
    host.send((0..300).map(|index| message(&index.to_string()))).await;
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == 300).await;
    let purging = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&purging);
    world.shim.on(move |call| {
        if let Call::Commit(commit) = call {
            let gone = commit.writes.iter().filter(|write| matches!(write, Write::DeleteDead(_))).count();
            seen.lock().extend(Some(gone).filter(|gone| *gone > 0));
        }
        Act::Pass
    });
    eventually("all are gone", async || world.memory.read(|tables| tables.dead.is_empty())).await;
    let commits = purging.lock().clone();
    assert_eq!(commits.iter().sum::<usize>(), 300);
    assert!(commits.len() <= 12, "{} commits for 300 dead letters", commits.len());
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
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == 250).await;
    world.main.tell(|_| ack());
    pass(seconds(500)).await;
    host.outbox.replay(&DeadId::new(&tenant("default"), &ids[7]), Replay::because("one of them"), "ops").await.unwrap();
    pass(seconds(300)).await;
    assert_eq!(host.outbox.count_dead(None, "").await.unwrap().value, 0);
    pass(seconds(300)).await;
    let left = world.memory.read(|tables| (tables.dead.len(), tables.history.len(), tables.ids.len()));
    assert_eq!(left, (0, 0, 0));
}

/// What a newer host wrote there, or a store that is slow with one shard, ends no other shard's retention.
#[tokio::test(start_paused = true)]
async fn a_shard_that_cannot_be_cleared_holds_up_no_other() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload.starts_with(b"bad") { permanent("HTTP.400") } else { ack() });
    world.shim.on(|call| match call {
        Call::History(ShardId(0), _) | Call::DeadBefore(ShardId(0)) => {
            Act::Fail(StoreError::NewerData("test".to_owned()))
        }
        _ => Act::Pass,
    });
    let host = world
        .start_with(|config| {
            config.shards = 2;
            (config.keep_done, config.keep_dead) = (seconds(60), seconds(60));
        })
        .await;
    let fine = host.send((0..40).map(|index| keyed(&index.to_string(), &format!("k-{index}")))).await;
    host.send((0..40).map(|index| keyed(&format!("bad {index}"), &format!("k-{index}")))).await;
    host.until_done(&fine).await;
    eventually("the others are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == 40).await;
    let left = || {
        world.memory.read(|tables| {
            let history: BTreeSet<ShardId> = tables.history.keys().map(|key| key.0).collect();
            let dead: BTreeSet<ShardId> = tables.dead.keys().map(|key| key.0).collect();
            (history, dead)
        })
    };
    let (first, both) = (BTreeSet::from([ShardId(0)]), BTreeSet::from([ShardId(0), ShardId(1)]));
    assert_eq!(left(), (both.clone(), both));
    pass(seconds(600)).await;
    assert_eq!(left(), (first.clone(), first));
}

/// They are kept as acts are, and what became of what they put back goes with them.
#[tokio::test(start_paused = true)]
async fn bulk_operations_are_kept_for_the_time_of_the_audit_trail() {
    let world = World::new();
    let host = world.start_with(|config| config.keep_audit = seconds(3_600)).await;
    let asked = OperationRequest {
        kind: "replay".into(),
        filter: String::new(),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        tenant: None,
        rate: None,
        reason: "fixed".into(),
        actor: "ops".into(),
    };
    let begun = host.outbox.start_operation(asked).await.unwrap();
    let state = async |id: &str| host.outbox.operation(id).await.map(|operation| operation.state);
    eventually("it is over", async || state(&begun.id).await.unwrap() == OperationState::Done).await;
    // Ids are made by the machine's clock, which isn't the test's.
    let over = host.outbox.operation(&begun.id).await.unwrap();
    let old = Operation { id: first_operation_id(START), ..over };
    world.memory.put_operation(&old).await.unwrap();
    pass(seconds(3_000)).await;
    assert_eq!(state(&old.id).await.unwrap(), OperationState::Done);
    pass(seconds(1_200)).await;
    assert_eq!(state(&old.id).await.unwrap_err().code().as_str(), "OPERATION.NOT_FOUND");
}
