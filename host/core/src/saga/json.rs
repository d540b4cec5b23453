//! JSON text that is kept and handed on as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A JSON value as text, shared. What is new is checked as a mapping reads it later ([`Json::parse`]); it isn't parsed again
/// unless a mapping reads it.
///
/// Serialised as a string, so that every codec can hold it; views for people embed it as a value ([`Json::raw`]).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Json(Arc<str>);

impl Json {
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// Checks a text from outside. Spaces around it go. Refused is also JSON that can't be read as a value: a number past 64-bit
    /// floating point (`1e999`), half of a surrogate pair, arrays and objects nested deeper than 127.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde_json::Value>(text)?;
        Ok(Self(Arc::from(text.trim_ascii())))
    }

    /// Checks bytes, e.g. an answer: UTF-8, and what [`Json::parse`] checks.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let text = std::str::from_utf8(bytes);
        Self::parse(text.map_err(|error| serde::de::Error::custom(format_args!("it isn't UTF-8: {error}")))?)
    }

    /// A text that was stored. Only its form is checked: earlier builds kept more than [`Json::parse`] takes, and a saga with
    /// such a text has to be found again.
    pub fn stored(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        Ok(Self(Arc::from(text.trim_ascii())))
    }

    /// An object of members, sorted by name. Their texts stay as they are.
    pub fn object<'a>(members: impl Iterator<Item = (&'a str, &'a Self)>) -> Self {
        let members: BTreeMap<&str, &Self> = members.collect();
        let mut text = String::from("{");
        for (name, value) in members {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value.as_str());
        }
        text.push('}');
        Self(Arc::from(text))
    }

    pub fn of(value: &serde_json::Value) -> Self {
        Self(Arc::from(value.to_string()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Bytes of the text.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: `null` has four bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a value. The error says why it can't be read: an earlier build stored it, or it is nested too deep since it became a
    /// part of an output.
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// For embedding in an answer without parsing it.
    pub fn raw(&self) -> Box<serde_json::value::RawValue> {
        serde_json::value::RawValue::from_string(self.0.to_string()).unwrap_or_default()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Json {
    type Error = serde_json::Error;
    fn try_from(text: String) -> Result<Self, serde_json::Error> {
        Self::stored(&text)
    }
}

impl From<Json> for String {
    fn from(json: Json) -> Self {
        json.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_json_is_taken_and_numbers_stay_as_written() {
        assert!(Json::parse("{\"a\":").is_err());
        assert!(Json::parse_bytes(b"\xff").is_err());
        let json = Json::parse(" {\"n\":12345678901234567890.10} ").unwrap();
        assert_eq!(json.as_str(), "{\"n\":12345678901234567890.10}");
        let text = serde_json::to_string(&json).unwrap();
        assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), json);
    }

    #[test]
    fn what_no_mapping_could_read_is_refused_and_is_read_again_if_it_was_stored() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for text in ["1e999", r#"{"a":"\ud800"}"#, &deep] {
            assert!(Json::parse(text).is_err(), "{text}");
            let stored: Json = serde_json::from_value(text.into()).unwrap();
            assert_eq!(stored.as_str(), text);
            assert!(stored.value().is_err(), "{text}");
        }
        assert!(Json::parse_bytes(b"\"\xff\"").unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn an_object_keeps_its_members_texts() {
        let [a, b] = ["1.50", "[2 ]"].map(|text| Json::parse(text).unwrap());
        assert_eq!(Json::object([("x\"", &a), ("b", &b)].into_iter()).as_str(), r#"{"b":[2 ],"x\"":1.50}"#);
        assert_eq!(Json::object(std::iter::empty()).as_str(), "{}");
    }
}
