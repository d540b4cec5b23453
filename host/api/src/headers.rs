//! Message headers as a JSON object: a value is a text, or a list of texts where a name repeats.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use waybill_core::message::Headers;

/// Headers on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadersJson(pub Headers);

impl Serialize for HeadersJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names: Vec<(&str, Vec<&str>)> = Vec::with_capacity(self.0.len());
        for (name, value) in &self.0 {
            match names.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value),
                None => names.push((name, vec![value])),
            }
        }
        let mut map = serializer.serialize_map(Some(names.len()))?;
        for (name, values) in names {
            match values.as_slice() {
                [value] => map.serialize_entry(name, value)?,
                values => map.serialize_entry(name, values)?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for HeadersJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = HeadersJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of header names and texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeadersJson, A::Error> {
        let mut headers = Headers::new();
        while let Some(name) = map.next_key::<String>()? {
            match map.next_value::<OneOrMany>()? {
                OneOrMany::One(value) => headers.push((name, value)),
                OneOrMany::Many(values) => headers.extend(values.into_iter().map(|value| (name.clone(), value))),
            }
        }
        Ok(HeadersJson(headers))
    }
}

enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor)
    }
}

struct OneOrManyVisitor;

impl<'de> Visitor<'de> for OneOrManyVisitor {
    type Value = OneOrMany;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or a list of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMany, E> {
        Ok(OneOrMany::One(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element::<String>()? {
            values.push(value);
        }
        Ok(OneOrMany::Many(values))
    }
}

impl PartialSchema for HeadersJson {
    fn schema() -> RefOr<Schema> {
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let value = OneOfBuilder::new().item(text()).item(ArrayBuilder::new().items(text().build()));
        ObjectBuilder::new()
            .description(Some("Names and texts; a list of texts where a name repeats."))
            .additional_properties(Some(AdditionalProperties::RefOr(value.into())))
            .into()
    }
}

impl utoipa::ToSchema for HeadersJson {
    fn name() -> std::borrow::Cow<'static, str> {
        "Headers".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_name_becomes_a_list_and_comes_back() {
        let headers = HeadersJson(vec![("a".into(), "1".into()), ("b".into(), "2".into()), ("a".into(), "3".into())]);
        let text = serde_json::to_string(&headers).unwrap();
        assert_eq!(text, r#"{"a":["1","3"],"b":"2"}"#);
        let back: HeadersJson = serde_json::from_str(&text).unwrap();
        assert_eq!(back.0.len(), 3);
        for bad in ["[]", r#"{"a":1}"#, r#"{"a":[1]}"#, r#"{"a":null}"#, "null"] {
            assert!(serde_json::from_str::<HeadersJson>(bad).is_err(), "{bad}");
        }
    }
}
