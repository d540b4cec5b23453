//! `/v1/streams` and `/v1/events`: appending events, reading pages of them, and what is kept.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use waybill_api::events::{AppendBody, AppendedView};
use waybill_api::list::List;
use waybill_api::streams::{
    IMPORT_EVENTS_MAX, ImportFault, ImportStream, ManyEvents, PurgeStream, StreamActedView, StreamDetailView,
    StreamEvents, StreamView,
};
use waybill_core::code::Code;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{Appended, EventPiece, StreamAct, StreamService};
use waybill_core::port::trace::SpanKind;
use waybill_core::streams::access::StreamRight;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::Selector;

use super::dead_letters::note;
use super::query::{
    Cursors, DeleteStreamQuery, EventsQuery, StreamEventsQuery, StreamsQuery, TenantQuery, page, query,
};
use super::{json, ok};
use crate::app::App;
use crate::body;
use crate::caller::{Caller, traceparent};
use crate::json::event;
use crate::limits::{BULK_BODY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::spans::RequestSpan;
use crate::subscribe::selector;

/// The event streams of this host.
pub(crate) fn service(app: &App) -> Result<&Arc<dyn StreamService>, Problem> {
    let none = "this host keeps no event streams: ask one that does";
    app.streams.as_ref().ok_or_else(|| Problem::new(Code::PROVIDER_UNAVAILABLE, none))
}

/// A stream's name in an address or a body.
pub(crate) fn named(field: &str, text: &str) -> Result<StreamName, Problem> {
    StreamName::new(text).map_err(|error| Problem::from(error).at(field))
}

/// A stream that the caller may read. One of another tenant doesn't exist for it.
pub(crate) fn readable(caller: &Caller, name: &str, tenant: Option<&str>) -> Result<StreamKey, Problem> {
    let name = named("name", name)?;
    let tenant = caller.tenant_of(tenant, Missing::Stream, name.as_str())?;
    caller.0.admit(StreamRight::Read, &name)?;
    Ok(StreamKey { tenant, name })
}

/// What an operator does with a stream. One of another tenant doesn't exist for it.
fn act(caller: &Caller, name: &str, tenant: Option<&str>, is_plan: bool, reason: String) -> Result<StreamAct, Problem> {
    note("reason", &reason, NOTE_BYTES_MAX)?;
    let name = named("name", name)?;
    let tenant = caller.tenant_of(tenant, Missing::Stream, name.as_str())?;
    Ok(StreamAct { stream: StreamKey { tenant, name }, is_plan, actor: caller.name().to_owned(), reason })
}

/// Append events
///
/// All or nothing, in their order. Answered 201 with their numbers, or 202 when nobody numbered them within 5 s: then they are durable and
/// will be. With ids of your own the same request again does nothing twice. With `expected_seq` they are appended only if the stream ends
/// there.
#[utoipa::path(post, path = "/v1/streams/{name}/events", tag = "streams", operation_id = "appendEvents",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`.")), request_body = AppendBody,
    responses(
        (status = 201, description = "They have their numbers.", body = AppendedView),
        (status = 202, description = "They are durable, and get their numbers later.", body = AppendedView),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("append"))))]
pub(crate) async fn append(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let mut span = RequestSpan::begin(&app, "append", SpanKind::Producer, trace.as_deref());
    let name = named("name", &name)?;
    caller.0.admit(StreamRight::Append, &name)?;
    let (body, _share): (AppendBody, _) = body::large_json(&app, request, BULK_BODY_BYTES_MAX).await?;
    let tenant = caller.own(body.tenant.as_deref())?;
    let mut asked = body.into_request(StreamKey { tenant, name }).map_err(ServiceError::from)?;
    asked.traceparent = span.context(trace).map(Arc::from);
    span.describe("append", asked.events.len(), Some(asked.stream.tenant.as_str()));
    span.set("messaging.destination.name", asked.stream.name.as_str());
    let appended = service(&app)?.append(asked).await;
    span.end(appended.as_ref().err().map(ServiceError::code));
    let appended = appended?;
    let status = match &appended {
        Appended::Numbered { .. } => StatusCode::CREATED,
        Appended::Accepted { .. } => StatusCode::ACCEPTED,
    };
    json(status, &AppendedView::from(appended))
}

/// Read a page of a stream
///
/// By number, without a gap but for what compaction replaced. To follow a stream, subscribe to it.
#[utoipa::path(get, path = "/v1/streams/{name}/events", tag = "streams", operation_id = "readStream",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`."), StreamEventsQuery),
    responses((status = 200, description = "A page, by number.", body = StreamEvents), Problems),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn read(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: StreamEventsQuery = query(&uri)?;
    let limit = page(asked.limit)? as u64;
    let stream = readable(&caller, &name, asked.tenant.as_deref())?;
    let found = service(&app)?.read_stream(&stream, asked.after.as_deref(), limit).await;
    let found = found.map_err(|error| caller.missed(error, asked.tenant.as_deref(), &stream.tenant))?;
    ok(&StreamEvents {
        items: event::envelopes(&found.events)?,
        first_seq: found.first.into(),
        last_seq: found.last.into(),
        next_after: found.next_after.to_string(),
        end: found.is_end,
    })
}

/// Read events of many streams
///
/// Of all streams whose names begin with `prefix`, or of a resource wherever its events are. Events of streams that the credential may
/// not read are left out, so a page may be short and not the last.
#[utoipa::path(get, path = "/v1/events", tag = "streams", operation_id = "readEvents", params(EventsQuery),
    responses((status = 200, description = "A page, by name and number.", body = ManyEvents), Problems),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn scan(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: EventsQuery = query(&uri)?;
    let limit = page(asked.limit)? as u64;
    let tenant = caller.own(asked.tenant.as_deref())?;
    let (selector, which) = selected(&asked)?;
    let cursors = Cursors::of("events", Some(tenant.as_str()), &which);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = service(&app)?.read_many(&tenant, &selector, inner.as_deref(), limit).await?;
    let is_shown = |piece: &&EventPiece| caller.0.has(StreamRight::Read, &piece.stream.name);
    ok(&ManyEvents {
        items: event::envelopes(found.events.iter().filter(is_shown))?,
        next_cursor: cursors.write(found.next_cursor),
    })
}

/// What is asked for; and the same as text, for the cursor.
fn selected(asked: &EventsQuery) -> Result<(Selector, String), Problem> {
    match (&asked.prefix, &asked.resource_type, &asked.resource_id) {
        (Some(prefix), None, None) => Ok((selector::prefix(prefix)?, format!("prefix:{prefix}"))),
        (None, Some(kind), id) => {
            let which = format!("type:{}:{kind}/{}", kind.len(), id.as_deref().unwrap_or("*"));
            let selector = match id {
                Some(id) => selector::one_resource(kind, id)?,
                None => selector::resource(kind, "")?,
            };
            Ok((selector, which))
        }
        _ => Err(Problem::invalid("name ?prefix=, or ?resource_type= with or without &resource_id=")),
    }
}

/// List streams
///
/// Those that the credential may read, by name: a page may be short and not the last.
#[utoipa::path(get, path = "/v1/streams", tag = "streams", operation_id = "listStreams", params(StreamsQuery),
    responses((status = 200, description = "A page, by name.", body = List<StreamView>), Problems),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: StreamsQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let tenant = caller.own(asked.tenant.as_deref())?;
    selector::prefix(&asked.prefix)?;
    let cursors = Cursors::of("streams", Some(tenant.as_str()), &asked.prefix);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = service(&app)?.streams(&tenant, &asked.prefix, inner.as_deref(), limit).await?;
    let may_read = found.items.into_iter().filter(|found| caller.0.has(StreamRight::Read, &found.stream.name));
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(may_read.map(StreamView::from).collect()) })
}

/// Show a stream
///
/// What of it is kept, who reads it, and how far relays are.
#[utoipa::path(get, path = "/v1/streams/{name}", tag = "streams", operation_id = "showStream",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`."), TenantQuery),
    responses((status = 200, description = "The stream.", body = StreamDetailView), Problems),
    extensions(("x-waybill-permission" = json!("events"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    let stream = readable(&caller, &name, asked.tenant.as_deref())?;
    let found = service(&app)?.stream(&stream).await;
    let found = found.map_err(|error| caller.missed(error, asked.tenant.as_deref(), &stream.tenant))?;
    ok(&StreamDetailView::from(found))
}

/// Take away the front of a stream
///
/// Whole chunks go, and nothing that a relay which holds retention hasn't sent yet. With `dry_run` it tells what would go.
#[utoipa::path(post, path = "/v1/streams/{name}/purge", tag = "streams", operation_id = "purgeStream",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`."), TenantQuery),
    request_body = Option<PurgeStream>,
    responses((status = 200, description = "What would go, or went.", body = StreamActedView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn purge(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let TenantQuery { tenant } = query(&uri)?;
    let asked: PurgeStream = body::json_or_default(&app, request).await?;
    let act = act(&caller, &name, tenant.as_deref(), asked.dry_run, asked.reason)?;
    let done = service(&app)?.purge(&act, asked.before.map(u64::from)).await;
    let done = done.map_err(|error| caller.missed(error, tenant.as_deref(), &act.stream.tenant))?;
    ok(&StreamActedView::of(&act.stream, act.is_plan, done))
}

/// Take away all of a stream
///
/// Its numbers never start again: what is appended later goes on behind the last one. With `dry_run` it tells what would go.
#[utoipa::path(delete, path = "/v1/streams/{name}", tag = "streams", operation_id = "deleteStream",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`."), DeleteStreamQuery),
    responses((status = 200, description = "What would go, or went.", body = StreamActedView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let DeleteStreamQuery { tenant, dry_run, reason } = query(&uri)?;
    let act = act(&caller, &name, tenant.as_deref(), dry_run, reason)?;
    let done = service(&app)?.delete(&act).await;
    let done = done.map_err(|error| caller.missed(error, tenant.as_deref(), &act.stream.tenant))?;
    ok(&StreamActedView::of(&act.stream, act.is_plan, done))
}

/// Import a part of a stream
///
/// With numbers, ids and times as they were elsewhere: into a stream that never had an event, or behind the part that was imported before.
#[utoipa::path(post, path = "/v1/streams/{name}/import", tag = "streams", operation_id = "importStream",
    params(("name" = String, Path, description = "Stream; `/` is written `%2F`."), TenantQuery),
    request_body = ImportStream,
    responses((status = 200, description = "The stream with the part in it.", body = StreamActedView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn import(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    uri: Uri,
    request: Request,
) -> Result<Response, Problem> {
    let TenantQuery { tenant } = query(&uri)?;
    let (mut part, _share): (ImportStream, _) = body::large_json(&app, request, BULK_BODY_BYTES_MAX).await?;
    let act = act(&caller, &name, tenant.as_deref(), false, std::mem::take(&mut part.reason))?;
    let events = part.into_events(&act.stream).map_err(refused)?;
    let done = service(&app)?.import(&act, events).await?;
    ok(&StreamActedView::of(&act.stream, false, done))
}

fn refused(fault: ImportFault) -> Problem {
    match fault {
        ImportFault::Count(count) => {
            let text = format!("the part has {count} events: take 1 to {IMPORT_EVENTS_MAX} in one request");
            Problem::invalid(text).at("events")
        }
        ImportFault::OtherStream { index, stream } => {
            let mut problem = Problem::invalid(format!("the event is one of {stream}, not of this stream"));
            problem.at.index = Some(index);
            problem
        }
        ImportFault::Event(error) => ServiceError::from(error).into(),
    }
}
