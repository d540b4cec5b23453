//! `/v1/sources`: what brings messages in.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::Uri;
use waybill_api::act_reason::ActReason;
use waybill_api::list::List;
use waybill_api::sources::{FailedRowView, ReplayRows, ReplayedRows, SourceProvisioned, SourceView};
use waybill_api::transports::Provision;

use super::dead_letters::{act_reason, note};
use super::inbox::service;
use super::ok;
use super::query::{Cursors, PageQuery, page, query};
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::limits::{NOTE_BYTES_MAX, PAGE_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// List sources
///
/// Health, plugin, home, what isn't settled. A credential of some tenants sees the sources of their messages, without the word of
/// explanation.
#[utoipa::path(get, path = "/v1/sources", tag = "sources", operation_id = "listSources",
    responses((status = 200, description = "The configured sources.", body = List<SourceView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&List::whole(shown(&app, &caller).await?))
}

/// The sources as a caller may see them.
pub(crate) async fn shown(app: &App, caller: &Caller) -> Result<Vec<SourceView>, Problem> {
    let mut shown = service(app)?.sources().await;
    if !caller.sees_all() {
        for source in &mut shown {
            source.tenants.retain(|tenant| caller.sees(Some(tenant)));
            // It may name the peers of others.
            source.health_detail = None;
        }
        shown.retain(|source| !source.tenants.is_empty());
    }
    Ok(shown)
}

/// Pull no more from a source
///
/// What is in hand is finished and settled. It stays paused when the host starts again.
#[utoipa::path(post, path = "/v1/sources/{name}/pause", tag = "sources", operation_id = "pauseSource",
    params(("name" = String, Path, description = "Source.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The source.", body = SourceView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    ok(&service(&app)?.pause_source(&name, &reason, caller.name()).await?)
}

/// Pull from a source again
///
/// One that stands still because messages were removed at its peer before they were read goes on at the earliest that is kept.
#[utoipa::path(post, path = "/v1/sources/{name}/resume", tag = "sources", operation_id = "resumeSource",
    params(("name" = String, Path, description = "Source.")), request_body = Option<ActReason>,
    responses((status = 200, description = "The source.", body = SourceView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let reason = act_reason(&app, request).await?;
    ok(&service(&app)?.resume_source(&name, &reason, caller.name()).await?)
}

/// Provision a source's peer
///
/// Without `apply` it answers a plan and changes nothing. With it, what is missing is created, what differs is changed, and what
/// would lose data (`conflict`) is left alone. Safe to repeat.
#[utoipa::path(post, path = "/v1/sources/{name}/provision", tag = "sources", operation_id = "provisionSource",
    params(("name" = String, Path, description = "Source.")), request_body = Provision,
    responses((status = 200, description = "What would be done, or was done.", body = SourceProvisioned), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn provision(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: Provision = body::json(&app, request).await?;
    let changes = service(&app)?.provision_source(&name, asked.apply, caller.name()).await?;
    ok(&SourceProvisioned { source: name, applied: asked.apply, changes })
}

/// List failed rows of a table
///
/// Of a source with `publish = "direct"`: what it gave up, as the table has it.
#[utoipa::path(get, path = "/v1/sources/{name}/failed", tag = "sources", operation_id = "listFailedRows",
    params(("name" = String, Path, description = "Source."), PageQuery),
    responses((status = 200, description = "A page, in the table's order.", body = List<FailedRowView>), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn failed(State(app): State<App>, Path(name): Path<String>, uri: Uri) -> Result<Response, Problem> {
    let asked: PageQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let cursors = Cursors::of("failed-rows", None, &name);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = service(&app)?.failed_rows(&name, inner.as_deref(), limit).await?;
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(found.items) })
}

/// Put failed rows of a table back
///
/// In the table itself: they wait again, with no attempts. Safe to repeat.
#[utoipa::path(post, path = "/v1/sources/{name}/replay", tag = "sources", operation_id = "replayFailedRows",
    params(("name" = String, Path, description = "Source.")), request_body = ReplayRows,
    responses((status = 200, description = "Which of them wait again.", body = ReplayedRows), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let asked: ReplayRows = body::json(&app, request).await?;
    note("reason", &asked.reason, NOTE_BYTES_MAX)?;
    if asked.ids.is_empty() || asked.ids.len() > PAGE_MAX {
        let text = format!("ids has {} keys: take 1 to {PAGE_MAX} in one request", asked.ids.len());
        return Err(Problem::invalid(text).at("ids"));
    }
    ok(&service(&app)?.replay_rows(&name, asked, caller.name()).await?)
}
