//! Input mappings: a JSON value whose strings may hold expressions, `"${ input.order.id }"`.
//!
//! A string that is one expression becomes its value; in any other string each expression's value is written into the text.
//! Expressions are CEL (Common Expression Language), which always ends. What bounds them: length and nesting of the source, one
//! way through a list (no comprehension in a comprehension) over bounded data, what they make on the way ([`super::bound`]), and the
//! size of what comes out.

mod evaluate;
mod read;
mod uses;

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::Program;

pub(super) use read::Reading;

#[derive(Clone, Debug)]
pub struct Mapping {
    source: serde_json::Value,
    root: Piece,
    /// Steps whose outputs it reads.
    steps: BTreeSet<String>,
    comprehends: bool,
}

impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// A value in the making.
#[derive(Clone, Debug)]
enum Piece {
    Plain(serde_json::Value),
    Whole(Arc<Expression>),
    Text(Vec<Part>),
    List(Vec<Piece>),
    Object(Vec<(String, Piece)>),
}

/// A part of a text.
#[derive(Clone, Debug)]
enum Part {
    Plain(String),
    Value(Arc<Expression>),
}

#[derive(Debug)]
struct Expression {
    text: String,
    program: Program,
}

impl Mapping {
    /// As written, as JSON.
    pub fn source(&self) -> &serde_json::Value {
        &self.source
    }

    /// Steps whose outputs it reads.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(String::as_str)
    }
}
