//! The document of a definition: nested no deeper than a mapping may be, and without what JSON can't hold.

use super::problem::{Position, Problem, Severity};
use crate::document::{self, DocumentError, Fault, Table, Value};
use crate::port::saga::DefinitionFormat;
use crate::saga::limits::MAPPING_DEPTH_MAX;

/// Deepest document: a mapping below a step below the list of steps.
const DEPTH_MAX: usize = MAPPING_DEPTH_MAX + 8;

pub(super) fn read(text: &str, format: DefinitionFormat) -> Result<Table, Problem> {
    let (table, language, fix) = match format {
        DefinitionFormat::Toml => (document::toml(text, DEPTH_MAX), "TOML", "correct the line; strings need quotes"),
        DefinitionFormat::Json => (document::json(text, DEPTH_MAX), "JSON", "correct the line"),
    };
    let table = table.map_err(|DocumentError { at, fault }| match fault {
        Fault::Syntax { message, .. } => problem(at, format!("this isn't {language}: {message}"), fix),
        Fault::TooDeep => problem(at, format!("it is nested deeper than {DEPTH_MAX}"), "flatten it"),
        Fault::Unusable(cause) => problem(at, format!("this isn't usable: {cause}"), "correct the value"),
        Fault::NoObject(kind) => {
            let fix = "write { \"name\": ..., \"version\": 1, \"steps\": [...] }";
            problem(at, format!("a definition is an object, not {kind}"), fix)
        }
    })?;
    let odd = table.entries.iter().find_map(|entry| odd_number(&entry.node.value, entry.node.at));
    match odd {
        Some((text, at)) => Err(problem(at, format!("{text} isn't a number that JSON has"), "write another number")),
        None => Ok(table),
    }
}

fn problem(at: Position, what: String, fix: &str) -> Problem {
    Problem { severity: Severity::Error, at, path: String::new(), what, fix: fix.to_owned() }
}

/// The first number that JSON doesn't have.
fn odd_number(value: &Value, at: Position) -> Option<(&str, Position)> {
    match value {
        Value::OddNumber(text) => Some((text, at)),
        Value::List(items) => items.iter().find_map(|item| odd_number(&item.value, item.at)),
        Value::Table(table) => table.entries.iter().find_map(|entry| odd_number(&entry.node.value, entry.node.at)),
        _ => None,
    }
}
