//! Requests of exporters over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use crate::BuildError;

/// Largest answer that is read: a collector says little.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for one export, where the environment names no other.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The client of all three exporters. They run on threads of their own; the requests run where the host's do.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    client: reqwest::Client,
    runtime: Handle,
    timeout: Duration,
}

impl Client {
    pub fn new() -> Result<Arc<Self>, BuildError> {
        let failed = |cause: String| BuildError { signal: "telemetry", cause };
        let runtime = Handle::try_current().map_err(|error| failed(error.to_string()))?;
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // What is exported may hold names of tenants: it goes where it was told to go.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let of_environment = std::env::var("OTEL_EXPORTER_OTLP_TIMEOUT").ok().and_then(|text| text.parse().ok());
        Ok(Arc::new(Self { client, runtime, timeout: of_environment.map_or(TIMEOUT, Duration::from_millis) }))
    }

    async fn send(client: reqwest::Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = client.execute(request.try_into()?).await?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = std::mem::take(answer.headers_mut());
        }
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await? {
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(Box::new(opentelemetry_http::ResponseBodyTooLarge::new()));
            }
            body.extend_from_slice(&part);
        }
        Ok(response.body(Bytes::from(body))?)
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, timeout) = (self.client.clone(), self.timeout);
        let sent = async move { tokio::time::timeout(timeout, Self::send(client, request)).await };
        match self.runtime.spawn(sent).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_late)) => Err(format!("no answer within {timeout:?}").into()),
            Err(ended) => Err(Box::new(ended)),
        }
    }
}
