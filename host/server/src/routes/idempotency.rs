//! `/v1/idempotency`: keys of callers that execute something themselves. Requests with an `Idempotency-Key` header are in
//! [`crate::idempotency_key`].

use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;
use waybill_api::idempotency::{
    BeginKey, BeginRequest, BegunKey, FailKey, FinishKey, ForgetKey, KeyOutcome, KeyState, KeyView, ReleaseKey,
    RenewKey, SettledKey,
};
use waybill_api::list::List;
use waybill_core::idempotency::{Answer, Begun, EntryFilter, EntryKey};
use waybill_core::ids::Tenant;
use waybill_core::port::idempotency::Hold;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::ServiceError;

use super::query::{Cursors, IdempotencyQuery, page, query};
use super::{json, ok};
use crate::app::App;
use crate::auth::Permission;
use crate::body;
use crate::caller::{Caller, bounded, now};
use crate::idempotency_key;
use crate::json::idempotency::{hash, key, lease, token, ttl};
use crate::limits::NOTE_BYTES_MAX;
use crate::openapi::Problems;
use crate::problem::Problem;

fn entry_key(caller: &Caller, tenant: Option<&str>, text: &str) -> Result<EntryKey, Problem> {
    let key = key(text)?;
    Ok(EntryKey { tenant: caller.tenant_of(tenant, Missing::IdempotencyKey, text)?, key })
}

fn hold(caller: &Caller, tenant: Option<&str>, key: &str, text: &str) -> Result<Hold, Problem> {
    Ok(Hold { of: entry_key(caller, tenant, key)?, token: token(text)? })
}

/// Begin an idempotency key
///
/// 201: it is yours; do the work, then finish, fail or release it with the token, before the lease ends or is renewed. 200:
/// what came of it. 409 `TX.IDEMPOTENT_BUSY`: somebody is at it. 422 `TX.IDEMPOTENT_MISMATCH`: it was begun with another hash.
#[utoipa::path(post, path = "/v1/idempotency/begin", tag = "idempotency", operation_id = "beginKey", request_body = BeginKey,
    responses(
        (status = 201, description = "It is the caller's.", body = BegunKey),
        (status = 200, description = "What came of it.", body = KeyOutcome),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn begin(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: BeginKey = body::json(&app, request).await?;
    let request = BeginRequest {
        of: entry_key(&caller, asked.tenant.as_deref(), &asked.key)?,
        hash: hash(&asked.hash)?,
        ttl: asked.ttl_ms.map(ttl).transpose()?,
        lease: asked.lease_ms.map(lease).transpose()?,
    };
    match app.idempotency.begin(request).await? {
        Begun::New(grant) => json(StatusCode::CREATED, &BegunKey::from(grant)),
        Begun::Succeeded(answer) => ok(&KeyOutcome::from(answer)),
        Begun::Failed(error) => ok(&KeyOutcome::failed(error)),
        Begun::Busy { lease_until } => Err(idempotency_key::busy(&asked.key, lease_until)),
        Begun::Mismatch => Err(idempotency_key::mismatch(&asked.key, "hash")),
    }
}

/// Finish an idempotency key
///
/// Repeats of its begin answer the result from now on. A stale token is 409 `TX.LEASE_LOST` and changes nothing.
#[utoipa::path(post, path = "/v1/idempotency/finish", tag = "idempotency", operation_id = "finishKey", request_body = FinishKey,
    responses((status = 200, description = "It is done.", body = SettledKey), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn finish(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: FinishKey = body::json(&app, request).await?;
    let hold = hold(&caller, asked.tenant.as_deref(), &asked.key, &asked.token)?;
    let answer = Answer::of_json(String::from(Box::<str>::from(asked.result)));
    let kept = app.idempotency.finish(hold, answer).await?;
    ok(&SettledKey {
        kept: Some(kept.body.is_some()),
        sha256: Some(kept.sha256),
        ..SettledKey::new(KeyState::Succeeded)
    })
}

/// Fail an idempotency key
///
/// Repeats of its begin answer the error from now on. If it may work another time, release the key instead.
#[utoipa::path(post, path = "/v1/idempotency/fail", tag = "idempotency", operation_id = "failKey", request_body = FailKey,
    responses((status = 200, description = "It failed for good.", body = SettledKey), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn fail(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: FailKey = body::json(&app, request).await?;
    let hold = hold(&caller, asked.tenant.as_deref(), &asked.key, &asked.token)?;
    app.idempotency.fail(hold, &asked.error).await?;
    ok(&SettledKey::new(KeyState::Failed))
}

/// Release an idempotency key
///
/// Nothing was done under it: the next begin gets it.
#[utoipa::path(post, path = "/v1/idempotency/release", tag = "idempotency", operation_id = "releaseKey", request_body = ReleaseKey,
    responses((status = 200, description = "It is free.", body = SettledKey), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn release(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: ReleaseKey = body::json(&app, request).await?;
    let hold = hold(&caller, asked.tenant.as_deref(), &asked.key, &asked.token)?;
    app.idempotency.release(hold).await?;
    ok(&SettledKey::new(KeyState::Released))
}

/// Renew the lease of an idempotency key
///
/// For who works longer than the lease that it asked for. A stale token is refused.
#[utoipa::path(post, path = "/v1/idempotency/renew", tag = "idempotency", operation_id = "renewKey", request_body = RenewKey,
    responses((status = 200, description = "It is reserved for longer.", body = SettledKey), Problems),
    extensions(("x-waybill-permission" = json!("send"))))]
pub(crate) async fn renew(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: RenewKey = body::json(&app, request).await?;
    let hold = hold(&caller, asked.tenant.as_deref(), &asked.key, &asked.token)?;
    let longer: Option<Duration> = asked.lease_ms.map(lease).transpose()?;
    let lease_until = app.idempotency.renew(hold, longer).await?;
    ok(&SettledKey { lease_until: Some(lease_until.into()), ..SettledKey::new(KeyState::InFlight) })
}

/// Release an idempotency key as an operator
///
/// Whoever has it: what they say afterwards is refused. With `finished` a known outcome is forgotten too, so that the key may
/// execute again. Audited. Answers what it was.
#[utoipa::path(post, path = "/v1/idempotency/forget", tag = "idempotency", operation_id = "forgetKey", request_body = ForgetKey,
    responses((status = 200, description = "It was this.", body = KeyView), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn forget(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked: ForgetKey = body::json(&app, request).await?;
    if asked.reason.len() > NOTE_BYTES_MAX {
        let text = format!("reason has {} bytes, at most {NOTE_BYTES_MAX} are taken", asked.reason.len());
        return Err(Problem::invalid(text).at("reason"));
    }
    let of = entry_key(&caller, asked.tenant.as_deref(), &asked.key)?;
    let found = app.idempotency.forget(&of, asked.finished, &asked.reason, caller.name()).await;
    let found = found.map_err(|error| caller.missed(error, asked.tenant.as_deref(), &of.tenant))?;
    ok(&found)
}

/// A key, or a page of them.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ShownKeys {
    Key(KeyView),
    Page(List<KeyView>),
}

/// Show an idempotency key, or list them
///
/// With `key` one, with its result for who may send or operate; without, those that the filter takes:
/// `tenant=acme key=order-* state=in_flight age>1h`.
#[utoipa::path(get, path = "/v1/idempotency", tag = "idempotency", operation_id = "showKeys", params(IdempotencyQuery),
    responses(
        (status = 200, description = "The key, or a page without results.", body = ShownKeys),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("read"))))]
pub(crate) async fn show(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: IdempotencyQuery = query(&uri)?;
    if let Some(text) = &asked.key {
        return ok(&ShownKeys::Key(shown(&app, &caller, asked.tenant.as_deref(), text).await?));
    }
    let limit = page(asked.limit)?;
    bounded(&asked.filter)?;
    let tenant = confined(&caller, asked.tenant.as_deref(), &asked.filter)?;
    let cursors = Cursors::of("idempotency", tenant.as_ref().map(|tenant| tenant.as_str()), &asked.filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.idempotency.entries(tenant.as_ref(), &asked.filter, inner.as_deref(), limit).await?;
    let items = found.items.into_iter().map(KeyView::brief).collect();
    ok(&ShownKeys::Page(List { next_cursor: cursors.write(found.next_cursor), ..List::whole(items) }))
}

/// A key as a caller may see it.
pub(crate) async fn shown(app: &App, caller: &Caller, named: Option<&str>, text: &str) -> Result<KeyView, Problem> {
    let of = entry_key(caller, named, text)?;
    let found = app.idempotency.entry(&of).await.map_err(|error| caller.missed(error, named, &of.tenant))?;
    // A result is an answer to who begins keys, rows of a transaction for instance: not for every viewer.
    let is_theirs = [Permission::Send, Permission::Operate].into_iter().any(|needed| caller.0.may(needed));
    Ok(if is_theirs { found } else { found.brief() })
}

/// The tenant that a list of keys is confined to; none = all.
pub(crate) fn confined(caller: &Caller, named: Option<&str>, filter: &str) -> Result<Option<Tenant>, Problem> {
    let read = EntryFilter::parse(filter, now()).map_err(ServiceError::Filter)?;
    caller.confined(named, read.tenant.as_ref().and_then(|glob| glob.exact()))
}
