//! How far a connection is: what is open on it, and since when its peer has taken nothing.
//!
//! An answer stands still in one of two ways. Bytes are ready and the socket doesn't take them, which shows at the stream
//! ([`Watched`]); or HTTP/2's flow control keeps them back, so that the socket is never asked, which shows at the answer's body
//! ([`Taken`]).

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// So many bytes written at once are of an answer, and not of a ping and its like. Bytes.
const ANSWER_BYTES: usize = 256;

/// What is known of one connection. Shared by its stream and its answers.
pub(crate) struct Progress(Mutex<State>);

struct State {
    next: u64,
    /// Open exchanges; with the time since when the peer could take more of the answer, if it could.
    open: HashMap<u64, Option<Instant>>,
    /// When the last exchange ended, or the last piece of an answer was written: HTTP/2 writes what it has of an answer long
    /// after its body was handed over.
    active_at: Instant,
    /// Since when the socket takes nothing.
    blocked_since: Option<Instant>,
}

impl Progress {
    /// Of a connection that was just opened.
    pub(crate) fn new() -> Arc<Self> {
        let state = State { next: 0, open: HashMap::new(), active_at: Instant::now(), blocked_since: None };
        Arc::new(Self(Mutex::new(state)))
    }

    /// A request has come.
    pub(crate) fn begin(self: &Arc<Self>) -> Exchange {
        let mut state = self.0.lock();
        let id = state.next;
        state.next += 1;
        state.open.insert(id, None);
        Exchange { progress: Arc::clone(self), id }
    }

    /// Since when the peer takes nothing of what is there for it; none = it does, or there is nothing.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        let state = self.0.lock();
        state.open.values().copied().flatten().chain(state.blocked_since).min()
    }

    /// Since when nothing is open; none = something is.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.lock();
        state.open.is_empty().then_some(state.active_at)
    }
}

/// A request and its answer, until the answer is handed over or given up.
pub(crate) struct Exchange {
    progress: Arc<Progress>,
    id: u64,
}

impl Exchange {
    /// The answer is there: from now on it is the peer's turn.
    pub(crate) fn answered(self, response: Response) -> Response {
        self.peers_turn(true);
        response.map(|body| Body::new(Taken { body, exchange: self }))
    }

    fn peers_turn(&self, is_theirs: bool) {
        let since = is_theirs.then(Instant::now);
        if let Some(waiting) = self.progress.0.lock().open.get_mut(&self.id) {
            *waiting = since;
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.progress.0.lock();
        state.open.remove(&self.id);
        state.active_at = Instant::now();
    }
}

/// A body that notes when a piece of it is taken.
struct Taken {
    body: Body,
    exchange: Exchange,
}

impl HttpBody for Taken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // Without a frame the peer waits for us.
        self.exchange.peers_turn(frame.is_ready());
        frame
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let mut state = self.progress.0.lock();
        match &written {
            Poll::Pending => {
                state.blocked_since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(result) => {
                state.blocked_since = None;
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
        self.note(written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.note(written)
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
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn an_answer_is_the_peers_turn_until_it_is_taken() {
        let progress = Progress::new();
        assert!(progress.idle_since().is_some() && progress.stalled_since().is_none());
        let exchange = progress.begin();
        assert!(progress.idle_since().is_none(), "a request is being worked on");
        assert!(progress.stalled_since().is_none(), "work is ours");
        let answer = exchange.answered(Response::new(Body::from("done")));
        assert!(progress.stalled_since().is_some());
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
        assert!(progress.idle_since().is_some() && progress.stalled_since().is_none());
    }

    #[tokio::test]
    async fn a_body_that_waits_for_us_does_not_stand_still() {
        let progress = Progress::new();
        let never = Body::from_stream(futures::stream::pending::<Result<Bytes, io::Error>>());
        let mut answer = progress.begin().answered(Response::new(never));
        assert!(futures::poll!(answer.body_mut().frame()).is_pending());
        assert!(progress.stalled_since().is_none() && progress.idle_since().is_none());
        drop(answer);
        assert!(progress.idle_since().is_some());
    }

    #[tokio::test]
    async fn a_socket_that_takes_nothing_is_noticed_and_forgotten_when_it_does() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let progress = Progress::new();
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Watched::new(ours, Arc::clone(&progress));
        let mut writing = Box::pin(ours.write_all(b"12345678"));
        assert!(futures::poll!(writing.as_mut()).is_pending());
        let since = progress.stalled_since().unwrap();
        assert!(futures::poll!(writing.as_mut()).is_pending());
        assert_eq!(progress.stalled_since(), Some(since), "it began with the first write");
        let mut all = [0; 8];
        let (read, written) = tokio::join!(theirs.read_exact(&mut all), writing);
        assert!(read.is_ok() && written.is_ok() && progress.stalled_since().is_none());
    }
}
