//! What a message says of its event and its business operation, one row a text, with the names that receivers find it under.
//! What the contract's record has no member for comes as an attribute of the row's name.

use crate::transport::Message;

/// One text, and what it is called outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Name that it has as an attribute.
    pub name: &'static str,
    /// Its header at every broker.
    pub header: &'static str,
    /// Header of a CloudEvent over HTTP.
    pub extension: &'static str,
}

const fn annotation(name: &'static str, header: &'static str, extension: &'static str) -> Annotation {
    Annotation { name, header, extension }
}

/// All there are, in the order in which they are sent.
pub const ANNOTATIONS: &[Annotation] = &[
    annotation("event-version", "x-event-version", "ce-eventversion"),
    annotation("aggregate-type", "x-aggregate-type", "ce-aggregatetype"),
    annotation("aggregate-id", "x-aggregate-id", "ce-aggregateid"),
    annotation("envelope-id", "x-envelope-id", "ce-envelopeid"),
    annotation("correlation-id", "x-correlation-id", "ce-correlationid"),
    annotation("causation-id", "x-causation-id", "ce-causationid"),
    annotation("reply-to", "x-reply-to", "ce-replyto"),
];

impl Annotation {
    /// The text, if the message has it.
    pub fn of<'m>(&self, message: &'m Message) -> Option<&'m str> {
        match self.name {
            "envelope-id" => message.envelope_id.as_deref(),
            "correlation-id" => message.correlation_id.as_deref(),
            "causation-id" => message.causation_id.as_deref(),
            "reply-to" => message.reply_to.as_deref(),
            name => message.attribute(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_one_text_are_alike() {
        for Annotation { name, header, extension } in ANNOTATIONS {
            assert_eq!(*header, format!("x-{name}"));
            assert_eq!(*extension, format!("ce-{}", name.replace('-', "")));
        }
    }
}
