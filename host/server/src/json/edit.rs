//! Edited copies of dead letters: what a request gives, over what is there.

use waybill_api::dead_inbox::DeadInbox;
use waybill_api::messages::MessageView;
use waybill_core::annotation::Annotation;
use waybill_core::new_message::{NewMessage, event_of};
use waybill_core::topic::Topic;

use super::message::MessageFields;
use crate::aliases::Field;

/// What can be changed of a received message; the rest says how messages are sent.
const OF_RECEIVED: [Field; 11] = [
    Field::Payload,
    Field::PayloadBase64,
    Field::Annotation(Annotation::ContentType),
    Field::Headers,
    Field::Key,
    Field::Id,
    Field::EventType,
    Field::EventVersion,
    Field::OccurredAt,
    Field::Annotation(Annotation::CorrelationId),
    Field::Annotation(Annotation::ReplyTo),
];

impl MessageFields {
    /// The message of a dead letter with these fields changed: what isn't given stays, null takes a field away. A new
    /// message gets a new id, is sent at once and doesn't expire unless these fields say otherwise.
    pub fn over(mut self, original: MessageView) -> Result<NewMessage, &'static str> {
        self.refuse_cause()?;
        if self.cleared & (Field::Topic.bit() | Field::Tenant.bit()) != 0 {
            return Err("topic and tenant can't be taken away");
        }
        self.payload_over(original.bytes)?;
        let untouched = !(self.given | self.cleared);
        let edited = &mut self.message;
        let stays = |field: Field| untouched & field.bit() != 0;
        // What was made from the topic follows it.
        let derived = Topic::parse(&original.topic).map(|topic| event_of(&topic));
        let follows = !stays(Field::Topic)
            && derived.is_ok_and(|(event, version)| event == original.event_type && version == original.event_version);
        if stays(Field::Topic) {
            edited.topic = original.topic;
        }
        if stays(Field::Key) {
            edited.key = original.key;
        }
        for (annotation, text) in original.annotations.0.iter() {
            if stays(Field::Annotation(annotation)) {
                edited.annotations.set(annotation, Some(text));
            }
        }
        if stays(Field::Headers) {
            edited.headers = original.headers.0;
        }
        if stays(Field::OccurredAt) {
            edited.occurred_at = Some(original.occurred_at.0);
        }
        if stays(Field::EventType) && !follows {
            edited.event_type = Some(original.event_type);
        }
        if stays(Field::EventVersion) && !follows {
            edited.event_version = Some(original.event_version);
        }
        if stays(Field::Tenant) {
            edited.tenant = Some(original.tenant);
        }
        edited.annotations.set(Annotation::CausationId, Some(original.id));
        Ok(self.message)
    }

    /// The same of a received message, which stays with its consumer, its tenant and its subject. Its id is a new one.
    pub fn over_received(mut self, original: DeadInbox) -> Result<NewMessage, &'static str> {
        self.refuse_cause()?;
        let known = OF_RECEIVED.iter().fold(0, |bits, field| bits | field.bit());
        if (self.given | self.cleared) & !known != 0 {
            return Err("of a received message payload, payload_base64, content_type, headers, key, id, event_type, \
                        event_version, occurred_at, correlation_id and reply_to can be changed: leave out the rest");
        }
        self.payload_over(original.bytes)?;
        let untouched = !(self.given | self.cleared);
        let edited = &mut self.message;
        let stays = |field: Field| untouched & field.bit() != 0;
        if stays(Field::Key) {
            edited.key = original.key;
        }
        for (annotation, text) in [
            (Annotation::ContentType, original.content_type),
            (Annotation::CorrelationId, original.correlation_id),
            (Annotation::ReplyTo, original.reply_to),
        ] {
            if stays(Field::Annotation(annotation)) {
                edited.annotations.set(annotation, text);
            }
        }
        if stays(Field::EventType) {
            edited.event_type = original.event_type;
        }
        if stays(Field::EventVersion) {
            edited.event_version = original.event_version;
        }
        if stays(Field::Headers) {
            edited.headers = original.headers.0;
        }
        if stays(Field::OccurredAt) {
            edited.occurred_at = original.occurred_at.map(|at| at.0);
        }
        if edited.id.as_ref().is_some_and(|id| *id == original.message_id) {
            return Err("id is the original's: leave it out, and the copy gets a new one");
        }
        edited.topic = original.subject;
        edited.tenant = Some(original.tenant);
        edited.annotations.set(Annotation::CausationId, Some(original.message_id));
        Ok(self.message)
    }

    fn refuse_cause(&self) -> Result<(), &'static str> {
        if (self.given | self.cleared) & Field::Annotation(Annotation::CausationId).bit() != 0 {
            return Err("causation_id links the new message to the dead letter: leave it out");
        }
        Ok(())
    }

    /// Takes the payload that is there where none is given.
    fn payload_over(&mut self, original: Option<bytes::Bytes>) -> Result<(), &'static str> {
        if self.has(Field::Payload) || self.has(Field::PayloadBase64) {
            if self.cleared & Field::Annotation(Annotation::ContentType).bit() != 0 {
                self.default_content_type();
            }
        } else {
            self.message.payload =
                original.ok_or("the dead letter's payload is gone: give payload or payload_base64")?;
        }
        Ok(())
    }
}
