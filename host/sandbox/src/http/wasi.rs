//! `wasi:http` on the same client: its own hook, because the default one has no pool, no allow-list and no address check.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::Instant;
use url::Url;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};
use waybill_bindings::api::net_types::NetError;

use super::body::{BoundedBody, OutBody};
use crate::grants::Target;
use crate::host::EndpointContext;
use crate::limits::HTTP_TIMEOUT_MAX;

/// Largest streamed answer, in bytes: the guest reads it piece by piece into its own memory.
const STREAM_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Time between two pieces of a streamed answer where the guest names none.
const BETWEEN_BYTES_TIMEOUT: Duration = Duration::from_secs(30);

type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>);

/// The hook of one instance.
pub(crate) struct HttpGate {
    context: Arc<EndpointContext>,
}

impl HttpGate {
    pub(crate) fn new(context: Arc<EndpointContext>) -> Self {
        Self { context }
    }
}

impl WasiHttpHooks for HttpGate {
    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Result<Sent, Error>> + Send> {
        let context = Arc::clone(&self.context);
        Box::new(async move { send(&context, request, options.unwrap_or_default()).await })
    }
}

async fn send(
    context: &EndpointContext,
    request: http::Request<WasiBody>,
    options: RequestOptions,
) -> Result<Sent, Error> {
    if !context.wasi_http {
        context.denied("wasi:http: the manifest doesn't ask for it: add wasi-http to [ask] features");
        return Err(Error::HttpRequestDenied);
    }
    let url = Url::parse(&request.uri().to_string()).map_err(|_| Error::HttpRequestUriInvalid)?;
    let target = Target::from_url(&url).map_err(|_| Error::HttpRequestUriInvalid)?;
    let first_byte = options.first_byte_timeout.unwrap_or(HTTP_TIMEOUT_MAX).min(HTTP_TIMEOUT_MAX);
    let connect = options.connect_timeout.unwrap_or(HTTP_TIMEOUT_MAX).min(HTTP_TIMEOUT_MAX);
    let deadline = Instant::now() + connect.saturating_add(first_byte).min(HTTP_TIMEOUT_MAX);
    let between = options.between_bytes_timeout.unwrap_or(BETWEEN_BYTES_TIMEOUT).min(HTTP_TIMEOUT_MAX);
    let request = request.map(OutBody::Streamed);
    let (response, permits) = context.http.send(&target, request, deadline).await.map_err(|failure| {
        // wasi:http has no room for the reason, so the log gets it.
        if let NetError::Denied(why) = &failure.error {
            context.denied(why);
        }
        error_of(failure.error)
    })?;
    let response = response.map(|incoming| {
        let timer = Box::pin(tokio::time::sleep(between));
        let meters = Arc::clone(&context.meters);
        BoundedBody { incoming, left: STREAM_BYTES_MAX, between, timer, meters, _permits: permits }.boxed_unsync()
    });
    // The pool drives its connections itself, so there is nothing left to drive here.
    Ok((response, Box::new(async { Ok(()) })))
}

fn error_of(error: NetError) -> Error {
    match error {
        NetError::Denied(_) => Error::HttpRequestDenied,
        NetError::Resolve(_) => Error::DnsError { rcode: None, info_code: None },
        NetError::Refused => Error::ConnectionRefused,
        NetError::Timeout => Error::ConnectionTimeout,
        NetError::Closed | NetError::Reset(_) => Error::ConnectionTerminated,
        NetError::Tls(_) => Error::TlsProtocolError,
        NetError::Limit(_) | NetError::Busy => Error::ConnectionLimitReached,
        NetError::Unsupported(why) | NetError::Other(why) => Error::InternalError(Some(why)),
        NetError::Cancelled => Error::InternalError(Some("the host is stopping".to_owned())),
    }
}
