//! What handlers over HTTP are called through: the host's own client with an allow-list of its own. What an answer means is decided
//! in [`crate::inbox::verdict`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::transport::CallError;
use crate::message::Headers;
use crate::new_message::NewMessage;
use crate::port::saga::ReplyFailure;
use crate::saga::json::Json;
use crate::streams::wire::LeftEvent;

/// One call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerPost {
    pub url: Arc<str>,
    pub headers: Headers,
    pub body: Bytes,
    pub timeout: Duration,
    /// Bytes of an answer's body that are read; the rest is cut off.
    pub answer_bytes_max: usize,
}

/// What came back, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerAnswer {
    pub status: u16,
    /// What its `Retry-After` asks for.
    pub after: Option<Duration>,
    /// Media type of the body.
    pub content_type: Option<String>,
    pub body: Bytes,
    /// The body was longer.
    pub truncated: bool,
}

/// Posts to handlers. An error means that no answer came: [`ErrorKind::Denied`](super::transport::ErrorKind) = not granted,
/// `Unavailable` = no connection or broken (with `maybe_delivered` if the request was out), `TimedOut` = no answer in time.
#[async_trait]
pub trait HttpHandlers: Send + Sync + 'static {
    async fn post(&self, post: HandlerPost) -> Result<HandlerAnswer, CallError>;
}

/// A signal that a handler leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftSignal {
    /// Id of the saga.
    pub saga: String,
    pub name: String,
    pub data: Json,
}

/// What an answer of type `application/vnd.waybill.handled+json` asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftBehind {
    pub messages: Vec<NewMessage>,
    pub signals: Vec<LeftSignal>,
    pub events: Vec<LeftEvent>,
}

/// Reads bodies in the forms of the API. Errors say what is wrong, for people.
pub trait BodyReader: Send + Sync + 'static {
    /// The body of an answer that leaves something behind.
    fn left_behind(&self, body: &[u8]) -> Result<LeftBehind, String>;
    /// The body of a reply to a step.
    fn reply(&self, body: &[u8]) -> Result<Result<Json, ReplyFailure>, String>;
}
