//! Events in the body of a business transaction: each is an event to append that says where.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use waybill_core::error::InputResult;
use waybill_core::port::service::streams::EventInput;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::name::StreamName;

use crate::events::NewEventBody;

/// An event of a transaction: its members stand beside those of [`NewEventBody`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JointEventBody {
    pub stream: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_seq: Option<SeqJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(flatten)]
    pub event: NewEventBody,
}

impl JointEventBody {
    /// Its stream's name, the number that this is to end at, and the event. It is checked further when it is appended.
    pub fn into_parts(self) -> InputResult<(StreamName, Option<u64>, EventInput)> {
        Ok((StreamName::new(&self.stream)?, self.expected_seq.map(u64::from), self.event.into_input()?))
    }
}

impl<'de> Deserialize<'de> for JointEventBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;
        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = JointEventBody;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event with its stream")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JointEventBody, A::Error> {
                let mut place = Place::default();
                let event = NewEventBody::deserialize(MapAccessDeserializer::new(Apart { map, place: &mut place }))?;
                let stream = place.stream.ok_or_else(|| de::Error::missing_field("stream"))?;
                Ok(JointEventBody { stream, expected_seq: place.expected_seq, tenant: place.tenant, event })
            }
        }
        deserializer.deserialize_map(BodyVisitor)
    }
}

/// Members that say where an event goes.
#[derive(Default)]
struct Place {
    stream: Option<String>,
    expected_seq: Option<SeqJson>,
    tenant: Option<String>,
}

/// The members of an event, without those that say where it goes: these are read on the way.
struct Apart<'p, A> {
    map: A,
    place: &'p mut Place,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Apart<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.map.next_key::<Cow<'de, str>>()? {
            match name.as_ref() {
                "stream" => self.place.stream = Some(self.map.next_value()?),
                "expected_seq" => self.place.expected_seq = self.map.next_value()?,
                "tenant" => self.place.tenant = self.map.next_value()?,
                _ => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

impl PartialSchema for JointEventBody {
    fn schema() -> RefOr<Schema> {
        let mut schema = NewEventBody::schema();
        if let RefOr::T(Schema::Object(event)) = &mut schema {
            let about = "Only if the stream ends at this number; 0 = it has never had an event. All events of a stream are one append, in \
                order: it is given with the first of them, and later ones leave it out or count on.";
            event.description = Some("An event of a transaction: one to append, and where to.".into());
            event.properties.insert("stream".into(), text("Name of the stream."));
            event.properties.insert("expected_seq".into(), seq(about));
            event.properties.insert(
                "tenant".into(),
                text("Whose stream; the credential's only tenant, else `default`, if absent."),
            );
            event.required.push("stream".into());
        }
        schema
    }
}

impl ToSchema for JointEventBody {
    fn name() -> Cow<'static, str> {
        "TransactionEvent".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        NewEventBody::schemas(schemas);
    }
}

fn text(about: &str) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about)).into()
}

/// A number that is described by more than what all of them are.
fn seq(about: &str) -> RefOr<Schema> {
    match SeqJson::schema() {
        RefOr::T(Schema::Object(mut schema)) => {
            schema.description = Some(about.to_owned());
            RefOr::T(Schema::Object(schema))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &Value) -> Result<JointEventBody, String> {
        serde_json::from_str(&body.to_string()).map_err(|error| error.to_string())
    }

    fn event() -> Value {
        json!({ "resource_type": "TASK", "stream": "task", "resource_id": "t-1", "expected_seq": 3, "op": "CREATE",
            "schema_version": 1, "tenant": "acme", "payload_bytes": "e30=" })
    }

    #[test]
    fn an_event_says_where_it_goes_among_its_other_members() {
        let body = read(&event()).unwrap();
        assert_eq!(
            (body.stream.as_str(), body.expected_seq, body.tenant.as_deref()),
            ("task", Some(SeqJson(3)), Some("acme"))
        );
        let again: Value = serde_json::to_value(&body).unwrap();
        assert_eq!(read(&again).unwrap(), body);
        let (stream, expected_seq, event) = body.into_parts().unwrap();
        assert_eq!((stream.as_str(), expected_seq, event.resource_id.as_str()), ("task", Some(3), "t-1"));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (field, value) in [("stream", Value::Null), ("op", Value::Null), ("strem", json!("x")), ("seq", json!(1))] {
            let mut body = event();
            match value {
                Value::Null => drop(body.as_object_mut().unwrap().remove(field)),
                value => drop(body.as_object_mut().unwrap().insert(field.to_owned(), value)),
            }
            let error = read(&body).unwrap_err();
            assert!(error.contains(field), "{field}: {error}");
        }
    }

    #[test]
    fn the_documented_event_has_the_members_that_are_read() {
        let RefOr::T(Schema::Object(schema)) = JointEventBody::schema() else { panic!("not an object") };
        for name in event().as_object().unwrap().keys() {
            assert!(schema.properties.contains_key(name), "{name}");
        }
        for name in ["stream", "resource_type", "op"] {
            assert!(schema.required.contains(&name.to_owned()), "{name}");
        }
    }
}
