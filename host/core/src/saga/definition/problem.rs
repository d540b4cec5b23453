//! What can be wrong with a definition: what, where and what to do. All problems are told at once.

use std::fmt;

pub use crate::document::Position;

/// Most problems told; a document with more is another kind of document.
pub const PROBLEMS_MAX: usize = 50;

/// Whether a problem forbids the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It can't be used.
    Error,
    /// It can, and somebody should look.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    pub severity: Severity,
    pub at: Position,
    /// Path in the document, e.g. `steps[2].retry.factor`.
    pub path: String,
    pub what: String,
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        write!(f, "line {line}, column {column}, {path}: {}; {}", self.what, self.fix)
    }
}

/// All errors of a definition. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(PROBLEMS_MAX).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if self.0.len() > PROBLEMS_MAX {
            write!(f, "\n(and {} more)", self.0.len() - PROBLEMS_MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
