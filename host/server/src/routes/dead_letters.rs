//! `/v1/dead-letters`: messages that can't be delivered, sagas whose compensation is stuck, received messages that can't be handled.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use waybill_api::act_reason::ActReason;
use waybill_api::dead_letters::{DeadGroupView, DeadLetterView, Quarantine, Replay, Replayed};
use waybill_api::facets::FacetsView;
use waybill_api::instant::Instant;
use waybill_api::list::List;
use waybill_api::messages::Enqueued;
use waybill_core::code::Code;
use waybill_core::port::dead::{DeadId, DeadKind, EVENTS_STAY, NOTHING_TO_EDIT};
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;

use super::query::{Cursors, DeadQuery, EditQuery, FilterQuery, ListQuery, page, query};
use super::{json, ok};
use crate::app::App;
use crate::body::{self, Received};
use crate::caller::Caller;
use crate::json::decode;
use crate::json::message::MessageFields;
use crate::json::requests::EditJson;
use crate::limits::{BULK_BODY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// A dead letter that a caller asks for.
struct RequestedDeadLetter {
    caller: Caller,
    /// Whose it is: as asked, or the caller's only one.
    dead: DeadId,
    asked: Option<String>,
}

impl RequestedDeadLetter {
    fn read(caller: Caller, id: &str, uri: &Uri) -> Result<Self, Problem> {
        let DeadQuery { tenant, kind } = query(uri)?;
        Self::of(caller, id, tenant, kind)
    }

    fn of(caller: Caller, id: &str, asked: Option<String>, kind: Option<DeadKind>) -> Result<Self, Problem> {
        let tenant = caller.tenant_of(asked.as_deref(), Missing::DeadLetter, id)?;
        let dead = DeadId { kind, ..DeadId::new(&tenant, id) };
        Ok(Self { caller, dead, asked })
    }

    /// What was found or done; a miss says where it was looked for.
    fn found<T>(&self, found: Result<T, ServiceError>) -> Result<T, Problem> {
        found.map_err(|error| self.caller.missed(error, self.asked.as_deref(), &self.dead.tenant))
    }
}

/// List dead letters
///
/// Messages, the latest in the order first, then stuck sagas, then received messages.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "listDeadLetters", params(ListQuery),
    responses((status = 200, description = "A page, without payloads.", body = List<DeadLetterView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: ListQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let cursors = Cursors::of("dead-letters", tenant.as_ref().map(|tenant| tenant.as_str()), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.service.dead_letters(tenant.as_ref(), &asked.filter, inner.as_deref(), limit).await?;
    let counted = if asked.count { Some(app.service.count_dead(tenant.as_ref(), &asked.filter).await?) } else { None };
    let (count, since) = counted.map_or((None, None), |counted| (Some(counted.value), counted.since));
    let next_cursor = cursors.write(found.next_cursor);
    ok(&List { items: found.items, next_cursor, count, counted_since: since.map(Instant) })
}

/// Group dead letters
///
/// By tenant, code, error signature and kind, largest group first. Each with the latest bulk replay that put something of it back, and
/// what became of that.
#[utoipa::path(get, path = "/v1/dead-letters/groups", tag = "dead letters", operation_id = "groupDeadLetters", params(FilterQuery),
    responses((status = 200, description = "The groups.", body = List<DeadGroupView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn groups(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: FilterQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let groups = app.service.dead_groups(tenant.as_ref(), &asked.filter).await?;
    let value = app.service.with_last_replays(tenant.as_ref(), groups.value).await?;
    ok(&List { counted_since: groups.since.map(Instant), ..List::whole(value) })
}

/// Count what dead letters can be narrowed by
///
/// How often each tenant, kind, state, code and topic stands in what the filter takes, the latest first. At most 10,000 rows are looked
/// at, for two seconds; past that the answer is `partial`.
#[utoipa::path(get, path = "/v1/dead-letters/facets", tag = "dead letters", operation_id = "countDeadFacets", params(FilterQuery),
    responses((status = 200, description = "The counts.", body = FacetsView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn facets(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: FilterQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    ok(&app.service.dead_facets(tenant.as_ref(), &asked.filter).await?)
}

/// Show a dead letter
///
/// A message with payload and attempts, or a received one with its payload; of a stuck saga what failed, and where the rest of it is.
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "dead letters", operation_id = "showDeadLetter",
    params(("id" = String, Path, description = "Id of the message or of the saga; of a received message its place, or its sender's id."), DeadQuery),
    responses((status = 200, description = "The dead letter.", body = DeadLetterView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let requested = RequestedDeadLetter::read(caller, &id, &uri)?;
    let found = app.service.dead_letter(&requested.dead).await;
    ok(&requested.found(found)?)
}

/// Put a dead letter back
///
/// A message with attempts counted from zero; its history stays. Of a stuck saga the failed compensation is tried again, or
/// with `mode: retry` the step that failed before. A received message is stored for its consumer again. Works on quarantined ones too.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/replay", tag = "dead letters", operation_id = "replayDeadLetter",
    params(("id" = String, Path, description = "Id of the message or of the saga; of a received message its place, or its sender's id."), DeadQuery), request_body = Option<Replay>,
    responses((status = 200, description = "The message, pending or stored again, the saga, going on, or the event, which its broker has now.", body = Replayed), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedDeadLetter::read(caller, &id, request.uri())?;
    let how: Replay = body::json_or_default(&app, request).await?;
    note("reason", &how.reason, NOTE_BYTES_MAX)?;
    let done = app.service.replay(&requested.dead, how, requested.caller.name()).await;
    ok(&requested.found(done)?)
}

/// Fence a dead letter off
///
/// It is left alone by bulk replays until it is replayed by its id; a stuck saga also until it moves for another reason.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/quarantine", tag = "dead letters", operation_id = "quarantineDeadLetter",
    params(("id" = String, Path, description = "Id of the message or of the saga; of a received message its place, or its sender's id."), DeadQuery), request_body = Quarantine,
    responses((status = 200, description = "The quarantined dead letter.", body = DeadLetterView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn quarantine(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedDeadLetter::read(caller, &id, request.uri())?;
    let body: Quarantine = body::json(&app, request).await?;
    note("note", &body.note, NOTE_BYTES_MAX)?;
    if body.note.trim().is_empty() {
        return Err(Problem::invalid("note is empty: say why it is fenced off").at("note"));
    }
    let found = app.service.quarantine(&requested.dead, &body.note, requested.caller.name()).await;
    ok(&requested.found(found)?)
}

/// Send an edited copy of a dead letter
///
/// A new message with the given fields changed; its `causation_id` is the dead letter's id. It gets a new id, is sent at
/// once and doesn't expire, unless the fields say otherwise. The copy of a received message is stored for its consumer. Not of a
/// stuck saga.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/edit", tag = "dead letters", operation_id = "editDeadLetter",
    params(("id" = String, Path, description = "Id of the message or of the saga; of a received message its place, or its sender's id."), EditQuery), request_body = EditJson,
    responses((status = 201, description = "Committed.", body = Enqueued),
        (status = 200, description = "The same copy was there before.", body = Enqueued), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let EditQuery { tenant, kind, reason } = query(request.uri())?;
    note("reason", &reason, NOTE_BYTES_MAX)?;
    let requested = RequestedDeadLetter::of(caller, &id, tenant, kind)?;
    let Received { bytes, media, share } = body::read(&app, request, BULK_BODY_BYTES_MAX).await?;
    body::only_json(media)?;
    let fields: MessageFields = decode::value(decode::utf8(&bytes)?)?;
    let found = app.service.dead_letter(&requested.dead).await;
    let edited = match requested.found(found)? {
        DeadLetterView::Message(original) => fields.over(*original),
        DeadLetterView::Inbox(original) => fields.over_received(*original),
        DeadLetterView::Saga(_) => {
            return Err(Problem::new(Code::DEAD_KIND, format!("dead letter {id:?}: {NOTHING_TO_EDIT}")));
        }
        DeadLetterView::Event(_) => {
            return Err(Problem::new(Code::DEAD_KIND, format!("dead letter {id:?}: {EVENTS_STAY}")));
        }
    };
    let mut edited = [edited.map_err(Problem::invalid)?];
    requested.caller.admit(&mut edited, None)?;
    let [edited] = edited;
    let done = app.service.edit(&requested.dead, edited, &reason, requested.caller.name()).await?;
    drop(share);
    let status = if done.duplicates.len() == done.ids.len() { StatusCode::OK } else { StatusCode::CREATED };
    json(status, &done)
}

/// The reason in a body that may be left out.
pub(super) async fn act_reason(app: &App, request: Request) -> Result<String, Problem> {
    let ActReason { reason } = body::json_or_default(app, request).await?;
    note("reason", &reason, NOTE_BYTES_MAX)?;
    Ok(reason)
}

/// Bounds a note or a reason.
pub(super) fn note(field: &'static str, text: &str, bytes_max: usize) -> Result<(), Problem> {
    if text.len() > bytes_max {
        return Err(
            Problem::invalid(format!("{field} has {} bytes, at most {bytes_max} are taken", text.len())).at(field)
        );
    }
    Ok(())
}
