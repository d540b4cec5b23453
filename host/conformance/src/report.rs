//! What a suite found out.

use serde::Serialize;

/// What became of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The plugin keeps it.
    Passed { seen: String },
    /// The plugin breaks it.
    Failed { reason: String, fix: String },
    /// It doesn't concern this plugin, or can't be seen.
    NotApplicable { reason: String },
    /// It concerns this plugin, and what it needs isn't there.
    NotRun { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable name, e.g. `peer-silent`; `case: <name>` for an author's case. Behind a role, e.g. `source: opens`, where a
    /// component has a second one.
    pub name: String,
    /// What has to hold, in one sentence.
    pub promise: String,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// All checks of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub plugin: String,
    pub version: String,
    pub world: String,
    /// `sha256:<hex>` of the component.
    pub digest: String,
    /// In the order in which they ran.
    pub checks: Vec<Check>,
}

impl Report {
    /// Adds the checks of another role of the same component, each name behind the role's.
    pub(crate) fn add(&mut self, role: &str, other: Self) {
        let named = |check: Check| Check { name: format!("{role}: {}", check.name), ..check };
        self.checks.extend(other.checks.into_iter().map(named));
    }

    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Failed { .. })).count()
    }

    pub fn passed(&self) -> usize {
        self.checks.iter().filter(|check| matches!(check.verdict, Verdict::Passed { .. })).count()
    }

    /// Why checks didn't run, with how many each reason held back, in the order in which they would have run.
    pub fn not_run(&self) -> Vec<(&str, usize)> {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for check in &self.checks {
            let Verdict::NotRun { reason } = &check.verdict else { continue };
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason.as_str(), 1)),
            }
        }
        reasons
    }

    /// A check by its name.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}
