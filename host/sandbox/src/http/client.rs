//! Sends one request and reads its answer, within the endpoint's bounds.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use waybill_bindings::api::http_types;
use waybill_bindings::api::net_types::NetError;
use waybill_core::endpoint::PluginLimits;

use super::body::{OutBody, Sent};
use super::connector::GuardedConnector;
use super::failure::{Failure, classify};
use super::held::{Budget, Held};
use super::known::KnownUrls;
use super::peers::PeerGates;
use super::request::{prepare, weight};
use crate::grants::{EgressPolicy, Target};
use crate::limits::{
    HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_IDLE_PER_PEER_MAX, HTTP_IDLE_TIMEOUT, HTTP_TIMEOUT_MAX,
    HTTP2_WINDOW_BYTES,
};
use crate::meters::{Bound, Meters};
use crate::tls::TlsRoots;

/// What a header takes beside its name and value, in bytes.
const HEADER_BYTES_EACH: usize = 64;

/// The HTTP client of one endpoint, shared by its instances. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    pool: Client<HttpsConnector<GuardedConnector>, OutBody>,
    policy: Arc<EgressPolicy>,
    in_flight: Arc<Semaphore>,
    peers: PeerGates,
    known: KnownUrls,
    response_bytes_max: usize,
    /// Longest exchange.
    time_max: Duration,
    answers: Budget,
    bodies: Budget,
    meters: Arc<Meters>,
}

impl HttpClient {
    pub(crate) fn new(policy: Arc<EgressPolicy>, tls: &TlsRoots, limits: &PluginLimits, meters: Arc<Meters>) -> Self {
        let connector = HttpsConnector::new(
            GuardedConnector::new(Arc::clone(&policy)),
            tls.https(),
            false,
            Arc::new(DefaultServerNameResolver::default()),
        );
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(HTTP_IDLE_TIMEOUT)
            .pool_max_idle_per_host(HTTP_IDLE_PER_PEER_MAX)
            .http1_max_headers(HTTP_HEADERS_MAX)
            .http1_max_buf_size(HTTP_HEADER_BYTES_MAX)
            .http2_initial_stream_window_size(HTTP2_WINDOW_BYTES)
            .http2_initial_connection_window_size(HTTP2_WINDOW_BYTES * 4)
            .http2_max_header_list_size(u32::try_from(HTTP_HEADER_BYTES_MAX).unwrap_or(u32::MAX))
            .build(connector);
        Self(Arc::new(Inner {
            pool,
            policy,
            in_flight: Arc::new(Semaphore::new(limits.http_in_flight.max(1))),
            peers: PeerGates::new(limits.http_per_peer),
            known: KnownUrls::default(),
            response_bytes_max: limits.http_response_bytes,
            time_max: HTTP_TIMEOUT_MAX,
            answers: Budget::new(limits.http_answers_bytes),
            bodies: Budget::new(limits.http_bodies_bytes),
            meters,
        }))
    }

    /// The same with another bound of an exchange than guests have; before it is cloned.
    pub(super) fn with_time_max(mut self, time_max: Duration) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            inner.time_max = time_max;
        }
        self
    }

    #[cfg(test)]
    pub(super) fn time_max(&self) -> Duration {
        self.0.time_max
    }

    /// What answers may take.
    #[cfg(test)]
    pub(super) fn answers(&self) -> &Budget {
        &self.0.answers
    }

    /// What requests may take.
    #[cfg(test)]
    pub(super) fn bodies(&self) -> &Budget {
        &self.0.bodies
    }

    /// Sends a guest's request and answers the whole response, with what it takes of the endpoint's bound: to be kept until the
    /// guest has the response.
    pub(crate) async fn exchange(&self, request: http_types::Request) -> Result<(http_types::Response, Held), Failure> {
        let time = Duration::from_millis(u64::from(request.timeout)).min(self.0.time_max);
        let sent = Sent::default();
        // Before anything is waited for: guests hand over more than one peer takes.
        let mut going = self.0.bodies.begin();
        if !going.take(weight(&request)) {
            self.0.meters.hit(Bound::HttpBodies);
            let why =
                "its requests that are on their way fill what the host holds of them: send less at once".to_owned();
            return Err(Failure::unsent(NetError::Limit(why)));
        }
        // Until the exchange ends, and as long as a connection has some of its bytes.
        let going = Arc::new(going);
        let (target, request) = prepare(&self.0.known, request, &sent, Arc::clone(&going)).map_err(|error| {
            if matches!(error, NetError::Limit(_)) {
                self.0.meters.hit(Bound::HttpHeaders);
            }
            Failure::unsent(error)
        })?;
        if time.is_zero() {
            return Err(Failure::unsent(NetError::Timeout));
        }
        if self.0.answers.is_used_up() {
            self.0.meters.hit(Bound::HttpAnswers);
            let why =
                "its answers that are on their way fill what the host holds of them: send less at once".to_owned();
            return Err(Failure::unsent(NetError::Limit(why)));
        }
        let whole = async {
            let (response, _permits) = self.open(&target, request).await?;
            self.read(response).await
        };
        match timeout(time, whole).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure { error: NetError::Timeout, maybe_delivered: sent.get() }),
        }
    }

    /// Sends a request and answers the response's head, before `deadline`.
    pub(super) async fn send(
        &self,
        target: &Target,
        request: Request<OutBody>,
        deadline: Instant,
    ) -> Result<(Response<Incoming>, [OwnedSemaphorePermit; 2]), Failure> {
        match timeout_at(deadline, self.open(target, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure { error: NetError::Timeout, maybe_delivered: true }),
        }
    }

    /// Sends a request once policy and gates let it through.
    async fn open(
        &self,
        target: &Target,
        request: Request<OutBody>,
    ) -> Result<(Response<Incoming>, [OwnedSemaphorePermit; 2]), Failure> {
        self.0.policy.admit(target)?;
        let permits = self.permits(target).await?;
        let response = self.0.pool.request(request).await.map_err(|error| failed(&error))?;
        Ok((response, permits))
    }

    async fn permits(&self, target: &Target) -> Result<[OwnedSemaphorePermit; 2], Failure> {
        let peer = self.0.peers.gate(target).ok_or_else(|| {
            self.0.meters.hit(Bound::HttpRequests);
            Failure::unsent(NetError::Limit("too many peers are being called at once: send to fewer".to_owned()))
        })?;
        let closed = |_| Failure::unsent(NetError::Cancelled);
        if peer.available_permits() == 0 || self.0.in_flight.available_permits() == 0 {
            self.0.meters.hit(Bound::HttpRequests);
        }
        // Peer first: who waits for a slow peer must not hold what others could use.
        let peer = peer.acquire_owned().await.map_err(closed)?;
        let any = Arc::clone(&self.0.in_flight).acquire_owned().await.map_err(closed)?;
        Ok([peer, any])
    }

    async fn read(&self, response: Response<Incoming>) -> Result<(http_types::Response, Held), Failure> {
        let (head, mut incoming) = response.into_parts();
        let mut held = self.0.answers.begin();
        let bytes =
            head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES_EACH).sum();
        let mut headers = Vec::new();
        // The status is worth more than an error: what was sent has arrived.
        let mut truncated = !held.take(bytes);
        if truncated {
            self.0.meters.hit(Bound::HttpAnswers);
        } else {
            let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.extend(head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))));
        }
        let mut body = Vec::new();
        if let Some(length) = incoming.size_hint().exact().and_then(|length| usize::try_from(length).ok()) {
            held.room_for(&mut body, length.min(self.0.response_bytes_max));
        }
        while !truncated && let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| Failure { error: classify(&error), maybe_delivered: true })?;
            let Ok(data) = frame.into_data() else { continue };
            if !held.append(&mut body, &data, self.0.response_bytes_max) {
                truncated = true;
                let is_full = body.len() == self.0.response_bytes_max;
                self.0.meters.hit(if is_full { Bound::HttpResponse } else { Bound::HttpAnswers });
            }
        }
        Ok((http_types::Response { status: head.status.as_u16(), headers, body, truncated }, held))
    }
}

fn failed(error: &Error) -> Failure {
    Failure { error: classify(error), maybe_delivered: !error.is_connect() }
}
