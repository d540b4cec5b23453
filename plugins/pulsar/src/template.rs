//! The name of a message's topic, by a template: `orders-{tenant}`.

use waybill_plugin::transport::Message;
use waybill_pulsar_wire::topic::full_name;

/// What a place in a template stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Destination,
    Topic,
    Tenant,
    Key,
}

/// Names of the places.
const FIELDS: [(&str, Field); 4] =
    [("destination", Field::Destination), ("topic", Field::Topic), ("tenant", Field::Tenant), ("key", Field::Key)];

/// Text with places for what a message has: each text, and the field behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<(String, Field)>,
    end: String,
}

impl Template {
    /// Reads `text with {destination}`. A topic's name holds no braces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or("has a { without its }")?;
            let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) else {
                return Err(format!("has {{{name}}}: there are {{destination}}, {{topic}}, {{tenant}} and {{key}}"));
            };
            parts.push((plain(before)?, *field));
            rest = behind;
        }
        Ok(Self { parts, end: plain(rest)? })
    }

    /// The whole name of a message's topic.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn name(&self, message: &Message, namespace: &str) -> Result<String, String> {
        let mut name = String::new();
        for (text, field) in &self.parts {
            name.push_str(text);
            name.push_str(match field {
                Field::Destination => &message.destination,
                Field::Topic => &message.topic,
                Field::Tenant => &message.tenant,
                Field::Key => message.key.as_deref().ok_or("the topic's name needs a key and the message has none")?,
            });
        }
        name.push_str(&self.end);
        full_name(&name, namespace).map_err(|why| format!("the topic's name {why}"))
    }
}

fn plain(text: &str) -> Result<String, String> {
    if text.contains('}') { Err("has a } without its {".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn places_are_filled() {
        for (template, expected) in [
            ("{destination}", "persistent://public/default/orders.created"),
            ("orders", "persistent://public/default/orders"),
            ("{tenant}/events/{destination}-{key}", "persistent://acme/events/orders.created-order-1"),
            ("non-persistent://a/b/{destination}", "non-persistent://a/b/orders.created"),
        ] {
            assert_eq!(Template::parse(template).unwrap().name(&message(), "public/default").unwrap(), expected);
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        for template in ["", "{", "}", "{tenant", "a}", "{}", "{Tenant}", "{{tenant}}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn a_message_without_a_topic_is_told() {
        let keyless = Message { key: None, ..message() };
        assert!(Template::parse("{key}").unwrap().name(&keyless, "a/b").unwrap_err().contains("needs a key"));
        let odd = Message { destination: "a b".to_owned(), ..message() };
        assert!(Template::parse("{destination}").unwrap().name(&odd, "a/b").unwrap_err().contains("blank"));
    }
}
