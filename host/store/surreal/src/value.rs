//! Building values, keys and bindings.

use bytes::Bytes;
use surrealdb::types::Value as PublicValue;
use surrealdb_datastore::val;

use crate::{Array, Fault, Number, Object, RecordIdKey, Value};

/// Values of a text's `$names`.
pub type Bindings = Vec<(String, Value)>;

pub fn int(number: i64) -> Value {
    Value::Number(Number::Int(number))
}

pub fn text(text: impl AsRef<str>) -> Value {
    Value::String(val::Strand::new(text))
}

pub fn bytes(bytes: impl Into<Bytes>) -> Value {
    Value::Bytes(val::Bytes(bytes.into()))
}

pub fn array(items: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(Array(items.into_iter().collect()))
}

/// A key made of parts.
pub fn key(parts: impl IntoIterator<Item = Value>) -> RecordIdKey {
    RecordIdKey::Array(Array(parts.into_iter().collect()))
}

/// An object. Names are known at compile time, so they cost no allocation.
pub fn object<const N: usize>(fields: [(&'static str, Value); N]) -> Object {
    let mut object = Object::default();
    for (name, value) in fields {
        object.insert(val::Strand::new_static(name), value);
    }
    object
}

/// The name of a table as a value.
pub fn table(name: &'static str) -> Value {
    Value::Table(val::TableName::new(val::Strand::new_static(name)))
}

/// A value from JSON: objects, lists, texts, numbers, booleans, null.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(bool) => Value::Bool(bool),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => int(number),
            (None, Some(number)) => Value::Number(Number::Float(number)),
            (None, None) => text(number.to_string()),
        },
        serde_json::Value::String(string) => text(string),
        serde_json::Value::Array(items) => array(items.into_iter().map(from_json)),
        serde_json::Value::Object(fields) => {
            let mut object = Object::default();
            for (name, value) in fields {
                object.insert(val::Strand::new(name), from_json(value));
            }
            Value::Object(object)
        }
    }
}

/// A value as JSON; record ids, times and the like become texts.
pub fn to_json(value: Value) -> Result<serde_json::Value, Fault> {
    Ok(public(value)?.into_json_value())
}

/// The value as SurrealDB's client library has it.
pub(crate) fn public(value: Value) -> Result<PublicValue, Fault> {
    PublicValue::try_from(value).map_err(|error| Fault::Other(format!("a value can't be passed on: {error}")))
}

/// Bindings as SurrealDB's client library has them.
pub(crate) fn variables(bindings: Bindings) -> Result<surrealdb::types::Variables, Fault> {
    let mut variables = surrealdb::types::Variables::new();
    for (name, value) in bindings {
        variables.insert(name, public(value)?);
    }
    Ok(variables)
}

/// An instant, from milliseconds since 1970. One that the database can't hold (after the year 262000) becomes an integer.
pub fn millis(millis: u64) -> Value {
    let seconds = i64::try_from(millis / 1_000).ok();
    let nanos = u32::try_from(millis % 1_000 * 1_000_000).ok();
    let instant = seconds.zip(nanos).and_then(|parts| val::Datetime::try_from(parts).ok());
    instant.map_or_else(|| int(i64::try_from(millis).unwrap_or(i64::MAX)), Value::Datetime)
}

/// The integer in a field.
pub fn int_of(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Number(Number::Int(number))) => Some(*number),
        _ => None,
    }
}

/// The text in a field.
pub fn text_of(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    }
}

/// The bytes in a field; they share the record's memory.
pub fn bytes_of(value: Option<&Value>) -> Option<Bytes> {
    match value {
        Some(Value::Bytes(bytes)) => Some(bytes.0.clone()),
        _ => None,
    }
}

/// The flag in a field.
pub fn bool_of(value: Option<&Value>) -> Option<bool> {
    match value {
        Some(Value::Bool(flag)) => Some(*flag),
        _ => None,
    }
}

/// The instant in a field, in milliseconds since 1970.
pub fn millis_of(value: Option<&Value>) -> Option<u64> {
    match value {
        Some(Value::Datetime(instant)) => u64::try_from(instant.timestamp_millis()).ok(),
        other => u64::try_from(int_of(other)?).ok(),
    }
}
