//! Handlers of the inbox over HTTP: the host's own client with an allow-list of its own. What an answer means is the inbox's to say.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_bindings::api::http_types::{Request, Response};
use waybill_bindings::api::net_types::NetError;
use waybill_core::code::Code;
use waybill_core::endpoint::{Grants, PluginLimits};
use waybill_core::port::http_handler::{HandlerAnswer, HandlerPost, HttpHandlers};
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use super::HttpClient;
use super::failure::Failure;
use super::steps::{header, origin, retry_after};
use crate::error::SandboxError;
use crate::grants::{EgressPolicy, OwnListeners, Pattern, SystemResolver};
use crate::meters::Meters;
use crate::tls::TlsRoots;

/// The client of one consumer's handler, with a pool of its own.
pub struct HttpHandlerClient {
    client: HttpClient,
}

impl std::fmt::Debug for HttpHandlerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpHandlerClient").finish_non_exhaustive()
    }
}

impl HttpHandlerClient {
    /// A client that reaches what is granted (`allow.http` of `[consumer.NAME]`) and nothing else, with at most `calls_max` calls at
    /// once. Of an answer at most `answer_bytes_max` bytes are read. `own` is where this host listens. Errors when a granted pattern
    /// can't be read.
    pub fn new(
        consumer: &str,
        grants: &Grants,
        calls_max: usize,
        answer_bytes_max: usize,
        own: &OwnListeners,
    ) -> Result<Self, SandboxError> {
        let any = ["http://*:*", "https://*:*"].iter().filter_map(|text| Pattern::parse(text).ok()).collect();
        let resolver = Arc::new(SystemResolver::default());
        let section = format!("[consumer.{consumer}]");
        let policy = EgressPolicy::new(&section, any, grants, resolver)?.granted_by("allow.http").beside(own.clone());
        // Who may call at once is decided before: here nobody waits.
        let limits = PluginLimits {
            http_in_flight: calls_max.max(1),
            http_per_peer: calls_max.max(1),
            http_response_bytes: answer_bytes_max,
            http_answers_bytes: usize::MAX,
            http_bodies_bytes: usize::MAX,
            ..PluginLimits::default()
        };
        let meters = Arc::new(Meters::new(consumer, "http-handler", 1));
        // How long a handler has is the operator's to say (`handler_timeout`), not a guest's.
        let client =
            HttpClient::new(Arc::new(policy), &TlsRoots::default(), &limits, meters).with_time_max(Duration::MAX);
        Ok(Self { client })
    }
}

#[async_trait]
impl HttpHandlers for HttpHandlerClient {
    async fn post(&self, post: HandlerPost) -> Result<HandlerAnswer, CallError> {
        let request = Request {
            method: "POST".to_owned(),
            url: post.url.to_string(),
            headers: post.headers,
            // Without a copy, for nobody else has it.
            body: Vec::from(post.body),
            timeout: millis(post.timeout),
            tls: None,
            attributes: Vec::new(),
        };
        match self.client.exchange(request).await {
            Ok((response, _held)) => Ok(answer(response, post.answer_bytes_max)),
            Err(failure) => Err(not_answered(origin(&post.url), &failure)),
        }
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn answer(response: Response, bytes_max: usize) -> HandlerAnswer {
    let (after, content_type) = (retry_after(&response), header(&response, "content-type").map(str::to_owned));
    let truncated = response.truncated || response.body.len() > bytes_max;
    let mut body = response.body;
    body.truncate(bytes_max);
    HandlerAnswer { status: response.status, after, content_type, body: Bytes::from(body), truncated }
}

/// What no answer means: `Unavailable` where nothing was sent holds the consumer; what may have been handled is a failed attempt.
fn not_answered(origin: &str, failure: &Failure) -> CallError {
    let maybe_delivered = failure.maybe_delivered;
    let (kind, code, what) = match &failure.error {
        NetError::Denied(why) => (ErrorKind::Denied, Code::HTTP_DENIED, format!("not granted: {why}")),
        NetError::Resolve(why) => {
            (ErrorKind::Unavailable, Code::HTTP_RESOLVE, format!("the name can't be resolved: {why}"))
        }
        NetError::Refused => (ErrorKind::Unavailable, Code::HTTP_CONNECT, "nobody listens".to_owned()),
        NetError::Tls(why) => (ErrorKind::Unavailable, Code::HTTP_TLS, format!("TLS failed: {why}")),
        NetError::Timeout if !maybe_delivered => {
            (ErrorKind::Unavailable, Code::HTTP_CONNECT, "no connection in the call's time".to_owned())
        }
        NetError::Timeout => (ErrorKind::TimedOut, Code::HTTP_TIMEOUT, "no answer in the call's time".to_owned()),
        // No route, no free port, reset while it connects: nothing was sent, so no message is to blame and none is given up for it.
        NetError::Closed | NetError::Reset(_) | NetError::Other(_) if !maybe_delivered => {
            let why = match &failure.error {
                NetError::Reset(why) | NetError::Other(why) => why.as_str(),
                _ => "it was closed",
            };
            (ErrorKind::Unavailable, Code::HTTP_CONNECT, format!("no connection: {why}"))
        }
        NetError::Closed => {
            (ErrorKind::Internal, Code::HTTP_RESET, "the connection was closed before an answer".to_owned())
        }
        NetError::Reset(why) => (ErrorKind::Internal, Code::HTTP_RESET, format!("the connection broke: {why}")),
        NetError::Unsupported(why) => (ErrorKind::Unsupported, Code::HTTP_UNSUPPORTED, why.clone()),
        NetError::Cancelled if !maybe_delivered => {
            (ErrorKind::Cancelled, Code::HTTP_CANCELLED, "the host is stopping".to_owned())
        }
        NetError::Cancelled => {
            (ErrorKind::Internal, Code::HTTP_CANCELLED, "cut off while the host is stopping".to_owned())
        }
        NetError::Limit(why) => (ErrorKind::Internal, Code::HTTP_LIMIT, format!("a limit of the host: {why}")),
        NetError::Busy => (ErrorKind::Throttled, Code::HTTP_OTHER, "the host's client is busy".to_owned()),
        NetError::Other(why) => (ErrorKind::Internal, Code::HTTP_OTHER, why.clone()),
    };
    CallError { kind, fault: Fault { maybe_delivered, ..Fault::new(code, format!("{origin}: {what}")) } }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn any_status_is_an_answer_and_what_is_too_long_is_cut() {
        let headers = vec![("Retry-After".to_owned(), "7".to_owned()), ("Content-Type".to_owned(), "a/b".to_owned())];
        let response = Response { status: 503, headers, body: b"12345".to_vec(), truncated: false };
        let answer = answer(response, 4);
        assert_eq!((answer.status, answer.after), (503, Some(Duration::from_secs(7))));
        assert_eq!((answer.body.as_ref(), answer.truncated), (&b"1234"[..], true));
        assert_eq!(answer.content_type.as_deref(), Some("a/b"));
    }

    #[test]
    fn what_was_never_sent_is_no_attempt_of_its_message() {
        let of = |error, maybe_delivered| not_answered("http://ship", &Failure { error, maybe_delivered }).kind;
        let errors = [NetError::Other("no route to host".into()), NetError::Reset("reset".into()), NetError::Closed];
        for error in errors {
            assert_eq!(of(error.clone(), false), ErrorKind::Unavailable, "{error:?}");
            assert_eq!(of(error.clone(), true), ErrorKind::Internal, "{error:?}");
        }
        assert_eq!(of(NetError::Limit("headers".into()), false), ErrorKind::Internal, "its message is to blame");
    }

    #[test]
    fn a_handler_has_all_of_its_time() {
        let client =
            HttpHandlerClient::new("ship", &Grants::loopback_http(), 8, 1_000, &OwnListeners::default()).unwrap();
        assert_eq!(client.client.time_max(), Duration::MAX, "`handler_timeout` alone bounds it");
    }

    #[tokio::test]
    async fn what_is_not_granted_is_denied_and_says_which_line_is_missing() {
        let client =
            HttpHandlerClient::new("ship", &Grants::loopback_http(), 8, 1_000, &OwnListeners::default()).unwrap();
        let post = HandlerPost {
            url: Arc::from("http://ship.example/handle"),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(5),
            answer_bytes_max: 1_000,
        };
        let error = client.post(post).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "HTTP.DENIED"));
        assert!(error.fault.reason.contains("allow.http of [consumer.ship]"), "{}", error.fault.reason);
    }
}
