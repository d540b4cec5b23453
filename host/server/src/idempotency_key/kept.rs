//! Answers as they are kept, and as a repeat gets them.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use waybill_core::code::Code;
use waybill_core::idempotency::Answer;

use super::Reply;
use crate::problem::{At, PROBLEM_JSON, Problem};

/// Says that an answer is that of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Digest of an answer whose body isn't kept (RFC 9530).
const DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// A problem as it is kept: what differs from request to request is left out.
#[derive(Serialize, Deserialize)]
struct KeptProblem {
    detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
}

/// A problem as an answer to keep.
pub(super) fn of_problem(problem: &Problem) -> Answer {
    let At { path, line, column, index } = (*problem.at).clone();
    let kept = KeptProblem { detail: problem.detail.clone(), path, line, column, index };
    let body = serde_json::to_vec(&kept).unwrap_or_default();
    let code = Some(problem.code.into());
    Answer { code, ..Answer::new(Some(problem.code.status()), Some(PROBLEM_JSON.to_owned()), body.into()) }
}

/// The answer of the first request, for a repeat.
pub(super) fn replayed(answer: Answer) -> Response {
    let status = answer.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    let mut response = match (&answer.code, &answer.body) {
        (Some(code), body) => again(code, body.as_deref()).into_response(),
        (None, Some(body)) => Reply { status, body: body.clone(), location: None, concluded: true }.into_response(),
        (None, None) => {
            let mut response = status.into_response();
            if let Some(digest) = digest(&answer.sha256) {
                response.headers_mut().insert(DIGEST, digest);
            }
            response
        }
    };
    if let Some(location) = answer.location.and_then(|location| HeaderValue::from_str(&location).ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// The problem of the first request.
pub(super) fn again(code: &str, body: Option<&[u8]>) -> Problem {
    let code = Code::of(code).unwrap_or(Code::UNKNOWN_INTERNAL);
    let Some(kept) = body.and_then(|body| serde_json::from_slice::<KeptProblem>(body).ok()) else {
        let detail = "the first request with this Idempotency-Key was refused with this code; the rest of the answer wasn't kept (idempotency.store, idempotency.result_max_bytes)";
        return Problem::new(code, detail);
    };
    let at = At { path: kept.path, line: kept.line, column: kept.column, index: kept.index };
    Problem { at: Box::new(at), ..Problem::new(code, kept.detail) }
}

/// The digest as a structured field.
pub(super) fn digest(hex: &str) -> Option<HeaderValue> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes: Option<Vec<u8>> = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes?);
    HeaderValue::from_str(&format!("sha-256=:{base64}:")).ok()
}
