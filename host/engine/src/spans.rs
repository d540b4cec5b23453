//! What the engine's spans say, in OpenTelemetry's names for messaging and our own (`docs/operations.md`, OpenTelemetry).

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::message::{Headers, Message};
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart, Tracer};
use waybill_core::port::transact::DoorGroup;

/// `messaging.system` of all of them.
const SYSTEM: &str = "waybill";

/// What every span of messages says.
pub(crate) fn messaging(span: &mut dyn Span, operation: &'static str, kind: &'static str) {
    span.set("messaging.system", SYSTEM.into());
    span.set("messaging.operation.name", operation.into());
    span.set("messaging.operation.type", kind.into());
}

/// The span of one attempt to send a message.
pub(crate) fn send(tracer: &Arc<dyn Tracer>, message: &Message, attempt: u32, transport: &str) -> Box<dyn Span> {
    let start = SpanStart::new("send", SpanKind::Producer).of(transport);
    let mut span = tracer.start(start.parent(message.annotation(Annotation::Traceparent)));
    if span.is_recorded() {
        let span = span.as_mut();
        messaging(span, "send", "send");
        span.set("messaging.destination.name", message.topic.subject().to_owned().into());
        span.set("messaging.message.id", message.id.to_string().into());
        span.set("messaging.message.body.size", message.payload.len().into());
        if let Some(conversation) = message.annotation(Annotation::CorrelationId) {
            span.set("messaging.message.conversation_id", conversation.to_owned().into());
        }
        span.set("waybill.tenant", message.tenant.to_string().into());
        span.set("waybill.topic", message.topic.to_string().into());
        span.set("waybill.attempt", attempt.into());
        span.set("waybill.transport", transport.to_owned().into());
    }
    span
}

/// The span of a commit of these messages; none where none of them has a trace.
pub(crate) fn commit<'m>(
    tracer: &Arc<dyn Tracer>,
    of: &'static str,
    messages: impl Iterator<Item = &'m Message> + Clone,
) -> Option<Box<dyn Span>> {
    let contexts = messages.clone().filter_map(|message| message.annotation(Annotation::Traceparent));
    let start = SpanStart::new("commit", SpanKind::Internal).of(of).of_several(contexts);
    start.parent?;
    let mut span = tracer.start(start);
    if span.is_recorded() {
        span.set("messaging.batch.message_count", messages.count().into());
    }
    Some(span)
}

/// The same of a commit that leaves these messages on doorsteps.
pub(crate) fn commit_of_groups(
    tracer: &Arc<dyn Tracer>,
    of: &'static str,
    groups: &[DoorGroup],
) -> Option<Box<dyn Span>> {
    let messages = groups.iter().flat_map(|group| &group.messages).map(|message| &**message);
    commit(tracer, of, messages)
}

/// The same message with another trace context.
pub(crate) fn with_context(message: &Message, traceparent: String) -> Arc<Message> {
    let mut message = message.clone();
    message.annotations.set(Annotation::Traceparent, Some(traceparent));
    Arc::new(message)
}

/// The trace of a message, for logs.
pub(crate) fn trace_id(message: &Message) -> Option<&str> {
    message.annotation(Annotation::Traceparent).and_then(trace::trace_id)
}

/// The trace context that a received message came with.
pub(crate) fn context_of(headers: &Headers) -> Option<&str> {
    headers.iter().find(|(name, _)| is_context(name)).map(|(_, value)| value.as_str())
}

/// The same headers with another trace context.
pub(crate) fn headers_with(headers: &Headers, traceparent: &str) -> Headers {
    let others = headers.iter().filter(|(name, _)| !is_context(name)).cloned();
    others.chain([("traceparent".to_owned(), traceparent.to_owned())]).collect()
}

fn is_context(name: &str) -> bool {
    name.eq_ignore_ascii_case("traceparent")
}
