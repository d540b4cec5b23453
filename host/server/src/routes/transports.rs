//! `/v1/transports`.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use waybill_api::act_reason::ActReason;
use waybill_api::list::List;
use waybill_api::transports::{Provision, Provisioned, TransportView};

use super::dead_letters::act_reason;
use super::ok;
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;

/// List transports
///
/// Health, breaker, plugin and generation. The word of explanation is for credentials of all tenants.
#[utoipa::path(get, path = "/v1/transports", tag = "transports", operation_id = "listTransports",
    responses((status = 200, description = "The configured transports.", body = List<TransportView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&List::whole(shown(&app, &caller).await))
}

/// The transports as a caller may see them.
pub(crate) async fn shown(app: &App, caller: &Caller) -> Vec<TransportView> {
    let mut shown = app.service.transports().await;
    if !caller.sees_all() {
        // It may name the peers of others.
        shown.iter_mut().for_each(|transport| transport.health_detail = None);
    }
    shown
}

/// Stop sending through a transport
///
/// What is under way ends; the rest waits.
#[utoipa::path(post, path = "/v1/transports/{name}/pause", tag = "transports", operation_id = "pauseTransport",
    params(("name" = String, Path, description = "Transport.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The transport.", body = TransportView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    ok(&app.service.pause(&name, &reason, caller.name()).await?)
}

/// Go on sending through a transport
///
/// What waited goes in its order. One that isn't paused stays as it is.
#[utoipa::path(post, path = "/v1/transports/{name}/resume", tag = "transports", operation_id = "resumeTransport",
    params(("name" = String, Path, description = "Transport.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The transport.", body = TransportView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    ok(&app.service.resume(&name, &reason, caller.name()).await?)
}

/// Ask a transport how it is
///
/// And try its held destinations again now.
#[utoipa::path(post, path = "/v1/transports/{name}/probe", tag = "transports", operation_id = "probeTransport",
    params(("name" = String, Path, description = "Transport.")),
    responses((status = 200, description = "The transport.", body = TransportView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn probe(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&app.service.probe(&name, caller.name()).await?)
}

/// Provision a transport's peer
///
/// Without `apply` it answers a plan and changes nothing. With it, what is missing is created, what differs is changed, and what
/// would lose data (`conflict`) is left alone. Safe to repeat.
#[utoipa::path(post, path = "/v1/transports/{name}/provision", tag = "transports", operation_id = "provisionTransport",
    params(("name" = String, Path, description = "Transport.")), request_body = Provision,
    responses((status = 200, description = "What would be done, or was done.", body = Provisioned), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn provision(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: Provision = body::json(&app, request).await?;
    let changes = app.service.provision(&name, asked.apply, caller.name()).await?;
    ok(&Provisioned { transport: name, applied: asked.apply, changes })
}
