//! A host's refusal: RFC 9457 problem details as it answers them, shown as code, what, fix and request id.

use std::fmt;

use serde::Deserialize;
use waybill_api::saga_definitions::DefinitionProblem;
use waybill_core::code::Code;

use super::ClientError;
use crate::exit::Exit;

/// Problem details of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    pub status: u16,
    pub code: String,
    /// The same for every occurrence of the code.
    pub title: String,
    /// What is wrong this time.
    #[serde(default)]
    pub detail: String,
    /// In the host's log too.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Message of the request that is wrong, from 0.
    #[serde(default)]
    pub index: Option<usize>,
    /// File and line that the message was read from; added here.
    #[serde(skip)]
    pub source: Option<String>,
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
    /// Everything that is wrong with a saga's definition.
    #[serde(default)]
    pub problems: Vec<DefinitionProblem>,
}

impl Refusal {
    pub fn exit(&self) -> Exit {
        exit_of(self.status)
    }
}

/// Exit code of a refusal that is told within an answer, by its code.
pub fn exit_of_code(code: &str) -> Exit {
    Code::of(code).map_or(Exit::Failed, |code| exit_of(code.status()))
}

fn exit_of(status: u16) -> Exit {
    match status {
        400 | 405 | 415 | 421 | 422 => Exit::Usage,
        401 | 403 => Exit::NotAllowed,
        404 => Exit::NotFound,
        409 => Exit::Conflict,
        503 => Exit::Unreachable,
        408 | 504 => Exit::TimedOut,
        _ => Exit::Failed,
    }
}

/// The host's texts are for callers of its API; here they speak of flags and commands.
impl Refusal {
    /// What is wrong; none where the title says it all.
    fn detail(&self) -> Option<String> {
        let tenant = match Code::of(&self.code) {
            // The host tells how a header is written.
            Some(Code::AUTH_REQUIRED | Code::AUTH_NO_TOKENS) => return None,
            Some(
                Code::OUTBOX_NOT_FOUND
                | Code::DEAD_NOT_FOUND
                | Code::TX_IDEMPOTENT_NOT_FOUND
                | Code::SAGA_NOT_FOUND
                | Code::STREAM_NOT_FOUND,
            ) => "--tenant",
            _ => "--tenant, or tenant= in --filter",
        };
        let detail = self.detail.replace("kind=message or kind=saga", "--kind message or --kind saga");
        Some(detail.replace("?tenant=", tenant)).filter(|detail| !detail.is_empty())
    }

    /// What to do; none where the detail says it all.
    fn fix(&self) -> Option<&'static str> {
        Some(match Code::of(&self.code)? {
            Code::SCHEMA_VALIDATION_FAILED | Code::OUTBOX_STATE => return None,
            // Their details say it.
            Code::DEAD_KIND
            | Code::SAGA_STATE
            | Code::SAGA_NOT_ROOT
            | Code::SAGA_NO_STEP
            | Code::SAGA_VERSION_TAKEN
            | Code::SAGA_NO_DEFINITION => return None,
            Code::STREAM_NOT_FOUND => "`waybill stream list` shows the names",
            Code::SAGA_NOT_FOUND => "`waybill saga list` shows ids and tenants",
            Code::SAGA_NO_VERSION => "`waybill saga definitions` shows names and versions",
            Code::SAGA_NOT_WAITING | Code::SAGA_ENDED => "look at it: `waybill saga show`",
            // The wait is told in a line of its own.
            Code::OUTBOX_BUSY | Code::HTTP_OVERLOADED | Code::SAGA_BUSY | Code::SAGA_SIGNALS_FULL
                if self.retry_after_ms.is_some() =>
            {
                return None;
            }
            Code::OUTBOX_BUSY | Code::HTTP_OVERLOADED => "try again in a moment",
            Code::PROVIDER_UNAVAILABLE => "`waybill status` tells what is missing",
            Code::AUTH_REQUIRED => "give --token-file FILE, or set WAYBILL_TOKEN",
            Code::AUTH_NO_TOKENS => {
                "stop the host, make one with `waybill token create NAME --role admin --data DIR`, and start it again; or configure [[auth.token]]"
            }
            Code::AUTH_EXPIRED | Code::AUTH_GRANT | Code::AUTH_TOKEN_TAKEN | Code::AUTH_TOKEN_CONFIGURED => {
                return None;
            }
            Code::AUTH_TOKEN_NOT_FOUND => "`waybill token list` shows the names",
            Code::AUTH_ROLE => "use a token with the role named above: --token-file FILE, or WAYBILL_TOKEN",
            Code::AUTH_TENANT => {
                "name a tenant of the token, or use another token: --token-file FILE, or WAYBILL_TOKEN"
            }
            Code::AUTH_HOST => "give --url with localhost, 127.0.0.1 or [::1], or configure [[auth.token]] at the host",
            Code::TRANSPORT_NOT_FOUND => "`waybill transport list` shows the names",
            Code::OUTBOX_NOT_FOUND => "`waybill outbox list` shows ids and tenants",
            Code::DEAD_NOT_FOUND => "`waybill dead list` shows ids and tenants",
            Code::TX_IDEMPOTENT_NOT_FOUND | Code::OPERATION_NOT_FOUND | Code::QUARANTINE_NOT_FOUND => return None,
            Code::HTTP_NOT_FOUND | Code::HTTP_METHOD | Code::HTTP_MEDIA_TYPE => {
                "compare `waybill version` with the version that `waybill status -o json` tells"
            }
            Code::UNKNOWN_INTERNAL => {
                "look for the request in the host's log; messages with ids of your own can be sent again"
            }
            Code::STORAGE_CORRUPT => {
                "look for the request in the host's log; `waybill quarantine list` shows the rows that were set aside"
            }
            code if code.is_answer() => code.fix(),
            _ => return None,
        })
    }
}

impl Refusal {
    /// All that is wrong with a definition, in the order of the document.
    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.problems {
            let DefinitionProblem { severity, line, column, path, what, fix } = fault;
            let source = self.source.as_deref().unwrap_or("the definition");
            let path = if path.is_empty() { String::new() } else { format!(", {path}") };
            write!(f, "\n  {severity} at {source}, line {line}, column {column}{path}\n    why {what}\n    fix {fix}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.title)?;
        if !self.problems.is_empty() {
            return self.faults(f);
        }
        if let Some(detail) = self.detail() {
            write!(f, "\n  why {detail}")?;
        }
        let place: Vec<String> = [
            self.source.clone(),
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
        if let Some(fix) = self.fix() {
            write!(f, "\n  fix {fix}")?;
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
    match read(status, body) {
        Some(refusal) => refusal.into(),
        None => ClientError::Answer { url, status, cause: "its body isn't problem details".into() },
    }
}

/// Reads problem details, if that is what they are.
pub(super) fn read(status: u16, body: &[u8]) -> Option<Box<Refusal>> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    Some(Box::new(Refusal { status, ..refusal }))
}
