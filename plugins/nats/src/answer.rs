//! JetStream's answer to one message as its fate.

use std::borrow::Cow;

use serde::Deserialize;
use waybill_nats_wire::codec::Message;
use waybill_nats_wire::shown;
use waybill_plugin::transport::{Fault, Outcome, Receipt};

/// No responders: no stream listens there, or JetStream is off.
const NO_RESPONDERS: u16 = 503;

/// A publish acknowledgement (`io.nats.jetstream.api.v1.pub_ack_response`).
#[derive(Debug, Deserialize)]
struct PubAck<'a> {
    #[serde(borrow, default)]
    stream: Cow<'a, str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    #[serde(borrow)]
    error: Option<ApiError<'a>>,
}

/// An error of JetStream's API.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ApiError<'a> {
    /// As an HTTP status.
    #[serde(default)]
    pub(crate) code: u16,
    /// JetStream's own error number, more exact than `code`.
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(borrow, default)]
    pub(crate) description: Cow<'a, str>,
}

/// What follows for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Retryable,
    Permanent,
    Blocked,
}

/// The fate of a message by its answer.
pub(crate) fn outcome(answer: &Message<'_>) -> Outcome {
    if let Some(status) = answer.status() {
        return by_status(status);
    }
    match serde_json::from_slice::<PubAck<'_>>(answer.payload) {
        Ok(PubAck { error: Some(error), .. }) => refused(&error),
        Ok(ack) if ack.seq > 0 => Outcome::Ack(Receipt {
            broker_ref: Some(ack.seq.to_string()),
            duplicate: ack.duplicate,
            attributes: vec![("stream".to_owned(), ack.stream.into_owned())],
        }),
        Ok(_) | Err(_) => Outcome::Retryable(
            Fault::new("NATS.ANSWER", "somebody answered who isn't a stream: the subject has another responder")
                .with_maybe_delivered(true),
        ),
    }
}

fn by_status(status: u16) -> Outcome {
    if status == NO_RESPONDERS {
        let reason = "no stream takes this subject (or JetStream is off): add it to a stream's subjects";
        return Fault::new("NATS.NO_STREAM", reason).with_attribute("broker-code", "503").blocking("");
    }
    let fault = Fault::new("NATS.STATUS", format!("the server answered with status {status}"));
    Outcome::Retryable(fault.with_maybe_delivered(true).with_attribute("broker-code", status.to_string()))
}

fn refused(error: &ApiError<'_>) -> Outcome {
    let (class, code) = classify(error);
    let fault = Fault::new(code, format!("JetStream refused the message: {}", shown(&error.description)))
        .with_attribute("broker-code", error.err_code.to_string());
    match class {
        Class::Retryable => Outcome::Retryable(fault),
        Class::Permanent => Outcome::Permanent(fault),
        Class::Blocked => fault.blocking(""),
    }
}

/// Codes as in the server's `jetstream_errors_generated.go`.
fn classify(error: &ApiError<'_>) -> (Class, &'static str) {
    match error.err_code {
        10_054 | 10_097 => (Class::Permanent, "NATS.MAX_MSG_SIZE"),
        10_060 => (Class::Blocked, "NATS.WRONG_STREAM"),
        10_059 => (Class::Blocked, "NATS.NO_STREAM"),
        10_035 | 10_039 | 10_076 => (Class::Blocked, "NATS.JETSTREAM_OFF"),
        10_109 => (Class::Blocked, "NATS.SEALED"),
        10_077 => (Class::Retryable, "NATS.STREAM_FULL"),
        10_002 | 10_023 | 10_028 | 10_047 => (Class::Retryable, "NATS.RESOURCES"),
        10_071 => (Class::Retryable, "NATS.WRONG_SEQUENCE"),
        _ => match error.code {
            400 => (Class::Permanent, "NATS.REFUSED_MESSAGE"),
            401 | 403 | 404 => (Class::Blocked, "NATS.REFUSED_DESTINATION"),
            _ => (Class::Retryable, "NATS.UNAVAILABLE"),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn answered(payload: &str) -> Outcome {
        outcome(&Message {
            subject: b"_INBOX.x.1",
            reply: b"",
            headers: b"",
            payload: payload.as_bytes(),
            omitted: None,
        })
    }

    #[test]
    fn an_acknowledgement_names_stream_and_sequence_and_a_duplicate_is_a_success() {
        for (payload, duplicate) in [
            (r#"{"stream":"ORDERS","seq":7}"#, false),
            (r#"{"stream":"ORDERS","domain":"hub","seq":7,"duplicate":true}"#, true),
        ] {
            let Outcome::Ack(receipt) = answered(payload) else { panic!("{payload}") };
            assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("7"), duplicate));
            assert_eq!(receipt.attributes, [("stream".to_owned(), "ORDERS".to_owned())]);
        }
    }

    #[test]
    fn an_error_is_sorted_by_its_code() {
        for (code, err_code, class, name) in [
            (400, 10_054, Class::Permanent, "NATS.MAX_MSG_SIZE"),
            (400, 10_060, Class::Blocked, "NATS.WRONG_STREAM"),
            (503, 10_077, Class::Retryable, "NATS.STREAM_FULL"),
            (503, 10_023, Class::Retryable, "NATS.RESOURCES"),
            (500, 10_047, Class::Retryable, "NATS.RESOURCES"),
            (400, 10_071, Class::Retryable, "NATS.WRONG_SEQUENCE"),
            (503, 10_039, Class::Blocked, "NATS.JETSTREAM_OFF"),
            (400, 19_999, Class::Permanent, "NATS.REFUSED_MESSAGE"),
            (404, 19_999, Class::Blocked, "NATS.REFUSED_DESTINATION"),
            (500, 19_999, Class::Retryable, "NATS.UNAVAILABLE"),
            (0, 0, Class::Retryable, "NATS.UNAVAILABLE"),
        ] {
            let answer = format!(
                r#"{{"error":{{"code":{code},"err_code":{err_code},"description":"some \"words\""}},"stream":"S","seq":0}}"#
            );
            let (found, fault) = match answered(&answer) {
                Outcome::Retryable(fault) => (Class::Retryable, fault),
                Outcome::Permanent(fault) => (Class::Permanent, fault),
                Outcome::Blocked(block) => (Class::Blocked, block.fault),
                other => panic!("{other:?}"),
            };
            assert_eq!((found, fault.code.as_str()), (class, name), "{err_code}");
            assert!(!fault.maybe_delivered);
        }
    }

    #[test]
    fn no_responders_block_the_destination_and_strangers_answers_are_no_acknowledgement() {
        let silent =
            Message { subject: b"a", headers: b"NATS/1.0 503\r\n\r\n", reply: b"", payload: b"", omitted: None };
        let Outcome::Blocked(block) = outcome(&silent) else { panic!() };
        assert_eq!((block.scope.as_str(), block.fault.code.as_str()), ("", "NATS.NO_STREAM"));
        for payload in ["", "ok", "{}", "[]", r#"{"stream":"S"}"#, r#"{"seq":-1}"#] {
            let Outcome::Retryable(fault) = answered(payload) else { panic!("{payload}") };
            assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("NATS.ANSWER", true));
        }
    }
}
