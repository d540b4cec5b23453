//! Spans: one trace from the commit to the receiver, and nothing of it where nobody records.

use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::annotation::Annotation;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_tracer::{EndedSpan, FakeTracer};
use waybill_testkit::fake_transport::{ack, permanent};

use crate::support::*;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(text: &str, id: &str) -> NewMessage {
    let mut message = named(text, id);
    message.annotations.set(Annotation::Traceparent, Some(CALLER));
    message
}

/// A host with this tracer, and the contexts with which its transport gets messages.
async fn host_with(world: &World, tracer: &FakeTracer) -> (Host, Arc<Mutex<Vec<Option<String>>>>) {
    let got: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let kept = Arc::clone(&got);
    world.main.tell(move |delivery| {
        kept.lock().push(delivery.message.annotation(Annotation::Traceparent).map(str::to_owned));
        if delivery.message.id.as_str() == "refused" { permanent("HTTP.400") } else { ack() }
    });
    let tracer = tracer.clone();
    let host = world.start_with(|config| config.tracer = Some(Arc::new(tracer))).await;
    (host, got)
}

fn of<'s>(spans: &'s [EndedSpan], id: &str) -> &'s EndedSpan {
    let named = |span: &&EndedSpan| span.attributes.get("messaging.message.id").map(String::as_str) == Some(id);
    spans.iter().find(named).unwrap_or_else(|| panic!("no span of {id} in {spans:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_receiver_gets_the_context_of_the_attempt_which_is_part_of_the_messages_trace() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let (host, got) = host_with(&world, &tracer).await;
    host.send([traced("a", "taken"), traced("b", "refused")]).await;
    host.until_state("taken", MessageState::Done).await;
    host.until_state("refused", MessageState::Dead).await;
    let spans = tracer.ended();
    let (taken, refused) = (of(&spans, "taken"), of(&spans, "refused"));
    assert!(taken.name.starts_with("send "), "{taken:?}");
    assert_eq!((taken.parent.as_deref(), taken.failed.as_deref()), (Some(CALLER), None));
    assert_eq!(taken.attributes.get("waybill.outcome").map(String::as_str), Some("delivered"));
    assert_eq!((refused.parent.as_deref(), refused.failed.as_deref()), (Some(CALLER), Some("HTTP.400")));
    assert_eq!(refused.attributes.get("waybill.outcome").map(String::as_str), Some("dead"));
    let got = got.lock().clone();
    assert!(got.contains(&Some(taken.context.clone())) && got.contains(&Some(refused.context.clone())), "{got:?}");
    let commit = spans.iter().find(|span| span.name == "commit outbox").unwrap();
    assert_eq!(commit.parent.as_deref(), Some(CALLER));
    let calls = spans.iter().filter(|span| span.name.starts_with("call "));
    assert!(calls.clone().count() > 0, "{spans:#?}");
    for call in calls {
        let parent = call.parent.as_deref();
        assert!(parent == Some(taken.context.as_str()) || parent == Some(refused.context.as_str()), "{call:?}");
    }
    // What is stored stays as it came: the next attempt is another child of it.
    assert_eq!(host.view("taken").await.annotations.get(Annotation::Traceparent), Some(CALLER));
}

#[tokio::test(start_paused = true)]
async fn a_trace_that_nobody_records_is_passed_on_as_it_came() {
    let (world, tracer) = (World::new(), FakeTracer::sampling_none());
    let (host, got) = host_with(&world, &tracer).await;
    host.send([traced("a", "a"), named("b", "b")]).await;
    host.until_done(&["a".to_owned(), "b".to_owned()]).await;
    assert!(tracer.ended().is_empty());
    let mut got = got.lock().clone();
    got.sort();
    assert_eq!(got, [None, Some(CALLER.to_owned())]);
}
