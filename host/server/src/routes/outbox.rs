//! `/v1/outbox`.

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use waybill_api::list::List;
use waybill_api::status::{BlockedView, OutboxStats};
use waybill_core::ids::Tenant;
use waybill_core::port::service::ServiceError;

use super::ok;
use super::query::{TenantQuery, query};
use crate::app::App;
use crate::caller::Caller;
use crate::openapi::Problems;
use crate::problem::Problem;

/// Depths and ages
///
/// By tenant and transport.
#[utoipa::path(get, path = "/v1/outbox/stats", tag = "outbox", operation_id = "outboxStats", params(TenantQuery),
    responses((status = 200, description = "A row a tenant and transport.", body = List<OutboxStats>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn stats(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), "")?;
    ok(&List::whole(app.service.stats(tenant.as_ref()).await?))
}

/// What holds messages back
///
/// Keys, destinations, transports and topics without a route, with the reason and since when. Of what holds everybody's messages a
/// credential of some tenants sees which transport it is, since when and until when.
#[utoipa::path(get, path = "/v1/outbox/blocked", tag = "outbox", operation_id = "outboxBlocked", params(TenantQuery),
    responses((status = 200, description = "A row a hold.", body = List<BlockedView>), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn blocked(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    let tenant = caller.scope(asked.tenant.as_deref(), "")?;
    ok(&List::whole(holds(&app, &caller, tenant.as_ref()).await?))
}

/// What holds messages of a tenant back, none = of all, as a caller may see it.
pub(crate) async fn holds(
    app: &App,
    caller: &Caller,
    tenant: Option<&Tenant>,
) -> Result<Vec<BlockedView>, ServiceError> {
    let rows = app.service.blocked(tenant).await?;
    Ok(if caller.sees_all() { rows } else { rows.into_iter().filter_map(for_some).collect() })
}

/// A hold as a credential of some tenants may see it: one of everybody tells neither why nor how much, and is left out if it is
/// of a place within a transport, which may be known to another tenant alone.
fn for_some(mut hold: BlockedView) -> Option<BlockedView> {
    if hold.tenant.is_some() {
        return Some(hold);
    }
    hold.reason.clear();
    hold.waiting = 0;
    is_of_whole_transport(&hold).then_some(hold)
}

fn is_of_whole_transport(hold: &BlockedView) -> bool {
    hold.transport.as_ref() == Some(&hold.subject)
}

/// Whether a hold is among those that [`holds`] has for a caller.
pub(crate) fn is_seen(hold: &BlockedView, caller: &Caller, tenant: Option<&Tenant>) -> bool {
    match (&hold.tenant, tenant) {
        (Some(whose), Some(tenant)) => whose == tenant.as_str(),
        (Some(_), None) => true,
        (None, _) => caller.sees_all() || is_of_whole_transport(hold),
    }
}
