//! What a run of a schedule makes: a message, or a saga.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::ScheduleKey;
use super::limits::{RUNS_BYTES_MAX, RUNS_MAX, WORK_BYTES_MAX};
use crate::annotation::Annotation;
use crate::annotations::Annotations;
use crate::error::{InputError, InputResult};
use crate::message::Headers;
use crate::new_message::{Draft, NewMessage, check_headers};
use crate::port::saga::StartSaga;
use crate::saga::id::SagaId;
use crate::saga::json::Json;
use crate::time::UnixMillis;

/// One run: the instant that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub due: UnixMillis,
    /// Somebody asked for it; it is for no instant of the expression.
    pub by_hand: bool,
}

impl Run {
    /// Id of what the run makes: one run has one id, however often it is tried.
    pub fn id(self, key: &ScheduleKey) -> String {
        let by_hand = if self.by_hand { ".hand" } else { "" };
        format!("{}@{}{by_hand}", key.name, self.due)
    }
}

/// A message, anew with each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageWork {
    pub topic: String,
    #[serde(with = "as_base64")]
    pub payload: Bytes,
    pub content_type: Option<String>,
    pub key: Option<String>,
    pub headers: Headers,
    pub event_type: Option<String>,
}

/// A saga, anew with each run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SagaWork {
    pub definition: String,
    /// Its version; none = the latest when the run is made.
    pub version: Option<u32>,
    pub input: Json,
    pub headers: Headers,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    Message(MessageWork),
    Saga(SagaWork),
}

impl Work {
    /// Most runs that one commit makes.
    pub fn runs_max(&self) -> usize {
        match self {
            Self::Message(message) => (RUNS_BYTES_MAX / message.weight()).clamp(1, RUNS_MAX),
            Self::Saga(_) => RUNS_MAX,
        }
    }

    /// Checks what can be checked before there is a run. Whether there is a route or a definition, its runs find out.
    pub fn check(&self, key: &ScheduleKey, now: UnixMillis) -> InputResult<()> {
        match self {
            Self::Message(message) => message.draft(key, Run { due: now, by_hand: true }, now).map(|_| ()),
            Self::Saga(saga) => {
                if saga.input.len() > WORK_BYTES_MAX {
                    let cause =
                        format!("a schedule's input has {} bytes, at most {WORK_BYTES_MAX} are kept", saga.input.len());
                    return Err(InputError::Payload { cause });
                }
                if saga.definition.is_empty() {
                    return Err(InputError::Empty { field: "definition" });
                }
                SagaId::root(&Run { due: now, by_hand: true }.id(key))?;
                check_headers(&saga.headers)
            }
        }
    }
}

impl MessageWork {
    /// Bytes of one message, about.
    fn weight(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        self.payload.len() + headers + self.topic.len() + 1_024
    }

    /// The message of a run. It happened when it was due.
    pub fn draft(&self, key: &ScheduleKey, run: Run, now: UnixMillis) -> InputResult<Draft> {
        let mut annotations = Annotations::default();
        annotations.set(Annotation::ContentType, self.content_type.clone());
        let message = NewMessage {
            topic: self.topic.clone(),
            payload: self.payload.clone(),
            id: Some(run.id(key)),
            tenant: Some(key.tenant.as_str().to_owned()),
            key: self.key.clone(),
            headers: self.headers.clone(),
            occurred_at: Some(run.due),
            event_type: self.event_type.clone(),
            annotations,
            ..NewMessage::default()
        };
        message.check(now, WORK_BYTES_MAX)
    }
}

impl SagaWork {
    /// The saga of a run.
    pub fn start(&self, key: &ScheduleKey, run: Run, actor: &str) -> StartSaga {
        StartSaga {
            tenant: key.tenant.clone(),
            definition: self.definition.clone(),
            version: self.version,
            id: Some(run.id(key)),
            input: self.input.clone(),
            deadline: None,
            headers: self.headers.clone(),
            envelope_id: None,
            correlation_id: None,
            traceparent: None,
            actor: actor.to_owned(),
        }
    }
}

/// Bytes as text, because records are JSON.
mod as_base64 {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes::from).map_err(D::Error::custom)
    }
}
