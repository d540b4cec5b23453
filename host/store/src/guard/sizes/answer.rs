//! What a value takes when it is answered as JSON, beyond what it takes itself.

use std::ops::Bound;

use waybill_surreal::{RecordIdKey, Value};

use super::size::VALUE;

/// Bytes of `\u0001`, beyond the one that it stands for.
const CONTROL: u64 = 5;

/// Bytes that its JSON takes beyond its weight: control characters are written as six, and bytes become a list of numbers.
pub fn beyond_weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => escapes(text.as_str()),
        Value::Bytes(content) => VALUE.saturating_mul(content.0.len() as u64),
        Value::Array(items) => items.iter().map(beyond_weight).fold(0, u64::saturating_add),
        Value::Set(items) => items.0.iter().map(beyond_weight).fold(0, u64::saturating_add),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| escapes(name.as_str()).saturating_add(beyond_weight(value)))
            .fold(0, u64::saturating_add),
        Value::RecordId(id) => escapes(id.table.as_str()).saturating_add(of_key(&id.key)),
        Value::Table(name) => escapes(name.as_str()),
        Value::Range(range) => {
            of_bound(&range.start, beyond_weight).saturating_add(of_bound(&range.end, beyond_weight))
        }
        // Shapes are weighed as what they are answered as; files and regular expressions as far more than they have.
        Value::Geometry(_)
        | Value::File(_)
        | Value::Regex(_)
        | Value::Closure(_)
        | Value::None
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Duration(_)
        | Value::Datetime(_)
        | Value::Uuid(_) => 0,
    }
}

/// What a key is written as is escaped once as SurrealQL and once as JSON.
fn of_key(key: &RecordIdKey) -> u64 {
    match key {
        RecordIdKey::Number(_) | RecordIdKey::Uuid(_) => 0,
        RecordIdKey::String(text) => escapes(text.as_str()).saturating_mul(2),
        RecordIdKey::Array(items) => items.iter().map(beyond_weight).fold(0, u64::saturating_add).saturating_mul(2),
        RecordIdKey::Object(fields) => fields
            .iter()
            .map(|(name, value)| escapes(name.as_str()).saturating_add(beyond_weight(value)))
            .fold(0, u64::saturating_add)
            .saturating_mul(2),
        RecordIdKey::Range(range) => of_bound(&range.start, of_key).saturating_add(of_bound(&range.end, of_key)),
    }
}

fn of_bound<T>(bound: &Bound<T>, of: impl Fn(&T) -> u64) -> u64 {
    match bound {
        Bound::Included(inside) | Bound::Excluded(inside) => of(inside),
        Bound::Unbounded => 0,
    }
}

fn escapes(text: &str) -> u64 {
    text.bytes()
        .map(|byte| match byte {
            0..0x20 | 0x7f => CONTROL,
            b'"' | b'\\' => 1,
            _ => 0,
        })
        .sum()
}
