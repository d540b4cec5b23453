//! Definitions of sagas as answers: what was stored, what is wrong with one, which sagas stay on another version.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::port::saga::{Defined, RunningElsewhere};
use waybill_core::saga::definition::problem::{Problem, Severity};
use waybill_core::saga::id::DefinitionRef;
use waybill_core::saga::records::StoredDefinition;
use waybill_core::saga::view::DefinitionView;

use super::instant::Instant;
use super::sagas::SagaStateOut;
use crate::problem::Problem as Refusal;

/// One thing about a definition that is wrong, or that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DefinitionProblem)]
pub struct FaultOut {
    /// `error`: it can't be used; `warning`: it can, and somebody should look.
    pub severity: String,
    /// Line of the document, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// Path in the document, e.g. `steps[2].retry.factor`; empty for the document as a whole.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl From<Problem> for FaultOut {
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
#[schema(as = SagaDefined)]
pub struct DefinedOut {
    /// Name.
    pub name: String,
    /// Version.
    pub version: u32,
    /// sha-256 of the definition's canonical form, in hex.
    pub hash: String,
    /// It is new; false = the same was there.
    pub created: bool,
    /// Nothing was stored.
    pub dry_run: bool,
    /// What somebody should look at.
    pub warnings: Vec<FaultOut>,
    /// Running sagas that stay on other versions of this definition, oldest first, at most 1,000.
    pub running: Vec<RunningElsewhereOut>,
    /// How many there are in all.
    pub running_count: u64,
}

impl From<Defined> for DefinedOut {
    fn from(defined: Defined) -> Self {
        Self {
            name: defined.definition.name.to_string(),
            version: defined.definition.version,
            hash: defined.definition.hash.to_string(),
            created: defined.created,
            dry_run: defined.dry_run,
            warnings: defined.warnings.into_iter().map(FaultOut::from).collect(),
            running: defined.running.into_iter().map(RunningElsewhereOut::from).collect(),
            running_count: defined.running_count,
        }
    }
}

/// A running saga that stays on another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RunningElsewhere)]
pub struct RunningElsewhereOut {
    /// Id.
    pub id: String,
    /// Whose.
    pub tenant: String,
    /// Version it runs on.
    pub version: u32,
    /// Its state.
    pub state: SagaStateOut,
    /// Whether what it has begun is the same in the new version, so that it could go on with that.
    pub could_move: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<RunningElsewhere> for RunningElsewhereOut {
    fn from(running: RunningElsewhere) -> Self {
        Self {
            id: running.id.to_string(),
            tenant: running.tenant.to_string(),
            version: running.definition.version,
            state: running.state.into(),
            could_move: running.could_move,
            reason: running.reason,
        }
    }
}

/// A definition in a list, or with its document.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaDefinition)]
pub struct DefinitionOut {
    /// Name.
    pub name: String,
    /// Version.
    pub version: u32,
    /// sha-256 of the canonical form, in hex.
    pub hash: String,
    /// When it was put first.
    pub created_at: Instant,
    /// Who put it.
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

impl DefinitionOut {
    fn of(reference: DefinitionRef, created_at: Instant, created_by: String) -> Self {
        Self {
            name: reference.name.to_string(),
            version: reference.version,
            hash: reference.hash.to_string(),
            created_at,
            created_by,
            versions: None,
            steps: None,
            document: None,
        }
    }

    /// For who may know that it is there and what it does, and not how.
    pub fn brief(view: DefinitionView) -> Result<Self, Refusal> {
        let document: Named = serde_json::from_str(view.document.get()).map_err(Refusal::internal)?;
        let steps = document.steps.into_iter().map(|step| step.name).collect();
        Ok(Self { steps: Some(steps), document: None, ..Self::from(view) })
    }
}

/// What is read of a definition for [`DefinitionOut::brief`].
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    steps: Vec<NamedStep>,
}

#[derive(Deserialize)]
struct NamedStep {
    name: String,
}

impl From<StoredDefinition> for DefinitionOut {
    fn from(stored: StoredDefinition) -> Self {
        Self::of(stored.reference, stored.created_at.into(), stored.created_by)
    }
}

impl From<DefinitionView> for DefinitionOut {
    fn from(view: DefinitionView) -> Self {
        let mut versions = view.versions;
        versions.push(view.definition.version);
        versions.sort_unstable();
        versions.dedup();
        Self {
            versions: Some(versions),
            document: Some(view.document),
            ..Self::of(view.definition, view.created_at.into(), view.created_by)
        }
    }
}
