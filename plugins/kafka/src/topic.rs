//! The name of a message's topic, by a template: `{tenant}.{destination}`.

use waybill_plugin::transport::Message;

/// Longest name that Kafka takes, in bytes.
const NAME_BYTES_MAX: usize = 249;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Destination,
    Tenant,
    EventType,
}

/// Text with places for what a message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    /// Reads `text.{destination}`. A topic's name has no braces, so none are doubled.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (plain, behind) = rest.split_once('{').unwrap_or((rest, ""));
            if plain.contains('}') {
                return Err("has a } without its {".to_owned());
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(plain.to_owned()));
            }
            if plain.len() == rest.len() {
                break;
            }
            let (name, behind) = behind.split_once('}').ok_or("has a { without its }")?;
            pieces.push(match name {
                "destination" => Piece::Destination,
                "tenant" => Piece::Tenant,
                "event-type" => Piece::EventType,
                other => {
                    return Err(format!("has {{{other}}}: there are {{destination}}, {{tenant}} and {{event-type}}"));
                }
            });
            rest = behind;
        }
        if pieces.is_empty() {
            return Err("is empty".to_owned());
        }
        Ok(Self(pieces))
    }

    /// The name of a message's topic.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn name(&self, message: &Message) -> Result<String, String> {
        let mut name = String::new();
        for piece in &self.0 {
            name.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Destination => &message.destination,
                Piece::Tenant => &message.tenant,
                Piece::EventType => message
                    .event_type
                    .as_deref()
                    .ok_or("the topic's name needs an event type and the message has none")?,
            });
        }
        let known = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if name.is_empty() || name == "." || name == ".." || !name.chars().all(known) {
            let shown = waybill_kafka_wire::refusal::shown(&name);
            return Err(format!("`{shown}` is no name of a topic: letters, digits, `.`, `_` and `-`"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("the topic's name has {} bytes, at most {NAME_BYTES_MAX} are taken", name.len()));
        }
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode::tests::message;

    fn named(template: &str, message: &Message) -> Result<String, String> {
        Template::parse(template)?.name(message)
    }

    #[test]
    fn places_are_filled() {
        for (template, expected) in [
            ("{destination}", "orders.created"),
            ("orders", "orders"),
            ("{tenant}.{destination}-v1", "acme.orders.created-v1"),
            ("{event-type}", "order.created"),
        ] {
            assert_eq!(named(template, &message()).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        for template in ["", "{", "}", "{tenant", "a}", "{}", "{Tenant}", "{key}", "a{destination}}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn a_name_that_kafka_does_not_take_is_told() {
        for destination in ["", ".", "..", "a b", "größe", "a/b", "a\nb"] {
            let message = Message { destination: destination.to_owned(), ..message() };
            assert!(named("{destination}", &message).is_err(), "{destination}");
        }
        let long = Message { destination: "a".repeat(NAME_BYTES_MAX + 1), ..message() };
        assert!(named("{destination}", &long).unwrap_err().contains("250"));
    }
}
