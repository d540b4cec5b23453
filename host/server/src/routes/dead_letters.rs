//! `/v1/dead-letters`.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};

use super::one::One;
use super::query::{Cursors, FilterQuery, ListQuery, TenantQuery, page, query};
use super::{json, ok};
use crate::app::App;
use crate::body::{self, Received};
use crate::caller::Caller;
use crate::json::decode;
use crate::json::message::MessageFields;
use crate::json::message_out::MessageOut;
use crate::json::out::{DeadGroupOut, EnqueuedOut, List};
use crate::json::requests::{EditJson, Quarantine, Replay};
use crate::limits::{BULK_BODY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// List dead letters
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "listDeadLetters", params(ListQuery),
    responses((status = 200, description = "A page, without payloads.", body = List<MessageOut>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: ListQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let cursors = Cursors::of("dead-letters", tenant.as_ref().map(|tenant| tenant.as_str()), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.service.dead_letters(tenant.as_ref(), &asked.filter, inner.as_deref(), limit).await?;
    let count = if asked.count { Some(app.service.count_dead(tenant.as_ref(), &asked.filter).await?) } else { None };
    let items = found.items.into_iter().map(MessageOut::from).collect();
    ok(&List { items, next_cursor: cursors.write(found.next_cursor), count })
}

/// Group dead letters
///
/// By tenant, code and error signature, largest group first.
#[utoipa::path(get, path = "/v1/dead-letters/groups", tag = "dead letters", operation_id = "groupDeadLetters", params(FilterQuery),
    responses((status = 200, description = "The groups.", body = List<DeadGroupOut>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn groups(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: FilterQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let groups = app.service.dead_groups(tenant.as_ref(), &asked.filter).await?;
    ok(&List::whole(groups.into_iter().map(DeadGroupOut::from).collect()))
}

/// Show a dead letter
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "dead letters", operation_id = "showDeadLetter",
    params(("id" = String, Path, description = "Message id."), TenantQuery),
    responses((status = 200, description = "The dead letter with payload and attempts.", body = MessageOut), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let one = One::read(caller, id, &uri, "dead letter")?;
    let found = app.service.dead_letter(&one.tenant, &one.id).await;
    one.answer(found)
}

/// Put a dead letter back
///
/// With attempts counted from zero; its history stays. Works on quarantined ones too.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/replay", tag = "dead letters", operation_id = "replayDeadLetter",
    params(("id" = String, Path, description = "Message id."), TenantQuery), request_body = Option<Replay>,
    responses((status = 200, description = "The message, pending again.", body = MessageOut), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let one = One::read(caller, id, request.uri(), "dead letter")?;
    let body: Replay = body::json_or_default(&app, request).await?;
    note("reason", &body.reason)?;
    let found = app.service.replay(&one.tenant, &one.id, &body.reason, one.caller.name()).await;
    one.answer(found)
}

/// Fence a dead letter off
///
/// It is left alone by bulk replays until it is replayed by its id.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/quarantine", tag = "dead letters", operation_id = "quarantineDeadLetter",
    params(("id" = String, Path, description = "Message id."), TenantQuery), request_body = Quarantine,
    responses((status = 200, description = "The quarantined dead letter.", body = MessageOut), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn quarantine(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let one = One::read(caller, id, request.uri(), "dead letter")?;
    let body: Quarantine = body::json(&app, request).await?;
    note("note", &body.note)?;
    if body.note.trim().is_empty() {
        return Err(Problem::invalid("note is empty: say why it is fenced off").at("note"));
    }
    let found = app.service.quarantine(&one.tenant, &one.id, &body.note, one.caller.name()).await;
    one.answer(found)
}

/// Send an edited copy of a dead letter
///
/// A new message with the given fields changed; its `causation_id` is the dead letter's id. It gets a new id, is sent at
/// once and doesn't expire, unless the fields say otherwise.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/edit", tag = "dead letters", operation_id = "editDeadLetter",
    params(("id" = String, Path, description = "Message id."), TenantQuery), request_body = EditJson,
    responses((status = 201, description = "Committed.", body = EnqueuedOut),
        (status = 200, description = "The same copy was there before.", body = EnqueuedOut), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let one = One::read(caller, id, request.uri(), "dead letter")?;
    let Received { bytes, media, share } = body::read(&app, request, BULK_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let fields: MessageFields = decode::value(decode::utf8(&bytes)?)?;
    let found = app.service.dead_letter(&one.tenant, &one.id).await;
    let original = one.found(found)?;
    let mut edited = [fields.over(original).map_err(Problem::invalid)?];
    one.caller.admit(&mut edited, None)?;
    let [edited] = edited;
    let done = app.service.edit(&one.tenant, &one.id, edited, one.caller.name()).await?;
    drop(share);
    let status = if done.duplicates.len() == done.ids.len() { StatusCode::OK } else { StatusCode::CREATED };
    json(status, &EnqueuedOut::from(done))
}

/// Bounds a note or a reason.
pub(super) fn note(field: &'static str, text: &str) -> Result<(), Problem> {
    if text.len() > NOTE_BYTES_MAX {
        return Err(
            Problem::invalid(format!("{field} has {} bytes, at most {NOTE_BYTES_MAX} are taken", text.len())).at(field)
        );
    }
    Ok(())
}
