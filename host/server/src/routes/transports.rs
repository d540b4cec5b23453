//! `/v1/transports`.

use axum::extract::{Path, State};
use axum::response::Response;

use super::ok;
use crate::app::App;
use crate::caller::Caller;
use crate::json::out::{List, TransportOut};
use crate::openapi::Problems;
use crate::problem::Problem;

/// List transports
///
/// Health, breaker, plugin and generation.
#[utoipa::path(get, path = "/v1/transports", tag = "transports", operation_id = "listTransports",
    responses((status = 200, description = "The configured transports.", body = List<TransportOut>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>) -> Result<Response, Problem> {
    ok(&List::whole(app.service.transports().await.into_iter().map(TransportOut::from).collect()))
}

/// Stop sending through a transport
///
/// What is under way ends; the rest waits.
#[utoipa::path(post, path = "/v1/transports/{name}/pause", tag = "transports", operation_id = "pauseTransport",
    params(("name" = String, Path, description = "Transport.")),
    responses((status = 200, description = "The transport.", body = TransportOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&TransportOut::from(app.service.pause(&name, caller.name()).await?))
}

/// Go on sending through a transport
#[utoipa::path(post, path = "/v1/transports/{name}/resume", tag = "transports", operation_id = "resumeTransport",
    params(("name" = String, Path, description = "Transport.")),
    responses((status = 200, description = "The transport.", body = TransportOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&TransportOut::from(app.service.resume(&name, caller.name()).await?))
}

/// Ask a transport how it is
///
/// And try its held destinations again now.
#[utoipa::path(post, path = "/v1/transports/{name}/probe", tag = "transports", operation_id = "probeTransport",
    params(("name" = String, Path, description = "Transport.")),
    responses((status = 200, description = "The transport.", body = TransportOut), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn probe(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    ok(&TransportOut::from(app.service.probe(&name, caller.name()).await?))
}
