//! Definitions of sagas: what the steps are and how each is undone.
//!
//! A definition is immutable. It is known by name and version to people, and by the hash of its canonical form to the sagas
//! that run on it.

pub mod problem;
pub mod uri;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use uri::Action;

use super::id::{DefinitionHash, DefinitionRef};
use super::json::Json;
use crate::backoff::RetryPolicy;

/// A checked definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Name.
    pub name: Arc<str>,
    /// Version, from 1.
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

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name, unique in the definition.
    pub name: Arc<str>,
    /// What does it.
    pub action: Action,
    /// What undoes it; none = nothing has to be undone, or the sub-saga is compensated.
    pub compensation: Option<Action>,
    /// Repeating a call with its idempotency key has one effect, so a call whose result is unknown is repeated. True unless
    /// the definition says otherwise: every call carries the key. With false the saga waits for an operator instead.
    pub idempotent: bool,
    /// Longest time of one attempt, of its action or its compensation. None only for a sub-saga without one.
    pub timeout: Option<Duration>,
    /// Retries.
    pub retry: RetryPolicy,
    /// Component that decides about retries instead, by the name of its plugin.
    pub retry_plugin: Option<Arc<str>>,
    /// Neighbours with the same tag run together.
    pub concurrency_tag: Option<Arc<str>>,
    /// Makes the input; none = the saga's input.
    pub input: Option<Json>,
}

impl Definition {
    /// Name, version and hash.
    pub fn reference(&self) -> DefinitionRef {
        DefinitionRef { name: Arc::clone(&self.name), version: self.version, hash: self.hash.clone() }
    }

    /// The number of a step.
    pub fn step_number(&self, name: &str) -> Option<u16> {
        self.steps.iter().position(|step| *step.name == *name).and_then(|index| u16::try_from(index).ok())
    }
}
