//! `http` and `http-blocking`: whole requests and answers on the endpoint's pool.

use std::sync::Arc;

use futures::future::join_all;
use wasmtime::component::{Accessor, AccessorTask, HasSelf};
use waybill_bindings::api::http_types::{HttpError, Request, Response};
use waybill_bindings::api::net_types::NetError;
use waybill_bindings::api::{http, http_blocking, http_types};

use super::context::EndpointContext;
use super::state::InstanceState;
use crate::http::Held;
use crate::limits::HTTP_REQUESTS_PER_SEND_MAX;
use crate::meters::Bound;

type Answers = Vec<Result<Response, HttpError>>;

/// Answers up to so many bytes are given back at once: they are copied into the guest next, and no task is made for them.
const SMALL_BYTES: usize = 64 * 1024;
/// How often a new task is polled before the copy, and once more for good measure.
const POLLS_BEFORE_COPY: usize = 2;

/// Sends all at once and waits for the last. What the answers take of the endpoint's bound is to be kept until the guest has
/// them.
async fn send(context: Arc<EndpointContext>, requests: Vec<Request>) -> (Answers, Vec<Held>) {
    let beyond = requests.len().saturating_sub(HTTP_REQUESTS_PER_SEND_MAX);
    let each = requests.into_iter().take(HTTP_REQUESTS_PER_SEND_MAX).map(|request| {
        let context = Arc::clone(&context);
        async move {
            context.http.exchange(request).await.map_err(|failure| {
                if let NetError::Denied(why) = &failure.error {
                    context.denied(why);
                }
                HttpError { error: failure.error, maybe_delivered: failure.maybe_delivered }
            })
        }
    });
    let mut held = Vec::new();
    let answers = join_all(each).await.into_iter().map(|answer| {
        answer.map(|(response, one)| {
            held.push(one);
            response
        })
    });
    // No exchange is begun for the others: thousands of them would take more than their answers.
    let refused = std::iter::repeat_with(|| {
        context.meters.hit(Bound::HttpRequests);
        let why = format!("at most {HTTP_REQUESTS_PER_SEND_MAX} requests go in one call");
        Err(HttpError { error: NetError::Limit(why), maybe_delivered: false })
    });
    let answers = answers.chain(refused.take(beyond)).collect();
    (answers, held)
}

/// Gives back what answers took of the bound, once the guest has them.
///
/// It is a task of the guest's own event loop. That takes in a new task, polls it, and only then copies into the guest what a call
/// answered: the task is first polled before the copy and again behind it, since nothing else runs while it is made.
struct GiveBack(Vec<Held>);

impl AccessorTask<InstanceState, HasSelf<InstanceState>> for GiveBack {
    async fn run(self, _: &Accessor<InstanceState, HasSelf<InstanceState>>) -> wasmtime::Result<()> {
        for _ in 0..POLLS_BEFORE_COPY {
            tokio::task::yield_now().await;
        }
        drop(self.0);
        Ok(())
    }
}

impl http_types::Host for InstanceState {}

impl http::Host for InstanceState {}

impl http::HostWithStore<InstanceState> for HasSelf<InstanceState> {
    async fn send(accessor: &Accessor<InstanceState, Self>, requests: Vec<Request>) -> wasmtime::Result<Answers> {
        let context = accessor.with(|mut access| Arc::clone(&access.get().context));
        let (answers, held) = send(context, requests).await;
        if held.iter().map(Held::bytes).sum::<usize>() > SMALL_BYTES {
            accessor.spawn(GiveBack(held))?;
        }
        Ok(answers)
    }
}

impl http_blocking::Host for InstanceState {
    async fn send(&mut self, requests: Vec<Request>) -> wasmtime::Result<Answers> {
        // The guest does nothing else until it has them.
        let (answers, _held) = send(Arc::clone(&self.context), requests).await;
        Ok(answers)
    }
}
