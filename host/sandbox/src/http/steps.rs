//! Saga steps over HTTP: the host's own client with an allow-list of its own, and what an answer means for a step.
//!
//! | answer | fate |
//! |---|---|
//! | 2xx | done; the body is the output |
//! | 408, 425, 429, 5xx, time over, connection lost | retry; Retry-After honoured |
//! | 401, 403, not granted, no such host, nobody listens, TLS | the origin is blocked |
//! | 3xx, any other | failed for good |

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_bindings::api::http_types::{Request, Response};
use waybill_bindings::api::net_types::NetError;
use waybill_core::code::Code;
use waybill_core::endpoint::{Grants, PluginLimits};
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::saga::{HttpStep, HttpSteps};
use waybill_core::port::transport::Fault;

use super::HttpClient;
use super::failure::Failure;
use crate::error::SandboxError;
use crate::grants::{EgressPolicy, OwnListeners, Pattern, SystemResolver};
use crate::meters::Meters;
use crate::tls::TlsRoots;

/// Characters of an answer's body that go into the reason, for the operator.
const SHOWN_BODY_CHARS: usize = 200;
/// Longest Retry-After that is taken.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// The client of `http:` steps. One pool for all of a host's sagas.
pub struct HttpStepClient {
    client: HttpClient,
}

impl std::fmt::Debug for HttpStepClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpStepClient").finish_non_exhaustive()
    }
}

impl HttpStepClient {
    /// A client that reaches what is granted (`[saga] allow.http`) and nothing else, with at most `calls_max` calls at once
    /// and answers of at most `answer_bytes_max` bytes. `own` is where this host listens. Errors when a granted pattern can't be
    /// read.
    pub fn new(
        grants: &Grants,
        calls_max: usize,
        answer_bytes_max: usize,
        own: &OwnListeners,
    ) -> Result<Self, SandboxError> {
        let any = ["http://*:*", "https://*:*"].iter().filter_map(|text| Pattern::parse(text).ok()).collect();
        let resolver = Arc::new(SystemResolver::default());
        let policy = EgressPolicy::new("[saga]", any, grants, resolver)?.granted_by("allow.http").beside(own.clone());
        // Who may call at once is decided before: here nobody waits.
        let limits = PluginLimits {
            http_in_flight: calls_max.max(1),
            http_per_peer: calls_max.max(1),
            http_response_bytes: answer_bytes_max,
            http_answers_bytes: usize::MAX,
            http_bodies_bytes: usize::MAX,
            ..PluginLimits::default()
        };
        let meters = Arc::new(Meters::new("saga", "http-steps", 1));
        Ok(Self { client: HttpClient::new(Arc::new(policy), &TlsRoots::default(), &limits, meters) })
    }
}

#[async_trait]
impl HttpSteps for HttpStepClient {
    async fn post(&self, step: HttpStep) -> Result<StepDone, StepError> {
        let request = Request {
            method: "POST".to_owned(),
            url: step.url.to_string(),
            headers: step.headers,
            body: step.body.to_vec(),
            timeout: u32::try_from(step.timeout.as_millis()).unwrap_or(u32::MAX).max(1),
            tls: None,
            attributes: Vec::new(),
        };
        let origin = origin(&step.url);
        match self.client.exchange(request).await {
            Ok((response, _held)) => answered(origin, response, step.answer_bytes_max),
            Err(failure) => Err(not_answered(origin, &failure)),
        }
    }
}

/// Scheme and authority: a path or a query may hold a token.
pub(super) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let length = url.get(start..).and_then(|rest| rest.find(['/', '?', '#']));
    length.and_then(|length| url.get(..start + length)).unwrap_or(url)
}

fn answered(origin: &str, response: Response, bytes_max: usize) -> Result<StepDone, StepError> {
    let status = response.status;
    if (200..=299).contains(&status) {
        if response.truncated || response.body.len() > bytes_max {
            let reason = format!("{origin} answered {status} with more than the {bytes_max} bytes that are kept");
            let fault = Fault { maybe_delivered: true, ..Fault::new(Code::SAGA_OUTPUT_TOO_LARGE, reason) };
            return Err(StepError::Permanent(fault));
        }
        let content_type = header(&response, "content-type").map(str::to_owned);
        let data = Bytes::from(response.body);
        return Ok(StepDone::Output(StepOutput { data, content_type, ..StepOutput::default() }));
    }
    let code = if (300..=399).contains(&status) { String::from(Code::HTTP_REDIRECT) } else { format!("HTTP.{status}") };
    let fault = Fault {
        after: retry_after(&response),
        maybe_delivered: maybe_done(status),
        attributes: vec![("http-status".to_owned(), status.to_string())],
        ..Fault::new(code, reason(origin, &response))
    };
    Err(match status {
        408 | 425 | 429 | 500..=599 => StepError::Retryable(fault),
        401 | 403 => StepError::Blocked { scope: origin.to_owned(), fault },
        _ => StepError::Permanent(fault),
    })
}

/// A server's failure may come after the work was done, or from a gateway before a server that did it. 501, 503 and 505 say
/// that nothing was.
fn maybe_done(status: u16) -> bool {
    status == 408 || matches!(status, 500..=599) && !matches!(status, 501 | 503 | 505)
}

fn not_answered(origin: &str, failure: &Failure) -> StepError {
    let maybe_delivered = failure.maybe_delivered;
    let fault = |code: Code, what: &str| Fault { maybe_delivered, ..Fault::new(code, format!("{origin}: {what}")) };
    let blocked = |fault: Fault| StepError::Blocked { scope: origin.to_owned(), fault };
    match &failure.error {
        NetError::Denied(why) => blocked(fault(Code::HTTP_DENIED, &format!("not granted: {why}"))),
        NetError::Resolve(why) => blocked(fault(Code::HTTP_RESOLVE, &format!("the name can't be resolved: {why}"))),
        NetError::Refused => blocked(fault(Code::HTTP_CONNECT, "nobody listens")),
        NetError::Tls(why) => blocked(fault(Code::HTTP_TLS, &format!("TLS failed: {why}"))),
        NetError::Timeout if !maybe_delivered => blocked(fault(Code::HTTP_CONNECT, "no connection in the step's time")),
        NetError::Timeout => StepError::Retryable(fault(Code::HTTP_TIMEOUT, "no answer in the step's time")),
        NetError::Closed => StepError::Retryable(fault(Code::HTTP_RESET, "the connection was closed before an answer")),
        NetError::Reset(why) => StepError::Retryable(fault(Code::HTTP_RESET, &format!("the connection broke: {why}"))),
        NetError::Unsupported(why) => StepError::Permanent(fault(Code::HTTP_UNSUPPORTED, why)),
        NetError::Cancelled if !maybe_delivered => {
            StepError::Release(fault(Code::HTTP_CANCELLED, "the host is stopping"))
        }
        NetError::Cancelled => StepError::Retryable(fault(Code::HTTP_CANCELLED, "cut off while the host is stopping")),
        NetError::Limit(why) => StepError::Permanent(fault(Code::HTTP_LIMIT, &format!("a limit of the host: {why}"))),
        NetError::Busy => StepError::Retryable(fault(Code::HTTP_OTHER, "the host's client is busy")),
        NetError::Other(why) => StepError::Retryable(fault(Code::HTTP_OTHER, why)),
    }
}

pub(super) fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

/// Retry-After in seconds. A date is left to the step's own backoff.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = header(response, "retry-after")?.parse::<u64>().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// One sentence for the operator, with the start of the answer if it is text.
fn reason(origin: &str, response: &Response) -> String {
    let text = String::from_utf8_lossy(response.body.get(..SHOWN_BODY_CHARS * 4).unwrap_or(&response.body));
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(SHOWN_BODY_CHARS).collect();
    let colon = if shown.is_empty() { "" } else { ": " };
    format!("{origin} answered {}{colon}{shown}", response.status)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn response(status: u16, body: &str) -> Response {
        let headers = vec![("Retry-After".to_owned(), "7".to_owned())];
        Response { status, headers, body: body.as_bytes().to_vec(), truncated: false }
    }

    #[test]
    fn a_status_says_whether_to_go_on_try_again_wait_or_give_up() {
        let of = |status| answered("http://a", response(status, "why not"), 1_000);
        assert!(matches!(of(204), Ok(StepDone::Output(output)) if output.data == "why not"));
        for (status, unknown) in [(429, false), (500, true), (503, false), (408, true)] {
            let Err(StepError::Retryable(fault)) = of(status) else { unreachable!("{status}") };
            assert_eq!(fault.maybe_delivered, unknown, "{status}");
            assert_eq!(fault.after, Some(Duration::from_secs(7)));
        }
        assert!(matches!(of(403), Err(StepError::Blocked { scope, .. }) if scope == "http://a"));
        for status in [302, 404, 409, 422] {
            assert!(matches!(of(status), Err(StepError::Permanent(_))), "{status}");
        }
        let Err(StepError::Permanent(fault)) = of(422) else { unreachable!() };
        assert_eq!((fault.code.as_str(), fault.reason.as_str()), ("HTTP.422", "http://a answered 422: why not"));
    }

    #[test]
    fn an_answer_that_is_too_large_has_been_done_and_fails_for_good() {
        let error = answered("http://a", response(200, "12345"), 4).unwrap_err();
        assert!(matches!(&error, StepError::Permanent(fault) if fault.maybe_delivered));
        assert_eq!(error.fault().code, "SAGA.OUTPUT_TOO_LARGE");
    }

    #[tokio::test]
    async fn what_is_not_granted_blocks_its_origin_and_says_which_line_is_missing() {
        let client = HttpStepClient::new(&Grants::loopback_http(), 8, 1_000, &OwnListeners::default()).unwrap();
        let step = HttpStep {
            url: Arc::from("http://pay.example/charge?token=x"),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(5),
            answer_bytes_max: 1_000,
        };
        let Err(StepError::Blocked { scope, fault }) = client.post(step).await else { unreachable!() };
        assert_eq!((scope.as_str(), fault.code.as_str()), ("http://pay.example", "HTTP.DENIED"));
        assert!(fault.reason.contains("allow.http of [saga]"), "{}", fault.reason);
    }
}
