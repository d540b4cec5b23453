//! Approval by links: `/v1/sagas/{id}/links` makes them, `/v1/approvals/{token}` shows and decides.
//!
//! The token is the only credential that such an address needs. Looking decides nothing: mail scanners follow links.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method};
use waybill_api::saga_node::{SagaNodeView, StepView};
use waybill_api::sagas::SagaActed;
use waybill_core::code::Code;
use waybill_core::port::saga::{ActedBy, SagaAct};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::limits::{NOTE_BYTES_MAX, WAIT_TIMEOUT_DEFAULT};
use waybill_core::time::UnixMillis;

use super::dead_letters::note;
use super::ok;
use super::query::TenantQuery;
use super::sagas::{RequestedSaga, service};
use crate::app::App;
use crate::approval::ApprovalLinks;
use crate::approval::page::{self, AsPage};
use crate::approval::token::{Claims, Decision};
use crate::body;
use crate::caller::{Caller, now};
use crate::edge;
use crate::json::approvals::{ApprovalOut, LinksJson, LinksOut};
use crate::json::saga_requests::SagaActJson;
use crate::openapi::Problems;
use crate::problem::Problem;

/// What `wait:approval` is called in `waiting_for`.
pub(crate) const APPROVAL: &str = "approval";

type Answer = Result<Response, Problem>;

/// Make links for an approval
///
/// Two addresses by which a person without a credential decides on a step that waits for approval (`wait:approval`). They are
/// good until `expires_ms` is over, the step stops waiting, or the host's key changes.
#[utoipa::path(post, path = "/v1/sagas/{id}/links", tag = "sagas", operation_id = "makeApprovalLinks",
    params(("id" = String, Path, description = "Saga id, of a root or a sub-saga."), TenantQuery), request_body = LinksJson,
    responses((status = 200, description = "The links. They aren't kept: asking again makes others.", body = LinksOut), Problems),
    extensions(("x-waybill-permission" = json!("operate"))))]
pub(crate) async fn links(State(app): State<App>, caller: Caller, Path(id): Path<String>, request: Request) -> Answer {
    let requested = RequestedSaga::read(caller, &id, request.uri())?;
    let asked: LinksJson = body::json(&app, request).await?;
    let time = asked.checked()?;
    let links = configured(&app)?;
    let view = requested.found(service(&app)?.saga(&requested.tenant, &requested.id).await)?;
    let node = node(view.saga.as_ref(), requested.id.as_str()).ok_or(SagaError::NotFound { id: id.clone() })?;
    let (step, since) = waiting(node, asked.step.as_deref())?;
    let until = step.until.map_or_else(|| now().plus(WAIT_TIMEOUT_DEFAULT), |until| until.0);
    let claims = |decision| Claims {
        tenant: requested.tenant.clone(),
        saga: requested.id.clone(),
        step: step.name.to_string(),
        since,
        decision,
        by: asked.by.clone(),
        expires_at: time.map_or(until, |time| now().plus(time).min(until)),
    };
    let (approve, reject) = (claims(Decision::Approve), claims(Decision::Reject));
    let made = LinksOut {
        saga: id,
        step: approve.step.clone(),
        by: asked.by.clone(),
        expires_at: approve.expires_at.into(),
        approve: links.url(&approve).map_err(Problem::internal)?,
        reject: links.url(&reject).map_err(Problem::internal)?,
    };
    tracing::info!(saga = %requested.id, tenant = %requested.tenant, step = %made.step, by = %made.by,
        actor = requested.caller.name(), until = %approve.expires_at, "links for an approval were made");
    ok(&made)
}

/// Show what a link decides
///
/// JSON, or a page with a form for each decision where `accept` asks for HTML. Nothing is decided by it.
#[utoipa::path(get, path = "/v1/approvals/{token}", tag = "sagas", operation_id = "showApproval",
    params(("token" = String, Path, description = "Token of the link.")),
    responses((status = 200, description = "What would be decided.",
        content((ApprovalOut = "application/json"), (String = "text/html"))), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Response {
    answer(&headers, shown(&app, &caller, &token, page::is_wanted(&headers)).await)
}

/// Decide by a link
///
/// Approves or rejects, as the link says; the body may give a reason, as JSON or as the field `reason` of a form. The decision
/// is kept with `link:<by>`. Once decided it stays so.
#[utoipa::path(post, path = "/v1/approvals/{token}", tag = "sagas", operation_id = "decideApproval",
    params(("token" = String, Path, description = "Token of the link.")),
    request_body(content((Option<SagaActJson> = "application/json"), (String = "application/x-www-form-urlencoded"))),
    responses((status = 200, description = "It is durable.",
        content((SagaActed = "application/json"), (String = "text/html"))), Problems),
    extensions(("x-waybill-permission" = json!("public"))))]
pub(crate) async fn decide(
    State(app): State<App>,
    caller: Caller,
    Path(token): Path<String>,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    answer(&headers, decided(&app, &caller, &token, request, page::is_wanted(&headers)).await)
}

/// A refusal is shown as what was asked for.
fn answer(headers: &HeaderMap, answer: Answer) -> Response {
    answer.unwrap_or_else(|problem| {
        let mut response = problem.into_response();
        if page::is_wanted(headers) {
            response.extensions_mut().insert(AsPage);
        }
        response
    })
}

async fn shown(app: &App, caller: &Caller, token: &str, as_page: bool) -> Answer {
    let claims = read(app, token)?;
    let place = edge::place(app, &caller.0)?;
    let view = service(app)?.saga(&claims.tenant, &claims.saga).await?;
    let node = node(view.saga.as_ref(), claims.saga.as_str())
        .ok_or_else(|| SagaError::NotFound { id: claims.saga.to_string() })?;
    let (step, since) = waiting(node, Some(&claims.step))?;
    if since != claims.since {
        return Err(not_waiting(node, step, format!("in another wait by now, since {since}")).into());
    }
    let shown = ApprovalOut {
        decision: claims.decision,
        tenant: claims.tenant.to_string(),
        saga: claims.saga.to_string(),
        definition: node.definition.clone(),
        version: node.version,
        step: claims.step.clone(),
        since: since.into(),
        by: claims.by.clone(),
        expires_at: claims.expires_at.into(),
        input: step.input.clone(),
    };
    let answer = if as_page {
        let until = step.until;
        let decision = claims.decision.other();
        let other = configured(app)?.token(&Claims { decision, ..claims }).map_err(Problem::internal)?;
        page::ask(app, &shown, until, (token, &other))
    } else {
        ok(&shown)?
    };
    Ok(place.until_taken(edge::with_room(app, &caller.0, &Method::GET, answer)?))
}

async fn decided(app: &App, caller: &Caller, token: &str, request: Request, as_page: bool) -> Answer {
    let claims = read(app, token)?;
    let _place = edge::place(app, &caller.0)?;
    let reason = if body::is_form(request.headers()) {
        body::form(app, request, "reason").await?
    } else {
        body::json_or_default::<SagaActJson>(app, request).await?.reason
    };
    note("reason", &reason, NOTE_BYTES_MAX)?;
    let note = Some(reason).filter(|reason| !reason.trim().is_empty());
    let by = ActedBy { actor: format!("link:{}", claims.by), note };
    let (step, since) = (Some(claims.step.clone()), Some(claims.since));
    let act = match claims.decision {
        Decision::Approve => SagaAct::Approve { step, since },
        Decision::Reject => SagaAct::Reject { step, since },
    };
    let done = service(app)?.act(&claims.tenant, &claims.saga, act, by).await?;
    if as_page {
        return Ok(page::decided(app, claims.decision, claims.saga.as_str(), &claims.step));
    }
    ok(&SagaActed::from(done))
}

fn configured(app: &App) -> Result<&ApprovalLinks, Problem> {
    app.approvals.as_ref().ok_or_else(|| {
        Problem::new(
            Code::SAGA_NO_APPROVAL_KEY,
            "no key is configured that signs links: `approval_key` in [saga] names one",
        )
    })
}

/// What a link says, if it is good now.
fn read(app: &App, token: &str) -> Result<Claims, Problem> {
    let claims =
        configured(app)?.read(token).map_err(|error| Problem::new(Code::SAGA_LINK_INVALID, error.to_string()))?;
    if claims.expires_at <= now() {
        let text = format!("this link was good until {}: nothing was decided by it", claims.expires_at);
        return Err(Problem::new(Code::SAGA_LINK_EXPIRED, text));
    }
    Ok(claims)
}

/// Whether a step waits for a person.
pub(crate) fn is_asking(step: &StepView) -> bool {
    step.waiting_for.as_deref() == Some(APPROVAL)
}

/// The saga with this id in a tree.
fn node<'a>(root: Option<&'a SagaNodeView>, id: &str) -> Option<&'a SagaNodeView> {
    let mut open = Vec::from_iter(root);
    while let Some(node) = open.pop() {
        if node.id.as_str() == id {
            return Some(node);
        }
        open.extend(node.steps.iter().filter_map(|step| step.saga.as_deref()));
    }
    None
}

/// The step that waits for a person, and since when: the named one, or the only one.
fn waiting<'a>(node: &'a SagaNodeView, name: Option<&str>) -> Result<(&'a StepView, UnixMillis), SagaError> {
    let since = |step: &StepView| step.since.filter(|_| is_asking(step)).map(|since| since.0);
    let id = node.id.to_string();
    if let Some(name) = name {
        let step = node.steps.iter().find(|step| &*step.name == name);
        let known = || names(node.steps.iter());
        let step = step.ok_or_else(|| SagaError::NoStep { id, step: name.to_owned(), known: known() })?;
        return since(step).map(|since| (step, since)).ok_or_else(|| not_waiting(node, step, so_far(step)));
    }
    let found: Vec<(&StepView, UnixMillis)> =
        node.steps.iter().filter_map(|step| since(step).map(|since| (step, since))).collect();
    let (state, fix) = match found.as_slice() {
        [one] => return Ok(*one),
        [] => ("not waiting for a decision", "look at it with `waybill saga show`".to_owned()),
        several => {
            let steps = names(several.iter().map(|(step, _)| *step));
            ("waiting for several decisions", format!("name one of the steps {steps}"))
        }
    };
    Err(SagaError::State { id, state: state.to_owned(), fix })
}

fn names<'a>(steps: impl Iterator<Item = &'a StepView>) -> String {
    steps.map(|step| &*step.name).collect::<Vec<_>>().join(", ")
}

fn not_waiting(node: &SagaNodeView, step: &StepView, state: String) -> SagaError {
    SagaError::NotWaiting { id: node.id.to_string(), step: step.name.to_string(), state }
}

/// Its state, and who decided if somebody did.
fn so_far(step: &StepView) -> String {
    match &step.actor {
        Some(actor) => format!("{}, by {actor}", step.state.word()),
        None => step.state.word().to_owned(),
    }
}
