//! A document as a tree that remembers where everything stands, from TOML or JSON: configurations and saga definitions.
//!
//! Only syntax is judged here; what the names mean is the business of who reads the tree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// Line and column in a document, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// A name with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    /// Where the name stands.
    pub name_at: Position,
    pub node: Node,
}

/// Entries in the order of the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub entries: Vec<Entry>,
}

impl Table {
    /// The entry of a name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entry(name).map(|entry| &entry.node)
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub at: Position,
}

/// What may stand behind a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, which TOML doesn't have.
    Null,
    Text(String),
    Number(serde_json::Number),
    /// A number that only TOML has, as written: `inf`, `nan`.
    OddNumber(String),
    Bool(bool),
    /// A date or time, which JSON doesn't have.
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Text(_) => "a string",
            Self::Number(_) | Self::OddNumber(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// As JSON: dates are texts there, and a number that JSON doesn't have is nothing.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null | Self::OddNumber(_) => serde_json::Value::Null,
            Self::Text(text) | Self::Date(text) => serde_json::Value::String(text.clone()),
            Self::Number(number) => serde_json::Value::Number(number.clone()),
            Self::Bool(flag) => (*flag).into(),
            Self::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Table(table) => serde_json::Value::Object(
                table.entries.iter().map(|entry| (entry.name.clone(), entry.node.value.to_json())).collect(),
            ),
        }
    }
}

/// What keeps a document from being read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It isn't TOML or JSON.
    #[error("{message}")]
    Syntax {
        /// What the parser says.
        message: String,
        /// The name that is there twice, if that is what is wrong.
        duplicate: Option<String>,
    },
    /// It is nested deeper than asked for.
    #[error("it is nested too deep")]
    TooDeep,
    /// A value that can't be held, such as a number out of range.
    #[error("{0}")]
    Unusable(String),
    /// JSON that is no object, but this.
    #[error("it is {0}, not an object")]
    NoObject(&'static str),
}

/// What is wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    pub at: Position,
    pub fault: Fault,
}

/// A text being read: the offsets of its line starts, and the deepest value that is taken.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    depth_max: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str, depth_max: usize) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts, depth_max }
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

    fn check_depth(&self, at: Position, depth: usize) -> Result<(), DocumentError> {
        if depth > self.depth_max { Err(DocumentError { at, fault: Fault::TooDeep }) } else { Ok(()) }
    }
}

/// Reads TOML that is nested at most so deep.
pub fn toml(text: &str, depth_max: usize) -> Result<Table, DocumentError> {
    let lines = Lines::new(text, depth_max);
    match DeTable::parse(text) {
        Ok(table) => toml_table(table.get_ref(), &lines, 0),
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let message = error.message().lines().collect::<Vec<_>>().join(", ");
            let duplicate = message.contains("duplicate key").then(|| {
                // The parser points at the second name; nothing else of the line is repeated.
                let rest = text.get(offset..).unwrap_or_default();
                let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
                rest.get(..end).unwrap_or_default().to_owned()
            });
            Err(DocumentError { at: lines.position(offset), fault: Fault::Syntax { message, duplicate } })
        }
    }
}

fn toml_table(table: &DeTable<'_>, lines: &Lines<'_>, depth: usize) -> Result<Table, DocumentError> {
    let mut entries: Vec<(usize, Entry)> = Vec::new();
    for (name, value) in table {
        let offset = name.span().start;
        let at = lines.position(value.span().start);
        let node = Node { value: toml_value(value.get_ref(), lines, at, depth + 1)?, at };
        entries.push((offset, Entry { name: name.get_ref().to_string(), name_at: lines.position(offset), node }));
    }
    // The parser's map sorts by name.
    entries.sort_by_key(|(offset, _)| *offset);
    Ok(Table { entries: entries.into_iter().map(|(_, entry)| entry).collect() })
}

fn toml_value(value: &DeValue<'_>, lines: &Lines<'_>, at: Position, depth: usize) -> Result<Value, DocumentError> {
    lines.check_depth(at, depth)?;
    let number = |text: &str| {
        let finite = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
        finite.map_or_else(|| Value::OddNumber(text.to_owned()), Value::Number)
    };
    Ok(match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Number(integer.into()),
            Err(_) => number(integer.as_str()),
        },
        DeValue::Float(float) => number(float.as_str()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                let at = lines.position(item.span().start);
                Ok(Node { value: toml_value(item.get_ref(), lines, at, depth + 1)?, at })
            });
            Value::List(items.collect::<Result<_, DocumentError>>()?)
        }
        DeValue::Table(table) => Value::Table(toml_table(table, lines, depth)?),
    })
}

/// Reads a JSON object that is nested at most so deep.
pub fn json(text: &str, depth_max: usize) -> Result<Table, DocumentError> {
    let lines = Lines::new(text, depth_max);
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let at = Position { line: error.line().max(1), column: error.column().max(1) };
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        return Err(DocumentError { at, fault: Fault::Syntax { message, duplicate: None } });
    }
    let root = json_value(text.trim(), &lines, 0)?;
    match root.value {
        Value::Table(table) => Ok(table),
        other => Err(DocumentError { at: root.at, fault: Fault::NoObject(other.kind()) }),
    }
}

fn json_value(part: &str, lines: &Lines<'_>, depth: usize) -> Result<Node, DocumentError> {
    let at = lines.of(part);
    lines.check_depth(at, depth)?;
    let refuse = |error: serde_json::Error| DocumentError { at, fault: Fault::Unusable(error.to_string()) };
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
            Value::Table(Table { entries })
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_value_knows_its_line_and_column() {
        let place = |at: Position| (at.line, at.column);
        let table = toml("# hi\n[outbox]\nbatch = 5\n\"ö\" = \"x\"\n", 8).unwrap();
        let Some(Value::Table(outbox)) = table.get("outbox").map(|node| node.value.clone()) else { panic!("a table") };
        let batch = outbox.entry("batch").unwrap();
        assert_eq!((place(batch.name_at), place(batch.node.at)), ((3, 1), (3, 9)));
        let table = json("{\n  \"ö\": { \"batch\": 5 }\n}", 8).unwrap();
        let Some(Value::Table(inner)) = table.get("ö").map(|node| node.value.clone()) else { panic!("a table") };
        assert_eq!(place(inner.entry("batch").unwrap().node.at), (2, 19));
    }

    #[test]
    fn a_syntax_error_has_its_place_and_a_second_key_is_told_apart() {
        let error = toml("[outbox]\nbatch = \n", 8).unwrap_err();
        assert!(error.at.line == 2 && matches!(error.fault, Fault::Syntax { duplicate: None, .. }), "{error:?}");
        let error = toml("[transport.a]\nplugin = \"noop\"\n[transport.a]\nplugin = \"http\"\n", 8).unwrap_err();
        assert!(error.at.line == 3 && matches!(error.fault, Fault::Syntax { duplicate: Some(_), .. }), "{error:?}");
    }

    #[test]
    fn what_only_one_of_both_has_is_kept_apart() {
        let table = toml("a = inf\nb = 18446744073709551616\n", 8).unwrap();
        assert_eq!(table.get("a").unwrap().value, Value::OddNumber("inf".to_owned()));
        assert!(matches!(&table.get("b").unwrap().value, Value::Number(number) if number.is_f64()));
        assert_eq!(json("{\"a\": null}", 8).unwrap().get("a").unwrap().value, Value::Null);
        assert_eq!(json("{\"a\": [[1]]}", 2).unwrap_err().fault, Fault::TooDeep);
        assert_eq!(json("[1]", 8).unwrap_err().fault, Fault::NoObject("an array"));
    }
}
