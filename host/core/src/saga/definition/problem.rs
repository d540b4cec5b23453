//! What can be wrong with a definition: what, where and what to do. All problems are told at once.

use std::fmt;

/// Most problems told; a document with more is another kind of document.
pub const PROBLEMS_MAX: usize = 50;

/// Line and column in the document, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

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
    /// How bad.
    pub severity: Severity,
    /// Where.
    pub at: Position,
    /// Path in the document, e.g. `steps[2].retry.factor`.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
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

/// The nearest of `known` to `word`, if it is near enough to be meant: at most a third of its letters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (apart, candidate) = near.min_by_key(|(apart, _)| *apart)?;
    let longest = word.chars().count().max(candidate.chars().count());
    (apart * 3 <= longest).then(|| candidate.to_owned())
}

/// Letters to insert, remove or change; a swap of neighbours counts as one.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut last = None;
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&row, j) + usize::from(x != *y)).min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            if j > 0 && last == Some(*y) && b.get(j - 1) == Some(&x) {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(x);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_misspelt_word_finds_what_was_meant() {
        let known = ["action", "compensation", "idempotent", "timeout_ms"];
        assert_eq!(nearest("acton", known).unwrap(), "action");
        assert_eq!(nearest("timeuot_ms", known).unwrap(), "timeout_ms");
        assert_eq!(nearest("compensate", known).unwrap(), "compensation");
        assert_eq!(nearest("colour", known), None);
    }
}
