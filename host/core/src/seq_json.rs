//! Numbers of places in an order, as JSON has them: in quotes. Readers of JavaScript, jq and others hold a number in 53 bits, and the seq
//! of a message has more; so all of them are exact in every language. They are read from texts and from numbers.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A number that JSON has in quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeqJson(pub u64);

/// Reads such a number into a member that is a plain one: `#[serde(deserialize_with = "seq_json::read")]`.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    SeqJson::deserialize(deserializer).map(u64::from)
}

impl SeqJson {
    /// The number in a value, if it is one.
    pub fn in_value(value: &Value) -> Option<u64> {
        Self::deserialize(value).ok().map(u64::from)
    }
}

impl From<u64> for SeqJson {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<SeqJson> for u64 {
    fn from(SeqJson(number): SeqJson) -> Self {
        number
    }
}

impl Serialize for SeqJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SeqJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SeqVisitor)
    }
}

struct SeqVisitor;

impl Visitor<'_> for SeqVisitor {
    type Value = SeqJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0 to 18446744073709551615, as text like \"17\" or as a number")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<SeqJson, E> {
        Ok(SeqJson(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<SeqJson, E> {
        let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
        u64::try_from(number).map(SeqJson).map_err(|_| wrong())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<SeqJson, E> {
        // A sign is nothing that is written back.
        let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok()).map(SeqJson);
        number.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl PartialSchema for SeqJson {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            // Numbers up to the largest that there can be, but for the last fortieth of them: these don't come up, and the form stays
            // readable.
            .pattern(Some("^([0-9]{1,19}|1[0-7][0-9]{18})$"))
            .description(Some("A whole number, in quotes so that it is exact in every language. On input a plain number is taken, too."))
            .into()
    }
}

impl ToSchema for SeqJson {
    fn name() -> Cow<'static, str> {
        "Seq".into()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_is_written_in_quotes_and_read_with_and_without() {
        for number in [0, 17, (1 << 53) + 1, 1_882_582_264_456_413_184, u64::MAX] {
            let text = serde_json::to_string(&SeqJson(number)).unwrap();
            assert_eq!(text, format!("\"{number}\""));
            assert_eq!(serde_json::from_str::<SeqJson>(&text).unwrap(), SeqJson(number));
            assert_eq!(serde_json::from_str::<SeqJson>(&number.to_string()).unwrap(), SeqJson(number));
        }
    }

    #[test]
    fn what_is_no_number_says_how_one_is_written() {
        for wrong in
            ["\"\"", "\"+1\"", "\"-1\"", "\"1.0\"", "\" 1\"", "\"18446744073709551616\"", "-1", "1.5", "true", "null"]
        {
            let error = serde_json::from_str::<SeqJson>(wrong).unwrap_err().to_string();
            assert!(error.contains("as text like \"17\" or as a number"), "{wrong}: {error}");
        }
    }
}
