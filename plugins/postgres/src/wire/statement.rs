//! Statements and what goes out of them: one after the other, with one synchronisation at the end.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

/// A statement with parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    sql: Rc<str>,
    /// What it is called at the server: the same text has the same name on every connection, so that a pooler that mixes them up
    /// does no harm.
    name: Rc<str>,
    /// The column of its answer that comes as bytes; the others come as text.
    binary: Option<usize>,
}

/// A parameter. All of them are text; the statements say of which type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Text(String),
}

impl Value {
    /// A whole number.
    pub(crate) fn number(number: u32) -> Self {
        Self::Text(number.to_string())
    }

    /// A number of things.
    pub(crate) fn count(count: usize) -> Self {
        Self::Text(count.to_string())
    }
}

impl Statement {
    pub(crate) fn new(sql: impl Into<Rc<str>>) -> Self {
        let sql = sql.into();
        let mut hasher = DefaultHasher::new();
        sql.hash(&mut hasher);
        Self { name: format!("waybill_{:016x}", hasher.finish()).into(), sql, binary: None }
    }

    /// One column of its answer comes as the bytes it is.
    #[must_use]
    pub(crate) fn with_binary(mut self, column: usize) -> Self {
        self.binary = Some(column);
        self
    }

    #[cfg(test)]
    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }
}

/// What is asked in one go.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    /// Makes the statement known, and asks nothing.
    Prepare(Statement),
    Ask(Statement, Vec<Value>),
}

/// A pipeline as the server takes it.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    /// How many answers are to come.
    pub(crate) asked: usize,
    /// Names that are known at the server once so many statements were parsed, in their order.
    pub(crate) parsed: Vec<Rc<str>>,
}

impl Pipeline {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Asks a statement with these values.
    #[must_use]
    pub(crate) fn ask(mut self, statement: &Statement, values: Vec<Value>) -> Self {
        self.steps.push(Step::Ask(statement.clone(), values));
        self
    }

    /// Asks a statement without parameters.
    #[must_use]
    pub(crate) fn command(self, sql: &'static str) -> Self {
        self.ask(&Statement::new(sql), Vec::new())
    }

    /// Makes a statement known at the server that will be asked later in this transaction.
    #[must_use]
    pub(crate) fn prepare(mut self, statement: &Statement) -> Self {
        self.steps.push(Step::Prepare(statement.clone()));
        self
    }

    /// The messages. `known` are names that the server knows; none = statements have no names at this server.
    pub(crate) fn encode(&self, known: Option<&HashSet<Rc<str>>>) -> std::io::Result<Encoded> {
        let (mut out, mut encoded) = (BytesMut::new(), Encoded::default());
        for step in &self.steps {
            let (Step::Prepare(statement) | Step::Ask(statement, _)) = step;
            let name = match known {
                None => "",
                Some(known) => {
                    if !known.contains(&statement.name) && !encoded.parsed.contains(&statement.name) {
                        frontend::parse(&statement.name, &statement.sql, [], &mut out)?;
                        encoded.parsed.push(statement.name.clone());
                    }
                    &*statement.name
                }
            };
            let Step::Ask(_, values) = step else { continue };
            if known.is_none() {
                frontend::parse("", &statement.sql, [], &mut out)?;
            }
            bind(name, statement, values, &mut out)?;
            frontend::execute("", 0, &mut out)?;
            encoded.asked += 1;
        }
        frontend::sync(&mut out);
        encoded.bytes = out.into();
        Ok(encoded)
    }
}

fn bind(name: &str, statement: &Statement, values: &[Value], out: &mut BytesMut) -> std::io::Result<()> {
    // As many formats as columns, or one for all, or none: those behind the binary one are text again.
    let formats: Vec<i16> = match statement.binary {
        Some(binary) => (0..=binary + BEHIND).map(|column| i16::from(column == binary)).collect(),
        None => Vec::new(),
    };
    let write = |value: &Value, out: &mut BytesMut| {
        Ok(match value {
            Value::Null => IsNull::Yes,
            Value::Text(text) => {
                out.extend_from_slice(text.as_bytes());
                IsNull::No
            }
        })
    };
    frontend::bind("", name, [], values, write, formats, out).map_err(|error| match error {
        frontend::BindError::Serialization(error) => error,
        frontend::BindError::Conversion(error) => std::io::Error::other(error),
    })
}

/// Columns behind the one that comes as bytes, in every statement that has one.
pub(crate) const BEHIND: usize = 4;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tags(bytes: &[u8]) -> String {
        let (mut tags, mut rest) = (String::new(), bytes);
        while let Some((tag, behind)) = rest.split_first() {
            tags.push(char::from(*tag));
            let length = u32::from_be_bytes(behind[..4].try_into().unwrap());
            rest = &behind[usize::try_from(length).unwrap()..];
        }
        tags
    }

    #[test]
    fn a_statement_is_parsed_once_and_asked_often() {
        let (one, two) = (Statement::new("SELECT $1::text"), Statement::new("SELECT 2"));
        let pipeline = Pipeline::new().ask(&one, vec![Value::Null]).ask(&two, vec![]).ask(&one, vec![Value::number(1)]);
        let encoded = pipeline.encode(Some(&HashSet::new())).unwrap();
        assert_eq!((tags(&encoded.bytes).as_str(), encoded.asked), ("PBEPBEBES", 3));
        assert_eq!(encoded.parsed, [one.name.clone(), two.name.clone()]);
        let known = HashSet::from([one.name.clone(), two.name]);
        assert_eq!(tags(&pipeline.encode(Some(&known)).unwrap().bytes), "BEBEBES");
    }

    #[test]
    fn without_names_each_is_parsed_where_it_is_asked() {
        let one = Statement::new("SELECT 1");
        let pipeline = Pipeline::new().prepare(&one).ask(&one, vec![]).ask(&one, vec![]);
        assert_eq!(tags(&pipeline.encode(None).unwrap().bytes), "PBEPBES");
        assert_eq!(tags(&pipeline.encode(Some(&HashSet::new())).unwrap().bytes), "PBEBES");
    }

    #[test]
    fn a_name_belongs_to_a_text() {
        assert_eq!(Statement::new("SELECT 1").name, Statement::new("SELECT 1".to_owned()).name);
        assert_ne!(Statement::new("SELECT 1").name, Statement::new("SELECT 2").name);
    }
}
