//! Bodies with messages: one object, `{"messages":[...]}`, or JSON lines.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use waybill_core::error::InputError;
use waybill_core::limits::REQUEST_MESSAGES_MAX;
use waybill_core::new_message::NewMessage;

use super::decode;
use super::message::{MessageFields, MessageIn, Name, NameSeed};
use crate::problem::Problem;

/// Messages of a request; past the bound they are only counted.
#[derive(Debug, Default)]
pub struct Messages {
    list: Vec<NewMessage>,
    beyond: usize,
}

impl Messages {
    /// The messages, unless there are too many.
    pub fn bounded(self) -> Result<Vec<NewMessage>, Problem> {
        if self.beyond > 0 {
            let count = self.list.len() + self.beyond;
            return Err(InputError::TooMany { count, count_max: REQUEST_MESSAGES_MAX }.into());
        }
        Ok(self.list)
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessagesVisitor;
        impl<'de> Visitor<'de> for MessagesVisitor {
            type Value = Messages;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of message objects")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Messages, A::Error> {
                let mut messages = Messages::default();
                while messages.list.len() < REQUEST_MESSAGES_MAX {
                    let Some(MessageIn(message)) = seq.next_element()? else { return Ok(messages) };
                    messages.list.push(message);
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    messages.beyond += 1;
                }
                Ok(messages)
            }
        }
        deserializer.deserialize_seq(MessagesVisitor)
    }
}

/// Messages of a JSON body: one object, or `{"messages":[...]}`.
pub fn json(text: &str) -> Result<Vec<NewMessage>, Problem> {
    decode::seed(text, || PostSeed)?.bounded()
}

/// Messages of a body with one JSON object a line. Empty lines are skipped.
pub fn lines(text: &str) -> Result<Vec<NewMessage>, Problem> {
    let mut messages = Messages::default();
    for (number, line) in text.split('\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if messages.list.len() == REQUEST_MESSAGES_MAX {
            messages.beyond += 1;
            continue;
        }
        match decode::value::<MessageIn>(line) {
            Ok(MessageIn(message)) => messages.list.push(message),
            Err(mut problem) => {
                problem.at.line = Some(number + 1);
                problem.at.index = Some(messages.list.len());
                return Err(problem);
            }
        }
    }
    messages.bounded()
}

struct PostSeed;

impl<'de> DeserializeSeed<'de> for PostSeed {
    type Value = Messages;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Messages, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PostSeed {
    type Value = Messages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message object or {\"messages\": [...]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Messages, A::Error> {
        let mut many: Option<Messages> = None;
        let mut one: Option<MessageFields> = None;
        while let Some(name) = map.next_key_seed(NameSeed { messages: true })? {
            match name {
                Name::Messages if many.is_none() => many = Some(map.next_value()?),
                Name::Messages => return Err(de::Error::custom("messages is given twice")),
                Name::Field(field, meaning) => one.get_or_insert_default().take(field, meaning, &mut map)?,
            }
            if many.is_some() && one.is_some() {
                return Err(de::Error::custom("messages stands alone: put this field into each message"));
            }
        }
        match many {
            Some(messages) => Ok(messages),
            None => {
                let message = one.unwrap_or_default().finish().map_err(de::Error::custom)?;
                Ok(Messages { list: vec![message], beyond: 0 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"topic":"bus:a","payload":1}"#;

    #[test]
    fn one_many_and_lines_are_read_alike() {
        assert_eq!(json(ONE).unwrap().len(), 1);
        let many = json(&format!("{{\"messages\":[{ONE},{ONE}]}}")).unwrap();
        let lines = lines(&format!("{ONE}\r\n\n  {ONE}\n")).unwrap();
        assert_eq!(many, lines);
        assert_eq!(json("{\"messages\":[]}").unwrap().len(), 0);
    }

    #[test]
    fn a_fault_is_placed_in_its_message() {
        let problem =
            json(&format!("{{\"messages\":[{ONE},{{\"topic\":\"bus:a\",\"payload\":1,\"kee\":\"x\"}}]}}")).unwrap_err();
        assert_eq!(problem.at.path.as_deref(), Some("messages[1].kee"));
        assert!(problem.detail.contains("\"key\""), "{}", problem.detail);
        let problem = lines(&format!("{ONE}\n\n{{\"topic\":3}}")).unwrap_err();
        assert_eq!((problem.at.line, problem.at.index, problem.at.path.as_deref()), (Some(3), Some(1), Some("topic")));
        let problem = json(&format!("{{\"messages\":[{ONE}],\"topic\":\"x\"}}")).unwrap_err();
        assert!(problem.detail.contains("stands alone"));
        let problem = json("{\"mesages\":[]}").unwrap_err();
        assert!(problem.detail.contains("\"messages\""), "{}", problem.detail);
        for text in
            ["[]", "1", "\"x\"", "{}", "{\"messages\":{}}", "{\"messages\":[1]}", "{\"messages\":[],\"messages\":[]}"]
        {
            assert_eq!(json(text).unwrap_err().code.as_str(), "SCHEMA.VALIDATION_FAILED", "{text}");
        }
    }

    #[test]
    fn more_than_the_bound_is_refused_with_the_count() {
        let list = vec![ONE; REQUEST_MESSAGES_MAX + 2];
        let problem = json(&format!("{{\"messages\":[{}]}}", list.join(","))).unwrap_err();
        assert_eq!(problem.code.as_str(), "OUTBOX.TOO_MANY");
        assert!(problem.detail.contains("10002"), "{}", problem.detail);
        assert_eq!(lines(&list.join("\n")).unwrap_err().code.as_str(), "OUTBOX.TOO_MANY");
        assert_eq!(lines(&vec![ONE; REQUEST_MESSAGES_MAX].join("\n")).unwrap().len(), REQUEST_MESSAGES_MAX);
    }
}
