//! `waybill.toml` as a tree that remembers where everything stands.
//!
//! Only syntax is judged here: what the keys mean is [`super::reader`]'s business.

use toml::de::{DeTable, DeValue};

use super::problem::Position;

/// A name with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// As written.
    pub name: String,
    /// Where the name stands.
    pub name_at: Position,
    /// The value.
    pub node: Node,
}

/// Entries in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The entries.
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
    /// The value.
    pub value: Value,
    /// Where it stands.
    pub at: Position,
}

/// What may stand behind a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A date or time; no key takes one.
    Date(String),
    /// An array.
    List(Vec<Node>),
    /// A table.
    Table(Table),
}

impl Value {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// As JSON, for documents that are handed on to plugins.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) | Self::Date(text) => serde_json::Value::String(text.clone()),
            Self::Integer(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Bool(flag) => (*flag).into(),
            Self::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Table(table) => serde_json::Value::Object(
                table.entries.iter().map(|entry| (entry.name.clone(), entry.node.value.to_json())).collect(),
            ),
        }
    }
}

/// The file isn't TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What the parser says; the name that is there twice, if that is what is wrong.
    pub message: String,
    /// Where.
    pub at: Position,
    /// A key or table is there twice.
    pub duplicate: bool,
}

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
}

/// Reads a file.
pub fn parse(text: &str) -> Result<Table, SyntaxError> {
    let lines = Lines::new(text);
    match DeTable::parse(text) {
        Ok(table) => Ok(table_of(table.get_ref(), &lines)),
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let mut message = error.message().lines().collect::<Vec<_>>().join(", ");
            let duplicate = message.contains("duplicate key");
            if duplicate {
                // The parser points at the second name; nothing else of the line is repeated.
                let rest = text.get(offset..).unwrap_or_default();
                let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'))).unwrap_or(rest.len());
                message = rest.get(..end).unwrap_or_default().to_owned();
            }
            Err(SyntaxError { duplicate, message, at: lines.position(offset) })
        }
    }
}

fn table_of(table: &DeTable<'_>, lines: &Lines<'_>) -> Table {
    let mut entries: Vec<(usize, Entry)> = table
        .iter()
        .map(|(name, value)| {
            let offset = name.span().start;
            let node = Node { value: value_of(value.get_ref(), lines), at: lines.position(value.span().start) };
            (offset, Entry { name: name.get_ref().to_string(), name_at: lines.position(offset), node })
        })
        .collect();
    // The parser's map sorts by name.
    entries.sort_by_key(|(offset, _)| *offset);
    Table { entries: entries.into_iter().map(|(_, entry)| entry).collect() }
}

fn value_of(value: &DeValue<'_>, lines: &Lines<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Float(number.as_str().parse().unwrap_or(f64::NAN)), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Node { value: value_of(item.get_ref(), lines), at: lines.position(item.span().start) })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(table_of(table, lines)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn every_value_knows_its_line_and_column() {
        let table = parse("# hi\n[outbox]\nbatch = 5\n\"ö\" = \"x\"\n").unwrap();
        let Some(Value::Table(outbox)) = table.get("outbox").map(|node| node.value.clone()) else { panic!("a table") };
        let batch = outbox.entry("batch").unwrap();
        assert_eq!((batch.name_at.line, batch.name_at.column), (3, 1));
        assert_eq!((batch.node.at.line, batch.node.at.column), (3, 9));
    }

    #[test]
    fn a_syntax_error_has_its_place_and_a_second_key_is_told_apart() {
        let error = parse("[outbox]\nbatch = \n").unwrap_err();
        assert_eq!(error.at.line, 2);
        assert!(!error.duplicate);
        let error = parse("[transport.a]\nplugin = \"noop\"\n[transport.a]\nplugin = \"http\"\n").unwrap_err();
        assert!(error.duplicate, "{error:?}");
        assert_eq!(error.at.line, 3);
    }
}
