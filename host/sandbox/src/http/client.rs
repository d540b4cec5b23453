//! Sends one request and reads its answer, within the endpoint's bounds.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector};
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::http_types;
use waybill_bindings::api::net_types::NetError;

use super::body::OutBody;
use super::connector::GuardedConnector;
use super::failure::{Failure, classify};
use super::peers::PeerGates;
use super::request::prepare;
use crate::grants::{EgressPolicy, Target};
use crate::limits::{
    HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_IDLE_PER_PEER_MAX, HTTP_IDLE_TIMEOUT, HTTP_TIMEOUT_MAX, PluginLimits,
};
use crate::tls::TlsRoots;

/// The HTTP client of one endpoint, shared by its instances. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Inner>);

struct Inner {
    pool: Client<HttpsConnector<GuardedConnector>, OutBody>,
    policy: Arc<EgressPolicy>,
    in_flight: Arc<Semaphore>,
    peers: PeerGates,
    response_bytes_max: usize,
}

impl HttpClient {
    pub(crate) fn new(policy: Arc<EgressPolicy>, tls: &TlsRoots, limits: &PluginLimits) -> Self {
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
            .http2_max_header_list_size(u32::try_from(HTTP_HEADER_BYTES_MAX).unwrap_or(u32::MAX))
            .build(connector);
        Self(Arc::new(Inner {
            pool,
            policy,
            in_flight: Arc::new(Semaphore::new(limits.http_in_flight.max(1))),
            peers: PeerGates::new(limits.http_per_peer),
            response_bytes_max: limits.http_response_bytes,
        }))
    }

    /// Sends a guest's request and answers the whole response.
    pub(crate) async fn exchange(&self, request: http_types::Request) -> Result<http_types::Response, Failure> {
        let time = Duration::from_millis(u64::from(request.timeout)).min(HTTP_TIMEOUT_MAX);
        let deadline = Instant::now() + time;
        let (target, request) = prepare(request).map_err(Failure::unsent)?;
        if time.is_zero() {
            return Err(Failure::unsent(NetError::Timeout));
        }
        let (response, _permits) = self.send(&target, request, deadline).await?;
        self.read(response, deadline).await
    }

    /// Sends a request once policy and gates let it through; answers the response's head.
    pub(super) async fn send(
        &self,
        target: &Target,
        mut request: Request<OutBody>,
        deadline: Instant,
    ) -> Result<(Response<Incoming>, [OwnedSemaphorePermit; 2]), Failure> {
        self.0.policy.admit(target)?;
        let permits = self.permits(target, deadline).await?;
        let connection = capture_connection(&mut request);
        match timeout_at(deadline, self.0.pool.request(request)).await {
            Ok(Ok(response)) => Ok((response, permits)),
            Ok(Err(error)) => Err(failed(&error)),
            // Without a connection nothing can have been sent.
            Err(_) => {
                let maybe_delivered = connection.connection_metadata().is_some();
                Err(Failure { error: NetError::Timeout, maybe_delivered })
            }
        }
    }

    async fn permits(&self, target: &Target, deadline: Instant) -> Result<[OwnedSemaphorePermit; 2], Failure> {
        let peer = self.0.peers.gate(target).ok_or_else(|| {
            Failure::unsent(NetError::Limit("too many peers are being called at once: send to fewer".to_owned()))
        })?;
        let both = async {
            // Peer first: who waits for a slow peer must not hold what others could use.
            let peer = peer.acquire_owned().await?;
            let any = Arc::clone(&self.0.in_flight).acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>([peer, any])
        };
        match timeout_at(deadline, both).await {
            Ok(Ok(permits)) => Ok(permits),
            Ok(Err(_)) => Err(Failure::unsent(NetError::Cancelled)),
            Err(_) => Err(Failure::unsent(NetError::Timeout)),
        }
    }

    async fn read(&self, response: Response<Incoming>, deadline: Instant) -> Result<http_types::Response, Failure> {
        let (head, mut incoming) = response.into_parts();
        let mut body = Vec::new();
        let mut truncated = false;
        while let Some(frame) = timeout_at(deadline, incoming.frame())
            .await
            .map_err(|_| Failure { error: NetError::Timeout, maybe_delivered: true })?
        {
            let frame = frame.map_err(|error| Failure { error: classify(&error), maybe_delivered: true })?;
            let Ok(data) = frame.into_data() else { continue };
            let room = self.0.response_bytes_max.saturating_sub(body.len());
            body.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
            if data.len() > room {
                truncated = true;
                break;
            }
        }
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        Ok(http_types::Response { status: head.status.as_u16(), headers, body, truncated })
    }
}

fn failed(error: &Error) -> Failure {
    Failure { error: classify(error), maybe_delivered: !error.is_connect() }
}
