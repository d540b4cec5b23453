//! What a step answered, as it is kept: its output, and the messages and events that it leaves behind.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::code::Code;
use waybill_core::error::InputError;
use waybill_core::ids::Tenant;
use waybill_core::message::Message;
use waybill_core::new_message::NewMessage;
use waybill_core::port::followup::{Outgoing, StreamEvent};
use waybill_core::port::participant::{StepDone, StepError};
use waybill_core::port::transport::Fault;
use waybill_core::saga::call::{AnswerResult, Call, output_json};
use waybill_core::saga::machine::{MessagePlace, message_id};
use waybill_core::streams::joint::JointAppends;
use waybill_core::streams::wire::LeftEvent;

use super::make::kept;
use crate::shard::Context;
use crate::streams::left::left;

/// Makes an answer of a step's word. A step whose messages can't be taken has failed for good, and may have had its effect.
pub(super) fn taken(context: &Context, call: &Call, done: StepDone) -> Result<AnswerResult, StepError> {
    let output = match done {
        StepDone::Output(output) => output,
        StepDone::Pending(pending) => {
            return Ok(AnswerResult::Pending {
                signal: Arc::from(pending.signal),
                timeout: pending.timeout,
                data: output_json(&pending.data, None),
            });
        }
    };
    let json = kept(&output);
    let events = events(context, call, output.events)?;
    let messages = output.messages.into_iter().enumerate();
    let messages = messages.map(|(position, outgoing)| message(context, call, position, outgoing));
    Ok(AnswerResult::Done { output: json, messages: messages.collect::<Result<_, _>>()?, events })
}

/// Events as they are appended, in the commit that records the step.
fn events(context: &Context, call: &Call, events: Vec<StreamEvent>) -> Result<JointAppends, StepError> {
    let read = events.into_iter().enumerate().map(|(place, event)| {
        let fault = |error: InputError| refused(error.code(), format!("event {} that it left: {error}", place + 1));
        LeftEvent::read(event).map_err(fault)
    });
    let (of, read) = (&call.context, read.collect::<Result<Vec<_>, _>>()?);
    let tenant = Tenant::new(&of.tenant).map_err(|error| refused(error.code(), error.to_string()))?;
    let key = of.idempotency_key(call.reference.way.direction());
    left(context, &tenant, (&key, of.traceparent.as_deref()), read).map_err(|(code, reason)| refused(code, reason))
}

/// A message as it is enqueued. Without an id of its own it has one made of the call's key and its place, so that a repeat of
/// the step enqueues nothing new.
fn message(context: &Context, call: &Call, position: usize, outgoing: Outgoing) -> Result<Arc<Message>, StepError> {
    let of = &call.context;
    let key = of.idempotency_key(call.reference.way.direction());
    let topic = outgoing.topic.clone();
    let mut annotations = outgoing.annotations;
    if annotations.get(Annotation::CorrelationId).is_none() {
        annotations.set(Annotation::CorrelationId, of.correlation_id.clone());
    }
    let cause: String = of.saga_id.chars().take(waybill_core::limits::TEXT_BYTES_MAX).collect();
    annotations.set(Annotation::CausationId, Some(cause));
    annotations.set(Annotation::EnvelopeId, of.envelope_id.clone());
    annotations.set(Annotation::Traceparent, of.traceparent.clone());
    let message = NewMessage {
        topic: outgoing.topic,
        payload: outgoing.payload,
        id: Some(outgoing.id.unwrap_or_else(|| message_id(&key, MessagePlace::Left(position)))),
        tenant: Some(of.tenant.clone()),
        key: outgoing.key,
        headers: outgoing.headers,
        not_before: outgoing.not_before,
        event_type: outgoing.event_type,
        annotations,
        ..NewMessage::default()
    };
    let checked = message.check(context.clock.now().wall, context.config.payload_bytes_max);
    let draft = checked.map_err(|error| {
        refused(error.code(), format!("message {} that it left, for {topic:?}: {error}", position + 1))
    })?;
    if context.live().routing.routes.find(&draft.message.topic).is_none() {
        let reason = format!("message {} that it left, for {topic:?}, has no route", position + 1);
        return Err(refused(Code::OUTBOX_NO_ROUTE, reason));
    }
    Ok(draft.message)
}

fn refused(code: Code, reason: String) -> StepError {
    StepError::Permanent(Fault { maybe_delivered: true, ..Fault::new(code, reason) })
}
