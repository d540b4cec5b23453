//! Spans of appends: the commit that numbers them, and those that commit with something else.

use std::sync::Arc;

use waybill_core::port::service::streams::{AppendRequest, Appended};
use waybill_core::streams::joint::JointEvent;
use waybill_testkit::fake_tracer::{EndedSpan, FakeTracer};

use crate::support::*;

const FIRST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECOND: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

async fn host(world: &World, tracer: &FakeTracer) -> Host {
    let tracer = tracer.clone();
    let host = world.launch("host-a", |config| config.tracer = Some(Arc::new(tracer)));
    host.until_owned().await;
    host
}

async fn append(host: &Host, id: &str, context: Option<&str>) {
    let traceparent = context.map(Arc::from);
    let request = AppendRequest { stream: key("a"), events: vec![input(id)], expected_seq: None, traceparent };
    assert!(matches!(host.streams.append(request).await, Ok(Appended::Numbered { .. })));
}

#[tokio::test(start_paused = true)]
async fn the_commit_that_numbers_appends_is_part_of_the_first_ones_trace_and_linked_with_the_others() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let host = host(&world, &tracer).await;
    tokio::join!(append(&host, "1", Some(FIRST)), append(&host, "2", Some(SECOND)), append(&host, "3", None));
    let commits: Vec<_> = tracer.ended().into_iter().filter(|span| span.name == "commit streams").collect();
    let contexts: Vec<&str> =
        commits.iter().flat_map(|span| span.parent.iter().chain(&span.links)).map(String::as_str).collect();
    assert_eq!(contexts, [FIRST, SECOND], "{commits:#?}");
    let counted = |span: &EndedSpan| -> usize { span.attributes["messaging.batch.message_count"].parse().unwrap() };
    let total: usize = commits.iter().map(counted).sum();
    assert!((2..=3).contains(&total), "{commits:#?}");
    // One without a trace, and a commit that only says that the owner lives, have none.
    append(&host, "4", None).await;
    pass(seconds(60)).await;
    assert_eq!(tracer.ended().iter().filter(|span| span.name == "commit streams").count(), commits.len());
}

#[tokio::test(start_paused = true)]
async fn events_that_commit_with_a_transaction_have_an_append_each_in_its_trace() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let host = host(&world, &tracer).await;
    let event = |stream: &str, id: &str, expected_seq| JointEvent {
        stream: key(stream),
        event: input(id),
        expected_seq,
        traceparent: Some(FIRST.into()),
    };
    let events = vec![event("a", "1", None), event("a", "2", None), event("b", "3", Some(0))];
    host.outbox.transact(Vec::new(), Vec::new(), events, None).await.unwrap();
    let appends: Vec<_> = tracer.ended().into_iter().filter(|span| span.name == "append").collect();
    let of = |name: &str| appends.iter().find(|span| span.attributes["messaging.destination.name"] == name).unwrap();
    for (name, count) in [("a", "2"), ("b", "1")] {
        assert_eq!((of(name).parent.as_deref(), of(name).failed.as_deref()), (Some(FIRST), None));
        assert_eq!(of(name).attributes["messaging.batch.message_count"], count);
    }
    assert_eq!(appends.len(), 2);
    // What is refused says why.
    host.outbox.transact(Vec::new(), Vec::new(), vec![event("b", "4", Some(7))], None).await.unwrap_err();
    let spans = tracer.ended();
    assert!(spans.iter().any(|span| span.failed.as_deref() == Some("STREAM.EXPECTED_SEQ")), "{spans:#?}");
}
