//! A row as a message, and why one can't be.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

/// A row that breaks the table's rules.
pub(crate) const INVALID: &str = "INVALID_OUTBOX";
/// A row whose stamp is ahead of the database's clock.
const FUTURE: &str = "FUTURE_EVENT";

/// A row as a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Stable id on the wire.
    pub(crate) id: String,
    pub(crate) tenant: Option<String>,
    /// With its scheme, as the template says.
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) content_type: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) event_type: Option<String>,
    pub(crate) event_version: Option<u32>,
    pub(crate) envelope_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) reply_to: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) occurred_at: Option<u64>,
    pub(crate) attributes: Vec<(String, String)>,
}

/// Why a row is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// For good: what is wrong with it.
    Invalid(String),
    /// Until so many milliseconds are over.
    Future(u32),
}

impl Unsent {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => INVALID,
            Self::Future(_) => FUTURE,
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Invalid(why) => why.clone(),
            Self::Future(_) => "its stamp is ahead of the database's clock: it waits until then".to_owned(),
        }
    }
}

/// What a topic's counts are shown under: its first token behind the scheme.
pub(crate) fn context(topic: &str) -> &str {
    subject(topic).split('.').next().unwrap_or_default()
}

/// A topic without its scheme.
pub(crate) fn subject(topic: &str) -> &str {
    topic.strip_prefix("bus:").unwrap_or(topic)
}

pub(super) fn is_json(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/json") || media.to_ascii_lowercase().ends_with("+json")
}

pub(super) fn is_valid_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// An object of texts, numbers and booleans.
pub(super) fn headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || "its headers are no JSON object of texts without line breaks".to_owned();
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).map_err(|_| wrong())?;
    let mut headers = Vec::with_capacity(object.len());
    for (name, value) in object {
        let value = match value {
            serde_json::Value::String(text) => text,
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::Bool(yes) => yes.to_string(),
            serde_json::Value::Null => continue,
            _ => return Err(wrong()),
        };
        if name.is_empty() || [&name, &value].iter().any(|text| text.contains(['\r', '\n', '\0'])) {
            return Err(wrong());
        }
        headers.push((name, value));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn headers_are_an_object_of_plain_values() {
        assert_eq!(
            headers(r#"{"a":"x","n":7,"gone":null}"#).unwrap(),
            [("a".into(), "x".into()), ("n".into(), "7".into())]
        );
        for text in ["[]", "{", r#"{"a":{}}"#, r#"{"a":"x\ny"}"#, r#"{"":"x"}"#] {
            assert!(headers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_subject_is_a_topic_without_its_scheme_and_its_first_token_the_context() {
        assert_eq!((subject("bus:a.b"), subject("http://a"), context("bus:a.b")), ("a.b", "http://a", "a"));
    }

    #[test]
    fn json_is_known_by_its_media_type() {
        for (content_type, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("a/b+json", true),
            ("text/plain", false),
        ] {
            assert_eq!(is_json(content_type), expected, "{content_type}");
        }
    }
}
