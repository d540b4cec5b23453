//! Event streams over gRPC as a client has them: a connection of its own for each call, which stops reading when it isn't asked for more.
//!
//! It also measures: answers stay bytes, and only those fields are read that somebody looks at. It takes what protobuf it needs from the host's
//! own code; what Google's client makes of the same answers is tested with `examples/streams-grpc-python`.

use axum::http::uri::{PathAndQuery, Uri};
use bytes::{Buf as _, BufMut as _, Bytes};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thiserror::Error;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status, Streaming};
use waybill_core::streams::proto::{Fields, Value, put_bytes, put_number, put_text, put_varint};

use crate::subscriber::{SubscribeError, connect};

const SUBSCRIBE: &str = "/waybill.events.v1.EventsService/SubscribeEvents";
const LIST: &str = "/waybill.events.v1.EventsService/ListEvents";
const SUBSCRIBE_TASKS: &str = "/waybill.events.v1.TaskService/SubscribeTaskEvents";
/// Least that HTTP/2 lets a peer send before it is read, in bytes.
const WINDOW_MIN: u32 = 65_535;

/// How the host ended a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the call ended with status {number}, {code}: {message}")]
pub struct CallEnded {
    /// gRPC's own, for example 10 for `ABORTED`.
    pub number: i32,
    pub message: String,
    /// The host's error code, the reason of its `google.rpc.ErrorInfo`; empty where there is none, because the connection broke.
    pub code: String,
}

impl From<Status> for CallEnded {
    fn from(status: Status) -> Self {
        // google.rpc.Status: details are its field 3, each an Any whose field 2 is an ErrorInfo, whose field 1 is the reason.
        let details = bytes_of(status.details(), 3).unwrap_or_default();
        let info = bytes_of(details, 2).unwrap_or_default();
        let reason = bytes_of(info, 1).unwrap_or_default();
        let (number, message) = (i32::from(status.code()), status.message().to_owned());
        Self { number, message, code: String::from_utf8_lossy(reason).into_owned() }
    }
}

fn bytes_of(message: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut fields = Fields(message).map_while(Result::ok);
    fields.find_map(|(field, value)| (field == wanted).then(|| value.bytes(field).ok()).flatten())
}

/// Behind what a call begins.
#[derive(Clone, Copy, Debug)]
pub enum After<'a> {
    /// With what is kept.
    Nothing,
    /// A number of the one stream that is named.
    Seq(u64),
    Token(&'a str),
}

/// A call with its request.
#[derive(Clone, Debug)]
pub struct Call {
    path: &'static str,
    request: Vec<u8>,
}

impl Call {
    /// Subscribes by a selector as `/v1/subscribe` has it.
    #[must_use]
    pub fn subscribe(selector: &str, after: After<'_>) -> Self {
        let (kind, value) = selector.split_once(':').unwrap_or((selector, ""));
        let mut request = Vec::new();
        put_bytes(&mut request, 1, &selected(kind, value));
        match after {
            After::Nothing => {}
            After::Seq(seq) => {
                let (mut position, mut cursor) = (Vec::new(), Vec::new());
                put_text(&mut position, 1, value);
                put_number(&mut position, 2, seq);
                put_bytes(&mut cursor, 1, &position);
                put_bytes(&mut request, 2, &cursor);
            }
            After::Token(token) => put_bytes(&mut request, 3, token.as_bytes()),
        }
        Self { path: SUBSCRIBE, request }
    }

    /// The old call for the tasks of a node; 0 = from what is kept.
    #[must_use]
    pub fn subscribe_tasks(node_uuid: &str, last_event_id: u64) -> Self {
        let mut request = Vec::new();
        put_text(&mut request, 1, node_uuid);
        put_number(&mut request, 2, last_event_id);
        Self { path: SUBSCRIBE_TASKS, request }
    }

    /// Asks for a page of a stream.
    #[must_use]
    pub fn list(stream: &str, after: After<'_>, limit: u32) -> Self {
        let mut request = Vec::new();
        put_text(&mut request, 1, stream);
        match after {
            After::Nothing => {}
            After::Seq(seq) => {
                // Also a 0, which means another thing than nothing.
                put_varint(&mut request, 2 << 3);
                put_varint(&mut request, seq);
            }
            After::Token(token) => put_bytes(&mut request, 5, token.as_bytes()),
        }
        put_number(&mut request, 3, limit.into());
        Self { path: LIST, request }
    }
}

/// A selector's text as the message of that name.
fn selected(kind: &str, value: &str) -> Vec<u8> {
    let mut by = Vec::new();
    match kind {
        "stream" => {
            let mut names = Vec::new();
            for name in value.split(',') {
                put_bytes(&mut names, 1, name.as_bytes());
            }
            put_bytes(&mut by, 1, &names);
        }
        "prefix" => put_bytes(&mut by, 2, value.as_bytes()),
        "node" => put_bytes(&mut by, 3, value.as_bytes()),
        // `type:T` or `type:T/IDPREFIX`; of anything else the host says that it is none.
        _ => {
            let (resource_type, beginning) = value.split_once('/').unwrap_or((value, ""));
            let mut resource = Vec::new();
            put_text(&mut resource, 1, resource_type);
            put_text(&mut resource, 2, beginning);
            put_bytes(&mut by, 4, &resource);
        }
    }
    by
}

/// An answer as it came: an envelope, or a page of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer(Bytes);

/// A page of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub events: Vec<Answer>,
    /// Where the next one begins.
    pub resume_token: String,
    pub is_end: bool,
}

impl Answer {
    fn field(&self, wanted: u32) -> Option<Value<'_>> {
        let mut fields = Fields(&self.0).map_while(Result::ok);
        fields.find_map(|(field, value)| (field == wanted).then_some(value))
    }

    /// Empty if it isn't set.
    fn text(&self, field: u32) -> &str {
        self.field(field).and_then(|value| value.text(field).ok()).unwrap_or_default()
    }

    /// 0 if it isn't set.
    fn number(&self, field: u32) -> u64 {
        self.field(field).and_then(|value| value.number(field).ok()).unwrap_or_default()
    }

    pub fn event_id(&self) -> &str {
        self.text(1)
    }

    pub fn stream(&self) -> &str {
        self.text(3)
    }

    pub fn seq(&self) -> u64 {
        self.number(4)
    }

    pub fn resource_id(&self) -> &str {
        self.text(6)
    }

    /// Where a subscription goes on behind this event.
    pub fn resume_token(&self) -> &str {
        self.text(17)
    }

    /// What it is in answer to [`Call::list`].
    pub fn page(&self) -> Page {
        let fields = Fields(&self.0).map_while(Result::ok).filter(|(field, _)| *field == 1);
        let events = fields.filter_map(|(field, value)| value.bytes(field).ok());
        let events = events.map(|event| Self(self.0.slice_ref(event))).collect();
        Page { events, resume_token: self.text(4).to_owned(), is_end: self.number(5) == 1 }
    }
}

/// What is answered to a call.
pub struct Answers {
    /// None = the host said no at once.
    answers: Option<Streaming<Bytes>>,
    refused: Option<CallEnded>,
}

impl Answers {
    /// Calls at a base URL such as `http://127.0.0.1:7070`. With `held`, system and client hold no more than about so many bytes that weren't
    /// asked for: whoever doesn't read is then soon noticed. How the host ends it, at once or later, is told by [`Self::next`].
    ///
    /// # Errors
    pub async fn open(base: &str, call: &Call, held: Option<u32>) -> Result<Self, SubscribeError> {
        let (peer, stream) = connect(base, held).await?;
        let broken = |error: &dyn std::fmt::Display| SubscribeError::Broken(peer.clone(), error.to_string());
        let mut builder = http2::Builder::new(TokioExecutor::new());
        if let Some(bytes) = held {
            let window = bytes.max(WINDOW_MIN);
            builder.initial_stream_window_size(window).initial_connection_window_size(window);
        }
        let opened = builder.handshake::<_, tonic::body::Body>(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| broken(&error))?;
        // Its end is seen by whoever reads the answers.
        tokio::spawn(connection);
        let service = tower::service_fn(move |request| {
            let mut sender = sender.clone();
            async move { sender.send_request(request).await }
        });
        let origin = base.parse::<Uri>().map_err(|error| broken(&error))?;
        let mut client = Grpc::with_origin(service, origin);
        client.ready().await.map_err(|error| broken(&error))?;
        let request = Request::new(call.request.clone());
        let answered = client.server_streaming(request, PathAndQuery::from_static(call.path), Untouched).await;
        Ok(match answered {
            Ok(answers) => Self { answers: Some(answers.into_inner()), refused: None },
            Err(status) => Self { answers: None, refused: Some(status.into()) },
        })
    }

    /// The next answer; none when the host ended the call in good order.
    ///
    /// # Errors
    /// The host ended it with another status, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<Answer>, CallEnded> {
        match (&mut self.answers, self.refused.take()) {
            (_, Some(refused)) => Err(refused),
            (Some(answers), None) => Ok(answers.message().await?.map(Answer)),
            (None, None) => Ok(None),
        }
    }
}

/// Bytes of messages, as they come and go.
struct Untouched;

impl Encoder for Untouched {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Untouched {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

impl Codec for Untouched {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }
    fn decoder(&mut self) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_the_rest_is_left() {
        let (mut event, mut page) = (Vec::new(), Vec::new());
        put_text(&mut event, 3, "task.node.1");
        put_number(&mut event, 4, 7);
        put_text(&mut event, 17, "7");
        put_bytes(&mut page, 1, &event);
        put_bytes(&mut page, 1, &event);
        put_number(&mut page, 3, 9);
        put_text(&mut page, 4, "7~8");
        let page = Answer(page.into()).page();
        assert_eq!((page.events.len(), page.resume_token.as_str(), page.is_end), (2, "7~8", false));
        for event in page.events {
            assert_eq!((event.stream(), event.seq(), event.resume_token()), ("task.node.1", 7, "7"));
            assert_eq!(event.event_id(), "");
        }
    }

    #[test]
    fn a_status_tells_its_reason() {
        let (mut info, mut any, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        put_text(&mut info, 1, "EVENT.LAGGED");
        put_bytes(&mut any, 2, &info);
        put_number(&mut whole, 1, 10);
        put_bytes(&mut whole, 3, &any);
        let status = Status::with_details(tonic::Code::Aborted, "watch lagged", whole.into());
        let ended = CallEnded { number: 10, message: "watch lagged".into(), code: "EVENT.LAGGED".into() };
        assert_eq!(CallEnded::from(status), ended);
        assert_eq!(CallEnded::from(Status::unknown("it broke")).code, "");
    }
}
