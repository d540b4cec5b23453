//! A subscription as server-sent events: `id:` with the cursor and one `data:` line an event, comments while nothing comes, and an
//! event `error` at the end.
//!
//! A piece is asked for when the peer has room for it, so who reads slowly makes nothing wait here, and holds one piece at most.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};
use tokio::time::{Instant, timeout_at};
use waybill_api::streams::SubscriptionEnded;
use waybill_core::port::service::streams::EventPiece;

use super::reader::{Ended, Reader};
use crate::codes;
use crate::json::event;
use crate::limits::SSE_HEARTBEAT;

/// An answer that goes on for as long as its peer likes: the edge gives its request's place back, and it has one of its own kind.
#[derive(Clone, Copy)]
pub(crate) struct Ongoing;

/// What a subscription's answer is made of.
pub(crate) struct Feed {
    pub reader: Reader,
    /// It begins with a word: where it begins is known to nobody else.
    pub tells_start: bool,
}

impl Feed {
    pub(crate) fn answer(self) -> Response {
        let now = Instant::now();
        let speak_by = if self.tells_start { now } else { now + SSE_HEARTBEAT };
        let writing = Writing { reader: self.reader, told: None, speak_by, is_over: false };
        let body = futures::stream::unfold(writing, Writing::next);
        let mut response = Response::new(Body::from_stream(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.extensions_mut().insert(Ongoing);
        response
    }
}

struct Writing {
    reader: Reader,
    /// The cursor that the peer has.
    told: Option<Arc<str>>,
    /// When something is said at the latest.
    speak_by: Instant,
    is_over: bool,
}

/// What there is to write.
enum Next {
    Events(Vec<EventPiece>),
    Nothing,
    Ended(Ended),
}

impl Writing {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.is_over {
            return None;
        }
        loop {
            let text = match self.wait().await {
                Next::Events(pieces) => self.events(&pieces),
                Next::Nothing => self.heartbeat(),
                Next::Ended(ended) => self.end(ended),
            };
            if text.is_empty() {
                // Nothing of it may be read: the peer hears of the cursor with the next heartbeat.
                continue;
            }
            self.speak_by = Instant::now() + SSE_HEARTBEAT;
            return Some((Ok(Bytes::from(text)), self));
        }
    }

    async fn wait(&mut self) -> Next {
        // Left out events come without a word to the peer, so the time is looked at first.
        if Instant::now() >= self.speak_by {
            return Next::Nothing;
        }
        match timeout_at(self.speak_by, self.reader.next()).await {
            Ok(Ok(pieces)) => Next::Events(pieces),
            Ok(Err(ended)) => Next::Ended(ended),
            Err(_) => Next::Nothing,
        }
    }

    fn events(&mut self, pieces: &[EventPiece]) -> String {
        let mut text = String::new();
        for piece in pieces {
            let envelope = match event::envelope(piece) {
                Ok(envelope) => envelope,
                Err(problem) => {
                    text.push_str(&self.end(problem.into()));
                    break;
                }
            };
            for part in ["id: ", &piece.cursor, "\ndata: ", envelope.get(), "\n\n"] {
                text.push_str(part);
            }
            self.told = Some(Arc::clone(&piece.cursor));
        }
        text
    }

    /// A comment; and the cursor alone where it moved past what the peer was given, so that it needn't be gone through again.
    fn heartbeat(&mut self) -> String {
        let cursor = self.reader.cursor().filter(|cursor| self.told.as_ref() != Some(cursor));
        let Some(cursor) = cursor else { return ":\n\n".to_owned() };
        let text = format!(":\nid: {cursor}\n\n");
        self.told = Some(cursor);
        text
    }

    fn end(&mut self, ended: Ended) -> String {
        self.is_over = true;
        let Ended { code, detail, .. } = ended;
        let ended = SubscriptionEnded { kind: codes::uri(code), code: code.into(), detail };
        // Texts only: there is nothing that can't be written.
        format!("event: error\ndata: {}\n\n", serde_json::to_string(&ended).unwrap_or_default())
    }
}
