//! Received messages among the dead letters: shown, replayed, edited, fenced off, removed.

use std::sync::Arc;

use waybill_api::dead_letters::{DeadLetterView, Replay, Replayed};
use waybill_core::annotation::Annotation;
use waybill_core::audit::AuditQuery;
use waybill_core::glob::Glob;
use waybill_core::ids::Seq;
use waybill_core::inbox::records::InboxDead;
use waybill_core::new_message::NewMessage;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::{MessageState, OperationRequest, Planned};
use waybill_core::port::source::SourceDelivery;
use waybill_core::port::transact::OperationState;
use waybill_testkit::fake_handler::Reply;

use crate::support::*;

fn named(id: &str) -> DeadId {
    DeadId::new(&tenant("default"), id)
}

/// A host with one dead letter, and its place.
async fn with_dead(world: &World) -> (Host, String) {
    let host = world.start().await;
    world.http.answer(|_| Reply::status(422));
    world.shop.send_keyed("m-1", "a", "{\"n\":1}");
    world.until_acknowledged(1).await;
    world.http.answer(|_| Reply::status(200));
    let place = host.dead().await.remove(0).id;
    (host, place)
}

#[tokio::test(start_paused = true)]
async fn one_is_found_by_its_place_and_by_its_sender_s_id() {
    let world = World::new();
    let (host, place) = with_dead(&world).await;
    assert!(place.starts_with("inbox-0-"), "{place}");
    for id in [place.as_str(), "m-1"] {
        let DeadLetterView::Inbox(dead) = host.outbox.dead_letter(&named(id)).await.unwrap() else { panic!() };
        assert_eq!((dead.message_id.as_str(), dead.attempts), ("m-1", 1));
        assert_eq!(dead.payload.as_ref().map(|payload| payload.get()), Some("{\"n\":1}"));
    }
    assert!(host.outbox.dead_letter(&named("m-2")).await.is_err());
    let other = DeadId::new(&tenant("acme"), &place);
    assert!(host.outbox.dead_letter(&other).await.is_err(), "another tenant's isn't found");
    assert_eq!(host.outbox.count_dead(None, "kind=inbox").await.unwrap().value, 1);
    let groups = host.outbox.dead_groups(None, "consumer=ship").await.unwrap().value;
    assert_eq!((groups.len(), groups[0].topic.as_str(), groups[0].example.as_str()), (1, "orders.paid", &*place));
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_handled_again_and_its_id_stays_known() {
    let world = World::new();
    let (host, place) = with_dead(&world).await;
    let replayed = host.outbox.replay(&named(&place), Replay::because("fixed"), "ann").await.unwrap();
    let Replayed::Inbox(view) = replayed else { panic!() };
    assert_eq!((view.id.as_str(), view.attempts), ("m-1", 0));
    world.until_called(2).await;
    world.until_rows(0).await;
    assert_eq!(host.dead().await.len(), 0);
    let again = world.http.posted().pop().unwrap();
    assert_eq!((again.attempt(), again.is_maybe_handled()), (1, true));
    world.shop.send_keyed("m-1", "a", "{\"n\":1}");
    world.until_acknowledged(2).await;
    assert_eq!(world.http.posted().len(), 2);
    let audit = host.outbox.audit(&AuditQuery::default(), None, 10).await.unwrap().items;
    assert!(audit.iter().any(|event| event.kind == "TxReplayRequested" && event.detail["kind"] == "inbox"));
    assert!(host.outbox.replay(&named(&place), Replay::because("again"), "ann").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_trail_has_what_became_of_a_received_message_with_codes_attempts_and_consumer() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|posted| Reply::status(if posted.attempt() < 3 { 500 } else { 422 }));
    world.shop.send_keyed("m-1", "a", "{\"n\":1}");
    world.until_dead(1).await;
    world.http.answer(|_| Reply::status(200));
    let place = host.dead().await.remove(0).id;
    host.outbox.replay(&named(&place), Replay::because("fixed"), "ann").await.unwrap();
    world.until_rows(0).await;
    let of_ship = AuditQuery { consumer: Some(Glob::literal("ship")), ..AuditQuery::default() };
    let trail = host.outbox.audit(&of_ship, None, 100).await.unwrap().items;
    let mut kinds: Vec<&str> = trail.iter().map(|line| line.kind.as_str()).collect();
    // The act is written beside the commit that does it, so either may be first.
    kinds.sort_unstable();
    assert_eq!(kinds, ["TxDead", "TxReplay", "TxReplayRequested", "TxRetry", "TxRetry"]);
    let of = |kind: &str| trail.iter().find(|line| line.kind == kind).unwrap();
    let dead = of("TxDead");
    assert_eq!((dead.object.as_str(), &dead.detail["of"]), ("m-1", &"inbox".into()));
    assert_eq!((&dead.detail["attempts"], &dead.detail["code"]), (&3.into(), &"HTTP.422".into()));
    assert_eq!((dead.tenant.as_deref(), &dead.detail["consumer"]), (Some("default"), &"ship".into()));
    let requested = of("TxReplayRequested");
    assert_eq!((requested.object.as_str(), &requested.detail["message_id"]), (&*place, &"m-1".into()));
}

#[tokio::test(start_paused = true)]
async fn a_replay_beside_a_redelivery_is_handled_once() {
    let world = World::new();
    let (host, place) = with_dead(&world).await;
    world.http.answer(|_| Reply::status(200).delayed(seconds(2)));
    let dead = named(&place);
    let replay = host.outbox.replay(&dead, Replay::because("fixed"), "ann");
    let resend = async {
        for _ in 0..5 {
            world.shop.send_keyed("m-1", "a", "{\"n\":1}");
            pass(millis(5)).await;
        }
    };
    let (replayed, ()) = tokio::join!(replay, resend);
    replayed.unwrap();
    world.until_acknowledged(6).await;
    world.until_rows(0).await;
    assert_eq!(world.http.posted().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_edited_one_is_stored_under_an_id_of_its_own() {
    let world = World::new();
    let (host, place) = with_dead(&world).await;
    let edited = NewMessage { payload: "{\"n\":2}".into(), ..NewMessage::default() };
    let enqueued = host.outbox.edit(&named(&place), edited, "", "ann").await.unwrap();
    world.until_called(2).await;
    let call = world.http.posted().pop().unwrap();
    assert_eq!((call.id.as_str(), call.body["causation_id"].as_str()), (&*enqueued.ids[0], Some("m-1")));
    assert_eq!(call.body["payload"]["n"], 2);
    eventually("the original is gone", async || host.dead().await.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_an_edit_took_away_is_gone_and_the_subject_stays() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|_| Reply::status(422));
    let delivery = SourceDelivery::new("", "orders.paid", "{\"n\":1}");
    let (id, text) = (Some("m-1".to_owned()), Some("old".to_owned()));
    world.shop.push(SourceDelivery { id, event_type: text.clone(), correlation_id: text, ..delivery });
    world.until_acknowledged(1).await;
    world.http.answer(|_| Reply::status(200));
    let annotations = [(Annotation::CorrelationId, "new")].into();
    let edited =
        NewMessage { topic: "other".into(), payload: "{\"n\":1}".into(), annotations, ..NewMessage::default() };
    host.outbox.edit(&named("m-1"), edited, "", "ann").await.unwrap();
    world.until_called(2).await;
    let body = world.http.posted().pop().unwrap().body;
    assert_eq!((&body["subject"], &body["correlation_id"]), (&"orders.paid".into(), &"new".into()));
    assert!(body["event_type"].is_null(), "{body}");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_fenced_off_is_replayed_by_its_id_only() {
    let world = World::new();
    let (host, place) = with_dead(&world).await;
    let fenced = host.outbox.quarantine(&named("m-1"), "look at it", "ann").await.unwrap();
    let DeadLetterView::Inbox(dead) = fenced else { panic!() };
    assert_eq!((dead.state, dead.note.as_deref()), (MessageState::Quarantined, Some("look at it")));
    let operation = run(&host, "replay", "kind=inbox").await;
    assert_eq!((operation.done, world.http.posted().len()), (0, 1));
    host.outbox.replay(&named(&place), Replay::because("fixed"), "ann").await.unwrap();
    world.until_called(2).await;
}

async fn run(host: &Host, kind: &str, filter: &str) -> waybill_core::port::transact::Operation {
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
    let id = host.outbox.start_operation(request).await.unwrap().id;
    let is_over = async || host.outbox.operation(&id).await.unwrap().state != OperationState::Running;
    eventually("the operation is over", is_over).await;
    host.outbox.operation(&id).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn many_are_replayed_or_removed_at_once() {
    for (kind, calls) in [("replay", 60), ("purge", 30)] {
        let world = World::new();
        let host = world.start().await;
        world.http.answer(|_| Reply::status(422));
        for number in 0..30 {
            world.shop.send(&format!("m-{number}"), "orders.paid", "1");
        }
        world.until_acknowledged(30).await;
        world.http.answer(|_| Reply::status(200));
        let operation = run(&host, kind, "consumer=ship code=HTTP.422").await;
        assert_eq!((operation.state, operation.matched, operation.done), (OperationState::Done, 30, 30), "{kind}");
        world.until_rows(0).await;
        pass(seconds(1)).await;
        assert_eq!((host.dead().await.len(), world.http.posted().len()), (0, calls));
    }
}

#[tokio::test(start_paused = true)]
async fn old_dead_letters_are_removed() {
    let world = World::new();
    let inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
    let host = world.launch("host-a", inbound, |config| config.keep_dead = seconds(600));
    host.until_written().await;
    world.http.answer(|_| Reply::status(422));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_dead(1).await;
    pass(seconds(500)).await;
    assert_eq!(world.dead_count(), 1);
    pass(seconds(300)).await;
    assert_eq!(world.dead_count(), 0);
}

/// A filter that takes few of many reads no more than one that takes all.
#[tokio::test(start_paused = true)]
async fn a_count_of_few_among_many_ends_at_its_bound_and_says_so() {
    let world = World::new();
    let (host, _) = with_dead(&world).await;
    world.memory.write(|tables| {
        let dead = &mut tables.inbox.dead;
        let (&(shard, last), found) = dead.last_key_value().unwrap();
        let found = Arc::clone(found);
        for seq in (last.0 + 1..).take(7_000).map(Seq) {
            dead.insert((shard, seq), Arc::new(InboxDead { seq, ..(*found).clone() }));
        }
    });
    let few = host.outbox.dead_facets(None, "kind=inbox tenant=acme").await.unwrap();
    assert_eq!((few.counted, few.partial), (0, true), "none of them was met, and there are more");
    let one = host.outbox.dead_facets(None, "kind=inbox tenant=default").await.unwrap();
    assert!(one.partial && one.counted < 7_001, "{}", one.counted);
    let (mut cursor, mut pages) = (None::<String>, 0);
    loop {
        let page = host.outbox.dead_letters(None, "kind=inbox tenant=acme", cursor.as_deref(), 100).await.unwrap();
        assert!(page.items.is_empty() && pages < 10, "{pages} pages");
        cursor = page.next_cursor;
        pages += 1;
        if cursor.is_none() {
            break;
        }
    }
    assert!(pages > 3, "a page looked through all of them: {pages}");
}
