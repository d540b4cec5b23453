//! Running checks one after the other, and writing down what came of each.

use std::collections::BTreeMap;
use std::fmt::Display;

use waybill_sandbox::Inspection;

use crate::case::Case;
use crate::limits::CHECK_TIMEOUT;
use crate::report::{Check, Report, Verdict};

/// What a check answers: what was seen, or how it ended otherwise.
pub(crate) type CaseResult = Result<String, Verdict>;

/// A failure with what to do about it.
pub(crate) fn failed(reason: impl Display, fix: impl Display) -> Verdict {
    Verdict::Failed { reason: reason.to_string(), fix: fix.to_string() }
}

/// A check that doesn't concern this plugin.
pub(crate) fn not_applicable(reason: impl Display) -> Verdict {
    Verdict::NotApplicable { reason: reason.to_string() }
}

/// A check whose own conditions aren't there.
pub(crate) fn not_run(reason: impl Display) -> Verdict {
    Verdict::NotRun { reason: reason.to_string() }
}

/// Why nothing that needs a plugin at work can be checked: what `opens` said.
pub(crate) fn hindrance(opens: &Verdict) -> Option<String> {
    match opens {
        Verdict::Passed { .. } => None,
        Verdict::Failed { .. } => Some("`opens` failed".to_owned()),
        Verdict::NotApplicable { reason } | Verdict::NotRun { reason } => Some(reason.clone()),
    }
}

/// A report in the making.
pub(crate) struct Suite {
    report: Report,
    /// Checks that the author says don't apply, with the reason.
    excused: BTreeMap<String, String>,
    /// Why checks are only noted, as long as that is so.
    held: Option<String>,
}

impl Suite {
    pub(crate) fn new(inspection: &Inspection, cases: &[Case]) -> Self {
        let manifest = &inspection.manifest;
        Self {
            report: Report {
                plugin: manifest.name.clone(),
                version: manifest.version.clone(),
                world: manifest.world.to_string(),
                digest: inspection.digest.clone(),
                checks: Vec::new(),
            },
            excused: cases.iter().flat_map(|case| case.head.not_applicable.clone()).collect(),
            held: None,
        }
    }

    /// With a reason the checks that follow don't run and are noted as such, so that a report never looks more whole than it is.
    pub(crate) fn hold(&mut self, reason: Option<String>) {
        self.held = reason;
    }

    /// The verdict of the check that ran last.
    pub(crate) fn last(&self) -> Option<&Verdict> {
        self.report.checks.last().map(|check| &check.verdict)
    }

    /// Runs one check, unless the author excused it or it is held back.
    pub(crate) async fn check(&mut self, name: &str, promise: &str, work: impl Future<Output = CaseResult>) {
        let verdict = match (self.excused.get(name), &self.held) {
            (Some(reason), _) => not_applicable(format!("{reason} (says the author)")),
            (None, Some(reason)) => not_run(reason),
            (None, None) => match tokio::time::timeout(CHECK_TIMEOUT, work).await {
                Ok(Ok(seen)) => Verdict::Passed { seen },
                Ok(Err(verdict)) => verdict,
                Err(_) => failed(
                    format!("it didn't end within {} s", CHECK_TIMEOUT.as_secs()),
                    "look for a wait without an end in the plugin",
                ),
            },
        };
        self.report.checks.push(Check { name: name.to_owned(), promise: promise.to_owned(), verdict });
    }

    pub(crate) fn done(self) -> Report {
        self.report
    }
}
