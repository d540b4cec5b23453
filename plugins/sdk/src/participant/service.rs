//! Asking a service over HTTP from a step: one POST with the step's idempotency key, and what its answer means for the step.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{StepCall, StepError};
use crate::host::http;
use crate::host::http_types::{HttpError, Request, Response};
use crate::host::net_types::NetError;
use crate::transport::Fault;

/// Characters of an answer that an operator is shown.
const SHOWN_CHARS: usize = 200;

/// A service that speaks JSON and knows `Idempotency-Key`. It needs the grant `http`.
///
/// | answer | the step |
/// |---|---|
/// | 2xx | its JSON; what can't be read as that fails for good, since it was done |
/// | 408, 425, 429, 503 | is tried again, after `Retry-After` |
/// | 5xx, none in time, a broken connection | is tried again, and may have been done |
/// | 401, 403, not granted, not reachable | every step that needs the service is held |
/// | any other | fails for good |
#[derive(Clone, Debug)]
pub struct Service {
    name: &'static str,
    url: String,
}

impl Service {
    /// The one at this address. `name` is what operators call it, e.g. `shop`: the scope of what is held, and in upper case the
    /// first part of the codes, e.g. `SHOP.503`.
    pub fn at(name: &'static str, url: &str) -> Self {
        Self { name, url: url.trim_end_matches('/').to_owned() }
    }

    /// Posts JSON and reads JSON.
    ///
    /// # Errors
    /// As the table says.
    pub async fn post<T: DeserializeOwned>(
        &self,
        call: &StepCall,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, StepError> {
        let body =
            serde_json::to_vec(body).map_err(|error| StepError::permanent(self.code("INPUT"), error.to_string()))?;
        let late = || StepError::retryable(self.code("LATE"), "no time was left");
        let request = Request {
            method: "POST".to_owned(),
            url: format!("{}{path}", self.url),
            headers: vec![
                ("content-type".to_owned(), "application/json".to_owned()),
                // The same on every attempt: the service does it once and answers the same again.
                ("idempotency-key".to_owned(), call.idempotency_key().to_owned()),
            ],
            body,
            timeout: call.deadline().left().ok_or_else(late)?,
            tls: None,
            attributes: Vec::new(),
        };
        match http::send(vec![request]).await.pop() {
            Some(Ok(response)) => self.answer(&response),
            Some(Err(error)) => Err(self.no_answer(&error)),
            None => Err(StepError::unknown(self.code("NO_ANSWER"), "the host gave no result for the request")),
        }
    }

    fn code(&self, rest: &str) -> String {
        format!("{}.{rest}", self.name.to_ascii_uppercase())
    }

    /// What an answer means: the value it holds, or how the step failed.
    fn answer<T: DeserializeOwned>(&self, response: &Response) -> Result<T, StepError> {
        let status = response.status;
        let text: String = String::from_utf8_lossy(&response.body).chars().take(SHOWN_CHARS).collect();
        if (200..300).contains(&status) {
            // It was done: what can't be read now can't be read the next time either.
            return serde_json::from_slice(&response.body)
                .map_err(|error| StepError::permanent(self.code("ANSWER"), format!("{error} in {text}")));
        }
        let fault = Fault::new(self.code(&status.to_string()), format!("the {} answered {status}: {text}", self.name));
        Err(match status {
            // 503 says that nothing was done; any other failure may have come after the work.
            408 | 425 | 429 | 503 => StepError::Retryable(fault.with_after(retry_after(response))),
            500..=599 => StepError::Retryable(fault.with_after(retry_after(response)).with_maybe_delivered(true)),
            // Not what the step is about but our rights are at fault.
            401 | 403 => StepError::blocked(self.name, fault),
            _ => StepError::Permanent(fault),
        })
    }

    /// No answer at all. Nobody listens: the step wasn't tried. The connection broke: it may have been done.
    fn no_answer(&self, error: &HttpError) -> StepError {
        let fault = |code, why: String| Fault::new(self.code(code), why).with_maybe_delivered(error.maybe_delivered);
        let name = self.name;
        match &error.error {
            NetError::Denied(why) => StepError::blocked(name, fault("DENIED", why.clone())),
            NetError::Resolve(why) | NetError::Tls(why) => StepError::blocked(name, fault("CONNECT", why.clone())),
            NetError::Refused => {
                StepError::blocked(name, fault("CONNECT", format!("nobody listens at the {name}'s address")))
            }
            NetError::Timeout => StepError::Retryable(fault("NO_ANSWER", format!("the {name} didn't answer in time"))),
            other => StepError::Retryable(fault("NO_ANSWER", format!("the connection to the {name} broke: {other:?}"))),
        }
    }
}

/// Retry-After in seconds, as milliseconds.
fn retry_after(response: &Response) -> Option<u32> {
    let (_, value) = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    value.trim().parse::<u32>().ok()?.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn shop() -> Service {
        Service::at("shop", "http://localhost:8080/")
    }

    fn answered(status: u16, body: &str) -> Result<u32, StepError> {
        let headers = vec![("Retry-After".to_owned(), "2".to_owned())];
        shop().answer(&Response { status, headers, body: body.as_bytes().to_vec(), truncated: false })
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
            assert_eq!((fault.code, fault.reason), (format!("SHOP.{status}"), format!("the shop answered {status}: ")));
        }
    }

    #[test]
    fn without_an_answer_it_may_have_been_done() {
        let lost = |error, maybe_delivered| shop().no_answer(&HttpError { error, maybe_delivered });
        let StepError::Retryable(fault) = lost(NetError::Closed, true) else { panic!("closed") };
        assert!(fault.maybe_delivered);
        assert!(matches!(lost(NetError::Refused, false), StepError::Blocked(block) if block.scope == "shop"));
    }
}
