//! `/v1/quarantine`: rows that could not be read. They may be of any tenant, and so may their bytes.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::Uri;
use waybill_api::act_reason::ActReason;
use waybill_api::list::List;
use waybill_api::quarantine::{QuarantinedContentView, QuarantinedView, RestoredRow};

use super::dead_letters::act_reason;
use super::ok;
use super::query::{Cursors, NoQuery, QuarantineQuery, page, query};
use crate::app::App;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;

/// List rows in quarantine
///
/// Rows of Waybill's tables that could not be read were moved here, oldest first, so that they hold up nobody.
#[utoipa::path(get, path = "/v1/quarantine", tag = "quarantine", operation_id = "listQuarantine", params(QuarantineQuery),
    responses((status = 200, description = "One page, without their content.", body = List<QuarantinedView>), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let asked: QuarantineQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let table = asked.table.as_deref();
    let cursors = Cursors::of("quarantine", None, table.unwrap_or(""));
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.service.quarantined(table, inner.as_deref(), limit).await?;
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(found.items) })
}

/// Show a row in quarantine
///
/// With all that is left of it: its columns, bytes in base64, and whether it could be read by now.
#[utoipa::path(get, path = "/v1/quarantine/{id}", tag = "quarantine", operation_id = "showQuarantined",
    params(("id" = String, Path, description = "Its name in quarantine.")),
    responses((status = 200, description = "The row.", body = QuarantinedContentView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn show(State(app): State<App>, Path(id): Path<String>, uri: Uri) -> Result<Response, Problem> {
    let NoQuery {} = query(&uri)?;
    ok(&app.service.quarantined_row(&id).await?)
}

/// Put a row back
///
/// It is read again first; one that still can't be read stays (409). Messages that were in the order enter it anew, behind what is
/// there, and may be delivered twice. Audited.
#[utoipa::path(post, path = "/v1/quarantine/{id}/restore", tag = "quarantine", operation_id = "restoreQuarantined",
    params(("id" = String, Path, description = "Its name in quarantine.")), request_body = Option<ActReason>,
    responses((status = 200, description = "Where it went.", body = RestoredRow), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let NoQuery {} = query(request.uri())?;
    let reason = act_reason(&app, request).await?;
    ok(&app.service.restore_row(&id, &reason, caller.name()).await?)
}

/// Drop a row
///
/// For good. What stood for it (an idempotency key, say, or a message's id) is free again. Audited, with its content if that is
/// below 16 KiB. Answers what it was.
#[utoipa::path(post, path = "/v1/quarantine/{id}/drop", tag = "quarantine", operation_id = "dropQuarantined",
    params(("id" = String, Path, description = "Its name in quarantine.")), request_body = Option<ActReason>,
    responses((status = 200, description = "It was this.", body = QuarantinedContentView), Problems),
    extensions(("x-waybill-permission" = json!("manage"))))]
pub(crate) async fn drop_row(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let NoQuery {} = query(request.uri())?;
    let reason = act_reason(&app, request).await?;
    ok(&app.service.drop_row(&id, &reason, caller.name()).await?)
}
