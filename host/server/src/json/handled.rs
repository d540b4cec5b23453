//! Bodies that aren't requests of the API but speak its language: what a handler's answer leaves behind, and replies to steps.

use serde::Deserialize;
use waybill_api::events;
use waybill_api::joint_events::JointEventBody;
use waybill_core::port::http_handler::{BodyReader, LeftBehind, LeftSignal};
use waybill_core::port::saga::ReplyFailure;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::json::Json;
use waybill_core::streams::wire::LeftEvent;

use super::decode;
use super::message::MessageIn;
use super::saga_requests::{AnyJson, ReplyErrorJson, ReplyJson, present};
use crate::problem::Problem;

/// Reads them as the API reads its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiBodies;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandledJson {
    #[serde(default)]
    messages: Vec<MessageIn>,
    #[serde(default)]
    signals: Vec<SignalJson>,
    #[serde(default, deserialize_with = "events::bounded")]
    events: Vec<JointEventBody>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalJson {
    /// Id of the saga.
    saga: String,
    name: String,
    #[serde(default)]
    data: AnyJson,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    #[serde(default, deserialize_with = "present")]
    output: Option<AnyJson>,
    #[serde(default)]
    error: Option<ReplyErrorJson>,
}

impl BodyReader for ApiBodies {
    fn left_behind(&self, body: &[u8]) -> Result<LeftBehind, String> {
        let read: HandledJson = read(body)?;
        let signals = read.signals.into_iter().map(|signal| {
            let SignalJson { saga, name, data } = signal;
            LeftSignal { saga, name, data: data.0 }
        });
        let events = read.events.into_iter().enumerate().map(|(place, body)| {
            if body.tenant.is_some() {
                return Err(format!(
                    "events[{place}].tenant: an event goes to the tenant of the message, so leave it out"
                ));
            }
            let (stream, expected_seq, event) =
                body.into_parts().map_err(|error| format!("events[{place}]: {error}"))?;
            Ok(LeftEvent { stream, event, expected_seq })
        });
        Ok(LeftBehind {
            messages: read.messages.into_iter().map(|message| message.0).collect(),
            signals: signals.collect(),
            events: events.collect::<Result<_, _>>()?,
        })
    }

    fn reply(&self, body: &[u8]) -> Result<Result<Json, ReplyFailure>, String> {
        let ReplyBody { output, error } = read(body)?;
        let (step, direction) = (String::new(), StepDirection::default());
        ReplyJson { step, direction, attempt: None, output, error }.result().map_err(words)
    }
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, String> {
    decode::utf8(body).and_then(decode::value).map_err(words)
}

/// What is wrong, and where.
fn words(problem: Problem) -> String {
    match &problem.at.path {
        Some(path) => format!("{path}: {}", problem.detail),
        None => problem.detail,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_handler_leaves_is_read_as_the_api_reads_it() {
        let body = br#"{"messages": [{"topic": "bus:shipping.ordered", "payload": {"order": 17}, "key": "order-17"}],
            "signals": [{"saga": "order-17", "name": "paid", "data": {"total": 1.10}}],
            "events": [{"stream": "order", "resource_type": "ORDER", "resource_id": "17", "op": "UPDATE", "schema_version": 1}]}"#;
        let left = ApiBodies.left_behind(body).unwrap();
        let [message] = left.messages.as_slice() else { unreachable!() };
        assert_eq!((message.topic.as_str(), message.key.as_deref()), ("bus:shipping.ordered", Some("order-17")));
        let [signal] = left.signals.as_slice() else { unreachable!() };
        assert_eq!((signal.name.as_str(), signal.data.as_str()), ("paid", r#"{"total": 1.10}"#), "as written");
        let [event] = left.events.as_slice() else { unreachable!() };
        assert_eq!(
            (event.stream.as_str(), event.event.resource_id.as_str(), event.expected_seq),
            ("order", "17", None)
        );
        assert_eq!(ApiBodies.left_behind(b"{}").unwrap(), LeftBehind::default());
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let why = |body: &str| ApiBodies.left_behind(body.as_bytes()).unwrap_err();
        assert!(why(r#"{"messages":[{"topic":"bus:a"}]}"#).contains("payload is missing"));
        assert!(why(r#"{"mesages":[]}"#).contains("did you mean \"messages\"?"));
        assert!(why("").contains("empty"));
    }

    #[test]
    fn a_reply_tells_of_an_output_or_a_failure() {
        assert_eq!(ApiBodies.reply(br#"{"output":{"n":1}}"#).unwrap().unwrap().as_str(), r#"{"n":1}"#);
        let failed = ApiBodies.reply(br#"{"error":{"reason":"none left","retryable":true}}"#).unwrap().unwrap_err();
        assert!(failed.retryable);
        assert!(ApiBodies.reply(br#"{"output":1,"error":{"reason":"x"}}"#).is_err());
    }
}
