//! Connects for the pool: to addresses that the endpoint's policy has checked, and to nothing else.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;
use url::Url;

use crate::grants::{ConnectFailure, EgressPolicy, Target};

/// Time for resolution and connection; the exchange's own time may be shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The connector of one endpoint's pool.
#[derive(Clone, Debug)]
pub(super) struct GuardedConnector {
    policy: Arc<EgressPolicy>,
}

impl GuardedConnector {
    pub(super) fn new(policy: Arc<EgressPolicy>) -> Self {
        Self { policy }
    }
}

impl Service<http::Uri> for GuardedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectFailure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let policy = Arc::clone(&self.policy);
        Box::pin(async move {
            let url = Url::parse(&uri.to_string()).map_err(|error| ConnectFailure::BadAddress(error.to_string()))?;
            let target = Target::from_url(&url)?;
            policy.connect(&target, CONNECT_TIMEOUT).await.map(TokioIo::new)
        })
    }
}
