//! What is called, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::definition::Action;
use super::event::{SagaNumber, StepDirection, StepNumber};
use super::id::SagaKey;
use super::json::Json;
use crate::backoff::RetryPolicy;
use crate::message::Message;
use crate::port::backoff::BackoffDecision;
use crate::port::participant::{StepContext, StepError};
use crate::port::transport::PluginIdentity;
use crate::streams::joint::JointAppends;
use crate::time::UnixMillis;

/// Names one attempt of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallRef {
    pub key: SagaKey,
    /// Which saga of the tree.
    pub saga: SagaNumber,
    pub step: StepNumber,
    pub way: StepDirection,
    pub attempt: u32,
}

/// A call to make: an `http:` or `fn:` step.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which attempt of which step; the answer names it.
    pub reference: CallRef,
    pub action: Action,
    /// The saga, as the called one sees it. Its idempotency key is that of (saga, step, direction).
    pub context: StepContext,
    pub input: Json,
    /// For a compensation: the output of the action; none = its result is unknown.
    pub output: Option<Json>,
    pub timeout: Duration,
    /// How the step is retried.
    pub retry: RetryPolicy,
    /// Plugin that decides about retries instead: asked after a retryable failure, its word comes with the answer.
    pub retry_plugin: Option<Arc<str>>,
    /// Failures in this way so far.
    pub failures: u32,
    /// Delay before this attempt; zero at the first.
    pub previous_delay: Duration,
    /// When the step was begun first.
    pub began_at: UnixMillis,
    /// When the root began.
    pub started_at: UnixMillis,
}

/// What a call answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What came of it.
    pub result: AnswerResult,
    pub plugin: Option<Arc<PluginIdentity>>,
    /// How long it took.
    pub took: Duration,
    /// The word of the step's retry plugin, if it was asked.
    pub backoff: Option<BackoffDecision>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerResult {
    Done {
        /// Output. [`output_json`] makes it of an answer's bytes.
        output: Json,
        /// Messages that the step leaves behind, checked and with ids: enqueued in the commit that records the step.
        messages: Vec<Arc<Message>>,
        /// Events that it leaves behind, checked and with ids: on their doorsteps in the same commit, or numbered by it.
        events: JointAppends,
    },
    /// Accepted; a signal ends it.
    Pending {
        signal: Arc<str>,
        /// Give up after this; none = the step's timeout.
        timeout: Option<Duration>,
        data: Json,
    },
    Failed(StepError),
}

impl Answer {
    pub fn done(output: Json) -> Self {
        Self::of(AnswerResult::Done { output, messages: Vec::new(), events: JointAppends::default() })
    }

    pub fn failed(error: StepError) -> Self {
        Self::of(AnswerResult::Failed(error))
    }

    /// With nothing known of who answered.
    pub fn of(result: AnswerResult) -> Self {
        Self { result, plugin: None, took: Duration::ZERO, backoff: None }
    }
}

/// An answer's bytes as they are kept: JSON as it is (no bytes: `null`), anything else as an object that holds media type and
/// base64, which [`output_bytes`] undoes.
pub fn output_json(data: &[u8], content_type: Option<&str>) -> Json {
    let is_json = content_type.is_none_or(|text| {
        let media = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        media == "application/json" || media.ends_with("+json")
    });
    if data.is_empty() {
        return Json::null();
    }
    match Json::parse_bytes(data) {
        Ok(json) if is_json => json,
        _ => {
            use base64::Engine;
            let media = content_type.unwrap_or("application/octet-stream");
            let base64 = base64::engine::general_purpose::STANDARD.encode(data);
            Json::of(&serde_json::json!({ WRAPPED_TYPE: media, WRAPPED_DATA: base64 }))
        }
    }
}

const WRAPPED_TYPE: &str = "$content_type";
const WRAPPED_DATA: &str = "$base64";

/// The bytes that [`output_json`] was given.
pub fn output_bytes(output: &Json) -> Bytes {
    use base64::Engine;
    if output.as_str().contains(WRAPPED_DATA)
        && let Ok(serde_json::Value::Object(fields)) = output.value()
        && fields.len() == 2
        && fields.contains_key(WRAPPED_TYPE)
        && let Some(serde_json::Value::String(text)) = fields.get(WRAPPED_DATA)
        && let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text)
    {
        return Bytes::from(bytes);
    }
    Bytes::copy_from_slice(output.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_is_no_json_comes_back_byte_by_byte() {
        assert_eq!(output_json(b"", None), Json::null());
        assert_eq!(output_json(b"{\"a\":1}", Some("application/json; charset=utf-8")).as_str(), "{\"a\":1}");
        let json = Some("application/json");
        let other = [(&b"\xff\x00"[..], None), (b"12", Some("text/plain")), (b"\"\xff\"", json), (b"[1e999]", json)];
        for (bytes, media) in other {
            assert_eq!(output_bytes(&output_json(bytes, media)), bytes);
        }
        assert_eq!(output_bytes(&output_json(b"[1]", None)), &b"[1]"[..]);
    }
}
