//! The key of a message's stream, by a template: `orders:{tenant}`.

use std::fmt::Write as _;

use waybill_plugin::transport::Message;

/// Longest key. Redis takes more; a longer one is a mistake.
const KEY_BYTES_MAX: usize = 3 * 1024;

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Destination,
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
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(letter) = rest.chars().next() {
            let after = rest.get(letter.len_utf8()..).unwrap_or_default();
            rest = match letter {
                '{' | '}' if after.starts_with(letter) => {
                    plain.push(letter);
                    after.get(1..).unwrap_or_default()
                }
                '{' => {
                    let (name, behind) = after.split_once('}').ok_or("has a { without its }")?;
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(placeholder(name)?);
                    behind
                }
                '}' => return Err("has a } without its {; write }} for a brace".to_owned()),
                letter => {
                    plain.push(letter);
                    after
                }
            };
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        if pieces.is_empty() {
            return Err("is empty".to_owned());
        }
        Ok(Self(pieces))
    }

    /// Writes a message's key into `out`, which is emptied first.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn write(&self, message: &Message, out: &mut String) -> Result<(), String> {
        out.clear();
        for piece in &self.0 {
            out.push_str(match piece {
                Piece::Text(text) => text,
                Piece::Destination => &message.destination,
                Piece::Topic => &message.topic,
                Piece::Tenant => &message.tenant,
                Piece::Key => message.key.as_deref().ok_or("the stream's name needs a key and the message has none")?,
            });
        }
        if out.is_empty() {
            return Err("the stream's name is empty".to_owned());
        }
        if out.len() > KEY_BYTES_MAX {
            let mut reason = String::new();
            // Writing to a String can't fail.
            let _ = write!(reason, "the stream's name has {} bytes, at most {KEY_BYTES_MAX} are taken", out.len());
            return Err(reason);
        }
        if out.chars().any(char::is_control) {
            return Err("the stream's name holds a control character".to_owned());
        }
        Ok(())
    }
}

fn placeholder(name: &str) -> Result<Piece, String> {
    match name {
        "destination" => Ok(Piece::Destination),
        "topic" => Ok(Piece::Topic),
        "tenant" => Ok(Piece::Tenant),
        "key" => Ok(Piece::Key),
        other => Err(format!("has {{{other}}}: there are {{destination}}, {{topic}}, {{tenant}} and {{key}}")),
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
            ("orders", "orders"),
            ("{tenant}:{destination}:{key}", "acme:orders.created:order-1"),
            ("{{{tenant}}}:x", "{acme}:x"),
            ("{topic}", "bus:orders.created"),
            ("größe:{tenant}", "größe:acme"),
        ] {
            assert_eq!(named(template, &message()).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        for template in ["", "{", "}", "{tenant", "a}", "{}", "{Tenant}", "{tenant }", "{{}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn a_message_without_a_name_for_its_stream_is_told() {
        let keyless = Message { key: None, ..message() };
        assert!(named("{key}", &keyless).unwrap_err().contains("needs a key"));
        assert!(named("{destination}", &Message { destination: String::new(), ..message() }).is_err());
        assert!(named("{destination}", &Message { destination: "a\nb".to_owned(), ..message() }).is_err());
        let long = Message { destination: "a".repeat(KEY_BYTES_MAX + 1), ..message() };
        assert!(named("{destination}", &long).unwrap_err().contains("3073"));
    }
}
