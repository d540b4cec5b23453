//! What an answer, or none, means for the message.
//!
//! | answer | fate |
//! |---|---|
//! | 2xx, 409 | delivered (409: a duplicate) |
//! | 408, 425, 429, 5xx, time over, connection lost | retry; Retry-After honoured |
//! | 401, 403, not granted, no such host, nobody listens, TLS | the origin is blocked |
//! | 404, 410 | the destination is blocked |
//! | 3xx, any other | dead letter |

use std::time::SystemTime;

use waybill_plugin::host::http_types::{HttpError, Response};
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::transport::{Fault, Outcome, Receipt};

/// Characters of an answer's body that go into the reason, for the operator.
const SHOWN_BODY_CHARS: usize = 200;

/// An empty scope: the message's own destination.
const DESTINATION: &str = "";

/// The fate of a message that was answered. `now` turns a date in Retry-After into a duration.
pub(crate) fn answer(origin: &str, response: &Response, now: SystemTime) -> Outcome {
    let status = response.status;
    if matches!(status, 200..=299 | 409) {
        return Outcome::Ack(Receipt { duplicate: status == 409, ..Receipt::with_reference(status.to_string()) });
    }
    let code = if (300..=399).contains(&status) { "HTTP.REDIRECT".to_owned() } else { format!("HTTP.{status}") };
    let fault = Fault::new(code, reason(origin, response))
        .with_after(retry_after(response, now))
        .with_maybe_delivered(maybe_delivered(status))
        .with_attribute("http-status", status.to_string());
    match status {
        408 | 425 | 429 | 500..=599 => Outcome::Retryable(fault),
        401 | 403 => fault.blocking(origin),
        404 | 410 => fault.blocking(DESTINATION),
        _ => Outcome::Permanent(fault),
    }
}

/// A server's failure may come after the work was done, or from a gateway before a server that did it. 501, 503 and 505
/// say that nothing was.
fn maybe_delivered(status: u16) -> bool {
    matches!(status, 500..=599) && !matches!(status, 501 | 503 | 505)
}

/// The fate of a message without an answer.
pub(crate) fn no_answer(origin: &str, error: &HttpError) -> Outcome {
    let fault = |code: &str, what: &str| {
        Fault::new(code, format!("{origin}: {what}")).with_maybe_delivered(error.maybe_delivered)
    };
    match &error.error {
        NetError::Denied(why) => fault("HTTP.DENIED", &format!("not granted: {why}")).blocking(origin),
        NetError::Resolve(why) => fault("HTTP.RESOLVE", &format!("the name can't be resolved: {why}")).blocking(origin),
        NetError::Refused => fault("HTTP.CONNECT", "nobody listens").blocking(origin),
        NetError::Tls(why) => fault("HTTP.TLS", &format!("TLS failed: {why}")).blocking(origin),
        NetError::Timeout => Outcome::Retryable(fault("HTTP.TIMEOUT", "no answer in time")),
        NetError::Closed => Outcome::Retryable(fault("HTTP.RESET", "the connection was closed before an answer")),
        NetError::Reset(why) => Outcome::Retryable(fault("HTTP.RESET", &format!("the connection broke: {why}"))),
        NetError::Unsupported(why) => Outcome::Permanent(fault("HTTP.UNSUPPORTED", why)),
        // Nothing went out, so it is no attempt; what may have gone out is one.
        NetError::Cancelled if !error.maybe_delivered => {
            Outcome::Release(fault("HTTP.CANCELLED", "the host is stopping"))
        }
        NetError::Cancelled => Outcome::Retryable(fault("HTTP.CANCELLED", "cut off while the host is stopping")),
        // It counts as an attempt: a body above the grant would otherwise come back for ever.
        NetError::Limit(why) => Outcome::Retryable(fault("HTTP.LIMIT", &format!("a limit of the grant: {why}"))),
        NetError::Busy => Outcome::Retryable(fault("HTTP.OTHER", "the host's client is busy")),
        NetError::Other(why) => Outcome::Retryable(fault("HTTP.OTHER", why)),
    }
}

/// One sentence for the operator, with the start of the answer if it is text.
fn reason(origin: &str, response: &Response) -> String {
    let mut reason = format!("{origin} answered {}", response.status);
    if let Some(body) = text_start(&response.body) {
        reason.push_str(": ");
        reason.push_str(&body);
    }
    reason
}

/// The first characters of a body on one line; none if it is empty or no text.
fn text_start(body: &[u8]) -> Option<String> {
    const BYTES_PER_CHAR_MAX: usize = 4;
    let start = body.get(..SHOWN_BODY_CHARS * BYTES_PER_CHAR_MAX).unwrap_or(body);
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // Cut in the middle of a character: not the body's fault.
        Err(error) if error.error_len().is_none() && start.len() < body.len() => {
            std::str::from_utf8(start.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    let words =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<&str>>().join(" ");
    let shown: String = line.chars().take(SHOWN_BODY_CHARS).collect();
    (!shown.is_empty()).then_some(shown)
}

/// Retry-After in milliseconds: seconds or a date (RFC 9110 §10.2.3); a date gone by is 0; nonsense is none.
fn retry_after(response: &Response, now: SystemTime) -> Option<u32> {
    let (_, value) = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is very long, not nonsense.
        return Some(value.parse::<u32>().unwrap_or(u32::MAX).saturating_mul(1_000));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    let wait = at.duration_since(now).unwrap_or_default();
    Some(u32::try_from(wait.as_millis()).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
