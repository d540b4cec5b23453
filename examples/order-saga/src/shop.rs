//! Asking the shop: one POST with the step's idempotency key, and what its answers mean for the step.

use serde::Serialize;
use serde::de::DeserializeOwned;
use waybill_plugin::host::http;
use waybill_plugin::host::http_types::{HttpError, Request, Response};
use waybill_plugin::host::net_types::NetError;
use waybill_plugin::participant::{StepCall, StepError};
use waybill_plugin::transport::Fault;

/// What is held when the shop as a whole can't be used: every step that needs it, whoever's order it is.
const SCOPE: &str = "shop";
/// Characters of an answer that an operator is shown.
const SHOWN_CHARS: usize = 200;

/// The shop.
pub struct Shop {
    url: String,
}

impl Shop {
    /// The one at this address.
    pub fn at(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned() }
    }

    /// Posts JSON and reads JSON.
    pub async fn post<T: DeserializeOwned>(
        &self,
        call: &StepCall,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, StepError> {
        let body = serde_json::to_vec(body).map_err(|error| StepError::permanent("SHOP.INPUT", error.to_string()))?;
        let timeout = call.deadline().left().ok_or_else(|| StepError::retryable("SHOP.LATE", "no time was left"))?;
        let request = Request {
            method: "POST".to_owned(),
            url: format!("{}{path}", self.url),
            headers: vec![
                ("content-type".to_owned(), "application/json".to_owned()),
                // The same on every attempt: the shop does it once and answers the same again.
                ("idempotency-key".to_owned(), call.idempotency_key().to_owned()),
            ],
            body,
            timeout,
            tls: None,
            attributes: Vec::new(),
        };
        match http::send(vec![request]).await.pop() {
            Some(Ok(response)) => answer(&response),
            Some(Err(error)) => Err(no_answer(&error)),
            None => Err(StepError::unknown("SHOP.NO_ANSWER", "the host gave no result for the request")),
        }
    }
}

/// What an answer means: the value it holds, or how the step failed.
fn answer<T: DeserializeOwned>(response: &Response) -> Result<T, StepError> {
    let status = response.status;
    let text: String = String::from_utf8_lossy(&response.body).chars().take(SHOWN_CHARS).collect();
    if (200..300).contains(&status) {
        // It was done: what can't be read now can't be read the next time either.
        return serde_json::from_slice(&response.body)
            .map_err(|error| StepError::permanent("SHOP.ANSWER", format!("{error} in {text}")));
    }
    let fault = Fault::new(format!("SHOP.{status}"), format!("the shop answered {status}: {text}"));
    Err(match status {
        // 503 says that nothing was done; any other failure may have come after the work.
        408 | 425 | 429 | 503 => StepError::Retryable(fault.with_after(retry_after(response))),
        500..=599 => StepError::Retryable(fault.with_after(retry_after(response)).with_maybe_delivered(true)),
        // Not this order but our rights are at fault.
        401 | 403 => StepError::blocked(SCOPE, fault),
        _ => StepError::Permanent(fault),
    })
}

/// No answer at all. Nobody listens: the step wasn't tried. The connection broke: it may have been done.
fn no_answer(error: &HttpError) -> StepError {
    let fault = |code: &str, why: &str| Fault::new(code, why).with_maybe_delivered(error.maybe_delivered);
    match &error.error {
        NetError::Denied(why) => StepError::blocked(SCOPE, fault("SHOP.DENIED", why)),
        NetError::Resolve(why) | NetError::Tls(why) => StepError::blocked(SCOPE, fault("SHOP.CONNECT", why)),
        NetError::Refused => StepError::blocked(SCOPE, fault("SHOP.CONNECT", "nobody listens at the shop's address")),
        NetError::Timeout => StepError::Retryable(fault("SHOP.NO_ANSWER", "the shop didn't answer in time")),
        other => StepError::Retryable(fault("SHOP.NO_ANSWER", &format!("the connection to the shop broke: {other:?}"))),
    }
}

/// Retry-After in seconds, as milliseconds.
fn retry_after(response: &Response) -> Option<u32> {
    let (_, value) = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    value.trim().parse::<u32>().ok()?.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Result<u32, StepError> {
        let headers = vec![("Retry-After".to_owned(), "2".to_owned())];
        answer(&Response { status, headers, body: body.as_bytes().to_vec(), truncated: false })
    }

    #[test]
    fn each_answer_has_its_meaning() {
        assert_eq!(answered(201, "7"), Ok(7));
        assert!(matches!(answered(200, "seven"), Err(StepError::Permanent(_))));
        assert!(matches!(answered(422, "none left"), Err(StepError::Permanent(_))));
        assert!(matches!(answered(403, "who?"), Err(StepError::Blocked(_))));
        for (status, maybe) in [(503, false), (429, false), (500, true)] {
            let Err(StepError::Retryable(fault)) = answered(status, "") else { panic!("{status}") };
            assert_eq!((fault.after, fault.maybe_delivered), (Some(2_000), maybe), "{status}");
        }
    }

    #[test]
    fn without_an_answer_it_may_have_been_done() {
        let lost = |error, maybe_delivered| no_answer(&HttpError { error, maybe_delivered });
        let StepError::Retryable(fault) = lost(NetError::Closed, true) else { panic!("closed") };
        assert!(fault.maybe_delivered);
        assert!(matches!(lost(NetError::Refused, false), StepError::Blocked(_)));
    }
}
