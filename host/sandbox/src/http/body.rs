//! Bodies: what is sent, and what is read back within bounds.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::WasiBody;

use super::held::Held;
use crate::meters::{Bound, Meters};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Whether a connection has taken a request: before, nothing of it can have reached the peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent(Arc<AtomicBool>);

impl Sent {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A guest's body that counts against the endpoint's bound until nothing holds its bytes any more: a connection may do so longer than
/// the exchange.
struct Counted {
    bytes: Vec<u8>,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A guest's body, with what it takes of the bound.
pub(super) fn counted(bytes: Vec<u8>, held: Arc<Held>) -> Bytes {
    Bytes::from_owner(Counted { bytes, _held: held })
}

/// A body on its way out.
pub(super) enum OutBody {
    /// All of it at once. A connection that sends it looks first whether it is empty.
    Whole(Full<Bytes>, Sent),
    /// As a `wasi:http` guest writes it.
    Streamed(WasiBody),
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(body, _) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Streamed(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body, sent) => {
                sent.set();
                body.is_end_stream()
            }
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body, _) => body.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}

/// An answer's body as a `wasi:http` guest reads it: bounded in bytes and in time between two pieces. It holds the permits
/// of its exchange until it is read or dropped.
pub(super) struct BoundedBody {
    pub(super) incoming: Incoming,
    pub(super) left: u64,
    pub(super) between: Duration,
    pub(super) timer: Pin<Box<Sleep>>,
    pub(super) meters: Arc<Meters>,
    pub(super) _permits: [OwnedSemaphorePermit; 2],
}

impl Body for BoundedBody {
    type Data = Bytes;
    type Error = wasmtime_wasi_http::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Pending => {
                ready!(this.timer.as_mut().poll(cx));
                Poll::Ready(Some(Err(wasmtime_wasi_http::Error::ConnectionReadTimeout)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                let Some(left) = this.left.checked_sub(bytes) else {
                    this.meters.hit(Bound::HttpResponse);
                    return Poll::Ready(Some(Err(wasmtime_wasi_http::Error::HttpResponseBodySize(None))));
                };
                this.left = left;
                this.timer.as_mut().reset(Instant::now() + this.between);
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
