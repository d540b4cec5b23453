//! JSON text that is kept and handed on as it is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A JSON value as compact text, shared. It is always valid JSON; it isn't parsed again unless a mapping reads it.
///
/// Serialised as a string, so that every codec can hold it; views for people embed it as a value ([`Json::raw`]).
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Json(Arc<str>);

impl Json {
    /// `null`.
    pub fn null() -> Self {
        Self(Arc::from("null"))
    }

    /// Checks a text. Spaces around it go.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        Ok(Self(Arc::from(text.trim_ascii())))
    }

    /// Checks bytes, e.g. an answer.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice::<serde::de::IgnoredAny>(bytes)?;
        Self::parse(&String::from_utf8_lossy(bytes))
    }

    /// Of a value.
    pub fn of(value: &serde_json::Value) -> Self {
        Self(Arc::from(value.to_string()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: `null` has four bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a value.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or(serde_json::Value::Null)
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
        Self::parse(&text)
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
}
