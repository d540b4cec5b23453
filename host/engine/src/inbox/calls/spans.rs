//! The span of a message that a handler is called with, from its call to its verdict.

use std::sync::Arc;

use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart, Tracer};

use crate::inbox::config::ConsumerConfig;
use crate::spans;

/// Begins it. The message is handed over with the span's context, where that is recorded, and with it what its handler leaves behind.
pub(super) fn begin(
    tracer: &Arc<dyn Tracer>,
    consumer: &ConsumerConfig,
    mut call: Call,
) -> (Call, Option<Box<dyn Span>>) {
    let message = &call.message;
    let start = SpanStart::new("process", SpanKind::Consumer).of(consumer.name.as_str());
    let mut span = tracer.start(start.parent(spans::context_of(&message.headers)));
    if !span.is_recorded() {
        return (call, None);
    }
    spans::messaging(span.as_mut(), "process", "process");
    span.set("messaging.destination.name", message.subject.clone().into());
    span.set("messaging.message.id", message.id.to_string().into());
    span.set("messaging.message.body.size", message.payload.len().into());
    if let Some(conversation) = &message.correlation_id {
        span.set("messaging.message.conversation_id", conversation.clone().into());
    }
    span.set("messaging.consumer.group.name", consumer.name.to_string().into());
    span.set("waybill.source", message.source.to_string().into());
    span.set("waybill.tenant", message.tenant.to_string().into());
    span.set("waybill.attempt", call.attempt.into());
    let headers = spans::headers_with(&message.headers, &span.traceparent());
    call.message = Arc::new(InboundMessage { headers, ..(**message).clone() });
    (call, Some(span))
}

pub(super) fn end(mut span: Box<dyn Span>, verdict: &Verdict) {
    let (outcome, failed) = match verdict {
        Verdict::Processed(_) => ("processed", None),
        Verdict::Duplicate => ("duplicate", None),
        Verdict::Poison(fault) => ("dead", Some(fault)),
        Verdict::Failed(fault) => ("failed", Some(fault)),
        Verdict::Busy(fault) => ("busy", Some(fault)),
        Verdict::Blocked(fault) => ("blocked", Some(fault)),
        Verdict::NotCalled => ("not_called", None),
        Verdict::Interrupted => ("interrupted", None),
    };
    span.set("waybill.outcome", outcome.into());
    trace::finish(Some(span), failed.map(|fault| fault.code.as_str()));
}
