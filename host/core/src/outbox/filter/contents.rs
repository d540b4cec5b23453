//! Conditions on what a message holds: `header.x-shop=berlin`, `payload.order.id=4711`. Every message that a list comes by is looked at,
//! within the bound of a list, but where an index says which can match ([`crate::outbox::index`]).

use std::borrow::Cow;
use std::cell::OnceCell;

use serde_json::Value;

use super::{Condition, FilterError};
use crate::glob::Glob;

/// What is written of them where fields are listed.
const CONTENTS: &str = "header.NAME, payload.PATH (e.g. payload.order.id=4711)";

/// Names on the way into a payload: as deep as anybody nests what is searched by.
const DEPTH_MAX: usize = 16;

/// A header, or a field of a JSON payload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentField {
    /// A header's name in small letters: names are compared without regard to case.
    Header(String),
    /// The names on the way into the payload.
    Payload(Vec<String>),
}

impl ContentField {
    /// Reads `header.NAME` or `payload.PATH`; none for what begins with neither.
    ///
    /// # Errors
    /// The name is missing, or the path is deeper than 16 names.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        match text.split_once('.') {
            Some(("header", name)) if !name.is_empty() => Ok(Some(Self::Header(name.to_ascii_lowercase()))),
            Some(("payload", path)) if path.split('.').all(|name| !name.is_empty()) => {
                let path: Vec<String> = path.split('.').map(str::to_owned).collect();
                match path.len() {
                    1..=DEPTH_MAX => Ok(Some(Self::Payload(path))),
                    _ => Err(format!("a path has at most {DEPTH_MAX} names")),
                }
            }
            Some(("header" | "payload", _)) => Err(format!("a name is missing; write one of {CONTENTS}")),
            _ => Ok(None),
        }
    }

    /// As it is written in filters.
    pub fn name(&self) -> String {
        match self {
            Self::Header(name) => format!("header.{name}"),
            Self::Payload(path) => format!("payload.{}", path.join(".")),
        }
    }
}

/// What a message holds, with its payload decoded when a field of it is asked for. A payload that is kept beside its message (`None`) or
/// isn't JSON has no fields.
pub struct Held<'m> {
    headers: &'m [(String, String)],
    payload: Option<&'m [u8]>,
    decoded: OnceCell<Option<Value>>,
}

impl<'m> Held<'m> {
    pub fn new(headers: &'m [(String, String)], payload: Option<&'m [u8]>) -> Self {
        Self { headers, payload, decoded: OnceCell::new() }
    }

    /// The texts that conditions on a field are compared with: one a header of that name, one of a payload's field at most.
    pub fn texts(&self, field: &ContentField) -> Vec<Cow<'_, str>> {
        match field {
            ContentField::Header(wanted) => {
                let named = self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
                named.map(|(_, value)| Cow::Borrowed(value.as_str())).collect()
            }
            ContentField::Payload(path) => {
                let decoded = self.decoded.get_or_init(|| serde_json::from_slice(self.payload?).ok());
                decoded.as_ref().and_then(|value| text_at(value, path)).into_iter().collect()
            }
        }
    }
}

/// Conditions on headers and on fields of JSON payloads. All have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(Vec<(ContentField, Glob)>);

impl Contents {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes up a condition. False when it is on something else.
    ///
    /// # Errors
    /// The name is missing, or the path is deeper than 16 names.
    pub fn narrow(&mut self, condition: &Condition) -> Result<bool, FilterError> {
        let field = ContentField::parse(&condition.field).map_err(|cause| condition.refuse(cause))?;
        let is_one = field.is_some();
        self.0.extend(field.map(|field| (field, Glob::new(&condition.value))));
        Ok(is_one)
    }

    /// Whether they hold of a message.
    pub fn take(&self, headers: &[(String, String)], payload: Option<&[u8]>) -> bool {
        let held = Held::new(headers, payload);
        self.0.iter().all(|(field, glob)| held.texts(field).iter().any(|text| glob.matches(text)))
    }

    /// The conditions that ask for one text, which an index can look up.
    pub fn exact(&self) -> impl Iterator<Item = (&ContentField, &str)> {
        self.0.iter().filter_map(|(field, glob)| Some((field, glob.exact()?)))
    }
}

/// A field of a payload as text: one that holds others has none.
fn text_at<'v>(value: &'v Value, path: &[String]) -> Option<Cow<'v, str>> {
    let found = path.iter().try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name.as_str()),
    });
    match found? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Object(_) | Value::Array(_) => None,
        plain => Some(Cow::Owned(plain.to_string())),
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
