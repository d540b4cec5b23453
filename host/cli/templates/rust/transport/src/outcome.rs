//! What an answer, or none, means for the message. Pure, so that `cargo test` runs it natively.

use waybill_plugin::host::http_types::{HttpError, Response};
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::transport::{Fault, Outcome, Receipt};

/// The outcome of one exchange.
pub fn of(answer: &Result<Response, HttpError>) -> Outcome {
    match answer {
        Ok(response) => answered(response),
        Err(error) => unanswered(error),
    }
}

fn answered(response: &Response) -> Outcome {
    let status = response.status;
    let fault = Fault::new(format!("MY_PLUGIN.{status}"), format!("the receiver answered {status}"));
    match status {
        200..=299 => Outcome::Ack(Receipt::with_reference(status.to_string())),
        408 | 425 | 429 | 500..=599 => Outcome::Retryable(fault.with_after(retry_after(response))),
        // An empty scope is the message's destination.
        401 | 403 | 404 => fault.blocking(""),
        _ => Outcome::Permanent(fault),
    }
}

fn unanswered(error: &HttpError) -> Outcome {
    let fault = |code: &str, reason: &str| {
        Fault::new(code, reason).with_maybe_delivered(error.maybe_delivered)
    };
    match &error.error {
        NetError::Denied(why) => fault("MY_PLUGIN.DENIED", why).blocking(""),
        NetError::Cancelled if !error.maybe_delivered => {
            Outcome::Release(fault("MY_PLUGIN.CANCELLED", "the host is stopping"))
        }
        other => Outcome::Retryable(fault("MY_PLUGIN.NO_ANSWER", &waybill_plugin::net::reason(other))),
    }
}

/// Retry-After in seconds as milliseconds.
fn retry_after(response: &Response) -> Option<u32> {
    let (_, value) = response.headers.iter().find(|(name, _)| name == "retry-after")?;
    value.trim().parse::<u32>().ok()?.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&str, &str)]) -> Result<Response, HttpError> {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Ok(Response { status, headers, body: Vec::new(), truncated: false })
    }

    #[test]
    fn each_status_has_its_outcome() {
        assert!(matches!(of(&response(204, &[])), Outcome::Ack(_)));
        assert!(matches!(of(&response(401, &[])), Outcome::Blocked(_)));
        assert!(matches!(of(&response(422, &[])), Outcome::Permanent(_)));
        let Outcome::Retryable(fault) = of(&response(503, &[("retry-after", "7")])) else { panic!("503 is retried") };
        assert_eq!((fault.code.as_str(), fault.after), ("MY_PLUGIN.503", Some(7_000)));
    }

    #[test]
    fn no_answer_is_retried_and_may_have_arrived() {
        let lost = Err(HttpError { error: NetError::Timeout, maybe_delivered: true });
        let Outcome::Retryable(fault) = of(&lost) else { panic!("a lost answer is retried") };
        assert!(fault.maybe_delivered);
    }
}
