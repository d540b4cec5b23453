//! Audit, identity, probes, metrics, documents.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use waybill_api::list::List;
use waybill_api::status::{AuditView, Check, CheckStatus, Liveness, Readiness, Welcome, WhoAmI};
use waybill_core::code::Code;
use waybill_core::ids::Tenant;

use super::query::{AuditParameters, Cursors, NoQuery, page, query};
use super::{json, ok};
use crate::app::App;
use crate::approval::page as approval_page;
use crate::auth::Permission;
use crate::caller::{Caller, bounded, now};
use crate::codes::ErrorPage;
use crate::limits::PROBE_TIMEOUT;
use crate::openapi::Problems;
use crate::problem::Problem;
use crate::scrape;
use crate::ui;

/// Show the audit trail
///
/// Newest first: what people and the host did. Events of messages, sagas (`TxBegin`, `TxRetry`, `TxDead`, `TxReplay`) and received
/// messages (the same without `TxBegin`), and `TxDead` of events of streams, come among it where a kind of theirs, an object or a
/// consumer is asked for.
#[utoipa::path(get, path = "/v1/audit", tag = "system", operation_id = "listAudit", params(AuditParameters),
    responses((status = 200, description = "A page of it.", body = List<AuditView>), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn audit(State(app): State<App>, caller: Caller, uri: Uri) -> Result<Response, Problem> {
    let asked: AuditParameters = query(&uri)?;
    let limit = page(asked.limit)?;
    let tenant = caller.scope(asked.tenant.as_deref(), "")?;
    bounded(&asked.filter)?;
    let wanted = asked.wanted(tenant.clone(), now())?;
    let (kind, id, consumer) = (&asked.kind, &asked.id, &asked.consumer);
    let filter = format!("{kind:?} {id:?} {consumer:?} {:?} {:?} {:?}", asked.since, asked.until, asked.filter);
    let cursors = Cursors::of("audit", tenant.as_ref().map(Tenant::as_str), &filter);
    let inner = cursors.read(asked.cursor.as_deref())?;
    let found = app.service.audit(&wanted, inner.as_deref(), limit).await?;
    ok(&List { next_cursor: cursors.write(found.next_cursor), ..List::whole(found.items) })
}

/// Tell who the caller is
///
/// As the host sees it, by the token of the request; without tokens everybody is `local`.
#[utoipa::path(get, path = "/v1/whoami", tag = "system", operation_id = "whoAmI",
    responses((status = 200, description = "Name, tenants and roles.", body = WhoAmI), Problems),
    extensions(("x-waybill-permission" = json!("any"))))]
pub(crate) async fn whoami(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    ok(&WhoAmI {
        name: caller.name().to_owned(),
        tenants: caller.0.tenants.names(),
        roles: caller.0.roles(),
        auth: if app.auth.is_some() { "token" } else { "none" }.to_owned(),
    })
}

/// Say what answers here
///
/// JSON; where `accept` asks for HTML, as browsers do, the way to the page, or a short text where there is none.
#[utoipa::path(get, path = "/", tag = "system", operation_id = "welcome",
    responses(
        (status = 200, description = "Where to go on.", body = Welcome),
        (status = 303, description = "A browser goes on to the page."),
        Problems,
    ),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn welcome(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Result<Response, Problem> {
    let NoQuery {} = query(&uri)?;
    let welcome = Welcome {
        service: "waybill".to_owned(),
        version: app.version.clone(),
        openapi: "/openapi.json".to_owned(),
        ready: "/readyz".to_owned(),
        errors: "/errors/{code}".to_owned(),
        command_line: "waybill status --url ADDRESS".to_owned(),
    };
    if !approval_page::is_wanted(&headers) {
        return ok(&welcome);
    }
    if let Some(ui) = &app.ui {
        return Ok(ui::to_page(ui));
    }
    let Welcome { version, openapi, ready, errors, command_line, .. } = welcome;
    let text = format!(
        "This is a Waybill host, version {version}.\n\n\
         {openapi}  the API's document\n\
         {ready}        whether the host is ready, and why not\n\
         {errors} what an error code means\n\n\
         There is no page to work with here: run `{command_line}` with this address, or `waybill --help`.\n\
         The folder docs/ that Waybill comes with explains the rest.\n"
    );
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

/// Whether the process answers
///
/// It asks nothing of any dependency.
#[utoipa::path(get, path = "/livez", tag = "system", operation_id = "livez",
    responses((status = 200, description = "It does.", body = Liveness), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn livez() -> Result<Response, Problem> {
    ok(&Liveness { status: "ok".to_owned() })
}

/// Whether the host can do its work
///
/// Every check by name, as it was at most 250 ms ago. Where tokens are configured, the details are for callers with one for all
/// tenants.
#[utoipa::path(get, path = "/readyz", tag = "system", operation_id = "readyz",
    responses((status = 200, description = "It can.", body = Readiness), (status = 503, description = "A check fails.", body = Readiness), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn readyz(State(app): State<App>, caller: Caller) -> Result<Response, Problem> {
    let mut checks = checks(&app).await;
    let status = checks.iter().map(|check| check.status).max().unwrap_or(CheckStatus::Ok);
    if !(caller.0.may(Permission::Read) && caller.sees_all()) {
        checks.iter_mut().for_each(|check| check.detail.clear());
    }
    let http = if status == CheckStatus::Fail { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    json(http, &Readiness { status, checks })
}

/// Every check by name, the server's own among them.
pub(crate) async fn checks(app: &App) -> Vec<Check> {
    let check = |name: &str, status, detail: String| Check { name: name.to_owned(), status, detail };
    let asked = app.readiness.checks(app.service.as_ref());
    let mut checks = match tokio::time::timeout(PROBE_TIMEOUT, asked).await {
        Ok(checks) => checks.to_vec(),
        Err(_) => {
            vec![check("outbox", CheckStatus::Fail, format!("no answer within {} ms", PROBE_TIMEOUT.as_millis()))]
        }
    };
    checks.push(match *app.draining.borrow() {
        true => check(
            "server",
            CheckStatus::Fail,
            "the host is draining: it finishes what it has and takes no more".to_owned(),
        ),
        false => check("server", CheckStatus::Ok, format!("waybill {}", app.version)),
    });
    checks
}

/// Metrics in Prometheus text
///
/// `docs/operations.md` has every one with its labels and what to do about it. Needs a token where the host has tokens.
#[utoipa::path(get, path = "/metrics", tag = "system", operation_id = "metrics",
    responses((status = 200, description = "The exposition.", body = String, content_type = "text/plain"), Problems),
    extensions(("x-waybill-permission" = json!("metrics"))))]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let mut response = Response::new(Body::from(scrape::render(&app).await));
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// This document
///
/// What clients are generated from. Nothing in it depends on the caller.
#[utoipa::path(get, path = "/openapi.json", tag = "system", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn openapi(State(app): State<App>) -> Response {
    let mut response = Response::new(Body::from(app.openapi.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What an error code means
///
/// The address in `type` of every problem; also of codes that attempts, dead letters and bundled plugins tell.
#[utoipa::path(get, path = "/errors/{code}", tag = "system", operation_id = "errorPage",
    params(("code" = String, Path, description = "Error code.")),
    responses((status = 200, description = "Meaning and remedy.", body = ErrorPage), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn error_page(Path(code): Path<String>, uri: Uri) -> Result<Response, Problem> {
    let NoQuery {} = query(&uri)?;
    let known = ErrorPage::of(&code).ok_or_else(|| {
        let why = format!("there is no error code {code:?} of the host or of a bundled plugin");
        Problem::new(Code::HTTP_NOT_FOUND, why)
    })?;
    ok(&known)
}
