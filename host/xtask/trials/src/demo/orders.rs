//! Reading a JSON-lines file of orders: any objects will do.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

/// The host's default for `outbox.max_payload_bytes`.
const PAYLOAD_BYTES_MAX: usize = 256 * 1024;
/// Fields that may hold the key, the first one present counts.
const KEY_FIELDS: [&str; 3] = ["customer", "customer_id", "key"];

/// One line of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Its line, from 1.
    pub line: usize,
    /// Its `id`, else made from its line.
    pub id: String,
    /// Orders of one key are delivered in the order of the file.
    pub key: Option<String>,
    /// The order itself, with its id.
    pub body: Value,
}

/// Reads all of them; an error names the line and what to do.
pub fn read(path: &Path) -> Result<Vec<Order>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&bytes).with_context(|| format!("{} isn't a file of orders", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Vec<Order>> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut orders: Vec<Order> = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for (text, line) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let order = order(text, line).with_context(|| format!("line {line}"))?;
        if let Some(before) = lines.insert(order.id.clone(), line) {
            bail!(
                "line {line}: id {:?} is on line {before} too; every order needs an id of its own, or none",
                order.id
            );
        }
        orders.push(order);
    }
    if orders.is_empty() {
        bail!("it is empty: put one JSON object on each line");
    }
    Ok(orders)
}

fn order(text: &[u8], line: usize) -> Result<Order> {
    if text.len() > PAYLOAD_BYTES_MAX {
        bail!("it has {} bytes, the host takes {PAYLOAD_BYTES_MAX} (outbox.max_payload_bytes)", text.len());
    }
    let value: Value = serde_json::from_slice(text)
        .map_err(|error| anyhow::anyhow!("column {}: {}", error.column(), without_place(&error)))?;
    let Value::Object(mut fields) = value else {
        bail!("it is {}, not an object: write {{\"id\": ..., \"customer\": ...}}", kind(&value));
    };
    let id = match fields.get("id") {
        Some(id) => text_of(id).with_context(|| format!("its id is {}, not a text or a whole number", kind(id)))?,
        None => format!("line-{line:06}"),
    };
    let key = key(&fields)?;
    fields.insert("id".into(), Value::String(id.clone()));
    Ok(Order { line, id, key, body: Value::Object(fields) })
}

fn key(fields: &Map<String, Value>) -> Result<Option<String>> {
    let Some((name, value)) = KEY_FIELDS.into_iter().find_map(|name| fields.get(name).map(|value| (name, value)))
    else {
        return Ok(None);
    };
    if value.is_null() {
        return Ok(None);
    }
    let key = text_of(value).with_context(|| format!("its {name} is {}, not a text or a whole number", kind(value)))?;
    Ok(Some(key))
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(text) if text.is_empty() => "an empty text",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// serde_json counts lines within the line.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn refused(text: &str) -> String {
        format!("{:#}", parse(text.as_bytes()).unwrap_err())
    }

    #[test]
    fn keys_come_from_the_first_field_there_is_and_ids_from_the_line() {
        let text =
            "\u{feff}{\"id\":7,\"customer\":\"ö\"}\r\n\n{\"customer_id\":3}\n{\"key\":\"k\",\"customer\":null}\n{}";
        let orders = parse(text.as_bytes()).unwrap();
        let seen: Vec<_> = orders.iter().map(|order| (order.line, order.id.as_str(), order.key.as_deref())).collect();
        assert_eq!(
            seen,
            [(1, "7", Some("ö")), (3, "line-000003", Some("3")), (4, "line-000004", None), (5, "line-000005", None)]
        );
        assert_eq!(orders[0].body["id"], "7");
    }

    #[test]
    fn a_bad_line_is_refused_with_its_number_and_the_fix() {
        assert_eq!(refused("{}\n{\"a\":}"), "line 2: column 6: expected value");
        assert_eq!(refused("[1]"), "line 1: it is an array, not an object: write {\"id\": ..., \"customer\": ...}");
        assert_eq!(refused("{\"id\":1.5}"), "line 1: its id is a number, not a text or a whole number");
        assert_eq!(refused("{\"id\":\"\"}"), "line 1: its id is an empty text, not a text or a whole number");
        assert_eq!(refused("{\"customer\":{}}"), "line 1: its customer is an object, not a text or a whole number");
        assert_eq!(
            refused("{\"id\":1}\n\n{\"id\":\"1\"}"),
            "line 3: id \"1\" is on line 1 too; every order needs an id of its own, or none"
        );
        assert_eq!(refused(" \n"), "it is empty: put one JSON object on each line");
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES_MAX));
        assert!(refused(&long).starts_with("line 1: it has 262152 bytes, the host takes 262144"), "{}", refused(&long));
    }
}
