//! `/v1/outbox/claim`, `/settle` and `/check-dedup`: workers outside.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderValue, header};
use waybill_api::workers::{
    CheckDedup, ClaimBody, ClaimRequest, Claimed, DedupChecked, SettleBody, SettleItem, SettleRequest, Settled,
};
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::route::Pattern;

use super::ok;
use crate::app::App;
use crate::body;
use crate::caller::Caller;
use crate::edge;
use crate::json::workers::{lease, settle_item};
use crate::limits::{
    CLAIM_DEFAULT, CLAIM_PAUSE, CLAIM_WAIT_MAX, LEASE_DEFAULT, PAGE_MAX, RETRY_AFTER_BUSY, WORKER_BYTES_MAX,
};
use crate::openapi::Problems;
use crate::places::Place;
use crate::problem::Problem;

/// Claim messages
///
/// Of topics routed to the transport `external`, the first unsettled one of each key, tenants in turn. Each is the worker's
/// until it settles it or the lease ends; then the next claim may get it. The answer may be empty, and comes before `wait_ms` is over
/// when many callers wait already: after a second at most, or at once with `retry-after`.
#[utoipa::path(post, path = "/v1/outbox/claim", tag = "outbox", operation_id = "claimMessages", request_body = ClaimBody,
    responses((status = 200, description = "The messages, each with the token to settle it.", body = Claimed), Problems),
    extensions(("x-waybill-permission" = json!("work"))))]
pub(crate) async fn claim(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: ClaimBody = body::json(&app, request).await?;
    worker(&asked.worker_id)?;
    let wait = within(asked.wait_ms.unwrap_or(0), CLAIM_WAIT_MAX)?;
    let (place, within) = waiting(&app, &caller, wait);
    let topic = asked.topic.map(|text| Pattern::parse(&text)).transpose();
    let request = ClaimRequest {
        limit: count("limit", asked.limit.unwrap_or(CLAIM_DEFAULT))?,
        lease: lease(asked.lease_ms, asked.lease_seconds)?.unwrap_or(LEASE_DEFAULT),
        topic: topic.map_err(|error| Problem::invalid(error.to_string()).at("topic"))?,
        tenants: caller.tenants(asked.tenant.as_deref())?,
        worker: asked.worker_id,
        wait: within,
    };
    let items = app.service.claim(request).await?;
    drop(place);
    let is_early = items.is_empty() && within.is_zero() && !wait.is_zero();
    let mut answer = ok(&Claimed { items })?;
    if is_early {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_BUSY.as_secs()));
    }
    Ok(answer)
}

/// A wait that is asked for.
pub(super) fn within(wait_ms: u64, most: Duration) -> Result<Duration, Problem> {
    let wait = Duration::from_millis(wait_ms);
    if wait > most {
        let most = most.as_millis();
        return Err(Problem::invalid(format!("wait_ms is {wait_ms}: take up to {most}")).at("wait_ms"));
    }
    Ok(wait)
}

/// How long a caller may wait of what it asked for, and its place meanwhile.
pub(super) fn waiting(app: &App, caller: &Caller, wait: Duration) -> (Option<Place>, Duration) {
    if wait.is_zero() {
        return (None, wait);
    }
    if let Some(place) = edge::waiting(app, &caller.0) {
        return (Some(place), wait);
    }
    match edge::pausing(app, &caller.0) {
        Some(place) => (Some(place), wait.min(CLAIM_PAUSE)),
        None => (None, Duration::ZERO),
    }
}

/// Settle claimed messages
///
/// Each item is answered on its own, `applied` once it is durable. Not applied with code `TX.LEASE_LOST` means that the token
/// isn't the message's current one: nothing changed, an audit event `outbox_flush_conflict` was written, and the worker
/// drops the message.
#[utoipa::path(post, path = "/v1/outbox/settle", tag = "outbox", operation_id = "settleMessages", request_body = SettleBody,
    responses((status = 200, description = "An answer for each item, in order.", body = Settled), Problems),
    extensions(("x-waybill-permission" = json!("work"))))]
pub(crate) async fn settle(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: SettleBody = body::json(&app, request).await?;
    if let Some(name) = &asked.worker_id {
        worker(name)?;
    }
    if let Some(name) = &asked.tenant {
        // Also where each item names its own.
        Tenant::new(name).map_err(|error| Problem::from(error).at("tenant"))?;
    }
    count("items", asked.items.len())?;
    let mut items: Vec<SettleItem> = Vec::with_capacity(asked.items.len());
    for (index, item) in asked.items.into_iter().enumerate() {
        let whose = item.tenant.as_deref().or(asked.tenant.as_deref());
        let tenant = caller.tenant_of(whose, Missing::Message, &item.id)?;
        items.push(settle_item(item, tenant).map_err(|mut problem| {
            problem.at.index = Some(index);
            problem
        })?);
    }
    let request = SettleRequest {
        worker: asked.worker_id,
        actor: caller.name().to_owned(),
        tenants: caller.tenants(None)?,
        items,
    };
    ok(&Settled { items: app.service.settle(request).await? })
}

/// Look for an earlier delivery
///
/// Whether a worker delivered a payload to a target within the window of its route, which has to have `dedup = "payload"`.
/// A worker then acknowledges its own message with the first receipt, and doesn't deliver it again.
#[utoipa::path(post, path = "/v1/outbox/check-dedup", tag = "outbox", operation_id = "checkDedup", request_body = CheckDedup,
    responses((status = 200, description = "The first delivery, or null.", body = DedupChecked), Problems),
    extensions(("x-waybill-permission" = json!("work"))))]
pub(crate) async fn check_dedup(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: CheckDedup = body::json(&app, request).await?;
    let tenant = caller.tenant_of(asked.tenant.as_deref(), Missing::Tenant, asked.tenant.as_deref().unwrap_or(""))?;
    let sha256 = asked.payload_sha.to_ascii_lowercase();
    if sha256.len() != 64 || !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let text = "payload_sha isn't a sha-256 in hex: take payload_sha256 of the claimed message";
        return Err(Problem::invalid(text).at("payload_sha"));
    }
    ok(&DedupChecked { first: app.service.check_dedup(&tenant, &asked.target, &sha256).await? })
}

fn count(field: &'static str, count: usize) -> Result<usize, Problem> {
    if (1..=PAGE_MAX).contains(&count) {
        return Ok(count);
    }
    Err(Problem::invalid(format!("{field} is {count}: take 1 to {PAGE_MAX}")).at(field))
}

fn worker(name: &str) -> Result<(), Problem> {
    if !name.is_empty() && name.len() <= WORKER_BYTES_MAX && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Problem::invalid(format!("worker_id isn't usable: give a name of 1 to {WORKER_BYTES_MAX} bytes"))
        .at("worker_id"))
}
