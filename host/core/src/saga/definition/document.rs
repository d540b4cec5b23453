//! A definition as a tree that remembers where everything stands, from TOML or JSON. Only syntax is judged here.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::problem::{Position, Problem, Severity};
use crate::saga::limits::MAPPING_DEPTH_MAX;

/// A name with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub name: String,
    pub name_at: Position,
    pub node: Node,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub value: Value,
    pub at: Position,
}

/// What may stand behind a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Text(String),
    Number(serde_json::Number),
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Text(_) => "a string",
            Self::Number(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
        }
    }
}

/// Deepest document: a mapping below a step below the list of steps.
const DEPTH_MAX: usize = MAPPING_DEPTH_MAX + 8;

/// Offsets of the line starts of a text.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(1, |before| before.chars().count() + 1);
        Position { line, column }
    }

    /// Of a part of the text.
    fn of(&self, part: &str) -> Position {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.position(offset.min(self.text.len()))
    }
}

fn syntax(at: Position, what: String, fix: &str) -> Problem {
    Problem { severity: Severity::Error, at, path: String::new(), what, fix: fix.to_owned() }
}

/// Reads TOML.
pub(super) fn toml(text: &str) -> Result<Vec<Entry>, Problem> {
    let lines = Lines::new(text);
    match DeTable::parse(text) {
        Ok(table) => toml_table(table.get_ref(), &lines, 0),
        Err(error) => {
            let at = lines.position(error.span().map_or(0, |span| span.start));
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            Err(syntax(at, format!("this isn't TOML: {message}"), "correct the line; strings need quotes"))
        }
    }
}

fn too_deep(at: Position) -> Problem {
    syntax(at, format!("it is nested deeper than {DEPTH_MAX}"), "flatten it")
}

fn toml_table(table: &DeTable<'_>, lines: &Lines<'_>, depth: usize) -> Result<Vec<Entry>, Problem> {
    let mut entries: Vec<(usize, Entry)> = Vec::new();
    for (name, value) in table {
        let offset = name.span().start;
        let at = lines.position(value.span().start);
        let node = Node { value: toml_value(value.get_ref(), lines, at, depth + 1)?, at };
        entries.push((offset, Entry { name: name.get_ref().to_string(), name_at: lines.position(offset), node }));
    }
    // The parser's map sorts by name.
    entries.sort_by_key(|(offset, _)| *offset);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

fn toml_value(value: &DeValue<'_>, lines: &Lines<'_>, at: Position, depth: usize) -> Result<Value, Problem> {
    if depth > DEPTH_MAX {
        return Err(too_deep(at));
    }
    let number = |text: &str| text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    let bad = |text: &str| syntax(at, format!("{text} isn't a number that JSON has"), "write another number");
    Ok(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Number(integer.into()),
            Err(_) => Value::Number(number(integer.as_str()).ok_or_else(|| bad(integer.as_str()))?),
        },
        DeValue::Float(float) => Value::Number(number(float.as_str()).ok_or_else(|| bad(float.as_str()))?),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                let at = lines.position(item.span().start);
                Ok(Node { value: toml_value(item.get_ref(), lines, at, depth + 1)?, at })
            });
            Value::List(items.collect::<Result<_, Problem>>()?)
        }
        DeValue::Table(table) => Value::Table(toml_table(table, lines, depth)?),
    })
}

/// Reads JSON.
pub(super) fn json(text: &str) -> Result<Vec<Entry>, Problem> {
    let lines = Lines::new(text);
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let at = Position { line: error.line().max(1), column: error.column().max(1) };
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        return Err(syntax(at, format!("this isn't JSON: {message}"), "correct the line"));
    }
    let root = text.trim_start();
    match json_value(root.trim_end(), &lines, 0)?.value {
        Value::Table(entries) => Ok(entries),
        other => {
            let what = format!("a definition is an object, not {}", other.kind());
            Err(syntax(lines.of(root), what, "write { \"name\": ..., \"version\": 1, \"steps\": [...] }"))
        }
    }
}

fn json_value(part: &str, lines: &Lines<'_>, depth: usize) -> Result<Node, Problem> {
    let at = lines.of(part);
    if depth > DEPTH_MAX {
        return Err(too_deep(at));
    }
    let refuse = |error: serde_json::Error| syntax(at, format!("this isn't usable: {error}"), "correct the value");
    let value = match part.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(part).map_err(refuse)?;
            let mut entries = Vec::with_capacity(members.len());
            for (name, raw) in members {
                let node = json_value(raw.get(), lines, depth + 1)?;
                let name_at = match &name {
                    Cow::Borrowed(name) => lines.of(name),
                    Cow::Owned(_) => node.at,
                };
                entries.push(Entry { name: name.into_owned(), name_at, node });
            }
            Value::Table(entries)
        }
        Some(b'[') => {
            let Items(items) = serde_json::from_str(part).map_err(refuse)?;
            let items = items.into_iter().map(|raw| json_value(raw.get(), lines, depth + 1));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        _ => match serde_json::from_str(part).map_err(refuse)? {
            serde_json::Value::Bool(flag) => Value::Bool(flag),
            serde_json::Value::Number(number) => Value::Number(number),
            serde_json::Value::String(text) => Value::Text(text),
            _ => Value::Null,
        },
    };
    Ok(Node { value, at })
}

/// Members of an object in order, as they stand in the text.
struct Members<'t>(Vec<(Cow<'t, str>, &'t RawValue)>);

/// A name, borrowed where it has no escapes.
struct Name<'t>(Cow<'t, str>);

impl<'t> Deserialize<'t> for Name<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'t> Visitor<'t> for Text {
            type Value = Name<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'t str) -> Result<Name<'t>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'t>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'t> Visitor<'t> for Object {
            type Value = Members<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Members<'t>, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'t>, &'t RawValue>()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Items of an array, as they stand in the text.
struct Items<'t>(Vec<&'t RawValue>);

impl<'t> Deserialize<'t> for Items<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'t> Visitor<'t> for Array {
            type Value = Items<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Items<'t>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<&'t RawValue>()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Array)
    }
}
