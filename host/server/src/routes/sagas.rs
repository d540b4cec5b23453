//! `/v1/sagas`: start, look, signal, reply. What operators do is in [`super::saga_acts`].

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, Uri};
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_api::dead_letters::saga_address;
use waybill_api::list::List;
use waybill_api::sagas::{SagaActed, SagaService, SagaStarted, SagaView};
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::port::saga::{ActedBy, StepReply};
use waybill_core::port::trace::SpanKind;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;

use super::ok;
use super::query::{Cursors, TenantQuery, page, query};
use crate::app::App;
use crate::body::{self, Received};
use crate::caller::{Caller, elsewhere, traceparent};
use crate::edge;
use crate::idempotency_key::{self, Execution, Reply};
use crate::json::decode;
use crate::json::saga_requests::{AnyJson, ReplyJson, StartSagaJson, name};
use crate::limits::{SAGA_BODY_BYTES_MAX, SAGA_WAIT_MAX};
use crate::openapi::Problems;
use crate::places::Place;
use crate::problem::Problem;
use crate::spans::RequestSpan;

/// The sagas of this host.
pub(crate) fn service(app: &App) -> Result<&Arc<dyn SagaService>, Problem> {
    app.sagas
        .as_ref()
        .ok_or_else(|| Problem::new(Code::PROVIDER_UNAVAILABLE, "this host runs no sagas: ask one that does"))
}

/// A saga that a caller asks for.
pub(super) struct RequestedSaga {
    pub(super) caller: Caller,
    pub(super) id: SagaId,
    /// Whose it is: as asked, or the caller's only one.
    pub(super) tenant: Tenant,
    asked: bool,
}

impl RequestedSaga {
    /// Reads whose saga is asked for. One of another tenant doesn't exist for the caller.
    pub(super) fn read(caller: Caller, id: &str, uri: &Uri) -> Result<Self, Problem> {
        let asked: TenantQuery = query(uri)?;
        Self::of(caller, id, asked.tenant.as_deref())
    }

    fn of(caller: Caller, id: &str, tenant: Option<&str>) -> Result<Self, Problem> {
        let asked = tenant.is_some();
        let tenant = caller.tenant_of(tenant, Missing::Saga, id).map_err(|problem| {
            if problem.code.status() == 404 { SagaError::NotFound { id: id.to_owned() }.into() } else { problem }
        })?;
        let id = SagaId::new(id).map_err(|error| Problem::from(error).at("id"))?;
        Ok(Self { caller, id, tenant, asked })
    }

    /// What was found or done; a miss says where it was looked for.
    pub(super) fn found<T>(&self, found: Result<T, SagaError>) -> Result<T, Problem> {
        found.map_err(|error| {
            let missed = matches!(error, SagaError::NotFound { .. }) && !self.asked;
            let mut problem = Problem::from(error);
            if missed {
                problem.detail.push_str(&format!("; looked for{}", elsewhere(&self.tenant)));
            }
            problem
        })
    }

    /// The caller as the one who acts.
    pub(super) fn by(&self, note: String) -> ActedBy {
        let note = Some(note).filter(|note| !note.trim().is_empty());
        ActedBy { actor: self.caller.name().to_owned(), note }
    }
}

/// Query of the list of sagas.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SagasQuery {
    /// Only this tenant's; a credential of several names one, here or in `filter`.
    tenant: Option<String>,
    /// Conditions that all hold: `tenant=acme definition=order state=failed waiting_for=approval step=charge code=HTTP.* age>1h`.
    #[serde(default)]
    filter: String,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// How long a caller waits.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// Answer when the saga is at rest (it has ended, is stuck or paused), or after so many milliseconds.
    #[serde(default)]
    #[param(minimum = 0, maximum = 20000)]
    wait_ms: u64,
}

impl WaitQuery {
    fn within(&self) -> Result<Duration, Problem> {
        waited(self.wait_ms)
    }
}

/// Which saga, and how long a caller waits for it.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShowQuery {
    /// Tenant; the credential's only one, else `default`, if absent.
    tenant: Option<String>,
    /// Answer when the saga is at rest (it has ended, is stuck or paused), or after so many milliseconds.
    #[serde(default)]
    #[param(minimum = 0, maximum = 20000)]
    wait_ms: u64,
}

fn waited(wait_ms: u64) -> Result<Duration, Problem> {
    let (asked, max) = (Duration::from_millis(wait_ms), SAGA_WAIT_MAX);
    if asked > max {
        let detail = format!("wait_ms is {wait_ms}, it may be 0 to {}: ask again to wait longer", max.as_millis());
        return Err(Problem::invalid(detail).at("wait_ms"));
    }
    Ok(asked)
}

/// Start a saga
///
/// Answered when the start is durable; the steps run after that. With `wait_ms` it is answered when the saga is at rest, or after
/// that time; `state` tells. The same id with the same definition and input again changes nothing.
#[utoipa::path(post, path = "/v1/sagas", tag = "sagas", operation_id = "startSaga",
    params(idempotency_key::KeyHeader, WaitQuery), request_body = StartSagaJson,
    responses(
        (status = 202, description = "Started; `location` is its address.", body = SagaStarted, headers(("location" = String))),
        (status = 200, description = "It was started before, or is at rest.", body = SagaStarted, headers(("location" = String))),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn start(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let mut span = RequestSpan::begin(&app, "start", SpanKind::Internal, trace.as_deref());
    let trace = span.context(trace);
    let within = query::<WaitQuery>(request.uri())?.within()?;
    let key = idempotency_key::asked(&app, request.headers(), request.method(), request.uri())?
        .map(idempotency_key::Asked::without_query);
    let Received { bytes, media, share } = body::read(&app, request, SAGA_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let asked: StartSagaJson = decode::value(decode::utf8(&bytes)?)?;
    let tenant = caller.own(asked.tenant.as_deref())?;
    let mut start = asked.into_start(tenant.clone(), caller.name(), trace)?;
    span.set("waybill.tenant", tenant.as_str());
    span.set("waybill.saga.definition", &start.definition);
    let sagas = Arc::clone(service(&app)?);
    let wanted = key.map(|key| key.of(tenant.clone(), &bytes)).transpose()?;
    drop(bytes);
    let (starting, of) = (Arc::clone(&sagas), tenant.clone());
    let answer = idempotency_key::run(&app, wanted, move |execution: Option<Execution>| async move {
        let named = execution.filter(|_| start.id.is_none()).map(|execution| execution.id(0));
        let is_named = named.is_some();
        start.id = start.id.or(named);
        let started = starting.start(start).await;
        span.end(started.as_ref().err().map(SagaError::code));
        let mut done = SagaStarted::new(&of, &started?);
        drop(share);
        // What was there under an id of the key itself is of an execution that crashed before it could answer.
        done.duplicate &= !is_named;
        let status = if done.duplicate { StatusCode::OK } else { StatusCode::ACCEPTED };
        let location = address(&of, &done.id)?;
        Ok(Reply::json(status, &done)?.at(location))
    })
    .await?;
    if within.is_zero() || !answer.status().is_success() {
        return Ok(answer);
    }
    let place = edge::waiting(&app, &caller.0);
    with_state(place, &sagas, &tenant, answer, within).await
}

/// The answer to a start, a repeated one too, with the saga's state when it is at rest or the time is over.
async fn with_state(
    place: Option<Place>,
    sagas: &Arc<dyn SagaService>,
    tenant: &Tenant,
    answer: Response,
    within: Duration,
) -> Result<Response, Problem> {
    let (mut parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, SAGA_BODY_BYTES_MAX).await.map_err(Problem::internal)?;
    // Where only a digest of the first answer is kept there is nothing to say it of.
    let Ok(mut started) = serde_json::from_slice::<SagaStarted>(&body) else {
        return Ok(Response::from_parts(parts, body.into()));
    };
    let id = SagaId::new(&started.id).map_err(Problem::internal)?;
    // The start is durable whatever comes of the waiting: this host may be asked to end meanwhile.
    let Ok(state) = state_within(place, sagas, tenant, &id, within).await else {
        return Ok(Response::from_parts(parts, body.into()));
    };
    if state.is_at_rest() {
        parts.status = StatusCode::OK;
    }
    started.state = Some(state);
    let body = serde_json::to_vec(&started).map_err(Problem::internal)?;
    Ok(Response::from_parts(parts, body.into()))
}

/// A saga's state when it is at rest or the time is over; at once without a place to wait.
async fn state_within(
    place: Option<Place>,
    sagas: &Arc<dyn SagaService>,
    tenant: &Tenant,
    id: &SagaId,
    within: Duration,
) -> Result<SagaState, SagaError> {
    if let Some(_place) = place
        && let Some(state) = sagas.at_rest(tenant, id, within).await?
    {
        return Ok(state);
    }
    Ok(sagas.saga(tenant, id).await?.state)
}

/// Address of a saga as a header.
fn address(tenant: &Tenant, id: &str) -> Result<HeaderValue, Problem> {
    HeaderValue::from_str(&saga_address(tenant, id)).map_err(Problem::internal)
}

/// List sagas
///
/// Running and ended ones, newest start first. Ended ones are kept for `saga.keep_done`.
#[utoipa::path(get, path = "/v1/sagas", tag = "sagas", operation_id = "listSagas", params(SagasQuery),
    responses((status = 200, description = "A page, without steps.", body = List<SagaView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: SagasQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let (filter, tenant) = caller.sagas(asked.tenant.as_deref(), &asked.filter)?;
    let cursors = Cursors::of("sagas", tenant.as_ref().map(Tenant::as_str), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let sagas = service(&app)?;
    let Some(filter) = filter else { return ok(&List::<SagaView>::whole(Vec::new())) };
    let found = sagas.sagas(&filter, inner.as_deref(), limit).await?;
    let items = found.items.into_iter().map(SagaView::from).collect();
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(items) })
}

/// Show a saga
///
/// Every step with state, attempts, times, errors, input and output, what it waits for and since when; sub-sagas below their steps;
/// what happened, oldest first. The id of a sub-saga answers the saga that it is part of.
#[utoipa::path(get, path = "/v1/sagas/{id}", tag = "sagas", operation_id = "showSaga",
    params(("id" = String, Path, description = "Saga id."), ShowQuery),
    responses((status = 200, description = "The saga.", body = SagaView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: ShowQuery = query(&uri)?;
    let within = waited(asked.wait_ms)?;
    let requested = RequestedSaga::of(caller, &id, asked.tenant.as_deref())?;
    let sagas = service(&app)?;
    if !within.is_zero() {
        let place = edge::waiting(&app, &requested.caller.0);
        requested.found(state_within(place, sagas, &requested.tenant, &requested.id, within).await)?;
    }
    let found = sagas.saga(&requested.tenant, &requested.id).await;
    ok(&requested.found(found)?)
}

/// Signal a saga
///
/// The body is the signal's data, any JSON, or nothing. The step that waits for it takes it (`wait:<name>`, or a step of a
/// participant that named it); one that comes early is kept.
#[utoipa::path(post, path = "/v1/sagas/{id}/signals/{name}", tag = "sagas", operation_id = "signalSaga",
    params(idempotency_key::KeyHeader, ("id" = String, Path, description = "Saga id, of a root or a sub-saga."),
        ("name" = String, Path, description = "Name of the signal."), TenantQuery),
    request_body(content = Option<serde_json::Value>, content_type = "application/json", example = json!({"payment": "p-1"})),
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn signal(
    State(app): State<App>,
    caller: Caller,
    Path((id, signal)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    name("name", &signal)?;
    let mut span = RequestSpan::begin(&app, "signal", SpanKind::Internal, traceparent(request.headers()).as_deref());
    span.set("waybill.tenant", requested.tenant.as_str());
    span.set("waybill.saga.id", requested.id.as_str());
    span.set("waybill.saga.signal", &signal);
    let key = idempotency_key::asked(&app, request.headers(), request.method(), request.uri())?;
    let Received { bytes, media, share } = body::read(&app, request, SAGA_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let data = match bytes.is_empty() {
        true => Json::null(),
        false => decode::value::<AnyJson>(decode::utf8(&bytes)?)?.0,
    };
    let wanted = key.map(|key| key.of(requested.tenant.clone(), &bytes)).transpose()?;
    let sagas = Arc::clone(service(&app)?);
    idempotency_key::run(&app, wanted, move |_| async move {
        let done = sagas.signal(&requested.tenant, &requested.id, &signal, data, requested.by(String::new())).await;
        span.end(done.as_ref().err().map(SagaError::code));
        drop(share);
        Reply::json(StatusCode::OK, &SagaActed::from(requested.found(done)?))
    })
    .await
}

/// Reply to a step's message
///
/// Completes a `bus:` step, or fails it. A reply that comes twice changes nothing.
#[utoipa::path(post, path = "/v1/sagas/{id}/replies", tag = "sagas", operation_id = "replyToSaga",
    params(("id" = String, Path, description = "Saga id, of a root or a sub-saga."), TenantQuery), request_body = ReplyJson,
    responses((status = 200, description = "It is durable.", body = SagaActed), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn reply(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let mut span = RequestSpan::begin(&app, "reply", SpanKind::Internal, traceparent(request.headers()).as_deref());
    let Received { bytes, media, share } = body::read(&app, request, SAGA_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let asked: ReplyJson = decode::value(decode::utf8(&bytes)?)?;
    name("step", &asked.step)?;
    span.set("waybill.tenant", requested.tenant.as_str());
    span.set("waybill.saga.id", requested.id.as_str());
    span.set("waybill.saga.step", &asked.step);
    let (step, way, attempt) = (asked.step.clone(), asked.direction, asked.attempt);
    let reply = StepReply { id: requested.id.clone(), step, way, attempt, result: asked.result()? };
    let done = service(&app)?.reply(&requested.tenant, reply).await;
    span.end(done.as_ref().err().map(SagaError::code));
    drop(share);
    ok(&SagaActed::from(requested.found(done)?))
}
