//! Reading mappings: which expressions they hold, and what those use.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::Program;

use super::super::problem::{Position, Problem, Severity};
use super::uses::Walk;
use super::{Expression, Mapping, Part, Piece};
use crate::document::{Node, Value};
use crate::saga::limits::{EXPRESSION_BYTES_MAX, MAPPING_DEPTH_MAX};
use crate::suggest::nearest;

/// What expressions may name.
const VARIABLES: [&str; 3] = ["input", "steps", "saga"];

/// Reads mappings and collects what is wrong with them.
pub struct Reading<'p> {
    pub problems: &'p mut Vec<Problem>,
    steps: BTreeSet<String>,
    comprehends: bool,
}

impl<'p> Reading<'p> {
    pub fn new(problems: &'p mut Vec<Problem>) -> Self {
        Self { problems, steps: BTreeSet::new(), comprehends: false }
    }

    pub fn mapping(mut self, node: &Node, path: &str) -> Mapping {
        let root = self.piece(node, path, 0);
        Mapping { source: node.value.to_json(), root, steps: self.steps, comprehends: self.comprehends }
    }

    fn problem(&mut self, at: Position, path: &str, what: String, fix: &str) {
        let (path, fix) = (path.to_owned(), fix.to_owned());
        self.problems.push(Problem { severity: Severity::Error, at, path, what, fix });
    }

    fn piece(&mut self, node: &Node, path: &str, depth: usize) -> Piece {
        if depth > MAPPING_DEPTH_MAX {
            self.problem(node.at, path, format!("it is nested deeper than {MAPPING_DEPTH_MAX}"), "flatten it");
            return Piece::Plain(serde_json::Value::Null);
        }
        match &node.value {
            Value::Text(text) if text.contains("${") => self.text(text, node.at, path),
            Value::List(items) => {
                let items = items.iter().enumerate();
                Piece::List(items.map(|(at, item)| self.piece(item, &format!("{path}[{at}]"), depth + 1)).collect())
            }
            Value::Table(table) => {
                let mut members = Vec::with_capacity(table.entries.len());
                for entry in &table.entries {
                    let piece = self.piece(&entry.node, &format!("{path}.{}", entry.name), depth + 1);
                    members.push((entry.name.clone(), piece));
                }
                Piece::Object(members)
            }
            _ => Piece::Plain(node.value.to_json()),
        }
    }

    fn text(&mut self, text: &str, at: Position, path: &str) -> Piece {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let (before, from) = rest.split_at(start);
            let body = from.get(2..).unwrap_or_default();
            let Some(end) = closing(body) else {
                self.problem(at, path, "an expression isn't closed".to_owned(), "end it with }");
                return Piece::Plain(serde_json::Value::Null);
            };
            let (source, after) = body.split_at(end);
            if !before.is_empty() {
                parts.push(Part::Plain(before.to_owned()));
            }
            match self.expression(source.trim(), at, path) {
                Some(expression) => parts.push(Part::Value(Arc::new(expression))),
                None => return Piece::Plain(serde_json::Value::Null),
            }
            rest = after.get(1..).unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(Part::Plain(rest.to_owned()));
        }
        match parts.as_slice() {
            [Part::Value(whole)] => Piece::Whole(Arc::clone(whole)),
            _ => Piece::Text(parts),
        }
    }

    fn expression(&mut self, text: &str, at: Position, path: &str) -> Option<Expression> {
        if text.len() > EXPRESSION_BYTES_MAX {
            let what = format!("an expression has {} bytes, at most {EXPRESSION_BYTES_MAX} are taken", text.len());
            self.problem(at, path, what, "shorten it, or let the step compute it");
            return None;
        }
        let program = match Program::compile(text) {
            Ok(program) => program,
            Err(errors) => {
                let first = errors.errors.first().map_or_else(|| "it can't be read".to_owned(), |e| e.msg.clone());
                let column = errors.errors.first().map_or(1, |error| error.pos.1.max(0));
                let what = format!("expression {text:?}, at its character {}: {first}", column + 1);
                self.problem(at, path, what, "expressions are CEL, e.g. ${ input.order.id }");
                return None;
            }
        };
        let mut walk = Walk::default();
        walk.visit(program.expression(), 0, &mut Vec::new());
        if walk.nested {
            let what = format!("expression {text:?} goes through a list within going through a list");
            self.problem(at, path, what, "go through one list only, or let the step compute it");
        }
        for name in &walk.unknown {
            let near = nearest(name, VARIABLES).map(|near| format!("did you mean {near:?}? "));
            let fix = format!("{}known: input, steps.<name>.output, saga.id, saga.tenant", near.unwrap_or_default());
            self.problem(at, path, format!("expression {text:?} names {name:?}, which isn't known"), &fix);
        }
        if walk.all_steps {
            let what = format!("expression {text:?} reads `steps` as a whole");
            self.problem(at, path, what, "name the step: steps.<name>.output");
        }
        self.comprehends |= walk.comprehends;
        self.steps.extend(walk.steps);
        Some(Expression { text: text.to_owned(), program })
    }
}

/// Where an expression ends: at the first `}` that isn't in a string or closes a brace of its own.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut open = 0_usize;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => open += 1,
            (None, '}') if open == 0 => return Some(at),
            (None, '}') => open -= 1,
            _ => {}
        }
    }
    None
}
