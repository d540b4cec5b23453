//! `/v1/events/stats`: how event streams do.

use axum::extract::State;
use axum::response::Response;
use http::Uri;
use waybill_api::stream_stats::StreamStatsView;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::StreamService;
use waybill_core::streams::access::StreamRight;

use super::ok;
use super::query::{TenantQuery, query};
use super::streams::service;
use crate::app::App;
use crate::caller::Caller;
use crate::limits::{COUNTED_PAGES_MAX, PAGE_MAX};
use crate::openapi::Problems;
use crate::problem::Problem;

/// How event streams do
///
/// How many streams there are and how much they keep, of those that the credential may read, and at most 10,000 of them: of the tenant
/// that is asked for, else of all that the credential names, else of `default`. A credential of all tenants sees besides how this host
/// does with the streams of all: what isn't numbered yet, who reads, what is held in memory for readers.
#[utoipa::path(get, path = "/v1/events/stats", tag = "streams", operation_id = "streamStats", params(TenantQuery),
    responses((status = 200, description = "Counts, sizes and ages.", body = StreamStatsView), Problems),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn stats(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: TenantQuery = query(&uri)?;
    let tenants = caller.tenants(asked.tenant.as_deref())?.unwrap_or_else(|| vec![Tenant::unnamed()]);
    let service = service(&app)?;
    let mut stats = counted(service.as_ref(), &caller, &tenants).await?;
    if caller.sees_all() {
        stats.host = Some(service.stream_stats().await?);
    }
    ok(&stats)
}

async fn counted(service: &dyn StreamService, caller: &Caller, tenants: &[Tenant]) -> Result<StreamStatsView, Problem> {
    let names = tenants.iter().map(Tenant::to_string).collect();
    let mut stats = StreamStatsView { tenants: names, ..StreamStatsView::default() };
    let mut pages_left = COUNTED_PAGES_MAX;
    for tenant in tenants {
        let mut cursor = None;
        loop {
            if pages_left == 0 {
                stats.more = true;
                return Ok(stats);
            }
            pages_left -= 1;
            let page = service.streams(tenant, "", cursor.as_deref(), PAGE_MAX).await?;
            let may_read = page.items.iter().filter(|found| caller.0.has(StreamRight::Read, &found.stream.name));
            may_read.for_each(|found| stats.add(found));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(stats)
}
