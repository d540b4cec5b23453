//! `/v1/inbox`: received messages. Those that can't be handled are among the dead letters.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::Uri;
use waybill_api::InboundService;
use waybill_api::inbox::{InboxMessageView, InboxStats, InboxStatusView, StoredOrder};
use waybill_api::list::List;
use waybill_core::code::Code;
use waybill_core::ids::{ConsumerName, InboundId};
use waybill_core::port::missing::Missing;

use super::ok;
use super::query::{Cursors, InboxQuery, TenantQuery, page, query};
use crate::app::App;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;

/// The inbox of this host.
pub(crate) fn service(app: &App) -> Result<&Arc<dyn InboundService>, Problem> {
    let none = "this host has no [source.NAME] and so no inbox: ask one that has";
    app.inbound.as_ref().ok_or_else(|| Problem::new(Code::PROVIDER_UNAVAILABLE, none))
}

/// List stored messages
///
/// What waits for its turn, its key or its next try. What flows is never stored; what died is among the dead letters.
#[utoipa::path(get, path = "/v1/inbox", tag = "inbox", operation_id = "listInbox", params(InboxQuery),
    responses((status = 200, description = "A page, without payloads.", body = List<InboxMessageView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn list(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: InboxQuery = query(&uri)?;
    let limit = page(asked.limit)?;
    let (filter, tenant) = caller.stored(asked.tenant.as_deref(), &asked.filter)?;
    let (list, order) = match asked.newest {
        true => ("inbox, newest first", StoredOrder::Newest),
        false => ("inbox", StoredOrder::Place),
    };
    let cursors = Cursors::of(list, tenant.as_ref().map(|tenant| tenant.as_str()), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let Some(filter) = filter else { return ok(&List::<InboxMessageView>::whole(Vec::new())) };
    let found = service(&app)?.stored(&filter, order, inner.as_deref(), limit).await?;
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(found.items) })
}

/// How much waits
///
/// By context: received and not processed, and of outbox tables not published. By consumer: in memory, stored, dead, and why it
/// handles nothing now.
#[utoipa::path(get, path = "/v1/inbox/stats", tag = "inbox", operation_id = "inboxStats", params(TenantQuery),
    responses((status = 200, description = "Counts and ages.", body = InboxStats), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn stats(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), "")?;
    ok(&service(&app)?.inbox_stats(tenant.as_ref()).await?)
}

/// Show what is known of a message
///
/// Whether this consumer has seen an id, for the whole of `inbox.dedup_window`; the message itself while it isn't finished; how it
/// ended, for `inbox.keep_done`. An id that was never seen is answered with `unseen`.
#[utoipa::path(get, path = "/v1/inbox/{consumer}/{id}", tag = "inbox", operation_id = "showInbox",
    params(
        ("consumer" = String, Path, description = "Name of the consumer."),
        ("id" = String, Path, description = "Message id as its sender gave it, or the host's place for it."),
        TenantQuery,
    ),
    responses((status = 200, description = "What is known.", body = InboxStatusView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((consumer, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    ok(&known(&app, &caller, asked.tenant.as_deref(), &consumer, &id).await?)
}

/// What is known of a message at a consumer, as far as a caller may see it.
pub(crate) async fn known(
    app: &App,
    caller: &Caller,
    named: Option<&str>,
    consumer: &str,
    id: &str,
) -> Result<InboxStatusView, Problem> {
    // Without one, who may see all isn't asked whose it is: consumer and id name it.
    let tenant = match (named, caller.sees_all()) {
        (None, true) => None,
        (named, _) => Some(caller.tenant_of(named, Missing::InboxMessage, id)?),
    };
    let consumer = ConsumerName::new(consumer).map_err(|error| Problem::from(error).at("consumer"))?;
    let id = InboundId::new(id).map_err(|error| Problem::from(error).at("id"))?;
    let found = service(app)?.status_of(tenant.as_ref(), &consumer, &id).await;
    match &tenant {
        Some(tenant) => found.map_err(|error| caller.missed(error, named, tenant)),
        None => found.map_err(Problem::from),
    }
}
