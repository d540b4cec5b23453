//! Connections: HTTP/1.1 and HTTP/2 in clear text, bounded in number, head and time, drained in good order.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use crate::limits::{ACCEPT_PAUSE, Limits};
use crate::metrics;

/// An HTTP/2 connection without any frame is pinged after this time, and cut when it doesn't answer.
const H2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the answer to that ping.
const H2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut at the deadline.
    pub cut: usize,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Serving,
    /// Requests under way end, no new ones.
    Draining,
    /// Connections close now.
    Closing,
}

/// Serves until `shutdown`, then drains for at most `drain`.
pub(crate) async fn serve(
    router: Router,
    listeners: Vec<TcpListener>,
    limits: &Limits,
    shutdown: impl Future<Output = ()>,
    on_drain: impl FnOnce(),
    drain: Duration,
) -> Drained {
    let (phase, phases) = watch::channel(Phase::Serving);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut acceptors = Vec::with_capacity(listeners.len());
    for listener in listeners {
        let worker = Worker {
            router: router.clone(),
            protocol: protocol(limits),
            first_request_timeout: limits.first_request_timeout,
            phases: phases.clone(),
        };
        acceptors.push(tokio::spawn(accept(listener, worker, places.clone())));
    }
    shutdown.await;
    on_drain();
    let _ = phase.send(Phase::Draining);
    for acceptor in acceptors {
        let _ = acceptor.await;
    }
    let every = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    if tokio::time::timeout(drain, places.acquire_many(every)).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = limits.connections_max - places.available_permits();
    let _ = phase.send(Phase::Closing);
    let _ = places.acquire_many(every).await;
    Drained { cut }
}

fn protocol(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
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
        .keep_alive_interval(H2_PING_INTERVAL)
        .keep_alive_timeout(H2_PING_TIMEOUT);
    builder
}

#[derive(Clone)]
struct Worker {
    router: Router,
    protocol: auto::Builder<TokioExecutor>,
    first_request_timeout: Duration,
    phases: watch::Receiver<Phase>,
}

async fn accept(listener: TcpListener, worker: Worker, places: Arc<Semaphore>) {
    let mut phases = worker.phases.clone();
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await.ok()?;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => return Some((stream, place)),
                    Err(cause) => {
                        tracing::warn!(%cause, "a connection can't be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = reached(&mut phases, Phase::Draining) => return,
            next = next => {
                let Some((stream, place)) = next else { return };
                let worker = worker.clone();
                tokio::spawn(async move {
                    metrics::connections(1.0);
                    worker.connection(stream).await;
                    metrics::connections(-1.0);
                    drop(place);
                });
            }
        }
    }
}

async fn reached(phases: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender outlives every receiver that matters; if it is gone, the end has come as well.
    let _ = phases.wait_for(|now| *now >= phase).await;
}

impl Worker {
    async fn connection(self, stream: TcpStream) {
        if let Err(cause) = stream.set_nodelay(true) {
            tracing::debug!(%cause, "a connection was gone at once");
            return;
        }
        let asked = Arc::new(AtomicBool::new(false));
        let service = {
            let asked = asked.clone();
            let router = self.router;
            service_fn(move |request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                let router = router.clone();
                async move {
                    Ok::<Response, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {}))
                }
            })
        };
        let mut connection = pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        let mut first_request = pin!(tokio::time::sleep(self.first_request_timeout));
        let mut waiting_for_first = true;
        let mut draining = false;
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
}
