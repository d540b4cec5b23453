//! Messages and events that a step or a handler leaves behind. Nothing of them is cut: past a bound the answer is refused.

use bytes::Bytes;
use waybill_bindings::api::types as wit;
use waybill_core::annotation::{Annotation, Carried};
use waybill_core::annotations::Annotations;
use waybill_core::code::Code;
use waybill_core::port::followup::{Outgoing, StreamEvent};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;

use crate::limits::{FOLLOWUP_BYTES_MAX, FOLLOWUPS_MAX};

/// How much a step or a handler leaves behind.
pub(super) struct Size {
    count: usize,
    bytes: usize,
}

impl Size {
    pub(super) fn of(messages: &[wit::Outgoing], events: &[wit::StreamEvent]) -> Self {
        let bytes = messages
            .iter()
            .map(|message| message.payload.len() + header_bytes(&message.headers))
            .chain(events.iter().map(|event| event.payload.len() + header_bytes(&event.headers)))
            .sum();
        Self { count: messages.len() + events.len(), bytes }
    }

    /// With other things of these sizes, in bytes.
    pub(super) fn with(self, others: impl ExactSizeIterator<Item = usize>) -> Self {
        Self { count: self.count + others.len(), bytes: self.bytes + others.sum::<usize>() }
    }

    /// Whether it can be taken; the fault says why not.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let Self { count, bytes } = *self;
        if count > FOLLOWUPS_MAX {
            return Err(too_large(format!("{count} messages, events and signals, at most {FOLLOWUPS_MAX} are taken")));
        }
        if bytes > FOLLOWUP_BYTES_MAX {
            return Err(too_large(format!(
                "messages, events and signals of {bytes} bytes, at most {FOLLOWUP_BYTES_MAX} are taken"
            )));
        }
        Ok(())
    }
}

/// Both lists as the core has them. Whether they can be taken is asked before ([`Size::check`]).
pub(super) fn followups(
    messages: Vec<wit::Outgoing>,
    events: Vec<wit::StreamEvent>,
) -> (Vec<Outgoing>, Vec<StreamEvent>) {
    (messages.into_iter().map(outgoing).collect(), events.into_iter().map(event).collect())
}

/// An answer above a bound. What it did is done.
pub(super) fn too_large(what: String) -> Fault {
    let reason = format!("it answered {what}: answer less, or keep it elsewhere and answer where");
    Fault { maybe_delivered: true, ..Fault::new(Code::PLUGIN_OUTPUT_TOO_LARGE, reason) }
}

fn header_bytes(headers: &[(String, String)]) -> usize {
    headers.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn outgoing(message: wit::Outgoing) -> Outgoing {
    let mut annotations = attributed(&message.attributes);
    annotations.set(Annotation::ContentType, message.content_type);
    annotations.set(Annotation::CorrelationId, message.correlation_id);
    annotations.set(Annotation::ReplyTo, message.reply_to);
    Outgoing {
        id: message.id,
        topic: message.topic,
        key: message.key,
        headers: message.headers,
        payload: Bytes::from(message.payload),
        event_type: message.event_type,
        annotations,
        not_before: message.not_before.map(UnixMillis),
        attributes: message.attributes,
    }
}

/// The annotations among a guest's attributes.
fn attributed(attributes: &[(String, String)]) -> Annotations {
    let carried = Annotation::ALL.into_iter().filter(|annotation| annotation.carried() == Carried::Attribute);
    let found = carried.filter_map(|annotation| {
        let (_, text) = attributes.iter().find(|(name, _)| name == annotation.dashed())?;
        Some((annotation, text.as_str()))
    });
    found.collect()
}

fn event(event: wit::StreamEvent) -> StreamEvent {
    StreamEvent {
        stream: event.stream_name,
        resource_type: event.resource_type,
        resource_id: event.resource_id,
        op: event.op,
        content_type: event.content_type,
        payload: Bytes::from(event.payload),
        headers: event.headers,
        attributes: event.attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_says_by_attributes_what_its_record_has_no_member_for() {
        let named = |name: &str| (name.to_owned(), format!("its {name}"));
        let mut given: Vec<_> = Annotation::ALL.map(|annotation| named(annotation.dashed())).into();
        given.push(named("shop"));
        let taken = attributed(&given);
        for annotation in Annotation::ALL {
            let wanted = format!("its {}", annotation.dashed());
            let is_attribute = annotation.carried() == Carried::Attribute;
            assert_eq!(taken.get(annotation), is_attribute.then_some(wanted.as_str()));
        }
    }
}
