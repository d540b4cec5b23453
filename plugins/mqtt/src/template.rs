//! The name of a message's topic, by a template: `shop/{tenant}/{path}`.

use waybill_mqtt_wire::topic::check_name;
use waybill_plugin::transport::Message;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Destination,
    /// The destination with a level for each part between its dots.
    Path,
    Topic,
    Tenant,
    Key,
}

/// Text with places for what a message has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

impl Template {
    /// Reads `text with {destination}`; `{{` and `}}` are braces.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain, mut letters) = (Vec::new(), String::new(), text.chars().peekable());
        while let Some(letter) = letters.next() {
            let is_doubled = matches!(letter, '{' | '}') && letters.peek() == Some(&letter);
            match letter {
                _ if is_doubled => plain.extend(letters.next()),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match letters.next() {
                            Some('}') => break,
                            Some(letter) => name.push(letter),
                            None => return Err("has a { without its }".to_owned()),
                        }
                    }
                    pieces.extend((!plain.is_empty()).then(|| Piece::Text(std::mem::take(&mut plain))));
                    pieces.push(placeholder(&name)?);
                }
                '}' => return Err("has a } without its {; write }} for a brace".to_owned()),
                '+' | '#' => return Err(format!("holds {letter}, which only filters may")),
                letter => plain.push(letter),
            }
        }
        pieces.extend((!plain.is_empty()).then_some(Piece::Text(plain)));
        if pieces.is_empty() {
            return Err("is empty".to_owned());
        }
        Ok(Self(pieces))
    }

    /// Writes the name of a message's topic into `out`, which is emptied first.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn write(&self, message: &Message, out: &mut String) -> Result<(), String> {
        out.clear();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Destination => out.push_str(&message.destination),
                Piece::Path => {
                    out.extend(message.destination.chars().map(|letter| if letter == '.' { '/' } else { letter }))
                }
                Piece::Topic => out.push_str(&message.topic),
                Piece::Tenant => out.push_str(&message.tenant),
                Piece::Key => match &message.key {
                    Some(key) => out.push_str(key),
                    None => return Err("the topic's name needs a key and the message has none".to_owned()),
                },
            }
        }
        check_name(out).map_err(|why| format!("the topic's name {why}"))
    }
}

fn placeholder(name: &str) -> Result<Piece, String> {
    match name {
        "destination" => Ok(Piece::Destination),
        "path" => Ok(Piece::Path),
        "topic" => Ok(Piece::Topic),
        "tenant" => Ok(Piece::Tenant),
        "key" => Ok(Piece::Key),
        other => {
            Err(format!("has {{{other}}}: there are {{destination}}, {{path}}, {{topic}}, {{tenant}} and {{key}}"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode::tests::message;

    fn named(template: &str, message: &Message) -> Result<String, String> {
        let mut out = "what was there".to_owned();
        Template::parse(template)?.write(message, &mut out).map(|()| out)
    }

    #[test]
    fn places_are_filled_and_doubled_braces_are_braces() {
        for (template, expected) in [
            ("{destination}", "orders.created"),
            ("{path}", "orders/created"),
            ("orders", "orders"),
            ("shop/{tenant}/{path}/{key}", "shop/acme/orders/created/order-1"),
            ("{{{tenant}}}/x", "{acme}/x"),
            ("{topic}", "bus:orders.created"),
        ] {
            assert_eq!(named(template, &message()).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        for template in ["", "{", "}", "{tenant", "a}", "{}", "{Tenant}", "{tenant }", "{{}", "a/#", "+"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn a_message_without_a_name_for_its_topic_is_told() {
        let keyless = Message { key: None, ..message() };
        assert!(named("{key}", &keyless).unwrap_err().contains("needs a key"));
        for destination in ["", "a\nb", "orders.#", "a+"] {
            let error = named("{destination}", &Message { destination: destination.to_owned(), ..message() });
            assert!(error.unwrap_err().starts_with("the topic's name "), "{destination}");
        }
    }
}
