//! Handlers over HTTP: what is posted (source document 5 §10), and what an answer means.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use waybill_api::messages::shown_payload;
use waybill_core::ids::{ConsumerName, InboundId};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::verdict::{Leavings, StatusClass, Verdict, status_class};
use waybill_core::json_text::readable;
use waybill_core::message::Headers;
use waybill_core::port::http_handler::{HandlerAnswer, HandlerPost};
use waybill_core::port::transport::Fault;

use super::{Caller, leavings};
use crate::inbox::config::ConsumerTarget;

/// Media type of an answer that leaves something behind.
const HANDLED_TYPE: &str = "application/vnd.waybill.handled+json";
/// Room for what a message is posted with beside its payload, as a rule.
const ENVELOPE_BYTES: usize = 512;
/// Characters of an answer's body that go into the reason, for the operator.
const SHOWN_CHARS: usize = 200;

#[derive(Serialize)]
struct Body<'m> {
    message_id: &'m str,
    subject: &'m str,
    event_type: Option<&'m str>,
    event_version: Option<u32>,
    occurred_at: Option<String>,
    correlation_id: Option<&'m str>,
    causation_id: Option<&'m str>,
    /// As it came where it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'m RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// Calls a handler and says what came of it.
pub(super) async fn call(caller: &Caller, call: &Call) -> Verdict {
    let ConsumerTarget::Http { url, client } = &caller.consumer.target else { return Verdict::NotCalled };
    if !caller.may_begin() {
        return Verdict::NotCalled;
    }
    let post = HandlerPost {
        url: url.clone(),
        headers: headers(&caller.consumer.name, call),
        body: body(&call.message),
        timeout: caller.consumer.handler_timeout,
        answer_bytes_max: caller.config.answer_bytes_max,
    };
    match client.post(post).await {
        Ok(answer) => answered(caller, call, &answer),
        Err(error) => Verdict::of_call_error(error),
    }
}

/// The same at every call for one message of a consumer.
pub(super) fn idempotency_key(consumer: &ConsumerName, id: &InboundId) -> String {
    format!("{consumer}/{id}")
}

fn headers(consumer: &ConsumerName, call: &Call) -> Headers {
    let mut headers = Headers::new();
    let mut put = |name: &str, value: String| headers.push((name.to_owned(), value));
    put("content-type", "application/json".to_owned());
    put("accept", format!("{HANDLED_TYPE}, application/json"));
    put("idempotency-key", escaped(&idempotency_key(consumer, &call.message.id)));
    put("waybill-attempt", call.attempt.to_string());
    if call.maybe_handled {
        put("waybill-maybe-handled", "true".to_owned());
    }
    let trace = call.message.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
    if let Some((name, value)) = trace {
        headers.push((name.to_ascii_lowercase(), value.clone()));
    }
    headers
}

/// A text as a header takes it: what isn't printable ASCII is escaped as in addresses.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut to, byte| {
        if byte.is_ascii_graphic() && byte != b'%' || byte == b' ' {
            to.push(char::from(byte));
        } else {
            to.push_str(&format!("%{byte:02X}"));
        }
        to
    })
}

fn body(message: &InboundMessage) -> Bytes {
    // As it came, without a copy.
    let payload = readable(&message.payload);
    let payload_base64 = if payload.is_none() { shown_payload(false, &message.payload).1 } else { None };
    let body = Body {
        message_id: message.id.as_str(),
        subject: &message.subject,
        event_type: message.event_type.as_deref(),
        event_version: message.event_version,
        occurred_at: message.occurred_at.map(|at| at.to_string()),
        correlation_id: message.correlation_id.as_deref(),
        causation_id: message.causation_id.as_deref(),
        payload,
        payload_base64,
    };
    let mut bytes = Vec::with_capacity(message.payload.len() + ENVELOPE_BYTES);
    match serde_json::to_writer(&mut bytes, &body) {
        Ok(()) => Bytes::from(bytes),
        Err(_) => Bytes::new(),
    }
}

fn answered(caller: &Caller, call: &Call, answer: &HandlerAnswer) -> Verdict {
    let class = status_class(answer.status, answer.after.is_some());
    if class == StatusClass::Processed && is_handled_type(answer) {
        return left_behind(caller, call, answer);
    }
    let saying = |fault| saying(fault, &shown(&answer.body));
    match Verdict::of_status(answer.status, answer.after, Leavings::default()) {
        Verdict::Poison(fault) => Verdict::Poison(saying(fault)),
        Verdict::Failed(fault) => Verdict::Failed(saying(fault)),
        Verdict::Busy(fault) => Verdict::Busy(saying(fault)),
        Verdict::Blocked(fault) => Verdict::Blocked(saying(fault)),
        verdict => verdict,
    }
}

fn is_handled_type(answer: &HandlerAnswer) -> bool {
    let media = answer.content_type.as_deref().and_then(|text| text.split(';').next());
    media.is_some_and(|media| media.trim().eq_ignore_ascii_case(HANDLED_TYPE))
}

fn left_behind(caller: &Caller, call: &Call, answer: &HandlerAnswer) -> Verdict {
    if answer.truncated {
        let most = caller.config.answer_bytes_max;
        return Verdict::bad_output(format!("its answer has more than the {most} bytes that are read"));
    }
    let read = match &caller.config.bodies {
        Some(bodies) => bodies.left_behind(&answer.body),
        None => Err("this host reads no such answers".to_owned()),
    };
    match read {
        Ok(left) => leavings::processed(caller, call, left),
        Err(reason) => Verdict::bad_output(reason),
    }
}

/// The start of an answer in one line, if it is text.
fn shown(body: &Bytes) -> String {
    let start = body.get(..SHOWN_CHARS * 4).unwrap_or(body);
    let text = String::from_utf8_lossy(start);
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(SHOWN_CHARS).collect()
}

fn saying(fault: Fault, shown: &str) -> Fault {
    if shown.is_empty() {
        return fault;
    }
    Fault { reason: format!("{}: {shown}", fault.reason), ..fault }
}
