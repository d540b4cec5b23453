//! The span of what a worker outside has: from its claim to its word.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_testkit::fake_tracer::{EndedSpan, FakeTracer};

use super::*;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn traced(text: &str) -> NewMessage {
    let mut message = NewMessage { id: Some(text.to_owned()), ..out(text) };
    message.annotations.set(Annotation::Traceparent, Some(CALLER));
    message
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_settles_is_an_attempt_of_the_messages_trace_from_its_claim_on() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let kept = tracer.clone();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.tracer = Some(Arc::new(kept));
        })
        .await;
    host.send([traced("done"), traced("failed")]).await;
    let claimed = host.claim("w-1").await;
    assert!(claimed.iter().all(|one| one.message.annotations.get(Annotation::Traceparent) == Some(CALLER)));
    pass(seconds(3)).await;
    for one in &claimed {
        let wish = if one.message.id == "done" { acked() } else { failed() };
        assert!(host.settle(one, wish).await.applied);
    }
    host.expect_conflict(&claimed[0], acked(), Some(MessageState::Done)).await;
    let spans = tracer.ended();
    let sends: Vec<&EndedSpan> = spans.iter().filter(|span| span.name == "send external").collect();
    assert_eq!(sends.len(), 2, "a settlement that changes nothing has none: {spans:#?}");
    for (id, outcome, code) in [("done", "delivered", None), ("failed", "retry", Some("MEMORY.DOWN"))] {
        let is_of = |span: &EndedSpan| span.attributes.get("messaging.message.id").map(String::as_str) == Some(id);
        let span = sends.iter().find(|span| is_of(span)).unwrap();
        assert_eq!((span.parent.as_deref(), span.failed.as_deref()), (Some(CALLER), code));
        assert_eq!(span.attributes.get("waybill.outcome").map(String::as_str), Some(outcome));
        assert_eq!(span.attributes.get("waybill.worker").map(String::as_str), Some("w-1"));
        assert!((seconds(3)..seconds(4)).contains(&span.began_before), "it began with the claim: {span:?}");
    }
}
