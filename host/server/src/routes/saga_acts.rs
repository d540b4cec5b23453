//! What operators do to sagas: `/v1/sagas/{id}/pause` and its like.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::Uri;
use waybill_api::sagas::SagaActed;
use waybill_core::port::saga::SagaAct;
use waybill_core::saga::limits::NOTE_BYTES_MAX;

use super::dead_letters::note;
use super::ok;
use super::query::TenantQuery;
use super::sagas::{RequestedSaga, service};
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::json::saga_requests::{SagaAcceptJson, SagaActJson, SagaRetryJson, SagaSkipJson, SagaStepActJson, name};
use crate::openapi::Problems;
use crate::problem::Problem;

/// Pause a saga
///
/// It begins nothing new until it is resumed; calls under way end. Of the root.
#[utoipa::path(post, path = "/v1/sagas/{id}/pause", tag = "sagas", operation_id = "pauseSaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = Option<SagaActJson>,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn pause(app: State<App>, caller: Caller, id: Path<String>, request: Request) -> Answer {
    plain(app, caller, id, request, SagaAct::Pause).await
}

/// Resume a saga
///
/// Of the root. One that waits for a decision about a step whose result isn't known takes retry, skip or cancel instead.
#[utoipa::path(post, path = "/v1/sagas/{id}/resume", tag = "sagas", operation_id = "resumeSaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = Option<SagaActJson>,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn resume(app: State<App>, caller: Caller, id: Path<String>, request: Request) -> Answer {
    plain(app, caller, id, request, SagaAct::Resume).await
}

/// Cancel a saga
///
/// It compensates what was done, then it is `cancelled`. Of the root.
#[utoipa::path(post, path = "/v1/sagas/{id}/cancel", tag = "sagas", operation_id = "cancelSaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = Option<SagaActJson>,
    responses((status = 200, description = "It is durable; compensating goes on after that.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn cancel(app: State<App>, caller: Caller, id: Path<String>, request: Request) -> Answer {
    plain(app, caller, id, request, SagaAct::Cancel).await
}

/// Kill a saga
///
/// It ends as it is, `failed` with cause `killed`: nothing is compensated. Of the root.
#[utoipa::path(post, path = "/v1/sagas/{id}/kill", tag = "sagas", operation_id = "killSaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = Option<SagaActJson>,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn kill(app: State<App>, caller: Caller, id: Path<String>, request: Request) -> Answer {
    plain(app, caller, id, request, SagaAct::Kill).await
}

/// Retry a saga
///
/// What waits for its next attempt or for an operator is tried now; of a stuck saga the failed compensation, or with
/// `mode: retry` the step that failed. With `step`, of a paused saga: that step and everything behind it anew.
#[utoipa::path(post, path = "/v1/sagas/{id}/retry", tag = "sagas", operation_id = "retrySaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = Option<SagaRetryJson>,
    responses((status = 200, description = "It is durable; the attempt follows.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn retry(State(app): State<App>, caller: Caller, Path(id): Path<String>, request: Request) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let body: SagaRetryJson = body::json_or_default(&app, request).await?;
    act(&app, requested, SagaAct::Retry { step: body.step, mode: body.mode }, body.reason).await
}

/// Skip a step
///
/// One that isn't begun or waits is left out, as if it had succeeded with no output; of a stuck saga the failed compensation.
#[utoipa::path(post, path = "/v1/sagas/{id}/skip", tag = "sagas", operation_id = "skipSagaStep",
    params(("id" = String, Path, description = "Saga id, of a root or a sub-saga."), TenantQuery), request_body = SagaSkipJson,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn skip(State(app): State<App>, caller: Caller, Path(id): Path<String>, request: Request) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let body: SagaSkipJson = body::json(&app, request).await?;
    act(&app, requested, SagaAct::Skip { step: body.step }, body.reason).await
}

/// Approve a step
///
/// Of a saga that waits for a person (`wait:approval`). Once decided it stays so.
#[utoipa::path(post, path = "/v1/sagas/{id}/approve", tag = "sagas", operation_id = "approveSagaStep",
    params(("id" = String, Path, description = "Saga id, of a root or a sub-saga."), TenantQuery),
    request_body = Option<SagaStepActJson>,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn approve(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let body: SagaStepActJson = body::json_or_default(&app, request).await?;
    act(&app, requested, SagaAct::Approve { step: body.step, since: None }, body.reason).await
}

/// Reject a step
///
/// Of a saga that waits for a person (`wait:approval`): it compensates what was done.
#[utoipa::path(post, path = "/v1/sagas/{id}/reject", tag = "sagas", operation_id = "rejectSagaStep",
    params(("id" = String, Path, description = "Saga id, of a root or a sub-saga."), TenantQuery),
    request_body = Option<SagaStepActJson>,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn reject(State(app): State<App>, caller: Caller, Path(id): Path<String>, request: Request) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let body: SagaStepActJson = body::json_or_default(&app, request).await?;
    act(&app, requested, SagaAct::Reject { step: body.step, since: None }, body.reason).await
}

/// Accept a stuck compensation
///
/// As it is, with the reason kept: the saga ends `failed` with cause `accepted`, and its dead letter goes away.
#[utoipa::path(post, path = "/v1/sagas/{id}/accept", tag = "sagas", operation_id = "acceptSaga",
    params(("id" = String, Path, description = "Saga id."), TenantQuery), request_body = SagaAcceptJson,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn accept(State(app): State<App>, caller: Caller, Path(id): Path<String>, request: Request) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let body: SagaAcceptJson = body::json(&app, request).await?;
    if body.reason.trim().is_empty() {
        return Err(Problem::invalid("reason is empty: say why it is all right as it is").at("reason"));
    }
    act(&app, requested, SagaAct::Accept, body.reason).await
}

type Answer = Result<Response, Problem>;

/// An act that takes a reason only.
async fn plain(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
    what: SagaAct,
) -> Answer {
    let uri: Uri = request.uri().clone();
    let requested = RequestedSaga::read(caller, &id, &uri)?;
    let body: SagaActJson = body::json_or_default(&app, request).await?;
    act(&app, requested, what, body.reason).await
}

async fn act(app: &App, requested: RequestedSaga, act: SagaAct, reason: String) -> Answer {
    note("reason", &reason, NOTE_BYTES_MAX)?;
    let step = match &act {
        SagaAct::Skip { step } => Some(step.as_str()),
        SagaAct::Retry { step, .. } | SagaAct::Approve { step, .. } | SagaAct::Reject { step, .. } => step.as_deref(),
        _ => None,
    };
    step.map_or(Ok(()), |step| name("step", step))?;
    let done = service(app)?.act(&requested.tenant, &requested.id, act, requested.by(reason)).await;
    ok(&SagaActed::from(requested.found(done)?))
}
