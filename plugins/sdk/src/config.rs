//! Typed configuration: the host has checked the document by the manifest's schema; here it becomes a Rust type, and what
//! the schema can't say fails with the place of the error in attribute `path`.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::transport::PluginError;

/// For a plugin without configuration: takes `{}` and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// Why a document doesn't fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where, with dots, e.g. `headers.x-env`; `.` is the whole document.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
}

/// Reads a configuration document.
///
/// # Errors
/// The first mismatch with its place.
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, Mismatch> {
    let mut text = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut text)
        .map_err(|error| Mismatch { path: error.path().to_string(), reason: error.inner().to_string() })?;
    text.end().map_err(|error| Mismatch { path: ".".to_owned(), reason: error.to_string() })?;
    Ok(value)
}

impl From<Mismatch> for PluginError {
    fn from(mismatch: Mismatch) -> Self {
        Self::invalid_config(&mismatch.path, &mismatch.reason)
    }
}

/// Durations in a configuration, for `#[serde(deserialize_with = "waybill_plugin::config::millis")]`: a text like `"250ms"`,
/// `"30s"`, `"5m"`, `"1h"`, `"7d"`, or a whole number of milliseconds.
///
/// # Errors
/// Neither of the two, or more than 49 days.
pub fn millis<'de, D: serde::Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "expected a duration like \"250ms\", \"30s\", \"5m\", \"1h\", \"7d\", or a number of milliseconds"
    )]
    enum Either {
        Number(u32),
        Text(String),
    }
    match Either::deserialize(input)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => parse_millis(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is no duration: write a whole number and ms, s, m, h or d, at most 49 days"
            ))
        }),
    }
}

/// A duration as [`millis`] reads it, where there is no field to say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Millis(#[serde(deserialize_with = "millis")] pub u32);

fn parse_millis(text: &str) -> Option<u32> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        inner: Inner,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        #[serde(deserialize_with = "millis")]
        timeout: u32,
    }

    #[test]
    fn durations_are_text_with_a_unit_or_milliseconds() {
        for (json, expected) in [
            (r#""250ms""#, 250),
            (r#""30s""#, 30_000),
            (r#""5m""#, 300_000),
            (r#""1h""#, 3_600_000),
            (r#""7d""#, 604_800_000),
            ("1500", 1_500),
        ] {
            let text = format!(r#"{{"inner":{{"timeout":{json}}}}}"#);
            assert_eq!(parse::<Outer>(&text).unwrap().inner.timeout, expected, "{json}");
        }
    }

    #[test]
    fn a_mismatch_names_its_place() {
        for (json, path) in [
            (r#"{"inner":{"timeout":"soon"}}"#, "inner.timeout"),
            (r#"{"inner":{"timeout":"5000000000ms"}}"#, "inner.timeout"),
            (r#"{"inner":{"timeout":"1200h"}}"#, "inner.timeout"),
            (r#"{"inner":{"timeout":"50d"}}"#, "inner.timeout"),
            (r#"{"inner":{"timeout":-1}}"#, "inner.timeout"),
            (r#"{"inner":{"timeout":1},"otter":1}"#, "otter"),
            (r#"{"inner":{"timeout":1}} trailing"#, "."),
        ] {
            assert_eq!(parse::<Outer>(json).unwrap_err().path, path, "{json}");
        }
    }

    #[test]
    fn a_plugin_without_configuration_takes_an_empty_document_only() {
        assert_eq!(parse::<Empty>("{}"), Ok(Empty {}));
        assert_eq!(parse::<Empty>(r#"{"a":1}"#).unwrap_err().path, "a");
    }

    #[test]
    fn a_mismatch_becomes_an_invalid_config_error_with_its_path() {
        let error = PluginError::from(Mismatch { path: "inner".to_owned(), reason: "is missing".to_owned() });
        assert_eq!(error.kind, crate::transport::ErrorKind::InvalidConfig);
        assert_eq!(error.fault.attributes, [("path".to_owned(), "inner".to_owned())]);
        assert!(error.fault.reason.contains("is missing"));
    }
}
