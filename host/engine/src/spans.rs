//! What the engine's spans say, in OpenTelemetry's names for messaging and our own (`docs/operations.md`, OpenTelemetry).

use std::sync::Arc;
use std::time::Duration;

use waybill_core::annotation::Annotation;
use waybill_core::message::{Delivery, Headers, Message};
use waybill_core::outbox::owner::Verdict;
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart, Tracer};
use waybill_core::port::transact::DoorGroup;
use waybill_core::port::transport::Fault;
use waybill_core::streams::joint::JointAppends;
use waybill_core::streams::records::Append;

/// `messaging.system` of all of them.
const SYSTEM: &str = "waybill";

/// What every span of messages says.
pub(crate) fn messaging(span: &mut dyn Span, operation: &'static str, kind: &'static str) {
    span.set("messaging.system", SYSTEM.into());
    span.set("messaging.operation.name", operation.into());
    span.set("messaging.operation.type", kind.into());
}

/// The span of one attempt to send a message, which began so long ago.
pub(crate) fn send(
    tracer: &Arc<dyn Tracer>,
    message: &Message,
    attempt: u32,
    transport: &str,
    began_before: Duration,
) -> Box<dyn Span> {
    let start = SpanStart::new("send", SpanKind::Producer).of(transport);
    let start = start.parent(message.annotation(Annotation::Traceparent));
    let mut span = tracer.start(SpanStart { began_before, ..start });
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

/// Begins the span of a row's attempt, and hands the row on with its context. None = it isn't recorded: the row keeps what it has.
pub(crate) fn send_row(tracer: &Arc<dyn Tracer>, row: &mut Delivery, transport: &str) -> Option<Box<dyn Span>> {
    let span = send(tracer, &row.message, row.attempt, transport, Duration::ZERO);
    let span = Some(span).filter(|span| span.is_recorded())?;
    row.message = with_context(&row.message, span.traceparent());
    Some(span)
}

/// The span of a call of a transport with messages whose sends have these contexts; none where none of them is recorded.
pub(crate) fn call(
    tracer: &Arc<dyn Tracer>,
    transport: &str,
    contexts: &[String],
    count: usize,
) -> Option<Box<dyn Span>> {
    if contexts.is_empty() {
        return None;
    }
    let start = SpanStart::new("call", SpanKind::Client).of(transport);
    let mut span = Some(tracer.start(start.of_several(contexts.iter().map(String::as_str))));
    trace::describe(&mut span, |span| {
        span.set("messaging.batch.message_count", count.into());
        span.set("waybill.transport", transport.to_owned().into());
    });
    span
}

/// Ends the span of an attempt by what follows from it.
pub(crate) fn decided(span: Box<dyn Span>, verdict: &Verdict) {
    let (outcome, failed) = match verdict {
        Verdict::Ack(_) => ("delivered", None),
        Verdict::Retry { fault, .. } => ("retry", Some(fault)),
        Verdict::Dead(fault) => ("dead", Some(fault)),
        Verdict::Blocked { fault, .. } => ("blocked", Some(fault)),
        Verdict::Release { .. } => ("released", None),
        Verdict::Expired => ("expired", None),
        Verdict::Cancelled => ("cancelled", None),
    };
    ended(span, outcome, failed);
}

/// Ends it with its outcome, and with why it failed if it did.
pub(crate) fn ended(mut span: Box<dyn Span>, outcome: &'static str, failed: Option<&Fault>) {
    span.set("waybill.outcome", outcome.into());
    trace::finish(Some(span), failed.map(|fault| fault.code.as_str()));
}

/// The span of a commit of what has these trace contexts, `count` things in all; none where none of them has a trace.
pub(crate) fn commit<'c>(
    tracer: &Arc<dyn Tracer>,
    of: &'static str,
    contexts: impl Iterator<Item = &'c str>,
    count: impl FnOnce() -> usize,
) -> Option<Box<dyn Span>> {
    let start = SpanStart::new("commit", SpanKind::Internal).of(of).of_several(contexts);
    start.parent?;
    let mut span = tracer.start(start);
    if span.is_recorded() {
        span.set("messaging.batch.message_count", count().into());
    }
    Some(span)
}

/// The spans of a commit that leaves these messages and events: its own, and one of each append.
pub(crate) fn commit_that_leaves(
    tracer: &Arc<dyn Tracer>,
    of: &'static str,
    groups: &[DoorGroup],
    events: &JointAppends,
) -> Vec<Box<dyn Span>> {
    let messages = groups.iter().flat_map(|group| &group.messages);
    let of_messages = messages.clone().filter_map(|message| message.annotation(Annotation::Traceparent));
    let of_events = events.list.iter().filter_map(|joint| joint.append().traceparent.as_deref());
    let appended = || events.list.iter().map(|joint| joint.append().events.len()).sum::<usize>();
    let own = commit(tracer, of, of_messages.chain(of_events), || messages.count() + appended());
    own.into_iter().chain(appends(tracer, events)).collect()
}

/// A span of each append that is part of a trace.
pub(crate) fn appends(tracer: &Arc<dyn Tracer>, events: &JointAppends) -> Vec<Box<dyn Span>> {
    events.list.iter().filter_map(|joint| append(tracer, joint.append())).collect()
}

fn append(tracer: &Arc<dyn Tracer>, append: &Append) -> Option<Box<dyn Span>> {
    let parent = append.traceparent.as_deref()?;
    let mut span = Some(tracer.start(SpanStart::new("append", SpanKind::Producer).parent(Some(parent))));
    trace::describe(&mut span, |span| {
        messaging(span, "append", "create");
        span.set("messaging.destination.name", append.stream.name.as_str().to_owned().into());
        span.set("messaging.batch.message_count", append.events.len().into());
        span.set("waybill.tenant", append.stream.tenant.to_string().into());
    });
    span
}

/// The span of a pull or a claim that brought things with these trace contexts, which took so long.
pub(crate) fn received<'c>(
    tracer: &Arc<dyn Tracer>,
    source: &'c str,
    contexts: impl Iterator<Item = &'c str>,
    count: usize,
    took: Duration,
) {
    let start = SpanStart::new("receive", SpanKind::Consumer).of(source).of_several(contexts);
    let mut span = Some(tracer.start(SpanStart { began_before: took, ..start }));
    trace::describe(&mut span, |span| {
        messaging(span, "receive", "receive");
        span.set("messaging.batch.message_count", count.into());
        span.set("waybill.source", source.to_owned().into());
    });
    trace::finish(span, None);
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
