//! Errors as RFC 9457 problem details.
//!
//! A handler gives a [`Problem`]; the edge ([`crate::edge`]) adds what only it knows (instance, request id) and writes
//! the body. Details of our own failures go to the log with the request id, never to the caller.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_api::saga_definitions::DefinitionProblem;
use waybill_core::code::Code;
use waybill_core::error::InputError;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamError;
use waybill_core::port::store::StoreError;
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::exact::ExactRefusal;
use waybill_core::streams::reading::PageError;

use crate::auth::StreamDenied;
use crate::codes;
use crate::limits::{RETRY_AFTER_BUSY, RETRY_AFTER_DISK};

/// Media type of problem details.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What the caller is told of our own failures.
pub(crate) const LOGGED: &str = "the request failed; the host's log has the reason under this request_id";

/// Where in the request something is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Path of the field, e.g. `messages[3].not_before`.
    pub path: Option<String>,
    /// Line of the body, from 1.
    pub line: Option<usize>,
    /// Column in that line, from 1.
    pub column: Option<usize>,
    /// Index of the message in the request, from 0.
    pub index: Option<usize>,
}

/// What a stream has, where a request or a cursor didn't fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHas {
    /// The first number that is kept, where it matters.
    pub first: Option<u64>,
    /// The highest number given out.
    pub last: u64,
}

/// An error on its way to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Code, status and title.
    pub code: Code,
    /// What is wrong this time, and what to do.
    pub detail: String,
    /// When it makes sense to try again.
    pub retry_after: Option<Duration>,
    /// Where in the request. Boxed, because every handler's result carries a problem.
    pub at: Box<At>,
    /// What the stream in question has, for problems with cursors and expected numbers.
    pub stream: Option<Box<StreamHas>>,
    /// Everything that is wrong with a saga's definition.
    pub faults: Vec<DefinitionProblem>,
    /// For the log only.
    pub cause: Option<String>,
}

/// RFC 9457 problem details with our extension members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemOut {
    /// Address of the page about this code, relative to the host.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for every occurrence of the code.
    pub title: String,
    /// HTTP status of the answer.
    pub status: u16,
    /// What is wrong this time.
    pub detail: String,
    /// Path of the request.
    pub instance: String,
    /// Stable code; `/errors/{code}` explains it.
    pub code: String,
    /// Id of the request, also in the host's log.
    pub request_id: String,
    /// The same request may succeed later.
    pub retryable: bool,
    /// When to try again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Field that is wrong, e.g. `messages[3].not_before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Line of the body, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in that line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// Index of the message in the request, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The first number that is kept of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seq: Option<SeqJson>,
    /// The highest number that the stream gave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<SeqJson>,
    /// Everything that is wrong with a saga's definition; `path`, `line` and `column` are those of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DefinitionProblem>,
}

impl Problem {
    /// A problem; with a code that no request is answered with it is a defect of ours.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code: if code.is_answer() { code } else { Code::UNKNOWN_INTERNAL },
            detail: detail.into(),
            retry_after: None,
            at: Box::default(),
            stream: None,
            faults: Vec::new(),
            cause: None,
        }
    }

    /// The request breaks a rule.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::SCHEMA_VALIDATION_FAILED, detail)
    }

    /// There is no such thing, or it belongs to a tenant the caller may not see.
    pub fn not_found(what: Missing, id: &str) -> Self {
        ServiceError::NotFound { what, id: id.to_owned() }.into()
    }

    /// A defect of ours; the cause goes to the log.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        Self::new(Code::UNKNOWN_INTERNAL, LOGGED).caused_by(cause)
    }

    /// With what the log should say.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// With the field that is wrong.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.at.path = Some(path.into());
        self
    }

    /// With the time to wait.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The answer, complete; keeps headers that are set already (`allow`, `www-authenticate`).
    pub(crate) fn render(&self, instance: &str, request_id: &str, mut headers: http::HeaderMap) -> Response {
        let body = ProblemOut {
            kind: codes::uri(self.code),
            title: self.code.title().to_owned(),
            status: self.code.status(),
            detail: self.detail.clone(),
            instance: instance.to_owned(),
            code: self.code.into(),
            request_id: request_id.to_owned(),
            retryable: self.code.retryable() || self.retry_after.is_some(),
            retry_after_ms: self.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            path: self.at.path.clone(),
            line: self.at.line,
            column: self.at.column,
            index: self.at.index,
            first_seq: self.stream.as_ref().and_then(|has| has.first).map(SeqJson),
            last_seq: self.stream.as_ref().map(|has| SeqJson(has.last)),
            problems: self.faults.clone(),
        };
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_millis().div_ceil(1000).max(1) as u64));
        }
        if self.code.status() == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"waybill\""));
        }
        let mut response = Response::new(serde_json::to_vec(&body).unwrap_or_default().into());
        *response.status_mut() = self.status();
        *response.headers_mut() = headers;
        response
    }
}

impl IntoResponse for Problem {
    /// Leaves the body to the edge, which every route passes.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<StreamDenied> for Problem {
    fn from(denied: StreamDenied) -> Self {
        Self::new(denied.code(), denied.to_string())
    }
}

fn stream_has(error: &ServiceError) -> Option<Box<StreamHas>> {
    let ServiceError::Stream(error) = error else { return None };
    let has = match *error {
        StreamError::Exact(ExactRefusal::ExpectedSeq { actual, .. }) => StreamHas { first: None, last: actual },
        StreamError::Read(PageError::Expired { first, last, .. }) | StreamError::Seek { first, last, .. } => {
            StreamHas { first: Some(first), last }
        }
        StreamError::Read(PageError::Ahead { last, .. }) => StreamHas { first: None, last },
        _ => return None,
    };
    Some(Box::new(has))
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        if let ServiceError::Saga(error) = error {
            return error.into();
        }
        let mut problem = Self::new(error.code(), error.to_string());
        problem.stream = stream_has(&error);
        match &error {
            ServiceError::Message { index, error } => {
                problem.detail = error.to_string();
                problem.at.index = Some(*index);
            }
            ServiceError::Stream(StreamError::Event { index, error }) => {
                problem.detail = error.to_string();
                problem.at.index = Some(*index);
            }
            ServiceError::Filter(_) => problem.at.path = Some("filter".to_owned()),
            ServiceError::Busy { .. }
            | ServiceError::Unavailable(_)
            | ServiceError::OutcomeUnknown(_)
            | ServiceError::Unsure(_) => {
                problem.retry_after = Some(RETRY_AFTER_BUSY);
            }
            ServiceError::Store(StoreError::Conflict(_)) => problem.retry_after = Some(RETRY_AFTER_BUSY),
            ServiceError::Store(StoreError::Unavailable(_)) => {
                problem.retry_after = Some(RETRY_AFTER_BUSY);
                problem.cause = Some(error.to_string());
                problem.detail = "the store can't be reached now; nothing was committed".to_owned();
            }
            _ => {}
        }
        if problem.code == Code::STORAGE_DISK_FULL {
            problem.retry_after = Some(RETRY_AFTER_DISK);
        } else if problem.code.status() == 500 {
            problem.cause = Some(error.to_string());
            problem.detail = LOGGED.to_owned();
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_service_has_its_own_entry() {
        let store = |error| ServiceError::Store(error);
        let text = String::new;
        let not_offered = waybill_core::port::provision::ProvisionError::NotOffered { plugin: text() };
        let errors = [
            ServiceError::Message { index: 0, error: InputError::NoEventType },
            ServiceError::Input(InputError::Expired),
            ServiceError::Input(InputError::TopicScheme { topic: text() }),
            ServiceError::Input(InputError::NoRoute { topic: text() }),
            ServiceError::Input(InputError::TooMany { count: 2, count_max: 1 }),
            ServiceError::Input(InputError::PayloadTooLarge { bytes: 2, bytes_max: 1 }),
            ServiceError::Input(InputError::FutureEvent { ahead: Duration::ZERO, ahead_max: Duration::ZERO }),
            ServiceError::IdTaken { tenant: text(), id: text() },
            ServiceError::OtherStatements { tenant: text(), id: text() },
            ServiceError::NotFound { what: Missing::Message, id: text() },
            ServiceError::State { what: "message", id: text(), state: text(), fix: "" },
            ServiceError::SetGrew { planned: 1, matched: 2 },
            ServiceError::Busy { what: "queue", count: 1, count_max: 1 },
            ServiceError::LeaseLost { what: "idempotency key", id: text() },
            ServiceError::Unsure(StoreError::Other(text())),
            ServiceError::Unsure(StoreError::DiskFull(text())),
            ServiceError::NoProvisioning { transport: text(), error: not_offered.clone() },
            ServiceError::ProvisionFailed { transport: text(), error: not_offered.clone() },
            ServiceError::SourceProvision { name: text(), error: not_offered },
            ServiceError::Unavailable(text()),
            ServiceError::OutcomeUnknown(StoreError::Other(text())),
            ServiceError::OutcomeUnknown(StoreError::DiskFull(text())),
            store(StoreError::Conflict(text())),
            store(StoreError::Statement(text())),
            store(StoreError::OwnTable { table: text() }),
            store(StoreError::Shared),
            store(StoreError::NewerData(text())),
            store(StoreError::Corrupt(text())),
            store(StoreError::LeaseLost(text())),
            store(StoreError::TooLarge),
            store(StoreError::Unavailable(text())),
        ];
        for error in errors {
            let problem = Problem::from(error.clone());
            assert_eq!(problem.code, error.code(), "{error:?} isn't in the table");
        }
    }

    #[test]
    fn our_own_failures_keep_their_details_to_the_log() {
        let problem = Problem::from(ServiceError::Store(StoreError::Other("key 0x1234 of table secret".into())));
        assert_eq!(problem.code.status(), 500);
        assert!(!problem.detail.contains("secret"));
    }
}
