//! Definitions of sagas as answers: what was stored, what is wrong with one, which sagas stay on another version.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::port::saga::{Defined, RunningElsewhere};
use waybill_core::saga::definition::problem::{Problem, Severity};
use waybill_core::saga::records::StoredDefinition;
use waybill_core::saga::state::SagaState;

use crate::instant::Instant;

/// One thing about a definition that is wrong, or that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionProblem {
    /// `error`: it can't be used; `warning`: it can, and somebody should look.
    pub severity: String,
    /// Line of the document, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// Path in the document, e.g. `steps[2].retry.factor`; empty for the document as a whole.
    pub path: String,
    /// What is wrong, in a sentence for people.
    pub what: String,
    /// What to change, in a sentence for people.
    pub fix: String,
}

impl From<Problem> for DefinitionProblem {
    fn from(problem: Problem) -> Self {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        Self {
            severity: severity.to_owned(),
            line: problem.at.line,
            column: problem.at.column,
            path: problem.path,
            what: problem.what,
            fix: problem.fix,
        }
    }
}

/// What came of putting a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SagaDefined {
    pub name: String,
    /// Version in the document, from 1.
    pub version: u32,
    /// sha-256 of the definition's canonical form, in hex.
    pub hash: String,
    /// It is new; false = the same was there.
    pub created: bool,
    /// It was only checked: nothing was stored.
    pub dry_run: bool,
    /// What somebody should look at.
    pub warnings: Vec<DefinitionProblem>,
    /// Running sagas that stay on other versions of this definition, oldest first, at most 1,000.
    pub running: Vec<RunningElsewhereView>,
    /// How many there are in all.
    pub running_count: u64,
}

impl From<Defined> for SagaDefined {
    fn from(defined: Defined) -> Self {
        Self {
            name: defined.definition.name.to_string(),
            version: defined.definition.version,
            hash: defined.definition.hash.to_string(),
            created: defined.created,
            dry_run: defined.dry_run,
            warnings: defined.warnings.into_iter().map(DefinitionProblem::from).collect(),
            running: defined.running.into_iter().map(RunningElsewhereView::from).collect(),
            running_count: defined.running_count,
        }
    }
}

/// A running saga that stays on another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RunningElsewhere)]
pub struct RunningElsewhereView {
    /// Id of the root saga.
    pub id: String,
    pub tenant: String,
    /// Version it runs on.
    pub version: u32,
    pub state: SagaState,
    /// Whether what it has begun is the same in the new version, so that it could go on with that.
    pub could_move: bool,
    /// Why it couldn't go on with the new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<RunningElsewhere> for RunningElsewhereView {
    fn from(running: RunningElsewhere) -> Self {
        Self {
            id: running.id.to_string(),
            tenant: running.tenant.to_string(),
            version: running.definition.version,
            state: running.state,
            could_move: running.could_move,
            reason: running.reason,
        }
    }
}

/// A definition in a list, or with its document.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaDefinition)]
pub struct DefinitionView {
    pub name: String,
    /// From 1; what is stored under a version never changes.
    pub version: u32,
    /// sha-256 of the canonical form, in hex.
    pub hash: String,
    /// When it was put first.
    pub created_at: Instant,
    /// A caller's name, or `configuration` for the host's own files.
    pub created_by: String,
    /// All versions there are; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<u32>>,
    /// Names of its steps, where the document isn't shown; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<String>>,
    /// The definition in its canonical form, for credentials of all tenants; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub document: Option<Box<RawValue>>,
}

impl From<StoredDefinition> for DefinitionView {
    fn from(stored: StoredDefinition) -> Self {
        Self {
            name: stored.reference.name.to_string(),
            version: stored.reference.version,
            hash: stored.reference.hash.to_string(),
            created_at: stored.created_at.into(),
            created_by: stored.created_by,
            versions: None,
            steps: None,
            document: None,
        }
    }
}
