//! The span of one call of a step or of its compensation.

use std::sync::Arc;

use waybill_core::port::trace::{Span, SpanKind, SpanStart, Tracer};
use waybill_core::saga::call::{AnswerResult, Call};
use waybill_core::saga::event::StepDirection;

pub(super) fn begin(tracer: &Arc<dyn Tracer>, call: &Call) -> Box<dyn Span> {
    let of = &call.context;
    let operation = match call.reference.way {
        StepDirection::Execute => "step",
        StepDirection::Compensate => "compensate",
    };
    let start = SpanStart::new(operation, SpanKind::Client).of(&of.step);
    let mut span = tracer.start(start.parent(of.traceparent.as_deref()));
    if span.is_recorded() {
        let mut text = |name, text: &str| span.set(name, text.to_owned().into());
        text("waybill.saga.id", &of.saga_id);
        text("waybill.saga.definition", &of.definition);
        text("waybill.saga.step", &of.step);
        text("waybill.tenant", &of.tenant);
        text("waybill.saga.action", &call.action.to_string());
        if let Some(conversation) = &of.correlation_id {
            text("messaging.message.conversation_id", conversation);
        }
        span.set("waybill.attempt", of.attempt.into());
    }
    span
}

/// The same call with another trace context.
pub(super) fn with_context(call: &Call, traceparent: String) -> Call {
    let mut call = call.clone();
    call.context.traceparent = Some(traceparent);
    call
}

/// Code of an answer by which the step isn't done.
pub(super) fn failure(result: &AnswerResult) -> Option<&str> {
    match result {
        AnswerResult::Done { .. } | AnswerResult::Pending { .. } => None,
        AnswerResult::Failed(error) => Some(&error.fault().code),
    }
}
