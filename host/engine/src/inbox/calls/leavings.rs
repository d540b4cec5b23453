//! What a handler leaves behind, checked: it commits whole, or the attempt has failed.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::inbox::verdict::{Leavings, Verdict};
use waybill_core::limits::TEXT_BYTES_MAX;
use waybill_core::message::Message;
use waybill_core::new_message::NewMessage;
use waybill_core::port::followup::Outgoing;
use waybill_core::port::handler::Handled;
use waybill_core::port::http_handler::{LeftBehind, LeftSignal};
use waybill_core::saga::call::output_json;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::machine::{MessagePlace, message_id};
use waybill_core::streams::wire::LeftEvent;

use super::Caller;
use crate::spans;
use crate::streams::left::left;

/// Processed with what was left, or a failed attempt that says what is wrong with it.
pub(super) fn processed(caller: &Caller, call: &Call, left: LeftBehind) -> Verdict {
    checked(caller, call, left).map_or_else(Verdict::bad_output, Verdict::Processed)
}

/// What a component left, in the same form.
pub(super) fn of_component(handled: Handled) -> Result<LeftBehind, String> {
    let events = handled
        .events
        .into_iter()
        .enumerate()
        .map(|(place, event)| LeftEvent::read(event).map_err(|error| format!("event {}: {error}", place + 1)));
    let signals = handled.signals.into_iter().map(|signal| LeftSignal {
        data: output_json(&signal.payload, signal.content_type.as_deref()),
        saga: signal.saga,
        name: signal.name,
    });
    Ok(LeftBehind {
        messages: handled.messages.into_iter().map(message_of).collect(),
        signals: signals.collect(),
        events: events.collect::<Result<_, _>>()?,
    })
}

fn message_of(outgoing: Outgoing) -> NewMessage {
    NewMessage {
        topic: outgoing.topic,
        payload: outgoing.payload,
        id: outgoing.id,
        key: outgoing.key,
        headers: outgoing.headers,
        not_before: outgoing.not_before,
        event_type: outgoing.event_type,
        annotations: outgoing.annotations,
        ..NewMessage::default()
    }
}

fn checked(caller: &Caller, call: &Call, left_behind: LeftBehind) -> Result<Leavings, String> {
    let tenant = call.message.tenant.as_str();
    let messages = left_behind.messages.into_iter().enumerate();
    let messages = messages.map(|(position, message)| {
        let topic = message.topic.clone();
        if message.tenant.as_deref().is_some_and(|named| named != tenant) {
            return Err(format!("message {} is for another tenant than {tenant:?}", position + 1));
        }
        enqueued(caller, call, position, message)
            .map_err(|reason| format!("message {} for {topic:?}: {reason}", position + 1))
    });
    let messages = messages.collect::<Result<Vec<_>, _>>()?;
    let sagas = left_behind.signals.into_iter().map(|signal| {
        let id = SagaId::new(&signal.saga).map_err(|error| format!("signal {:?}: {error}", signal.name))?;
        if signal.name.is_empty() {
            return Err(format!("a signal for saga {id} has no name"));
        }
        let key = SagaKey { tenant: call.message.tenant.clone(), id };
        let by = format!("consumer {}, message {}", caller.consumer.name, call.message.id);
        Ok(SagaDoorItem::Signal { key, name: signal.name, data: signal.data, by })
    });
    let key = super::http::idempotency_key(&caller.consumer.name, &call.message.id);
    let of_call = (key.as_str(), spans::context_of(&call.message.headers));
    let events = left(&caller.shared.context, &call.message.tenant, of_call, left_behind.events);
    let events = events.map_err(|refused| refused.1)?;
    Ok(Leavings { messages, sagas: sagas.collect::<Result<Vec<_>, _>>()?, events })
}

/// A message as it is enqueued. Without an id of its own it has one made of the call's key and its place.
fn enqueued(caller: &Caller, call: &Call, position: usize, message: NewMessage) -> Result<Arc<Message>, String> {
    let (of, context) = (&call.message, &caller.shared.context);
    let key = super::http::idempotency_key(&caller.consumer.name, &of.id);
    let cause: String = of.id.as_str().chars().take(TEXT_BYTES_MAX).collect();
    let mut annotations = message.annotations;
    annotations.inherit(Annotation::CorrelationId, of.correlation_id.as_deref());
    annotations.inherit(Annotation::CausationId, Some(&cause));
    annotations.inherit(Annotation::Traceparent, Annotation::Traceparent.among(&of.headers));
    let message = NewMessage {
        id: Some(message.id.unwrap_or_else(|| message_id(&key, MessagePlace::Left(position)))),
        tenant: Some(of.tenant.to_string()),
        annotations,
        ..message
    };
    let checked = message.check(context.clock.now().wall, context.config.payload_bytes_max);
    let draft = checked.map_err(|error| error.to_string())?;
    if context.live().routing.routes.find(&draft.message.topic).is_none() {
        return Err("it has no route".to_owned());
    }
    Ok(draft.message)
}
