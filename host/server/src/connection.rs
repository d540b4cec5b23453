//! One connection: TLS if there is any, HTTP/1.1 and HTTP/2, and the times after which it ends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, Sleep, sleep};
use tower::ServiceExt;

use crate::crowd::{Crowd, Guest};
use crate::edge;
use crate::head::READ_FACTOR;
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
        let progress = guest.progress();
        let service = {
            let (asked, progress, visit) = (asked.clone(), progress.clone(), guest.visit());
            let router = self.router;
            service_fn(move |mut request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                request.extensions_mut().insert(Peer(peer));
                request.extensions_mut().insert(visit.clone());
                let (router, exchange) = (router.clone(), progress.begin());
                let progress = progress.clone();
                async move {
                    let end = streams::end_of_this();
                    request.extensions_mut().insert(progress.cutter(end.clone()));
                    let exchange = exchange.ended_by(end);
                    let response = router.oneshot(request).await.unwrap_or_else(|never| match never {});
                    Ok::<Response, Infallible>(exchange.answered(response))
                }
            })
        };
        let connection = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        let keeper = Keeper::new(self.times, self.phases, guest, asked);
        attend(connection, |connection| connection.graceful_shutdown(), keeper).await;
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

/// Waits until a connection ends, or an event ends it. `gracefully` lets it finish what is under way on it.
async fn attend<C, E>(mut connection: Pin<&mut C>, gracefully: impl Fn(Pin<&mut C>), keeper: Keeper)
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    // Since when it is asked to go because nothing happens on it.
    let mut leaving: Option<Instant> = None;
    // A request wakes the connection several times; what is polled by itself wakes for its own events only.
    let mut events = FuturesUnordered::from_iter([keeper.next()]);
    loop {
        let (event, mut keeper) = tokio::select! {
            // Events first: a peer that sends without pause uses up the time that a task may take at once.
            biased;
            Some(event) = events.next() => event,
            ended = connection.as_mut() => {
                if let Err(cause) = ended {
                    tracing::debug!(%cause, "a connection ended early");
                }
                return;
            }
        };
        match event {
            Event::FirstRequestIsDue if keeper.asked.load(Ordering::Relaxed) => {}
            Event::FirstRequestIsDue => return metrics::cut("no_request"),
            Event::Look => match keeper.times.check(keeper.guest.progress(), leaving) {
                Close::No => {}
                Close::Gracefully => {
                    leaving = Some(Instant::now());
                    gracefully(connection.as_mut());
                }
                Close::Now(reason) => return metrics::cut(reason),
            },
            Event::HasToGo => {
                metrics::cut("gave_way");
                gracefully(connection.as_mut());
            }
            Event::WayIsDue if keeper.guest.may_be_cut() => return,
            // It ends with what is under way on it.
            Event::WayIsDue => keeper.gives_way = false,
            Event::Draining => gracefully(connection.as_mut()),
            Event::Closing => return metrics::cut("drain_deadline"),
        }
        events.push(keeper.next());
    }
}

/// What may end a connection, whatever its peer asks.
enum Event {
    /// The time for the first request is over.
    FirstRequestIsDue,
    /// It is time to see whether anything happens on it.
    Look,
    /// Its place is wanted for another.
    HasToGo,
    /// The time in which it may go by itself is over.
    WayIsDue,
    Draining,
    Closing,
}

/// Waits for the events of a connection.
struct Keeper {
    times: Times,
    /// Whether a request has come.
    asked: Arc<AtomicBool>,
    first_request: Pin<Box<Sleep>>,
    waits_for_first: bool,
    look: Pin<Box<Sleep>>,
    guest: Guest,
    gives_way: bool,
    way: Pin<Box<Sleep>>,
    draining: bool,
    drain: watch::Receiver<Phase>,
    close: watch::Receiver<Phase>,
}

impl Keeper {
    fn new(times: Times, phases: watch::Receiver<Phase>, guest: Guest, asked: Arc<AtomicBool>) -> Self {
        Self {
            times,
            asked,
            first_request: Box::pin(sleep(times.first_request)),
            waits_for_first: true,
            look: Box::pin(sleep(times.pause())),
            guest,
            gives_way: false,
            way: Box::pin(sleep(GIVE_WAY_TIMEOUT)),
            draining: false,
            drain: phases.clone(),
            close: phases,
        }
    }

    async fn next(mut self) -> (Event, Self) {
        let event = tokio::select! {
            () = self.first_request.as_mut(), if self.waits_for_first => {
                self.waits_for_first = false;
                Event::FirstRequestIsDue
            }
            () = self.look.as_mut() => {
                self.look.as_mut().reset(Instant::now() + self.times.pause());
                Event::Look
            }
            () = self.guest.has_to_go() => {
                self.gives_way = true;
                self.way.as_mut().reset(Instant::now() + GIVE_WAY_TIMEOUT);
                Event::HasToGo
            }
            () = self.way.as_mut(), if self.gives_way => Event::WayIsDue,
            () = reached(&mut self.drain, Phase::Draining), if !self.draining => {
                self.draining = true;
                Event::Draining
            }
            () = reached(&mut self.close, Phase::Closing), if self.draining => Event::Closing,
        };
        (event, self)
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
    fn pause(&self) -> Duration {
        self.idle.min(self.write) / LOOKS
    }

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
    let read = limits.header_bytes_max.saturating_mul(READ_FACTOR);
    let mut builder = auto::Builder::new(Streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_timeout)
        .max_headers(limits.headers_max.saturating_mul(READ_FACTOR))
        // hyper wants room for its read buffer too.
        .max_buf_size(read.max(8 * 1024));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(read).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams_max)
        .max_send_buf_size(STREAM_BUFFER_BYTES)
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP/2 reads frames as long as there are any, and is stopped by nothing but the bound on what a task does at once.
    #[tokio::test]
    async fn a_peer_that_sends_without_pause_holds_up_no_event() {
        let times =
            Times { first_request: Duration::MAX, idle: Duration::from_secs(3_600), write: Duration::from_secs(3_600) };
        let (_phase, phases) = watch::channel(Phase::Closing);
        let guest = Arc::new(Crowd::default()).enter(Progress::new(times.write));
        let mut without_pause = pin!(async {
            while std::hint::black_box(true) {
                tokio::task::consume_budget().await;
            }
            Ok::<(), Infallible>(())
        });
        let attending = attend(without_pause.as_mut(), |_| {}, Keeper::new(times, phases, guest, Arc::default()));
        let attended = tokio::time::timeout(Duration::from_secs(60), attending).await;
        assert!(attended.is_ok(), "the end of the server isn't heard");
    }
}
