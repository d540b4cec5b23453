//! Definitions of sagas: what the steps are and how each is undone.
//!
//! A definition is immutable. It is known by name and version to people, and by the hash of its canonical form to the sagas
//! that run on it.

mod bound;
mod canonical;
mod document;
mod links;
pub mod mapping;
pub mod problem;
mod reader;
mod retry;
#[cfg(test)]
mod tests;
pub mod uri;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use canonical::sorted;
pub use retry::{Retry, default_retry};
pub use uri::Action;

use super::id::{DefinitionHash, DefinitionRef};
use super::json::Json;
use super::limits::DEFINITION_BYTES_MAX;
use crate::port::saga::DefinitionFormat;
use problem::{Position, Problem, Problems, Severity};

#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: Arc<str>,
    /// Counts from 1, among the definitions of this name.
    pub version: u32,
    /// One line for people.
    pub summary: Option<Arc<str>>,
    /// Default for the time in which a saga must be over, from its start.
    pub deadline: Option<Duration>,
    /// Steps in order; 1 to [`super::limits::STEPS_MAX`].
    pub steps: Vec<Step>,
    /// Steps that run together, in order; every step is in exactly one.
    pub groups: Vec<Range<usize>>,
    /// The definition as stored: JSON in one fixed form, from which the same definition is read again.
    pub canonical: Json,
    /// sha-256 of `canonical`.
    pub hash: DefinitionHash,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name, unique in the definition.
    pub name: Arc<str>,
    pub action: Action,
    /// What undoes it; none = nothing has to be undone, or the sub-saga is compensated.
    pub compensation: Option<Action>,
    /// Repeating a call with its idempotency key has one effect, so a call whose result is unknown is repeated. True unless
    /// the definition says otherwise: every call carries the key. With false the saga waits for an operator instead.
    pub idempotent: bool,
    /// Longest time of one attempt, of its action or its compensation. None only for a sub-saga without one.
    pub timeout: Option<Duration>,
    /// Retries, as far as the definition says.
    pub retry: Retry,
    /// Component that decides about retries instead, by the name of its plugin.
    pub retry_plugin: Option<Arc<str>>,
    /// Neighbours with the same tag run together.
    pub concurrency_tag: Option<Arc<str>>,
    /// Makes the input; none = the saga's input.
    pub input: Option<mapping::Mapping>,
}

/// A definition that was read, with what somebody should look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub definition: Definition,
    pub warnings: Vec<Problem>,
    /// Where each step stands in the document.
    pub places: Vec<Position>,
}

/// Reads a definition. The error tells everything that is wrong, with line, column, path and a fix.
pub fn parse(text: &str, format: DefinitionFormat) -> Result<Parsed, Problems> {
    let mut reader = reader::Reader::default();
    if text.len() > DEFINITION_BYTES_MAX {
        let what = format!("it has {} bytes, at most {DEFINITION_BYTES_MAX} are taken", text.len());
        reader.error(Position { line: 1, column: 1 }, "", what, "split it with sub-sagas");
        return Err(Problems(reader.problems));
    }
    let table = document::read(text, format).map_err(|problem| Problems(vec![problem]))?;
    let parsed = reader.definition(&table);
    let (errors, warnings) = reader.problems.into_iter().partition(|problem| problem.severity == Severity::Error);
    match parsed {
        Some(parsed) => Ok(Parsed { warnings, ..parsed }),
        None => Err(Problems(errors)),
    }
}

impl Definition {
    /// Reads a definition's canonical form, as the store keeps it.
    pub fn restore(canonical: &Json) -> Result<Self, Problems> {
        parse(canonical.as_str(), DefinitionFormat::Json).map(|parsed| parsed.definition)
    }
}

/// A definition with those of all sub-sagas below it, as they were resolved when the root began.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinitionSet {
    root: Arc<Definition>,
    /// What steps name, and what that is.
    pinned: Vec<(Arc<str>, Arc<Definition>)>,
}

impl DefinitionSet {
    /// `pinned` has an entry for every `saga:` URI in any of the definitions, as [`Action`] displays it.
    pub fn new(root: Arc<Definition>, pinned: Vec<(Arc<str>, Arc<Definition>)>) -> Self {
        Self { root, pinned }
    }

    /// The definitions that a running saga began with, from a lookup by hash. None when one is missing.
    pub fn restore(
        started: &super::event::Started,
        lookup: impl Fn(&DefinitionHash) -> Option<Arc<Definition>>,
    ) -> Option<Self> {
        let pinned = started.pinned.iter().map(|(uri, pinned)| Some((Arc::clone(uri), lookup(&pinned.hash)?)));
        Some(Self { root: lookup(&started.definition.hash)?, pinned: pinned.collect::<Option<_>>()? })
    }

    pub fn root(&self) -> &Arc<Definition> {
        &self.root
    }

    /// What steps name, and what that is.
    pub fn pinned(&self) -> &[(Arc<str>, Arc<Definition>)] {
        &self.pinned
    }

    pub fn by_hash(&self, hash: &DefinitionHash) -> Option<&Arc<Definition>> {
        if self.root.hash == *hash {
            return Some(&self.root);
        }
        self.pinned.iter().map(|(_, definition)| definition).find(|definition| definition.hash == *hash)
    }

    /// What a `saga:` URI names.
    pub fn resolve_uri(&self, uri: &str) -> Option<&Arc<Definition>> {
        self.pinned.iter().find(|(pinned, _)| **pinned == *uri).map(|(_, definition)| definition)
    }
}

impl Step {
    /// What undoes it: the compensation that the definition names, else the sub-saga itself.
    pub fn undo(&self) -> Option<&Action> {
        self.compensation.as_ref().or(Some(&self.action).filter(|action| matches!(action, Action::Saga { .. })))
    }
}

impl Definition {
    /// Name, version and hash.
    pub fn reference(&self) -> DefinitionRef {
        DefinitionRef { name: Arc::clone(&self.name), version: self.version, hash: self.hash.clone() }
    }

    /// A step by its number.
    pub fn step(&self, number: u16) -> Option<&Step> {
        self.steps.get(usize::from(number))
    }

    /// The number of a step.
    pub fn step_number(&self, name: &str) -> Option<u16> {
        self.steps.iter().position(|step| *step.name == *name).and_then(|index| u16::try_from(index).ok())
    }
}
