//! `/v1/transactions`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use waybill_api::joint_events::JointEventBody;
use waybill_api::messages::TransactionDone;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::port::trace::SpanKind;
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::joint::JointEvent;
use waybill_core::streams::name::StreamKey;

use crate::app::App;
use crate::body::{self, Received};
use crate::caller::{Caller, traceparent};
use crate::edge;
use crate::idempotency_key::{self, Execution, Reply};
use crate::json::decode;
use crate::json::requests::{TransactionIn, TransactionJson};
use crate::limits::BULK_BODY_BYTES_MAX;
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::spans::RequestSpan;

/// Commit statements, messages and events together
///
/// All or nothing; it commits alone. Events have their numbers in the answer where they were appended at `expected_seq`; others get them
/// in a moment. One whose stream ends elsewhere fails it all: 409 `STREAM.EXPECTED_SEQ`. Statements reach tables of your own only. When all of its messages were there before, it is a
/// repeat: they are answered as duplicates, and the statements don't run, so there are no results. A repeat has the same statements and
/// values: with others, or when its messages came by `POST /v1/messages`, it is 409 `TX.OTHER_STATEMENTS` and nothing runs.
#[utoipa::path(post, path = "/v1/transactions", tag = "messages", operation_id = "transact",
    params(idempotency_key::KeyHeader), request_body = TransactionJson,
    responses(
        (status = 201, description = "Committed, with new messages or events.", body = TransactionDone),
        (status = 200, description = "Committed; no message was new, and there are no events.", body = TransactionDone),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("transact"))))]
pub(crate) async fn transact(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let mut span = RequestSpan::begin(&app, "transact", SpanKind::Producer, trace.as_deref());
    let trace = span.context(trace);
    let key = idempotency_key::asked(&app, request.headers(), request.method(), request.uri())?;
    let Received { bytes, media, share } = body::read(&app, request, BULK_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let asked: TransactionIn = decode::value(decode::utf8(&bytes)?)?;
    let statements = asked.statements.bounded()?;
    let mut messages = asked.messages.bounded()?;
    if statements.is_empty() && messages.is_empty() && asked.events.is_empty() {
        return Err(Problem::invalid("the transaction is empty: give statements, messages or events"));
    }
    caller.admit(&mut messages, trace.as_deref())?;
    span.describe("transact", messages.len(), messages.first().and_then(|message| message.tenant.as_deref()));
    let events = joint(&caller, asked.events, trace.as_deref())?;
    let wanted = match key {
        Some(key) => {
            let tenant = match idempotency_key::tenant_of(&messages)? {
                Some(tenant) => tenant,
                None => match events.first() {
                    Some(event) => event.stream.tenant.clone(),
                    None => caller.tenant_of(None, Missing::Tenant, "")?,
                },
            };
            Some(key.of(tenant, &bytes)?)
        }
        None => None,
    };
    drop(bytes);
    let (service, running) = (Arc::clone(&app.service), Arc::clone(&app));
    idempotency_key::run(&app, wanted, move |execution: Option<Execution>| async move {
        // The answer is kept by the transaction's own commit: no crash comes between the two.
        let finish = execution.map(|execution| execution.finish_with(answer));
        // Held until the work is done, even when the caller goes away: as long its memory is taken.
        let place = if statements.is_empty() { None } else { Some(edge::transacting(&running, &caller.0).await?) };
        let concluded = finish.is_some();
        let done = service.transact(statements, messages, events, finish).await;
        span.end(done.as_ref().err().map(ServiceError::code));
        let done = done?;
        drop(place);
        drop(share);
        Ok(answer(&done)?.concluded(concluded))
    })
    .await
}

fn answer(done: &TransactionDone) -> Result<Reply, Problem> {
    let has_new = done.ids.len() > done.duplicates.len() || !done.events.is_empty();
    Reply::json(if has_new { StatusCode::CREATED } else { StatusCode::OK }, done)
}

/// Events as they are appended: each to a stream that the caller may append to.
fn joint(caller: &Caller, events: Vec<JointEventBody>, traceparent: Option<&str>) -> Result<Vec<JointEvent>, Problem> {
    let traceparent: Option<Arc<str>> = traceparent.map(Arc::from);
    let read = |mut body: JointEventBody| -> Result<JointEvent, Problem> {
        let tenant = caller.own(body.tenant.take().as_deref())?;
        let (name, expected_seq, event) = body.into_parts()?;
        caller.0.admit(StreamRight::Append, &name)?;
        let stream = StreamKey { tenant, name };
        Ok(JointEvent { stream, event, expected_seq, traceparent: traceparent.clone() })
    };
    let placed = |(index, body): (usize, JointEventBody)| {
        read(body).map_err(|mut problem: Problem| {
            problem.at.index = Some(index);
            problem
        })
    };
    events.into_iter().enumerate().map(placed).collect()
}
