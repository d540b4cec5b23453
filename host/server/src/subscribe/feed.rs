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
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use waybill_api::streams::SubscriptionEnded;
use waybill_core::code::Code;
use waybill_core::port::service::streams::{EventPiece, Subscription, SubscriptionEnd};
use waybill_core::streams::access::StreamRight;

use crate::auth::Principal;
use crate::codes;
use crate::json::event;
use crate::limits::SSE_HEARTBEAT;
use crate::places::Place;
use crate::problem::Problem;
use crate::progress::Cutter;

/// An answer that goes on for as long as its peer likes: the edge gives its request's place back, and it has one of its own kind.
#[derive(Clone, Copy)]
pub(crate) struct Ongoing;

/// What a subscription's answer is made of.
pub(crate) struct Feed {
    pub subscription: Box<dyn Subscription>,
    /// Who reads: what they may not read is left out.
    pub principal: Arc<Principal>,
    /// It begins with a word: where it begins is known to nobody else.
    pub tells_start: bool,
    /// Becomes true when the host goes away.
    pub draining: watch::Receiver<bool>,
    /// Ends the answer when the peer takes nothing of it; none = only the peer ends it.
    pub cutter: Option<Cutter>,
    pub place: Place,
}

impl Feed {
    pub(crate) fn answer(self) -> Response {
        let cut = self.cutter.map(|cutter| {
            let cut = self.subscription.cut();
            let watching = tokio::spawn(async move {
                cut.await;
                cutter.cut();
            });
            Watching(watching.abort_handle())
        });
        let now = Instant::now();
        let speak_by = if self.tells_start { now } else { now + SSE_HEARTBEAT };
        let writing = Writing {
            subscription: self.subscription,
            principal: self.principal,
            draining: self.draining,
            told: None,
            speak_by,
            is_over: false,
            _cut: cut,
            _place: self.place,
        };
        let body = futures::stream::unfold(writing, Writing::next);
        let mut response = Response::new(Body::from_stream(body));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.extensions_mut().insert(Ongoing);
        response
    }
}

/// Waits for the cut as long as the answer lives.
struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Writing {
    subscription: Box<dyn Subscription>,
    principal: Arc<Principal>,
    draining: watch::Receiver<bool>,
    /// The cursor that the peer has.
    told: Option<Arc<str>>,
    /// When something is said at the latest.
    speak_by: Instant,
    is_over: bool,
    _cut: Option<Watching>,
    _place: Place,
}

/// What there is to write.
enum Next {
    Events(Vec<EventPiece>),
    Nothing,
    Ended(SubscriptionEnded),
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
        tokio::select! {
            biased;
            () = drained(&mut self.draining) => Next::Ended(going_away()),
            next = timeout_at(self.speak_by, self.subscription.next()) => match next {
                Ok(Ok(pieces)) => Next::Events(pieces),
                Ok(Err(end)) => Next::Ended(ended(end)),
                Err(_) => Next::Nothing,
            },
        }
    }

    fn events(&mut self, pieces: &[EventPiece]) -> String {
        let mut text = String::new();
        for piece in pieces {
            if !self.principal.has(StreamRight::Read, &piece.stream.name) {
                continue;
            }
            let envelope = match event::envelope(piece) {
                Ok(envelope) => envelope,
                Err(problem) => {
                    text.push_str(&self.end(failed(problem)));
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
        let cursor = self.subscription.cursor().filter(|cursor| self.told.as_ref() != Some(cursor));
        let Some(cursor) = cursor else { return ":\n\n".to_owned() };
        let text = format!(":\nid: {cursor}\n\n");
        self.told = Some(cursor);
        text
    }

    fn end(&mut self, ended: SubscriptionEnded) -> String {
        self.is_over = true;
        // Texts only: there is nothing that can't be written.
        format!("event: error\ndata: {}\n\n", serde_json::to_string(&ended).unwrap_or_default())
    }
}

/// Waits until the host goes away.
async fn drained(draining: &mut watch::Receiver<bool>) {
    // Without a sender the host is gone.
    let _ = draining.wait_for(|is_draining| *is_draining).await;
}

fn of(code: Code, detail: String) -> SubscriptionEnded {
    SubscriptionEnded { kind: codes::uri(code), code: code.into(), detail }
}

fn ended(end: SubscriptionEnd) -> SubscriptionEnded {
    match end {
        SubscriptionEnd::Failed(error) => failed(error.into()),
        end => of(end.code(), end.to_string()),
    }
}

/// What an answer of this problem would say; our own failures keep their details to the log.
fn failed(problem: Problem) -> SubscriptionEnded {
    if let Some(cause) = &problem.cause {
        tracing::warn!(code = problem.code.as_str(), %cause, "a subscription failed");
    }
    of(problem.code, problem.detail)
}

fn going_away() -> SubscriptionEnded {
    let text = "this host is going away: resume at another, or here when it is back".to_owned();
    of(Code::PROVIDER_UNAVAILABLE, text)
}
