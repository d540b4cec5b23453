//! Conditions on what a message holds: `header.x-shop=berlin`, `payload.order.id=4711`. Nothing is indexed by them: every message that a
//! list comes by is looked at, within the bound of a list.

use serde_json::Value;

use super::{Condition, FilterError};
use crate::glob::Glob;

/// What is written of them where fields are listed.
const CONTENTS: &str = "header.NAME, payload.PATH (e.g. payload.order.id=4711)";

/// Names on the way into a payload: as deep as anybody nests what is searched by.
const DEPTH_MAX: usize = 16;

/// Conditions on headers and on fields of JSON payloads. All have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Names are compared without regard to case.
    headers: Vec<(String, Glob)>,
    payload: Vec<(Vec<String>, Glob)>,
}

impl Contents {
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.payload.is_empty()
    }

    /// Takes up a condition. False when it is on something else.
    ///
    /// # Errors
    /// The name is missing, or the path is deeper than 16 names.
    pub fn narrow(&mut self, condition: &Condition) -> Result<bool, FilterError> {
        let glob = || Glob::new(&condition.value);
        match condition.field.split_once('.') {
            Some(("header", name)) if !name.is_empty() => self.headers.push((name.to_owned(), glob())),
            Some(("payload", path)) if path.split('.').all(|name| !name.is_empty()) => {
                let path: Vec<String> = path.split('.').map(str::to_owned).collect();
                if path.len() > DEPTH_MAX {
                    return Err(condition.refuse(format!("a path has at most {DEPTH_MAX} names")));
                }
                self.payload.push((path, glob()));
            }
            Some(("header" | "payload", _)) => {
                return Err(condition.refuse(format!("a name is missing; write one of {CONTENTS}")));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether they hold. A payload that is kept beside its message (`None`) or isn't JSON has no fields.
    pub fn take(&self, headers: &[(String, String)], payload: Option<&[u8]>) -> bool {
        self.headers.iter().all(|(wanted, glob)| {
            headers.iter().any(|(name, value)| name.eq_ignore_ascii_case(wanted) && glob.matches(value))
        }) && self.take_payload(payload)
    }

    fn take_payload(&self, payload: Option<&[u8]>) -> bool {
        if self.payload.is_empty() {
            return true;
        }
        let Some(value) = payload.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()) else { return false };
        self.payload.iter().all(|(path, glob)| field(&value, path).is_some_and(|text| glob.matches(&text)))
    }
}

/// A field as text: one that holds others has none.
fn field(value: &Value, path: &[String]) -> Option<String> {
    let found = path.iter().try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name.as_str()),
    });
    match found? {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) | Value::Array(_) => None,
        plain => Some(plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::outbox::filter::Filter;
    use crate::time::UnixMillis;

    fn takes(text: &str) -> bool {
        let contents = Filter::parse(text, UnixMillis(0)).unwrap().contents;
        let headers = [("X-Shop".to_owned(), "berlin".to_owned())];
        let payload = br#"{"order":{"id":4711,"lines":[{"sku":"a b"}],"paid":true,"note":null}}"#;
        contents.take(&headers, Some(payload))
    }

    #[test]
    fn fields_of_payloads_and_headers_are_compared_as_they_are_shown() {
        for (text, wanted) in [
            ("header.x-shop=ber*", true),
            ("header.x-shop=paris", false),
            ("header.x-other=*", false),
            ("payload.order.id=4711", true),
            ("payload.order.id=471", false),
            ("payload.order.lines.0.sku=\"a b\"", true),
            ("payload.order.lines.1.sku=*", false),
            ("payload.order.paid=true", true),
            ("payload.order.note=null", true),
            ("payload.order=*", false),
            ("header.x-shop=berlin payload.order.id=1", false),
        ] {
            assert_eq!(takes(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_payload_without_fields_meets_no_condition_on_one() {
        let contents = Filter::parse("payload.a=*", UnixMillis(0)).unwrap().contents;
        assert!(!contents.take(&[], None) && !contents.take(&[], Some(b"no json")) && !contents.take(&[], Some(b"7")));
    }

    #[test]
    fn a_path_without_names_or_with_too_many_is_refused() {
        for bad in ["header.=x", "payload.=x", "payload.a..b=x", &format!("payload{}=x", ".a".repeat(17))] {
            assert!(Filter::parse(bad, UnixMillis(0)).is_err(), "{bad}");
        }
    }
}
