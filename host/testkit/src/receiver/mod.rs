//! A local HTTP receiver: takes what the host delivers, answers as a [`Responder`] says, and remembers every arrival.
//!
//! It lives in the test's process, so its ledger outlives a killed host. It counts open connections, so that a test can
//! wait until nothing that a dead host had already sent is still on its way ([`Receiver::drained`]).
//!
//! Bounds: a body of [`BODY_BYTES_MAX`]. It doesn't check signatures, and speaks HTTP/1.1 only.

mod delivery;
mod responder;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use delivery::{Arrival, Delivered};
pub use responder::{Answer, OneIn, Responder};

/// Largest body taken. The largest payload that a host can be configured to send is far below. Bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A connection without a complete request head for this long is closed, so that a leaked one can't hold
/// [`Receiver::drained`] for ever.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(300);

/// A running receiver. Dropping it closes its port and its connections.
pub struct Receiver {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// Counters that a test may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    pub connections: usize,
    /// Requests that arrived and have no answer yet.
    pub in_flight: usize,
    /// Requests that arrived, ever.
    pub arrived: usize,
    /// Those of them whose answer asked for no further attempt.
    pub settled: usize,
}

struct Shared {
    responder: Box<dyn Responder>,
    started: Instant,
    ledger: Mutex<Ledger>,
    gauges: watch::Sender<Gauges>,
}

#[derive(Default)]
struct Ledger {
    arrivals: Vec<Arrival>,
    faults: Vec<String>,
}

impl Receiver {
    /// Listens on a free port of the loopback interface.
    pub async fn start(responder: impl Responder) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            responder: Box::new(responder),
            started: Instant::now(),
            ledger: Mutex::default(),
            gauges: watch::Sender::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, address, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of a path on it; also a topic.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{}", self.address, path.trim_start_matches('/'))
    }

    /// The instant that [`Arrival::at`] counts from.
    pub fn started(&self) -> Instant {
        self.shared.started
    }

    /// Everything that arrived so far, in the order of arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.ledger.lock().arrivals.clone()
    }

    /// What arrived from the `from`-th on, for followers.
    pub fn arrivals_from(&self, from: usize) -> Vec<Arrival> {
        self.shared.ledger.lock().arrivals.iter().skip(from).cloned().collect()
    }

    /// Requests that weren't deliveries (a header is missing or isn't a number), one sentence each. A host that keeps
    /// its promises causes none.
    pub fn faults(&self) -> Vec<String> {
        self.shared.ledger.lock().faults.clone()
    }

    pub fn gauges(&self) -> Gauges {
        *self.shared.gauges.borrow()
    }

    /// Counters as they change.
    pub fn watch(&self) -> watch::Receiver<Gauges> {
        self.shared.gauges.subscribe()
    }

    /// Waits until no connection is open: what a dead host had sent has arrived, and nothing more will.
    pub async fn drained(&self) {
        // Can't fail: the sender lives in `self`.
        let _ = self.watch().wait_for(|gauges| gauges.connections == 0).await;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let open = Counted::one(&shared, |gauges| &mut gauges.connections);
                    connections.spawn(serve(stream, Arc::clone(&shared), open));
                }
                // Out of descriptors, or the peer is gone already: the next one may work.
                Err(error) => {
                    shared.ledger.lock().faults.push(format!("accepting a connection failed: {error}"));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, open: Counted) {
    // Without it the answers wait for the peer's delayed acknowledgements, 40 ms each.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(take(request, &shared).await) }
    });
    // An error here is a peer that went away: the ledger has what had arrived.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_CONNECTION_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    drop(open);
}

async fn take(request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        // The host died while sending: it never arrived.
        Err(_) => return respond(&Answer::status(400)),
    };
    let delivered = match Delivered::read(&head, body) {
        Ok(delivered) => delivered,
        Err(fault) => {
            shared.ledger.lock().faults.push(fault);
            return respond(&Answer::status(400));
        }
    };
    let answer = shared.responder.respond(&delivered);
    let in_flight = Counted::one(shared, |gauges| &mut gauges.in_flight);
    let index = {
        let mut ledger = shared.ledger.lock();
        let index = ledger.arrivals.len();
        ledger.arrivals.push(Arrival {
            order: index,
            at: shared.started.elapsed(),
            delivered,
            status: answer.status,
            answered: false,
        });
        index
    };
    let settles = answer.settles();
    shared.gauges.send_modify(|gauges| {
        gauges.arrived += 1;
        gauges.settled += usize::from(settles);
    });
    if !answer.hold.is_zero() {
        tokio::time::sleep(answer.hold).await;
    }
    if let Some(arrival) = shared.ledger.lock().arrivals.get_mut(index) {
        arrival.answered = true;
    }
    drop(in_flight);
    respond(&answer)
}

fn respond(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(after) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
    }
    response
}

/// Counts one in a gauge while it lives, so that an aborted task can't leave it wrong.
struct Counted {
    shared: Arc<Shared>,
    gauge: fn(&mut Gauges) -> &mut usize,
}

impl Counted {
    fn one(shared: &Arc<Shared>, gauge: fn(&mut Gauges) -> &mut usize) -> Self {
        shared.gauges.send_modify(|gauges| *gauge(gauges) += 1);
        Self { shared: Arc::clone(shared), gauge }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let gauge = self.gauge;
        self.shared.gauges.send_modify(|gauges| *gauge(gauges) -= 1);
    }
}

#[cfg(test)]
mod tests;
