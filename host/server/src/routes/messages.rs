//! `/v1/messages`.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Deserialize;
use utoipa::IntoParams;
use waybill_api::act_reason::ActReason;
use waybill_api::facets::FacetsView;
use waybill_api::list::List;
use waybill_api::messages::{Enqueued, MessageView, Reschedule};
use waybill_api::neighbours::NeighboursView;
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::ListOrder;
use waybill_core::port::service::ServiceError;
use waybill_core::port::trace::SpanKind;

use super::dead_letters::{act_reason, note};
use super::ok;
use super::query::{Cursors, FilterQuery, TenantQuery, page, query};
use super::requested_message::RequestedMessage;
use crate::app::App;
use crate::body::{self, Media, Received};
use crate::caller::{Caller, traceparent};
use crate::idempotency_key::{self, Execution, Reply};
use crate::json::requests::PostMessagesJson;
use crate::json::{decode, post};
use crate::limits::{BULK_BODY_BYTES_MAX, NOTE_BYTES_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::spans::RequestSpan;

/// Which messages of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct MessagesQuery {
    /// Only this tenant's; a credential of several names one, here or in `filter`.
    pub tenant: Option<String>,
    /// Conditions that all hold: `tenant=acme topic=bus:orders.* key=42 state=pending waits=retry code=NATS.* generation=3 replayed>0
    /// age>1h since=2026-12-01T14:00:00Z until=2026-12-02 correlation_id=c-1`; a value with spaces stands in quotes.
    #[serde(default)]
    pub filter: String,
    /// `next_cursor` of the page before.
    #[serde(alias = "resume_token")]
    pub cursor: Option<String>,
    /// Most items, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    // Read so that its refusal says who counts messages.
    #[serde(default)]
    #[param(ignore)]
    pub count: bool,
    /// Newest first: scheduled messages, the last due first, then all others, the latest in the order first. Without it messages come
    /// by what they wait for, finished ones last, each part oldest first.
    #[serde(default)]
    pub newest: bool,
}

/// Enqueue messages
///
/// All or nothing, up to 10,000 messages or 64 MiB, answered after the durable commit. As JSON lines, one message a line.
#[utoipa::path(post, path = "/v1/messages", tag = "messages", operation_id = "enqueue",
    params(idempotency_key::KeyHeader),
    request_body(content((PostMessagesJson = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 201, description = "Committed.", body = Enqueued),
        (status = 200, description = "All of them were there before with the same content.", body = Enqueued),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn enqueue(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let trace = traceparent(request.headers());
    let mut span = RequestSpan::begin(&app, "enqueue", SpanKind::Producer, trace.as_deref());
    let trace = span.context(trace);
    let asked = idempotency_key::asked(&app, request.headers(), request.method(), request.uri())?;
    let Received { bytes, media, share } = body::read(&app, request, BULK_BODY_BYTES_MAX).await?;
    let text = decode::utf8(&bytes)?;
    let mut messages = match media {
        Some(Media::Lines) => post::lines(text)?,
        _ => post::json(text)?,
    };
    if messages.is_empty() {
        return Err(Problem::invalid("there is no message in the request: send at least one"));
    }
    caller.admit(&mut messages, trace.as_deref())?;
    span.describe("enqueue", messages.len(), messages.first().and_then(|message| message.tenant.as_deref()));
    let wanted = match asked {
        Some(asked) => Some(asked.of(idempotency_key::tenant_of(&messages)?.unwrap_or_else(Tenant::unnamed), &bytes)?),
        None => None,
    };
    drop(bytes);
    let service = Arc::clone(&app.service);
    idempotency_key::run(&app, wanted, move |execution: Option<Execution>| async move {
        let named = execution.map(|execution| execution.name(&mut messages)).unwrap_or_default();
        let done = service.enqueue(messages).await;
        span.end(done.as_ref().err().map(ServiceError::code));
        let mut done = done?;
        drop(share);
        // What was there under an id of the key itself is of an execution that crashed before it could answer.
        done.duplicates.retain(|id| !named.contains(id));
        let status = if done.duplicates.len() == done.ids.len() { StatusCode::OK } else { StatusCode::CREATED };
        Reply::json(status, &done)
    })
    .await
}

/// List messages
///
/// By filter: `state=` takes `pending`, `leased`, `done`, `cancelled`, `expired`; dead ones are at `/v1/dead-letters`. What waits comes
/// first and each part oldest first, unless `newest=true`.
#[utoipa::path(get, path = "/v1/messages", tag = "messages", operation_id = "listMessages", params(MessagesQuery),
    responses((status = 200, description = "A page, without payloads.", body = List<MessageView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: MessagesQuery = query(&uri)?;
    if asked.count {
        return Err(Problem::invalid("count is for dead letters: /v1/outbox/stats counts the others").at("count"));
    }
    let limit = page(asked.limit)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    let (list, order) = match asked.newest {
        true => ("messages, newest first", ListOrder::Newest),
        false => ("messages", ListOrder::State),
    };
    let cursors = Cursors::of(list, tenant.as_ref().map(|tenant| tenant.as_str()), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.service.messages(tenant.as_ref(), &asked.filter, order, inner.as_deref(), limit).await?;
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(found.items) })
}

/// Show a message
///
/// State, attempts with outcome and plugin, receipt, payload, and what it waits for.
#[utoipa::path(get, path = "/v1/messages/{id}", tag = "messages", operation_id = "showMessage",
    params(("id" = String, Path, description = "Message id."), TenantQuery),
    responses((status = 200, description = "The message.", body = MessageView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let requested = RequestedMessage::read(caller, id, &uri, Missing::Message)?;
    let found = app.service.message(&requested.tenant, &requested.id).await;
    requested.answer(found)
}

/// Show a message's neighbours
///
/// Those that go before it of its key, and those that wait behind it, five on each side at most, as far as the shard's owner has them in
/// memory.
#[utoipa::path(get, path = "/v1/messages/{id}/neighbours", tag = "messages", operation_id = "showNeighbours",
    params(("id" = String, Path, description = "Message id."), TenantQuery),
    responses((status = 200, description = "Both sides of it.", body = NeighboursView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn neighbours(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let requested = RequestedMessage::read(caller, id, &uri, Missing::Message)?;
    let near = app.service.neighbours(&requested.tenant, &requested.id).await;
    ok(&requested.found(near)?)
}

/// Count what a list can be narrowed by
///
/// How often each tenant, state, code, topic, transport and reason to wait stands in what the filter takes, the newest messages first.
/// At most 10,000 rows are looked at, for two seconds; past that the answer is `partial`.
#[utoipa::path(get, path = "/v1/messages/facets", tag = "messages", operation_id = "countFacets", params(FilterQuery),
    responses((status = 200, description = "The counts.", body = FacetsView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn facets(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: FilterQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), &asked.filter)?;
    ok(&app.service.facets(tenant.as_ref(), &asked.filter).await?)
}

/// Take a message back
///
/// Unless it is being sent or finished.
#[utoipa::path(post, path = "/v1/messages/{id}/cancel", tag = "messages", operation_id = "cancelMessage",
    params(("id" = String, Path, description = "Message id."), TenantQuery), request_body = Option<ActReason>,
    responses((status = 200, description = "The cancelled message.", body = MessageView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedMessage::read(caller, id, request.uri(), Missing::Message)?;
    let reason = act_reason(&app, request).await?;
    let found = app.service.cancel(&requested.tenant, &requested.id, &reason, requested.caller.name()).await;
    requested.answer(found)
}

/// Move a waiting message to another instant
///
/// Of one that waits for a retry or for its time. What is ready, being sent or ended is refused.
#[utoipa::path(post, path = "/v1/messages/{id}/reschedule", tag = "messages", operation_id = "rescheduleMessage",
    params(("id" = String, Path, description = "Message id."), TenantQuery), request_body = Reschedule,
    responses((status = 200, description = "The message.", body = MessageView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let requested = RequestedMessage::read(caller, id, request.uri(), Missing::Message)?;
    let Reschedule { not_before, reason } = body::json(&app, request).await?;
    note("reason", &reason, NOTE_BYTES_MAX)?;
    let RequestedMessage { tenant, id, caller, .. } = &requested;
    let found = app.service.reschedule(tenant, id, not_before.0, &reason, caller.name()).await;
    requested.answer(found)
}
