//! What was checked, line by line: `waybill doctor`, `waybill plugin check`.

use serde::Serialize;

use super::{Format, View, column, list, prose, safe, whole};
use crate::exit::CliError;
use crate::term::Term;

#[derive(Clone, Debug, Serialize)]
pub struct Check {
    name: &'static str,
    status: &'static str,
    detail: String,
}

const VIEW: View<'_, Check> = View {
    columns: &[
        whole("CHECK", |check| safe(check.name)),
        column("STATUS", |check| safe(check.status)),
        prose("DETAIL", |check| safe(&check.detail)),
    ],
    id: |check| safe(check.name),
    none: "nothing was checked",
};

impl Check {
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: "ok", detail: detail.into() }
    }

    /// It works, and somebody should know something about it.
    pub fn warn(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: "warn", detail: detail.into() }
    }

    pub fn fail(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: "fail", detail: detail.into() }
    }

    /// Well with one text, failed with the other.
    pub fn of(name: &'static str, result: Result<String, String>) -> Self {
        match result {
            Ok(detail) => Self::ok(name, detail),
            Err(detail) => Self::fail(name, detail),
        }
    }
}

/// Writes them. Fails when one failed.
pub fn show(term: &mut Term, format: Format, checks: &[Check]) -> Result<(), CliError> {
    list(term, format, checks, &VIEW)?;
    match checks.iter().filter(|check| check.status == "fail").count() {
        0 => Ok(()),
        failed => Err(CliError::Checks { failed, count: checks.len() }),
    }
}
