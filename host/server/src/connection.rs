//! One connection: TLS if there is any, HTTP/1.1 and HTTP/2, and the times after which it ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::crowd::{Crowd, Guest};
use crate::edge;
use crate::limits::{GIVE_WAY_TIMEOUT, GOODBYE_TIMEOUT, Limits, SHEDDING_TIMEOUT, STREAM_BUFFER_BYTES};
use crate::metrics;
use crate::problem::Problem;
use crate::progress::{GivenUp, Progress, Watched};
use crate::refusals::Peer;
use crate::run::{Phase, reached};
use crate::streams::{self, Streams};
use crate::tls::Tls;

/// An HTTP/2 connection without any frame is pinged after this time, and cut when it doesn't answer.
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the answer to that ping.
const H2_PING_TIMEOUT: Duration = Duration::from_secs(10);
/// One in so many of the shortest time that ends a connection: how often it is looked at.
const LOOKS: u32 = 4;

/// What every connection of a server is served with.
#[derive(Clone)]
pub(crate) struct Worker {
    router: Router,
    protocol: auto::Builder<Streams>,
    tls: Option<Tls>,
    times: Times,
    phases: watch::Receiver<Phase>,
    crowd: Arc<Crowd>,
}

/// Times after which a connection ends.
#[derive(Clone, Copy)]
struct Times {
    first_request: Duration,
    idle: Duration,
    write: Duration,
}

impl Worker {
    pub(crate) fn new(
        router: Router,
        limits: &Limits,
        tls: Option<Tls>,
        phases: watch::Receiver<Phase>,
        crowd: Arc<Crowd>,
    ) -> Self {
        let times = Times {
            first_request: limits.first_request_timeout,
            idle: limits.idle_timeout,
            write: limits.write_timeout,
        };
        Self { router, protocol: protocol(limits), tls, times, phases, crowd }
    }

    /// A connection that was just opened, among the others.
    pub(crate) fn guest(&self) -> Guest {
        self.crowd.enter(Progress::new(self.times.write))
    }

    /// Serves one until it ends.
    pub(crate) async fn connection(self, stream: TcpStream, peer: SocketAddr, guest: Guest) {
        let Some(stream) = opened(stream, guest.progress()) else { return };
        let Some(tls) = self.tls.clone() else { return self.converse(stream, peer, guest).await };
        let handshake = tokio::time::timeout(self.times.first_request, tls.acceptor().accept(stream));
        let mut phases = self.phases.clone();
        let shaken = tokio::select! {
            // Nothing was asked yet, so nothing is lost.
            () = reached(&mut phases, Phase::Draining) => return,
            () = guest.has_to_go() => {
                metrics::cut("gave_way");
                return;
            }
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => self.converse(stream, peer, guest).await,
            Ok(Err(cause)) => {
                metrics::cut("tls");
                tracing::debug!(%cause, %peer, "TLS failed");
            }
            Err(_) => metrics::cut("tls_timeout"),
        }
    }

    async fn converse<S>(self, stream: S, peer: SocketAddr, guest: Guest)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let asked = Arc::new(AtomicBool::new(false));
        let progress = Arc::clone(guest.progress());
        let service = {
            let (asked, progress, visit) = (asked.clone(), progress.clone(), guest.visit());
            let router = self.router;
            service_fn(move |mut request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                request.extensions_mut().insert(Peer(peer));
                request.extensions_mut().insert(visit.clone());
                let (router, exchange) = (router.clone(), progress.begin());
                async move {
                    let exchange = exchange.ended_by(streams::end_of_this());
                    let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
                    Ok::<Response, Infallible>(exchange.answered(response))
                }
            })
        };
        let mut connection = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        let mut first_request = pin!(tokio::time::sleep(self.times.first_request));
        let mut waiting_for_first = true;
        let mut draining = false;
        let mut gives_way = false;
        let mut way = pin!(tokio::time::sleep(GIVE_WAY_TIMEOUT));
        // Since when it is asked to go because nothing happens on it.
        let mut leaving: Option<Instant> = None;
        let pause = self.times.idle.min(self.times.write) / LOOKS;
        let mut look = pin!(tokio::time::sleep(pause));
        let (mut drain, mut close) = (self.phases.clone(), self.phases);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(cause) = ended {
                        tracing::debug!(%cause, "a connection ended early");
                    }
                    return;
                }
                () = first_request.as_mut(), if waiting_for_first => {
                    if !asked.load(Ordering::Relaxed) {
                        metrics::cut("no_request");
                        return;
                    }
                    waiting_for_first = false;
                }
                () = look.as_mut() => {
                    match self.times.check(&progress, leaving) {
                        Close::No => {}
                        Close::Gracefully => {
                            leaving = Some(Instant::now());
                            connection.as_mut().graceful_shutdown();
                        }
                        Close::Now(reason) => {
                            metrics::cut(reason);
                            return;
                        }
                    }
                    look.as_mut().reset(Instant::now() + pause);
                }
                () = guest.has_to_go() => {
                    metrics::cut("gave_way");
                    gives_way = true;
                    way.as_mut().reset(Instant::now() + GIVE_WAY_TIMEOUT);
                    connection.as_mut().graceful_shutdown();
                }
                () = way.as_mut(), if gives_way => {
                    if guest.may_be_cut() {
                        return;
                    }
                    // It ends with what is under way on it.
                    gives_way = false;
                }
                () = reached(&mut drain, Phase::Draining), if !draining => {
                    draining = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = reached(&mut close, Phase::Closing), if draining => {
                    metrics::cut("drain_deadline");
                    return;
                }
            }
        }
    }

    /// Tells a peer for whom there is no place why, in whatever it speaks, and closes. Takes no longer than
    /// [`SHEDDING_TIMEOUT`].
    pub(crate) async fn shed(self, stream: TcpStream, why: Problem) {
        let shedding = async {
            let progress = Progress::new(self.times.write);
            let Some(stream) = opened(stream, &progress) else { return };
            match &self.tls {
                None => self.turn_away(stream, why).await,
                Some(tls) => {
                    if let Ok(stream) = tls.acceptor().accept(stream).await {
                        self.turn_away(stream, why).await;
                    }
                }
            }
        };
        // Who doesn't ask in time hears nothing.
        let _ = tokio::time::timeout(SHEDDING_TIMEOUT, shedding).await;
    }

    async fn turn_away<S>(&self, stream: S, why: Problem)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let told = Notify::new();
        let service = service_fn(|request: Request<Incoming>| {
            told.notify_one();
            let response = edge::turned_away(why.clone(), &request);
            async move { Ok::<Response, Infallible>(response) }
        });
        let mut connection = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            _ = connection.as_mut() => return,
            () = told.notified() => connection.as_mut().graceful_shutdown(),
        }
        if let Err(cause) = connection.await {
            tracing::debug!(%cause, "a connection past the bounds ended early");
        }
    }
}

/// Whether a connection is closed now, and how.
#[derive(Debug, PartialEq, Eq)]
enum Close {
    No,
    /// The peer is told to go, and may finish what it just began.
    Gracefully,
    /// At once, for this reason.
    Now(&'static str),
}

impl Times {
    fn check(&self, progress: &Progress, leaving: Option<Instant>) -> Close {
        let past = |since: Instant, time: Duration| since.elapsed() >= time;
        match progress.give_up(self.write) {
            GivenUp::Connection => return Close::Now("write_timeout"),
            GivenUp::Streams(0) => {}
            GivenUp::Streams(count) => tracing::debug!(count, "answers that nobody took were given up"),
        }
        match (progress.idle_since(), leaving) {
            (Some(since), None) if past(since, self.idle) => Close::Gracefully,
            // It was told, and neither goes nor asks for anything.
            (Some(since), Some(told)) if past(since.max(told), self.idle.min(GOODBYE_TIMEOUT)) => Close::Now("idle"),
            _ => Close::No,
        }
    }
}

/// The stream, watched; none = it was gone at once.
fn opened(stream: TcpStream, progress: &Arc<Progress>) -> Option<Watched<TcpStream>> {
    match stream.set_nodelay(true) {
        Ok(()) => Some(Watched::new(stream, Arc::clone(progress))),
        Err(cause) => {
            tracing::debug!(%cause, "a connection was gone at once");
            None
        }
    }
}

fn protocol(limits: &Limits) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.headers_max)
        // hyper wants room for its read buffer too.
        .max_buf_size(limits.header_bytes_max.max(8 * 1024));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams_max)
        .max_send_buf_size(STREAM_BUFFER_BYTES)
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT);
    builder
}
