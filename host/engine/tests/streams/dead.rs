//! Dead letters of streams, and what relays never had, as operators see them.

use waybill_api::dead_events::DeadEvent;
use waybill_api::dead_letters::{DeadLetterView, Replay, Replayed};
use waybill_core::audit::AuditQuery;
use waybill_core::code::Code;
use waybill_core::glob::Glob;
use waybill_core::ids::Tenant;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::service::MessageState;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::dead::{StoredDead, StreamDeadPlace};
use waybill_core::streams::settings::{OnOvertaken, StreamsSettings};
use waybill_testkit::fake_transport::{ack, permanent};

use crate::support::*;

fn relayed(settings: &mut StreamsSettings) {
    settings.relays = vec![plan("out")];
}

fn named(id: &str) -> DeadId {
    DeadId::new(&tenant(), id)
}

async fn listed(host: &Host, filter: &str) -> Vec<DeadEvent> {
    let page = host.outbox.dead_letters(None, filter, None, 100).await.unwrap();
    let events = page.items.into_iter().filter_map(|letter| match letter {
        DeadLetterView::Event(event) => Some(*event),
        _ => None,
    });
    events.collect()
}

/// A host whose broker has refused events for good.
async fn refused(world: &World, ids: &[&str]) -> Host {
    world.bus.tell(|_| permanent("POISON"));
    let host = world.start().await;
    host.append("a", ids).await;
    eventually("they are dead letters", async || listed(&host, "").await.len() == ids.len()).await;
    host
}

#[tokio::test(start_paused = true)]
async fn an_event_that_its_broker_refused_is_in_the_one_list_and_shown_whole() {
    let world = World::with(relayed);
    let host = refused(&world, &["x-0", "y-0"]).await;
    let all = listed(&host, "kind=event relay=out topic=a code=POISON").await;
    assert_eq!(all.len(), 2);
    for other in ["kind=message", "relay=other", "topic=b", "key=x"] {
        assert!(listed(&host, other).await.is_empty(), "{other}");
    }
    assert_eq!(host.outbox.count_dead(None, "kind=event").await.unwrap().value, 2);
    let groups = host.outbox.dead_groups(None, "").await.unwrap().value;
    assert_eq!((groups[0].kind, groups[0].count, groups[0].topic.as_str()), (DeadKind::Event, 2, "a"));
    let first = host.outbox.dead_letters(None, "", None, 1).await.unwrap();
    let rest = host.outbox.dead_letters(None, "", first.next_cursor.as_deref(), 10).await.unwrap();
    assert_eq!((first.items.len(), rest.items.len()), (1, 1));
    let DeadLetterView::Event(shown) = host.outbox.dead_letter(&named(&all[0].id)).await.unwrap() else { panic!() };
    assert_eq!((shown.seq, shown.relay.as_deref(), shown.stream.as_str()), (all[0].seq, Some("out"), "a"));
    let event: serde_json::Value = serde_json::from_str(shown.event.unwrap().get()).unwrap();
    assert_eq!(
        (event["event_id"].as_str(), SeqJson::in_value(&event["seq"])),
        (shown.event_id.as_deref(), shown.seq.map(u64::from))
    );
    let foreign = DeadId::new(&Tenant::new("globex").unwrap(), &all[0].id);
    assert_eq!(host.outbox.dead_letter(&foreign).await.unwrap_err().code(), Code::DEAD_NOT_FOUND);
}

/// Adds copies of the dead letter that is there.
fn copy_dead(world: &World, copies: u32) {
    world.memory.write(|tables| {
        let dead = &mut tables.streams.dead;
        let last = dead.values().next_back().unwrap().clone();
        for number in (last.place.number + 1..).take(copies as usize) {
            let place = StreamDeadPlace { number, ..last.place };
            dead.insert(place, StoredDead { place, ..last.clone() });
        }
    });
}

#[tokio::test(start_paused = true)]
async fn facets_are_partial_where_there_are_more_than_were_counted_and_not_at_the_bound() {
    let world = World::with(relayed);
    let host = refused(&world, &["x-0"]).await;
    copy_dead(&world, 4_999);
    let all = host.outbox.dead_facets(None, "kind=event").await.unwrap();
    assert_eq!((all.counted, all.partial), (5_000, false));
    copy_dead(&world, 1);
    let some = host.outbox.dead_facets(None, "kind=event").await.unwrap();
    assert_eq!((some.counted, some.partial), (5_000, true));
}

#[tokio::test(start_paused = true)]
async fn the_death_of_an_event_is_in_the_trail_under_the_place_of_its_dead_letter() {
    let world = World::with(relayed);
    let host = refused(&world, &["x-0"]).await;
    let id = listed(&host, "").await.remove(0).id;
    let query = AuditQuery { object: Some(Glob::literal(&id)), ..AuditQuery::default() };
    let lines = host.outbox.audit(&query, None, 100).await.unwrap().items;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((line.kind.as_str(), line.tenant.as_deref()), ("TxDead", Some(tenant().as_str())));
    let detail = serde_json::json!({ "of": "event", "code": "POISON", "relay": "out", "stream": "a" });
    assert_eq!(line.detail, detail);
}

#[tokio::test(start_paused = true)]
async fn a_replay_sends_it_through_its_relay_and_what_is_refused_again_stays() {
    let world = World::with(relayed);
    let host = refused(&world, &["x-0"]).await;
    let id = listed(&host, "").await.remove(0).id;
    let how = || Replay::because("mended");
    let again = host.outbox.replay(&named(&id), how(), "ops").await.unwrap_err();
    assert!(again.to_string().contains("POISON"), "{again}");
    assert_eq!(listed(&host, "").await.len(), 1);
    host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    let paused = host.outbox.replay(&named(&id), how(), "ops").await.unwrap_err();
    assert!(paused.to_string().contains("resume it"), "{paused}");
    host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    world.bus.tell(|_| ack());
    let before = world.bus.log().sent.len();
    let Replayed::Event(event) = host.outbox.replay(&named(&id), how(), "ops").await.unwrap() else { panic!() };
    assert_eq!(event.event_id.as_deref(), Some("x-0"));
    let sent = world.bus.log().sent;
    assert_eq!((sent.len() - before, sent[before].id.as_str()), (1, "x-0"));
    assert_eq!(sent[before].destination, "events.a");
    assert!(listed(&host, "").await.is_empty());
    let gone = host.outbox.replay(&named(&id), how(), "ops").await.unwrap_err();
    assert_eq!(gone.code(), Code::DEAD_NOT_FOUND);
    let mut kinds: Vec<String> = host
        .outbox
        .audit(&AuditQuery::default(), None, 100)
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|event| event.kind)
        .collect();
    kinds.reverse();
    kinds.retain(|kind| !kind.starts_with("Relay"));
    let once = |end: &str| ["TxReplayRequested".to_owned(), end.to_owned()];
    let failed = once("DeadEventReplayFailed");
    assert_eq!(kinds, [failed.clone(), failed, once("DeadEventReplayed")].concat());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_fenced_off_keeps_its_note_and_cannot_be_edited() {
    let world = World::with(relayed);
    let host = refused(&world, &["x-0"]).await;
    let id = listed(&host, "").await.remove(0).id;
    let DeadLetterView::Event(fenced) = host.outbox.quarantine(&named(&id), "asks the owner", "ops").await.unwrap()
    else {
        panic!()
    };
    assert_eq!((fenced.state, fenced.note.as_deref()), (MessageState::Quarantined, Some("asks the owner")));
    assert!(listed(&host, "state=dead").await.is_empty());
    let edited = host.outbox.edit(&named(&id), Default::default(), "", "ops").await.unwrap_err();
    assert_eq!(edited.code(), Code::DEAD_KIND);
}

#[tokio::test(start_paused = true)]
async fn what_a_relay_never_had_is_listed() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.events.retention_events = 2;
        settings.relays[0].hold_max = None;
        settings.relays[0].on_overtaken = OnOvertaken::GoOn;
    });
    let host = world.start().await;
    host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    for number in 0..40 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    pass(seconds(30)).await;
    host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    let ranges = async || host.streams.overtaken(&relay_name("out"), None, None, 10).await.unwrap().items;
    eventually("it is recorded", async || !ranges().await.is_empty()).await;
    let first = ranges().await.remove(0);
    assert_eq!((first.from, &first.stream), (1, &key("a")));
    let lost: u64 = ranges().await.iter().map(|range| range.to + 1 - range.from).sum();
    assert_eq!(lost, host.relay("out").await.overtaken);
    let of = async |tenant: &str, cursor: Option<&str>, limit| {
        let tenant = Tenant::new(tenant).unwrap();
        host.streams.overtaken(&relay_name("out"), Some(&tenant), cursor, limit).await
    };
    assert_eq!(of("acme", None, 10).await.unwrap().items, ranges().await);
    for other in ["a", "globex"] {
        let page = of(other, None, 1).await.unwrap();
        assert_eq!((page.items, page.next_cursor), (vec![], None), "{other}");
    }
    let cursor = of("acme", None, 1).await.unwrap().next_cursor;
    assert!(of("acme", cursor.as_deref(), 10).await.is_ok());
    let foreign = of("globex", cursor.as_deref(), 10).await.unwrap_err();
    assert_eq!(foreign.code(), Code::SCHEMA_VALIDATION_FAILED, "{foreign}");
    let missing = host.streams.overtaken(&relay_name("nope"), None, None, 10).await.unwrap_err();
    assert_eq!(missing.code(), Code::RELAY_NOT_FOUND);
}
