//! What a message says of its event and its business operation, one row a text, with the names that receivers find it under.
//! What the contract's record has no member for comes as an attribute of the row's name.

use crate::transport::Message;

/// One text, and what it is called outside.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    /// Name that it has as an attribute.
    pub name: &'static str,
    /// Its header at every broker.
    pub header: &'static str,
    /// Header of a CloudEvent over HTTP.
    pub extension: &'static str,
    /// The record's member for it; none = it comes as an attribute.
    member: Option<fn(&Message) -> Option<&str>>,
}

const fn attribute(name: &'static str, header: &'static str, extension: &'static str) -> Annotation {
    Annotation { name, header, extension, member: None }
}

/// All there are, in the order in which they are sent.
pub const ANNOTATIONS: &[Annotation] = &[
    attribute("event-version", "x-event-version", "ce-eventversion"),
    attribute("aggregate-type", "x-aggregate-type", "ce-aggregatetype"),
    attribute("aggregate-id", "x-aggregate-id", "ce-aggregateid"),
    attribute("envelope-id", "x-envelope-id", "ce-envelopeid").member(|message| message.envelope_id.as_deref()),
    attribute("correlation-id", "x-correlation-id", "ce-correlationid")
        .member(|message| message.correlation_id.as_deref()),
    attribute("causation-id", "x-causation-id", "ce-causationid").member(|message| message.causation_id.as_deref()),
    attribute("reply-to", "x-reply-to", "ce-replyto").member(|message| message.reply_to.as_deref()),
];

impl Annotation {
    const fn member(self, member: fn(&Message) -> Option<&str>) -> Self {
        Self { member: Some(member), ..self }
    }

    /// The text, if the message has it.
    pub fn of<'m>(&self, message: &'m Message) -> Option<&'m str> {
        self.member.map_or_else(|| message.attribute(self.name), |member| member(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_one_text_are_alike() {
        for Annotation { name, header, extension, .. } in ANNOTATIONS {
            assert_eq!(*header, format!("x-{name}"));
            assert_eq!(*extension, format!("ce-{}", name.replace('-', "")));
        }
    }
}
