//! `http` and `http-blocking`: whole requests and answers on the endpoint's pool.

use std::sync::Arc;

use futures::future::join_all;
use wasmtime::component::{Accessor, HasSelf};
use waybill_bindings::api::http_types::{HttpError, Request, Response};
use waybill_bindings::api::net_types::NetError;
use waybill_bindings::api::{http, http_blocking, http_types};

use super::context::EndpointContext;
use super::state::InstanceState;
use crate::limits::HTTP_REQUESTS_PER_SEND_MAX;
use crate::meters::Bound;

type Answers = Vec<Result<Response, HttpError>>;

/// Sends all at once and waits for the last.
async fn send(context: Arc<EndpointContext>, requests: Vec<Request>) -> Answers {
    let each = requests.into_iter().enumerate().map(|(place, request)| {
        let context = Arc::clone(&context);
        async move {
            if place >= HTTP_REQUESTS_PER_SEND_MAX {
                context.meters.hit(Bound::HttpRequests);
                let why = format!("at most {HTTP_REQUESTS_PER_SEND_MAX} requests go in one call");
                return Err(HttpError { error: NetError::Limit(why), maybe_delivered: false });
            }
            context.http.exchange(request).await.map_err(|failure| {
                if let NetError::Denied(why) = &failure.error {
                    context.denied(why);
                }
                HttpError { error: failure.error, maybe_delivered: failure.maybe_delivered }
            })
        }
    });
    join_all(each).await
}

impl http_types::Host for InstanceState {}

impl http::Host for InstanceState {}

impl http::HostWithStore<InstanceState> for HasSelf<InstanceState> {
    async fn send(accessor: &Accessor<InstanceState, Self>, requests: Vec<Request>) -> wasmtime::Result<Answers> {
        let context = accessor.with(|mut access| Arc::clone(&access.get().context));
        Ok(send(context, requests).await)
    }
}

impl http_blocking::Host for InstanceState {
    async fn send(&mut self, requests: Vec<Request>) -> wasmtime::Result<Answers> {
        Ok(send(Arc::clone(&self.context), requests).await)
    }
}
