//! A host's refusal: RFC 9457 problem details as it answers them, shown as code, what, fix and request id.

use std::fmt;

use serde::Deserialize;

use super::ClientError;
use crate::exit::Exit;

/// Problem details of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Stable code.
    pub code: String,
    /// The same for every occurrence of the code.
    pub title: String,
    /// What is wrong this time.
    #[serde(default)]
    pub detail: String,
    /// In the host's log too.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Field that is wrong.
    #[serde(default)]
    pub path: Option<String>,
    /// Line of the body.
    #[serde(default)]
    pub line: Option<u64>,
    /// Column of that line.
    #[serde(default)]
    pub column: Option<u64>,
    /// When to try again.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

impl Refusal {
    /// Exit code.
    pub fn exit(&self) -> Exit {
        match self.status {
            400 | 405 | 415 | 421 | 422 => Exit::Usage,
            401 | 403 => Exit::NotAllowed,
            404 => Exit::NotFound,
            409 => Exit::Conflict,
            503 => Exit::Unreachable,
            408 | 504 => Exit::TimedOut,
            _ => Exit::Failed,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.title)?;
        if !self.detail.is_empty() {
            write!(f, "\n  why {}", self.detail)?;
        }
        let place: Vec<String> = [
            self.path.clone(),
            self.line.map(|line| format!("line {line}")),
            self.column.map(|column| format!("column {column}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !place.is_empty() {
            write!(f, "\n  at  {}", place.join(", "))?;
        }
        if let Some(code) = waybill_server::codes::find(&self.code) {
            write!(f, "\n  fix {}", code.fix)?;
        }
        if let Some(wait) = self.retry_after_ms {
            write!(f, "\n  try again after {wait} ms")?;
        }
        if let Some(id) = &self.request_id {
            write!(f, "\n  request {id}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// Reads a refusal; what isn't one is some other server's answer.
pub(super) fn refusal(status: u16, url: String, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => ClientError::Refused(Box::new(Refusal { status, ..refusal })),
        Err(_) => ClientError::Answer { url, status, cause: "its body isn't problem details".into() },
    }
}
