//! Listeners: connections are taken, bounded in number, by peer and in all, and drained in good order. What one connection
//! does is in [`crate::connection`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use waybill_core::code::Code;

use crate::connection::Worker;
use crate::crowd::Crowd;
use crate::limits::{
    ACCEPT_PAUSE, CLOSE_TIMEOUT, GIVING_WAY_MAX, Limits, RETRY_AFTER_BUSY, SHEDDING_MAX, SHEDDING_TIMEOUT,
};
use crate::metrics;
use crate::peers::{PeerPlace, Peers};
use crate::problem::Problem;
use crate::refusals::LogRate;
use crate::tls::Tls;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut at the deadline.
    pub cut: usize,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Phase {
    Serving,
    /// Requests under way end, no new ones.
    Draining,
    Closing,
}

/// Serves until `shutdown`, then drains for at most `drain`.
pub(crate) async fn serve(
    router: Router,
    listeners: Vec<TcpListener>,
    limits: &Limits,
    tls: Option<Tls>,
    shutdown: impl Future<Output = ()>,
    on_drain: impl FnOnce(),
    drain: Duration,
) -> Drained {
    let (phase, phases) = watch::channel(Phase::Serving);
    let door = Door::new(limits);
    let worker = Worker::new(router, limits, tls, phases, Arc::clone(&door.crowd));
    let mut acceptors = Vec::with_capacity(listeners.len());
    for listener in listeners {
        acceptors.push(tokio::spawn(keep_accepting(listener, worker.clone(), phase.subscribe(), door.clone())));
    }
    shutdown.await;
    on_drain();
    let _ = phase.send(Phase::Draining);
    for acceptor in acceptors {
        let _ = acceptor.await;
    }
    let places = door.places;
    let every = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    if tokio::time::timeout(drain, places.acquire_many(every)).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = limits.connections_max - places.available_permits();
    let _ = phase.send(Phase::Closing);
    // They end at once; what doesn't may not keep the process.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, places.acquire_many(every)).await;
    Drained { cut }
}

/// Who is let in.
#[derive(Clone)]
struct Door {
    places: Arc<Semaphore>,
    places_max: usize,
    peers: Arc<Peers>,
    peer_max: usize,
    /// Those who may have to give way.
    crowd: Arc<Crowd>,
    /// Those who wait until somebody has given way.
    waiting: Arc<Semaphore>,
    /// Those who are being told that there is no place.
    shedding: Arc<Semaphore>,
    rate: Arc<LogRate>,
}

impl Door {
    fn new(limits: &Limits) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.connections_max)),
            places_max: limits.connections_max,
            peers: Peers::new(limits.connections_per_peer),
            peer_max: limits.connections_per_peer,
            crowd: Arc::default(),
            waiting: Arc::new(Semaphore::new(GIVING_WAY_MAX)),
            shedding: Arc::new(Semaphore::new(SHEDDING_MAX)),
            rate: Arc::default(),
        }
    }

    /// Why there is no place for one more of the same peer.
    fn peer_full(&self) -> Problem {
        metrics::shed("peer");
        let text = format!(
            "{} connections are open from your address, as many as one may have (server.max_connections_per_peer): \
             close some, or send more requests over each",
            self.peer_max
        );
        Problem::new(Code::HTTP_SHARE, text).after(RETRY_AFTER_BUSY)
    }

    /// Why there is no place for anybody.
    fn full(&self) -> Problem {
        metrics::shed("all");
        let text = format!(
            "{} connections are open, as many as server.max_connections allows: try again after a moment",
            self.places_max
        );
        Problem::new(Code::HTTP_OVERLOADED, text).after(RETRY_AFTER_BUSY)
    }
}

/// A loop that panics begins anew: without it the host would work and hear nobody.
async fn keep_accepting(listener: TcpListener, worker: Worker, phases: watch::Receiver<Phase>, door: Door) {
    let listener = Arc::new(listener);
    let again = || tokio::spawn(accept(Arc::clone(&listener), worker.clone(), phases.clone(), door.clone()));
    while again().await.is_err_and(|ended| ended.is_panic()) {
        tracing::error!("taking connections panicked and is begun again");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

async fn accept(listener: Arc<TcpListener>, worker: Worker, mut phases: watch::Receiver<Phase>, door: Door) {
    loop {
        tokio::select! {
            () = reached(&mut phases, Phase::Draining) => return,
            (stream, peer) = next(&listener) => admit(stream, peer, worker.clone(), &door),
        }
    }
}

async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(cause) => {
                tracing::warn!(%cause, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection, or tells why not. When all places are taken, a stranger's gives way to it.
fn admit(stream: TcpStream, peer: SocketAddr, worker: Worker, door: &Door) {
    let Some(of_peer) = door.peers.enter(peer.ip()) else {
        turn_away(stream, peer, worker, door, door.peer_full());
        return;
    };
    if let Ok(place) = Arc::clone(&door.places).try_acquire_owned() {
        converse(stream, peer, worker, place, of_peer);
        return;
    }
    let turn = Arc::clone(&door.waiting).try_acquire_owned().ok().filter(|_| door.crowd.give_way());
    let Some(turn) = turn else {
        turn_away(stream, peer, worker, door, door.full());
        return;
    };
    let door = door.clone();
    tokio::spawn(async move {
        // Longer than who is asked to go may take, unless something is being done for it.
        let place = tokio::time::timeout(SHEDDING_TIMEOUT, Arc::clone(&door.places).acquire_owned()).await;
        drop(turn);
        match place {
            Ok(Ok(place)) => converse(stream, peer, worker, place, of_peer),
            Ok(Err(_)) | Err(_) => turn_away(stream, peer, worker, &door, door.full()),
        }
    });
}

/// Serves a connection that has its places.
fn converse(stream: TcpStream, peer: SocketAddr, worker: Worker, place: OwnedSemaphorePermit, of_peer: PeerPlace) {
    // At once, so that whoever comes next finds it among those who may have to go.
    let guest = worker.guest();
    tokio::spawn(async move {
        metrics::connections(1.0);
        worker.connection(stream, peer, guest).await;
        metrics::connections(-1.0);
        drop((place, of_peer));
    });
}

/// Tells a peer why there is no place for it.
fn turn_away(stream: TcpStream, peer: SocketAddr, worker: Worker, door: &Door, why: Problem) {
    if let Some(left_out) = door.rate.turn() {
        tracing::warn!(code = why.code.as_str(), remote = %peer, left_out, "a connection found no place: {}", why.detail);
    }
    // Past this many nobody is told: the connection just closes.
    let Ok(turn) = Arc::clone(&door.shedding).try_acquire_owned() else { return };
    tokio::spawn(async move {
        worker.shed(stream, why).await;
        drop(turn);
    });
}

/// Waits until the end has come that far.
pub(crate) async fn reached(phases: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender outlives every receiver that matters; if it is gone, the end has come as well.
    let _ = phases.wait_for(|now| *now >= phase).await;
}
