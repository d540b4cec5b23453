//! How far a connection is: what is open on it, and since when its peer has taken nothing.
//!
//! An answer stands still in one of two ways. Bytes are ready and the socket doesn't take them, which shows at the stream
//! ([`Watched`]); or HTTP/2's flow control keeps them back, so that the socket is never asked, which shows at the answer's body
//! ([`Taken`]). Either way a peer that takes a little now and then doesn't help itself: the time begins anew with every whole
//! piece, not with every byte, and the whole answer has its time too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use slab::Slab;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::{ANSWER_PIECE_MAX, ANSWER_PIECE_MIN, ANSWER_RATE_MIN};

/// So many bytes written at once are of an answer, and not of a ping and its like. Bytes.
const ANSWER_BYTES: usize = 256;

/// What is known of one connection. Shared by its stream and its answers.
pub(crate) struct Progress {
    /// Answers go out in pieces of at most so many bytes.
    piece: usize,
    write_timeout: Duration,
    state: Mutex<State>,
}

struct State {
    open: Slab<Open>,
    /// When the last exchange ended, or the last piece of an answer was written: HTTP/2 writes what it has of an answer long
    /// after its body was handed over.
    active_at: Instant,
    /// Since when the socket takes less than a piece of what it is offered.
    blocked_since: Option<Instant>,
    /// Bytes that it took since then.
    trickled: usize,
    /// The connection has to end, because an answer on it does that can't end alone.
    is_cut: bool,
}

#[derive(Default)]
struct Open {
    /// Since when the peer could take more of the answer; none = the work is ours.
    peers_since: Option<Instant>,
    /// When the peer has to have taken all of the answer; none = there is none yet.
    taken_by: Option<Instant>,
    /// Ends it and nothing else; none = it can only end with its connection.
    end: Option<Arc<Notify>>,
}

/// What has to end because its peer takes nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// So many exchanges, which were told to; commonly none.
    Streams(usize),
    Connection,
}

impl Progress {
    /// Of a connection that was just opened, whose peer takes a piece within `write_timeout`: pieces are so small that a peer
    /// does which takes [`ANSWER_RATE_MIN`].
    pub(crate) fn new(write_timeout: Duration) -> Arc<Self> {
        let at_that_rate =
            usize::try_from(write_timeout.as_millis()).unwrap_or(usize::MAX).saturating_mul(ANSWER_RATE_MIN);
        let state =
            State { open: Slab::new(), active_at: Instant::now(), blocked_since: None, trickled: 0, is_cut: false };
        // Half of it, because time is looked at now and then only.
        let piece = (at_that_rate / 2_000).clamp(ANSWER_PIECE_MIN, ANSWER_PIECE_MAX);
        Arc::new(Self { piece, write_timeout, state: Mutex::new(state) })
    }

    /// What ends an answer on this connection, whoever holds it up: alone by `end`, else with the connection.
    pub(crate) fn cutter(self: &Arc<Self>, end: Option<Arc<Notify>>) -> Cutter {
        Cutter { progress: Arc::clone(self), end }
    }

    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Exchange {
        let id = self.state.lock().open.insert(Open::default());
        Exchange { progress: Arc::clone(self), id, ends_alone: false }
    }

    /// Since when the peer takes nothing of what is there for it; none = it does, or there is nothing.
    #[cfg(test)]
    fn stalled_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.open.iter().filter_map(|(_, open)| open.peers_since).chain(state.blocked_since).min()
    }

    /// Ends the exchanges whose peer takes nothing for so long, if they can end alone.
    pub(crate) fn give_up(&self, limit: Duration) -> GivenUp {
        let past = |since: Instant| since.elapsed() >= limit;
        let mut state = self.state.lock();
        if state.is_cut || state.blocked_since.is_some_and(past) {
            return GivenUp::Connection;
        }
        let mut streams = 0;
        for (_, open) in &mut state.open {
            if open.peers_since.is_some_and(past) || open.taken_by.is_some_and(|by| Instant::now() >= by) {
                let Some(end) = &open.end else { return GivenUp::Connection };
                end.notify_one();
                // It is told once.
                (open.peers_since, open.taken_by) = (None, None);
                streams += 1;
            }
        }
        GivenUp::Streams(streams)
    }

    /// Since when nothing is done for the peer: nothing is open, or it could take more of what is; none = something is being done.
    pub(crate) fn quiet_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let mut open = state.open.iter();
        open.try_fold(state.active_at, |since, (_, open)| open.peers_since.map(|theirs| since.max(theirs)))
    }

    /// Since when nothing is open; none = something is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.open.is_empty().then_some(state.active_at)
    }
}

/// Ends an answer of which the peer takes nothing. The connection puts it into its requests.
#[derive(Clone)]
pub(crate) struct Cutter {
    progress: Arc<Progress>,
    end: Option<Arc<Notify>>,
}

impl Cutter {
    /// Alone at once; with its connection when that is looked at next.
    pub(crate) fn cut(&self) {
        match &self.end {
            Some(end) => end.notify_one(),
            None => self.progress.state.lock().is_cut = true,
        }
    }
}

/// A request and its answer, until the peer has room for all of the answer (over HTTP/1: until it is handed to the stream), or it is
/// given up.
pub(crate) struct Exchange {
    progress: Arc<Progress>,
    id: usize,
    /// It can end without its connection, which is so in HTTP/2.
    ends_alone: bool,
}

impl Exchange {
    /// With what ends it alone, if there is such a thing.
    pub(crate) fn ended_by(mut self, end: Option<Arc<Notify>>) -> Self {
        self.ends_alone = end.is_some();
        if self.ends_alone {
            self.note(|open| open.end = end);
        }
        self
    }

    /// The answer is there: from now on it is the peer's turn.
    pub(crate) fn answered(self, response: Response) -> Response {
        let now = Instant::now();
        // An answer whose size isn't known is made while it is taken.
        let taken_by = response.body().size_hint().exact().and_then(|bytes| {
            let at_least_rate = Duration::from_secs(bytes / ANSWER_RATE_MIN as u64);
            now.checked_add(self.progress.write_timeout.saturating_add(at_least_rate))
        });
        self.note(|open| (open.peers_since, open.taken_by) = (Some(now), taken_by));
        response.map(|body| Body::new(Taken { body, rest: Bytes::new(), exchange: self }))
    }

    fn peers_turn(&self, is_theirs: bool) {
        let since = is_theirs.then(Instant::now);
        self.note(|open| open.peers_since = since);
    }

    fn note(&self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.progress.state.lock().open.get_mut(self.id) {
            change(open);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.progress.state.lock();
        state.open.try_remove(self.id);
        state.active_at = Instant::now();
    }
}

/// A body that goes out in pieces and notes when one is taken.
///
/// HTTP/2 hands a piece over as soon as the peer has room for one byte of it, and asks for the next one when all of it has
/// gone. So the last byte is a piece of its own: when it is handed over, the peer has room for the whole answer. HTTP/1 writes what
/// it is given, and the stream tells whether the socket takes it.
struct Taken {
    body: Body,
    /// What wasn't handed over yet of what the body gave last.
    rest: Bytes,
    exchange: Exchange,
}

impl Taken {
    fn piece(&mut self) -> Bytes {
        let last = usize::from(self.exchange.ends_alone && self.body.is_end_stream() && self.rest.len() > 1);
        let bytes = self.exchange.progress.piece.min(self.rest.len() - last);
        self.rest.split_to(bytes)
    }
}

impl HttpBody for Taken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = Pin::new(&mut self.body).poll_frame(cx);
            // Without a frame the peer waits for us.
            self.exchange.peers_turn(frame.is_ready());
            match frame {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        } else {
            self.exchange.peers_turn(true);
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }
    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let of_body = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A stream that notes since when it takes nothing.
pub(crate) struct Watched<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> Watched<S> {
    /// Notes it for this connection.
    pub(crate) fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }

    /// What became of so many bytes that were offered.
    fn note(&self, offered: usize, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let mut state = self.progress.state.lock();
        match &written {
            Poll::Pending if state.blocked_since.is_some() => {}
            Poll::Pending => {
                state.blocked_since = Some(Instant::now());
                state.trickled = 0;
            }
            Poll::Ready(result) => {
                let taken = result.as_ref().copied().unwrap_or(offered);
                state.trickled = state.trickled.saturating_add(taken);
                if taken >= offered || state.trickled >= self.progress.piece {
                    state.blocked_since = None;
                }
                if result.as_ref().is_ok_and(|bytes| *bytes >= ANSWER_BYTES) {
                    state.active_at = Instant::now();
                }
            }
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(bytes.len(), written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.note(pieces.iter().map(|piece| piece.len()).sum(), written)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
