//! `http:` steps: what is posted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::message::Headers;
use waybill_core::port::saga::HttpStep;
use waybill_core::saga::call::Call;
use waybill_core::saga::event::StepDirection;

/// Names of the headers that tell a called one about its saga.
const SAGA: &str = "waybill-saga-";

/// Scheme and authority of a URL: what is at fault when it can't be reached.
pub(super) fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let length = url.get(start..).and_then(|rest| rest.find(['/', '?', '#']));
    length.and_then(|length| url.get(..start + length)).unwrap_or(url)
}

/// The request of a call. A compensation is posted `{"input": ..., "output": ...}`, with `null` for an output that isn't
/// known.
pub(super) fn step(call: &Call, url: &Arc<str>, timeout: Duration, answer_bytes_max: usize) -> HttpStep {
    let body = match call.reference.way {
        StepDirection::Execute => Bytes::copy_from_slice(call.input.as_str().as_bytes()),
        StepDirection::Compensate => {
            let output = call.output.as_ref().map_or("null", |output| output.as_str());
            Bytes::from(format!("{{\"input\":{},\"output\":{output}}}", call.input.as_str()))
        }
    };
    HttpStep { url: Arc::clone(url), headers: headers(call), body, timeout, answer_bytes_max }
}

/// The caller's headers, but for those that the host makes, then the host's.
fn headers(call: &Call) -> Headers {
    let context = &call.context;
    let mut headers: Headers = context.headers.iter().filter(|(name, _)| !is_own(name)).cloned().collect();
    let mut put = |name: &str, value: String| headers.push((name.to_owned(), value));
    put("content-type", "application/json".to_owned());
    put("accept", "application/json".to_owned());
    put("idempotency-key", context.idempotency_key(call.reference.way.direction()));
    put("waybill-saga-id", context.saga_id.clone());
    put("waybill-saga-definition", context.definition.clone());
    put("waybill-saga-version", context.definition_version.to_string());
    put("waybill-saga-step", context.step.clone());
    put("waybill-saga-direction", call.reference.way.as_str().to_owned());
    put("waybill-saga-attempt", context.attempt.to_string());
    put("waybill-tenant", context.tenant.clone());
    if let Some(deadline) = context.saga_deadline {
        put("waybill-saga-deadline", deadline.to_string());
    }
    let texts = [
        ("waybill-envelope-id", &context.envelope_id),
        ("waybill-correlation-id", &context.correlation_id),
        ("traceparent", &context.traceparent),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            put(name, value.clone());
        }
    }
    headers
}

fn is_own(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = ["content-type", "accept", "idempotency-key", "traceparent", "waybill-tenant"];
    own.contains(&name.as_str())
        || name.starts_with(SAGA)
        || matches!(name.as_str(), "waybill-envelope-id" | "waybill-correlation-id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_url_is_what_stands_before_its_path() {
        assert_eq!(origin("https://pay.example:8443/charge?x=1"), "https://pay.example:8443");
        assert_eq!(origin("http://a?x"), "http://a");
        assert_eq!(origin("http://a"), "http://a");
    }
}
