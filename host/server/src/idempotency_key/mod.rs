//! Requests that are executed once: the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header).
//!
//! A route reads the key ([`asked`]) before the body, says what the request is ([`key::Asked::of`]), and has its work done by
//! [`run`]. The edge lets such a request run to its end: a caller who goes away or a request that takes too long doesn't leave it
//! half done, and its answer is kept all the same. What the work makes gets its ids from the [`Execution`], which are the same after a
//! crash, so that a repeat finds what is there.
//!
//! Kept are answers that would be the same again: 2xx, and 400, 409, 413, 422 that aren't worth a retry, to the first that tries.
//! After a refusal that is known to have had no effect the key is free; after any other the next repeat takes over with the same ids.

mod kept;
mod key;

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use waybill_api::idempotency::{BeginRequest, FinishWith, IdempotencyService};
use waybill_api::messages::TransactionDone;
use waybill_core::code::Code;
use waybill_core::idempotency::{Answer, Begun, Grant, derived_id};
use waybill_core::new_message::NewMessage;
use waybill_core::port::idempotency::Hold;
use waybill_core::time::UnixMillis;

use crate::app::App;
use crate::caller::now;
use crate::limits::RETRY_AFTER_BUSY;
use crate::problem::Problem;
use kept::{of_problem, replayed};
use key::Wanted;
pub(crate) use key::{Asked, KeyHeader, asked, tenant_of};

/// A lease is renewed after this part of it.
const RENEW_AT: u32 = 3;
/// Statuses of refusals that would be the same again.
const FINAL: [u16; 4] = [400, 409, 413, 422];
/// Refusals with these statuses that have changed nothing, but come with what may change: a route, a clock, other rows.
const MAY_PASS: [Code; 3] = [Code::FUTURE_EVENT, Code::OUTBOX_NO_ROUTE, Code::STORAGE_STATEMENT];
/// Statuses of refusals that come before anything is done.
const UNDONE: [u16; 4] = [401, 403, 409, 429];

/// One execution of such a request.
#[derive(Clone)]
pub(crate) struct Execution {
    hold: Hold,
    grant: Grant,
}

/// What a route answers.
pub(crate) struct Reply {
    status: StatusCode,
    body: Bytes,
    /// Address of what was made.
    location: Option<HeaderValue>,
    /// The work has finished the key itself.
    concluded: bool,
}

impl Execution {
    /// The id of the `index`-th thing this request makes: the same for every execution of one request.
    pub fn id(&self, index: usize) -> String {
        derived_id(&self.hold.of, &self.grant.origin, index)
    }

    /// Names messages whose caller didn't; answers which, by index.
    pub fn name(&self, messages: &mut [NewMessage]) -> Vec<String> {
        let mut named = Vec::new();
        for (index, message) in messages.iter_mut().enumerate() {
            if message.id.is_none() {
                let id = self.id(index);
                named.push(id.clone());
                message.id = Some(id);
            }
        }
        named
    }

    /// Has a transaction finish the key in its own commit.
    pub fn finish_with(
        &self,
        reply: impl Fn(&TransactionDone) -> Result<Reply, Problem> + Send + Sync + 'static,
    ) -> FinishWith {
        let answer = move |done: &TransactionDone| match reply(done) {
            Ok(reply) => reply.to_answer(),
            Err(problem) => of_problem(&problem),
        };
        FinishWith { hold: self.hold.clone(), answer: Arc::new(answer) }
    }
}

impl Reply {
    /// An answer in JSON.
    pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(Problem::internal)?;
        Ok(Self { status, body: body.into(), location: None, concluded: false })
    }

    /// The same, with the address of what was made.
    #[must_use]
    pub fn at(mut self, location: HeaderValue) -> Self {
        self.location = Some(location);
        self
    }

    /// The same, of work that has finished the key itself.
    #[must_use]
    pub fn concluded(mut self, concluded: bool) -> Self {
        self.concluded = concluded;
        self
    }

    fn to_answer(&self) -> Answer {
        let location = self.location.as_ref().and_then(|location| location.to_str().ok()).map(str::to_owned);
        let json = Some("application/json".to_owned());
        Answer { location, ..Answer::new(Some(self.status.as_u16()), json, self.body.clone()) }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.body.into());
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(location) = self.location {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// Does a request's work: once, if it has a key; then its repeats get the answer of the first.
pub(crate) async fn run<W, F>(app: &App, wanted: Option<Wanted>, work: W) -> Result<Response, Problem>
where
    W: FnOnce(Option<Execution>) -> F + Send,
    F: Future<Output = Result<Reply, Problem>> + Send,
{
    match wanted {
        Some(wanted) => execute(&*app.idempotency, wanted, work).await,
        None => work(None).await.map(IntoResponse::into_response),
    }
}

async fn execute<W, F>(keys: &dyn IdempotencyService, wanted: Wanted, work: W) -> Result<Response, Problem>
where
    W: FnOnce(Option<Execution>) -> F + Send,
    F: Future<Output = Result<Reply, Problem>> + Send,
{
    let Wanted { of, hash } = wanted;
    let key = of.key.as_str();
    let grant = match keys.begin(BeginRequest { of: of.clone(), hash, ttl: None, lease: None }).await? {
        Begun::New(grant) => grant,
        Begun::Busy { lease_until } => return Err(busy(key, lease_until)),
        Begun::Mismatch => return Err(mismatch(key, "request")),
        Begun::Succeeded(answer) => return Ok(replayed(answer)),
        Begun::Failed(error) => {
            return Err(Problem::new(
                Code::TX_IDEMPOTENT_LAST_FAILED,
                format!("idempotency key {key:?} has failed for good: {error}"),
            ));
        }
    };
    let execution = Execution { hold: Hold { of, token: grant.token.clone() }, grant };
    let done = renewing(keys, &execution, work(Some(execution.clone()))).await;
    settle(keys, &execution, &done).await;
    done.map(IntoResponse::into_response)
}

/// Does the work and keeps the lease meanwhile.
async fn renewing<T>(keys: &dyn IdempotencyService, execution: &Execution, work: impl Future<Output = T>) -> T {
    let pause = (keys.settings().lease / RENEW_AT).max(Duration::from_millis(20));
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(pause, &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                if let Err(error) = keys.renew(execution.hold.clone(), None).await {
                    tracing::debug!(code = error.code().as_str(), %error, "the lease of a running request couldn't be renewed");
                }
            }
        }
    }
}

/// Writes down what came of a request.
async fn settle(keys: &dyn IdempotencyService, execution: &Execution, done: &Result<Reply, Problem>) {
    let hold = execution.hold.clone();
    let written = match done {
        Ok(reply) if reply.concluded => Ok(()),
        // Somebody else has it by now.
        Err(problem) if problem.code == Code::TX_LEASE_LOST => Ok(()),
        Ok(reply) => keys.finish(hold, reply.to_answer()).await.map(|_| ()),
        // A holder before may have done it, whatever this one is refused for.
        Err(_) if execution.grant.begun > 1 => keys.give_up(hold).await,
        Err(problem) if is_final(problem) => keys.finish(hold, of_problem(problem)).await.map(|_| ()),
        Err(problem) if had_no_effect(problem) => keys.release(hold).await,
        Err(_) => keys.give_up(hold).await,
    };
    if let Err(error) = written {
        // What was made is found by its ids; the next repeat takes over when the lease ends.
        tracing::warn!(code = error.code().as_str(), %error, key = execution.hold.of.key.as_str(), "the answer to a request with an Idempotency-Key couldn't be kept");
    }
}

/// Whether a refusal comes before anything was done.
fn had_no_effect(problem: &Problem) -> bool {
    UNDONE.contains(&problem.code.status()) || MAY_PASS.contains(&problem.code)
}

/// Whether a refusal would be the same again.
fn is_final(problem: &Problem) -> bool {
    FINAL.contains(&problem.code.status())
        && !MAY_PASS.contains(&problem.code)
        && !problem.code.retryable()
        && problem.retry_after.is_none()
        && problem.code != Code::TX_LEASE_LOST
}

/// Somebody is at it.
pub(crate) fn busy(key: &str, lease_until: UnixMillis) -> Problem {
    let left = lease_until.since(now());
    let wait = left.clamp(Duration::from_millis(1), RETRY_AFTER_BUSY);
    Problem::new(
        Code::TX_IDEMPOTENT_BUSY,
        format!(
            "idempotency key {key:?} is in flight: ask again; its lease ends at {lease_until} unless it is renewed"
        ),
    )
    .after(wait)
}

/// The key was used for something else.
pub(crate) fn mismatch(key: &str, what: &str) -> Problem {
    Problem::new(
        Code::TX_IDEMPOTENT_MISMATCH,
        format!("idempotency key {key:?} was used with another {what}: take a new key for another operation"),
    )
}

#[cfg(test)]
mod tests;
