//! Events in business transactions.

use std::sync::Arc;

use serde_json::json;
use waybill_api::messages::{AppendedEvent, TransactionDone};
use waybill_core::code::Code;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::ServiceError;
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::Statement;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::joint::JointEvent;
use waybill_core::streams::records::Append;
use waybill_core::time::UnixMillis;

use crate::support::*;

fn event(stream: &str, id: &str, expected_seq: Option<u64>) -> JointEvent {
    JointEvent { stream: key(stream), event: input(id), expected_seq, traceparent: None }
}

fn message(id: &str) -> NewMessage {
    NewMessage {
        topic: "bus:orders".into(),
        payload: "{}".into(),
        id: Some(id.into()),
        tenant: Some(tenant().to_string()),
        ..NewMessage::default()
    }
}

fn statement() -> Statement {
    Statement { query: "CREATE order".into(), bindings: Default::default() }
}

/// A host whose store notes the statements that it runs.
async fn host(world: &World) -> Host {
    world.memory.answer_statements(|statement| Ok(json!({ "ran": statement.query })));
    let routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "bus")]);
    let host = world.launch("host-a", |config| config.routes = routes);
    host.until_owned().await;
    host
}

async fn last(host: &Host, stream: &str) -> u64 {
    host.streams.read_stream(&key(stream), None, 0).await.map_or(0, |page| page.last)
}

async fn transact(
    host: &Host,
    messages: Vec<NewMessage>,
    events: Vec<JointEvent>,
) -> Result<TransactionDone, ServiceError> {
    host.outbox.transact(vec![statement()], messages, events, None).await
}

fn appended(id: &str, seq: Option<u64>) -> AppendedEvent {
    AppendedEvent { id: id.into(), seq: seq.map(SeqJson) }
}

#[tokio::test(start_paused = true)]
async fn rows_messages_and_events_go_in_together() {
    let world = World::new();
    let host = host(&world).await;
    let events =
        vec![event("a", "x-1", None), event("b", "x-2", Some(0)), event("a", "x-3", None), event("b", "x-4", Some(1))];
    let done = transact(&host, vec![message("m")], events).await.unwrap();
    assert_eq!((done.ids, done.results), (vec!["m".to_owned()], vec![json!({ "ran": "CREATE order" })]));
    let numbered = [appended("x-1", None), appended("x-2", Some(1)), appended("x-3", None), appended("x-4", Some(2))];
    assert_eq!(done.events, numbered);
    // The owner is told: it numbers the others long before it would have looked by itself.
    eventually("the others have numbers", async || last(&host, "a").await == 2).await;
    assert_eq!(last(&host, "b").await, 2);
    eventually("the message is sent", async || world.bus.log().sent.iter().any(|sent| sent.id == "m")).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_elsewhere_leaves_nothing_of_the_transaction() {
    let world = World::new();
    let host = host(&world).await;
    host.append("b", &["y-1"]).await;
    let events = || vec![event("a", "x-1", None), event("b", "x-2", Some(0))];
    let error = transact(&host, vec![message("m")], events()).await.unwrap_err();
    assert_eq!(error.code(), Code::STREAM_EXPECTED_SEQ, "{error}");
    pass(seconds(5)).await;
    assert_eq!((last(&host, "a").await, last(&host, "b").await), (0, 1));
    // A plain event doesn't mind where its stream ends, and the ids are free.
    let done = transact(&host, vec![message("m")], vec![event("b", "x-2", None)]).await.unwrap();
    assert!(done.duplicates.is_empty(), "the message wasn't there: {done:?}");
    eventually("it is numbered", async || last(&host, "b").await == 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_sent_again_does_nothing_twice() {
    let world = World::new();
    let host = host(&world).await;
    // By its message's id, though its event has none of its own.
    let unnamed = || {
        let mut event = event("a", "x-1", None);
        event.event.id = None;
        vec![event]
    };
    transact(&host, vec![message("m")], unnamed()).await.unwrap();
    let again = transact(&host, vec![message("m")], unnamed()).await.unwrap();
    assert_eq!((again.duplicates, again.results, again.events), (vec!["m".to_owned()], vec![], vec![]));
    let other = transact(&host, vec![message("m")], vec![event("b", "x-2", None)]).await.unwrap_err();
    assert!(matches!(other, ServiceError::OtherStatements { .. }), "{other}");
    // By the ids of its events, when they are numbered with it.
    let exact = || vec![event("b", "x-3", Some(0))];
    assert_eq!(transact(&host, Vec::new(), exact()).await.unwrap().results.len(), 1);
    let again = transact(&host, Vec::new(), exact()).await.unwrap();
    assert_eq!((again.results, again.events), (vec![], vec![appended("x-3", Some(1))]));
    pass(seconds(5)).await;
    assert_eq!((last(&host, "a").await, last(&host, "b").await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn what_no_stream_takes_is_refused_with_its_place_before_anything_runs() {
    let world = World::new();
    let host = host(&world).await;
    let mut bad = event("a", "x-2", None);
    bad.event.schema_version = 0;
    let error = transact(&host, vec![message("m")], vec![event("a", "x-1", None), bad]).await.unwrap_err();
    assert_eq!(error.code(), Code::SCHEMA_VERSION);
    assert!(error.to_string().starts_with("event 1:"), "{error}");
    let saga = JointEvent { stream: key("saga.s-1"), ..event("a", "x-1", None) };
    assert_eq!(transact(&host, Vec::new(), vec![saga]).await.unwrap_err().code(), Code::STREAM_READ_ONLY);
    pass(seconds(5)).await;
    assert_eq!(last(&host, "a").await, 0);
}

/// An event of a table of the application's own may call `fn::waybill::append`, and nobody knows of which streams.
#[tokio::test(start_paused = true)]
async fn what_a_statement_leaves_on_a_doorstep_is_numbered_at_once() {
    let world = World::new();
    let host = host(&world).await;
    for round in 1..=7 {
        // At whatever place between two looks by itself.
        pass(seconds(5) + millis(70 * round)).await;
        let event = input(&format!("x-{round}")).into_event(|| panic!(), UnixMillis(1_700_000_000_000));
        let event = event.admit(&name("a"), &Default::default(), true).unwrap();
        let append = Append::new(key("a"), vec![event]);
        world.memory.append_at_door(&[(key("a").shard(1), Arc::new(append))]).await.unwrap();
        transact(&host, Vec::new(), Vec::new()).await.unwrap();
        pass(millis(20)).await;
        assert_eq!(last(&host, "a").await, round);
    }
}
