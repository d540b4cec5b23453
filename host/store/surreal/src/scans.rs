//! What a caller's statement may read.

use crate::{Number, Value};

/// How much a statement may read.
#[derive(Clone, Debug)]
pub struct Reads {
    /// Bytes of memory that the rows which it holds may take together ([`weight`](crate::weight())), each as often as it is read.
    pub held_max: u64,
    /// A scan that doesn't hold all of its rows, if the statement has one.
    pub scan: Option<Scan>,
}

impl Reads {
    /// All rows count as held.
    pub fn held(held_max: u64) -> Self {
        Self { held_max, scan: None }
    }
}

/// The first scan of a table's rows in a statement, which nothing else in it comes before. What isn't held of it is in memory
/// a page at a time, so it is bounded by what can be read in the time of a statement, and not by the memory of a request.
#[derive(Clone, Debug)]
pub struct Scan {
    pub table: String,
    /// The rows that are still in memory when the next page is read.
    pub holds: Holds,
}

/// Which rows of a scan are held.
#[derive(Clone, Debug)]
pub enum Holds {
    /// None: they are counted, or changed one by one without an answer.
    Nothing,
    /// Those that pass the statement's WHERE.
    Matching(Filter),
}

impl Holds {
    /// Whether a row is surely gone when the next page is read. `row` is [`None`] if it can't be told what it holds.
    pub(crate) fn lets_go(&self, row: Option<&Value>) -> bool {
        match self {
            Holds::Nothing => true,
            Holds::Matching(filter) => row.is_some_and(|row| filter.leaves_out(row)),
        }
    }
}

/// What is known of a WHERE.
#[derive(Clone, Debug)]
pub enum Filter {
    /// A field of the row compared with a value.
    Test {
        field: String,
        comparison: Comparison,
        /// What the field is compared with.
        value: Value,
    },
    All(Vec<Filter>),
    /// One of them at least.
    Any(Vec<Filter>),
    /// Something that only SurrealDB can tell.
    Unknown,
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    More,
    MoreEqual,
}

impl Filter {
    /// Whether SurrealDB (3.3.5) leaves out a row for certain. Where that is in doubt, it doesn't.
    fn leaves_out(&self, row: &Value) -> bool {
        match self {
            Filter::Test { field, comparison, value } => {
                let Value::Object(fields) = row else { return false };
                let found = fields.get(field.as_str()).map_or(Some(Plain::Nothing), Plain::of);
                found.zip(Plain::of(value)).is_some_and(|(found, value)| comparison.fails(&found, &value))
            }
            Filter::All(filters) => filters.iter().any(|filter| filter.leaves_out(row)),
            Filter::Any(filters) => filters.iter().all(|filter| filter.leaves_out(row)),
            Filter::Unknown => false,
        }
    }
}

/// A value whose comparisons are sure to be those of SurrealDB.
#[derive(Debug, PartialEq, Eq)]
enum Plain<'v> {
    /// NONE or NULL.
    Nothing,
    Flag(bool),
    Integer(i64),
    Text(&'v str),
}

impl<'v> Plain<'v> {
    fn of(value: &'v Value) -> Option<Self> {
        match value {
            Value::None | Value::Null => Some(Plain::Nothing),
            Value::Bool(flag) => Some(Plain::Flag(*flag)),
            Value::Number(Number::Int(number)) => Some(Plain::Integer(*number)),
            Value::String(text) => Some(Plain::Text(text.as_str())),
            _ => None,
        }
    }
}

impl Comparison {
    /// Whether it is false for certain.
    fn fails(self, found: &Plain<'_>, value: &Plain<'_>) -> bool {
        match (self, found, value) {
            (Comparison::Equal, found, value) => found != value,
            // NONE and NULL differ.
            (Comparison::NotEqual, Plain::Nothing, _) => false,
            (Comparison::NotEqual, found, value) => found == value,
            (Comparison::Less, Plain::Integer(found), Plain::Integer(value)) => found >= value,
            (Comparison::LessEqual, Plain::Integer(found), Plain::Integer(value)) => found > value,
            (Comparison::More, Plain::Integer(found), Plain::Integer(value)) => found <= value,
            (Comparison::MoreEqual, Plain::Integer(found), Plain::Integer(value)) => found < value,
            // Values of different kinds have an order of their own.
            (Comparison::Less | Comparison::LessEqual | Comparison::More | Comparison::MoreEqual, _, _) => false,
        }
    }
}
