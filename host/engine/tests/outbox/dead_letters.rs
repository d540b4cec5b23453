//! Dead letters: replay, quarantine, edit, purge, groups, filters.

use waybill_api::dead_letters::Replay;
use waybill_core::annotation::Annotation;
use waybill_core::port::dead::DeadId;
use waybill_core::port::query::ListOrder;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_testkit::fake_transport::{ack, permanent, retryable};

use crate::support::*;

/// A host with dead letters `bad-0`, `bad-1`, ...; the transport is well again.
async fn with_dead(world: &World, count: usize) -> (Host, Vec<String>) {
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    let ids = host.send((0..count).map(|index| keyed(&format!("bad-{index}"), "k"))).await;
    for id in &ids {
        host.until_state(id, MessageState::Dead).await;
    }
    world.main.tell(|_| ack());
    (host, ids)
}

#[tokio::test(start_paused = true)]
async fn a_replayed_dead_letter_is_delivered_with_its_id_and_place_and_keeps_its_history() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 1).await;
    let view =
        host.outbox.replay(&DeadId::new(&tenant("default"), &ids[0]), Replay::because("fixed"), "ops").await.unwrap();
    assert_ne!(view.message().unwrap().state, MessageState::Dead);
    let view = host.until_state(&ids[0], MessageState::Done).await;
    assert_eq!((view.attempts, view.history.len()), (1, 2), "attempts begin anew, the history goes on");
    let sent = world.main.log().sent;
    assert_eq!((sent[1].id.as_str(), sent[1].seq, sent[1].attempt), (ids[0].as_str(), sent[0].seq, 1));
    let audit = host.audit_of("TxReplayRequested").await;
    assert_eq!(
        (audit[0].actor.as_str(), audit[0].object.as_str(), audit[0].detail["reason"].as_str()),
        ("ops", ids[0].as_str(), Some("fixed"))
    );
    let again = host
        .outbox
        .replay(&DeadId::new(&tenant("default"), &ids[0]), Replay::because("again"), "ops")
        .await
        .unwrap_err();
    assert!(matches!(again, ServiceError::State { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_replay_works_after_a_restart_and_dies_again_when_nothing_was_fixed() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 1).await;
    host.drain().await;
    world.main.tell(|_| permanent("HTTP.422"));
    let host = world.start().await;
    host.outbox.replay(&DeadId::new(&tenant("default"), &ids[0]), Replay::because("hope"), "ops").await.unwrap();
    let view = host.until_state(&ids[0], MessageState::Dead).await;
    assert_eq!(view.history.len(), 2);
    assert!(view.last_error.unwrap().starts_with("HTTP.422"));
}

/// Attempt, epoch and place are those of the first delivery: by the count of replays alone a receiver that keeps its refusal
/// under the id knows that somebody wants another answer. It outlives retries, deaths and restarts.
#[tokio::test(start_paused = true)]
async fn a_replay_is_told_apart_by_its_receiver() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 1).await;
    let replay = async |host: &Host| {
        let letter = DeadId::new(&tenant("default"), &ids[0]);
        host.outbox.replay(&letter, Replay::because("again"), "ops").await.unwrap();
    };
    world.main.tell(|delivery| if delivery.attempt == 1 { retryable("HTTP.503") } else { permanent("HTTP.422") });
    replay(&host).await;
    let view = host.until_state(&ids[0], MessageState::Dead).await;
    assert_eq!(view.replays, 1);
    host.drain().await;
    world.main.tell(|_| ack());
    let host = world.start().await;
    replay(&host).await;
    let view = host.until_state(&ids[0], MessageState::Done).await;
    assert_eq!(view.replays, 2, "it is kept with the message");
    let sent = world.main.log().sent;
    let told: Vec<(u32, u32)> = sent.iter().map(|sent| (sent.replays, sent.attempt)).collect();
    assert_eq!(told, [(0, 1), (1, 1), (1, 2), (2, 1)]);
    assert!(sent.iter().all(|sent| sent.id == ids[0]), "its idempotency key stays");
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_dead_letter_is_replayed_only_by_its_id() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 2).await;
    let view = host.outbox.quarantine(&DeadId::new(&tenant("default"), &ids[0]), "poison", "ops").await.unwrap();
    let view = view.message().unwrap();
    assert_eq!((view.state, view.note.as_deref()), (MessageState::Quarantined, Some("poison")));
    let page = host.outbox.dead_letters(None, "state=quarantined", None, 10).await.unwrap();
    assert_eq!(page.items.len(), 1);
    host.outbox.replay(&DeadId::new(&tenant("default"), &ids[0]), Replay::because("by id"), "ops").await.unwrap();
    host.until_state(&ids[0], MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn an_edited_dead_letter_is_a_new_message_that_names_the_original() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 1).await;
    let edited = keyed("good", "k");
    let answer = host
        .outbox
        .edit(&DeadId::new(&tenant("default"), &ids[0]), edited, "the total was wrong", "ops")
        .await
        .unwrap();
    let copy = host.until_state(&answer.ids[0], MessageState::Done).await;
    assert_eq!(copy.annotations.get(Annotation::CausationId), Some(ids[0].as_str()));
    assert_eq!((copy.topic.as_str(), copy.key.as_deref()), ("bus:orders.created", Some("k")));
    assert_eq!(world.main.log().texts(), ["bad-0", "good"]);
    let original = host.view(&ids[0]).await;
    assert_eq!(original.state, MessageState::Quarantined);
    assert!(original.note.unwrap().contains(&answer.ids[0]));
    let asked = &host.audit_of("TxReplayRequested").await[0];
    assert_eq!((&asked.object, &asked.detail["reason"]), (&ids[0], &"the total was wrong".into()));
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_found_counted_and_grouped_by_filter() {
    let world = World::new();
    world.main.tell(|delivery| {
        let code = if delivery.message.tenant.as_str() == "acme" { "HTTP.400" } else { "NATS.MAX" };
        permanent(code)
    });
    let host = world.start().await;
    host.send((0..7).map(|index| of_tenant(&index.to_string(), "acme"))).await;
    host.send((0..3).map(|index| of_tenant(&index.to_string(), "beta"))).await;
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == 10).await;
    let acme = tenant("acme");
    assert_eq!(host.outbox.count_dead(None, "code=HTTP.*").await.unwrap().value, 7);
    assert_eq!(host.outbox.count_dead(Some(&acme), "").await.unwrap().value, 7);
    assert_eq!(host.outbox.count_dead(Some(&acme), "tenant=beta").await.unwrap().value, 0);
    let groups = host.outbox.dead_groups(None, "").await.unwrap().value;
    let seen: Vec<_> = groups.iter().map(|group| (group.tenant.as_str(), group.code.as_str(), group.count)).collect();
    assert_eq!(seen, [("acme", "HTTP.400", 7), ("beta", "NATS.MAX", 3)]);
    let hours = groups.iter().map(|group| (group.hour.len(), group.hour.iter().flatten().sum::<u64>()));
    assert_eq!(hours.collect::<Vec<_>>(), [(60, 7), (60, 3)], "all died within the hour");
    let mut texts = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = host.outbox.dead_letters(Some(&acme), "", cursor.as_deref(), 2).await.unwrap();
        texts.extend(page.items.iter().map(|view| view.message().unwrap().seq.unwrap()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(texts.len(), 7);
    assert!(texts.is_sorted_by(|newer, older| newer > older), "newest first: {texts:?}");
    assert_eq!(
        host.outbox.count_dead(None, "colour=red").await.unwrap_err().code().as_str(),
        "SCHEMA.VALIDATION_FAILED"
    );
    let stats = host.outbox.stats(Some(&acme)).await.unwrap();
    assert_eq!(stats.iter().map(|stat| stat.dead).sum::<u64>(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_sees_neither_messages_nor_dead_letters_of_another() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 1).await;
    let other = tenant("acme");
    assert_eq!(
        host.outbox.dead_letter(&DeadId::new(&other, &ids[0])).await.unwrap_err().code().as_str(),
        "DEAD.NOT_FOUND"
    );
    assert_eq!(host.outbox.message(&other, &ids[0]).await.unwrap_err().code().as_str(), "OUTBOX.NOT_FOUND");
    assert_eq!(
        host.outbox
            .replay(&DeadId::new(&other, &ids[0]), Replay::because("mine"), "ops")
            .await
            .unwrap_err()
            .code()
            .as_str(),
        "DEAD.NOT_FOUND"
    );
    assert!(host.outbox.dead_letters(Some(&other), "", None, 10).await.unwrap().items.is_empty());
    assert!(host.outbox.messages(Some(&other), "", ListOrder::State, None, 10).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn operators_who_act_on_one_dead_letter_at_once_do_it_once() {
    let world = World::new();
    let (host, ids) = with_dead(&world, 10).await;
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(millis(20)) } else { Act::Pass });
    for (round, id) in ids.iter().enumerate() {
        let dead = DeadId::new(&tenant("default"), id);
        let (replayed, fenced, again) = futures::join!(
            host.outbox.replay(&dead, Replay::because("a"), "a"),
            host.outbox.quarantine(&dead, "b", "b"),
            host.outbox.replay(&dead, Replay::because("c"), "c"),
        );
        let done = [replayed.is_ok(), fenced.is_ok(), again.is_ok()];
        assert_eq!(done.iter().filter(|ok| **ok).count(), 1, "{replayed:?} {fenced:?} {again:?}");
        pass(seconds(10)).await;
        let dead = world.memory.read(|tables| tables.dead.len());
        let sent = world.main.log().count(&format!("bad-{round}"));
        assert_eq!(sent, 2, "the first one to come was the replay");
        assert_eq!(dead, ids.len() - round - 1);
    }
}
