//! Names of values, and what is known of what they stand for.

use std::collections::HashMap;
use std::rc::Rc;

use surrealdb_expr::expr::ClosureExpr;

use super::size::Size;

/// What a name stands for.
#[derive(Clone, Debug)]
pub struct Known<'e> {
    pub size: Size,
    /// Of a closure: its text, and the names that it has captured.
    pub closure: Option<Rc<Captured<'e>>>,
}

/// A closure and the names around it.
#[derive(Debug)]
pub struct Captured<'e> {
    pub closure: &'e ClosureExpr,
    pub scope: Scope<'e>,
}

impl Known<'_> {
    /// A value of a statement.
    pub fn value(size: Size) -> Self {
        Self { size, closure: None }
    }

    /// A value from JSON: no path leads from it to rows.
    pub fn binding(size: Size) -> Self {
        Self { size: Size { ids: false, ..size }, closure: None }
    }
}

/// The names of a place. Copied where a block or a closure begins, so they share what they know.
#[derive(Clone, Debug, Default)]
pub struct Scope<'e> {
    names: HashMap<String, Rc<Known<'e>>>,
}

impl<'e> Scope<'e> {
    pub fn set(&mut self, name: &str, known: Known<'e>) {
        self.names.insert(name.to_owned(), Rc::new(known));
    }

    /// How many names there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    pub fn get(&self, name: &str) -> Option<&Known<'e>> {
        self.names.get(name).map(AsRef::as_ref)
    }

    /// All names with their sizes.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, &Size)> {
        self.names.iter().map(|(name, known)| (name.as_str(), &known.size))
    }
}
