//! A request of the page: who looks, what they may, parts that fail for themselves, and how it is answered.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use waybill_api::history::{Changed, HistoryView};
use waybill_api::status::CheckStatus;
use waybill_core::code::Code;
use waybill_core::glob::Glob;
use waybill_core::ids::Tenant;
use waybill_core::outbox::filter::tenant_in;
use waybill_page::acts::{May, Right};
use waybill_page::environment::Environment;
use waybill_page::frame::{Frame, Place, TenantChoice, Verdict, Who};
use waybill_page::live::{Numbers, Watched};
use waybill_page::parts::{Fault, FaultKind, Part};
use waybill_page::time::AsOf;
use waybill_page::{Markup, address, views};

use super::acts::permission;
use super::live::{present, tells_newer};
use super::sessions::Found;
use super::{html, see_other};
use crate::app::App;
use crate::auth::{Permission, Tenants};
use crate::caller::{Caller, bounded, now};
use crate::edge::{self, RequestId};
use crate::limits::{PAGE_CHANGES, PAGE_NUMBERS_TIMEOUT, PAGE_PART_TIMEOUT, RETRY_AFTER_BUSY};
use crate::problem::Problem;
use crate::routes::{history, system};

/// Views of one tenant or another.
const LISTS: [&str; 11] = [
    address::OVERVIEW,
    address::MESSAGES,
    address::DEAD_LETTERS,
    address::SAGAS,
    address::BLOCKED,
    address::INBOX,
    address::IDEMPOTENCY,
    address::APPROVALS,
    address::STREAMS,
    address::OPERATIONS,
    address::AUDIT,
];

/// Marks an answer that goes wrong and has its words already.
#[derive(Clone, Copy)]
pub(crate) struct Written;

/// Which view is asked for.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub place: Place,
    pub title: &'static str,
    pub needs: Permission,
}

/// A request of somebody who may look.
pub(super) struct Visit {
    pub caller: Caller,
    pub as_of: AsOf,
    pub uri: Uri,
    session: Option<Found>,
    request_id: String,
    is_read_only: bool,
}

impl FromRequestParts<App> for Visit {
    /// The way to the form.
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let caller = Caller::from_request_parts(parts, app).await.map_err(IntoResponse::into_response)?;
        if app.auth.is_some() && Arc::ptr_eq(&caller.0, &app.anonymous) {
            let to = parts.uri.path_and_query().map_or(address::OVERVIEW, |to| to.as_str());
            return Err(see_other(&address::with(address::SIGN_IN, &[("to", to)])));
        }
        let session = parts.extensions.get::<Found>().cloned();
        let uri = parts.uri.clone();
        let is_read_only = app.ui.as_ref().is_some_and(|ui| ui.environment.is_read_only);
        Ok(Self { caller, as_of: AsOf(now()), uri, session, request_id: request_id(parts), is_read_only })
    }
}

/// The request's id as it is shown.
pub(super) fn request_id(parts: &Parts) -> String {
    let id = parts.extensions.get::<RequestId>();
    id.and_then(|RequestId(id)| id.to_str().ok()).unwrap_or("-").to_owned()
}

impl Visit {
    /// A part of a view. One that fails or takes too long leaves the others.
    pub async fn part<T, E: Into<Problem>>(&self, asked: impl Future<Output = Result<T, E>>) -> Part<T> {
        let found = match tokio::time::timeout(PAGE_PART_TIMEOUT, asked).await {
            Ok(found) => found.map_err(Into::into),
            Err(_) => {
                let text = format!("no answer came within {} s", PAGE_PART_TIMEOUT.as_secs());
                Err(Problem::new(Code::TX_TIMEOUT, text).after(RETRY_AFTER_BUSY))
            }
        };
        found.map_err(|problem| fault(&problem, &self.request_id))
    }

    /// A part that needs more than its view.
    pub async fn part_for<T, E: Into<Problem>>(
        &self,
        needs: Permission,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Part<T> {
        match edge::may(&self.caller.0, needs) {
            Ok(()) => self.part(asked).await,
            Err(problem) => Err(fault(&problem, &self.request_id)),
        }
    }

    /// The last hour, for who may see what all tenants have; none for others, and where it can't be told.
    pub async fn hour(&self, app: &App) -> Option<HistoryView> {
        self.part_for(Permission::Metrics, app.service.history(None)).await.ok()
    }

    /// What changed lately, as far as the caller may see it.
    pub async fn changes(&self, app: &App) -> Part<Changed> {
        self.part(history::shown(app, &self.caller, None, PAGE_CHANGES)).await
    }

    /// What the caller may do.
    pub fn may(&self) -> May {
        let may = |right| self.caller.0.may(permission(right));
        let (send, append) = (may(Right::Send), may(Right::Append));
        let (operate, manage) = (may(Right::Operate), may(Right::Manage));
        May { send, append, operate, manage, is_read_only: self.is_read_only }
    }

    /// What only this page's forms have: of the session, or where nobody signs in of this run of the host.
    pub fn form_token<'a>(&'a self, app: &'a App) -> Option<&'a str> {
        match &app.auth {
            Some(_) => self.session.as_ref().map(|session| &*session.form_token),
            None => app.ui.as_ref().map(|ui| ui.sessions.door.as_str()),
        }
    }

    /// A problem as this view shows it.
    pub fn fault(&self, problem: &Problem) -> Fault {
        fault(problem, &self.request_id)
    }

    /// A view that says why something wasn't done; without room for all of it, only that.
    pub async fn refused(&self, app: &App, view: View, body: &Markup, problem: Problem) -> Response {
        let page = html(problem.status(), self.document(app, view, body).await);
        match edge::with_room(app, &self.caller.0, &Method::GET, page) {
            Ok(page) => written(page, problem),
            Err(_) => self.refusal(app, view, problem).await,
        }
    }

    /// A page that says why there is no view.
    async fn refusal(&self, app: &App, view: View, problem: Problem) -> Response {
        let why = views::refused(view.title, &self.fault(&problem));
        written(html(problem.status(), self.document(app, view, &why).await), problem)
    }

    /// The tenants of the caller's token, if it names several.
    fn several(&self) -> Option<&[Tenant]> {
        match &self.caller.0.tenants {
            Tenants::Only(list) if list.len() > 1 => Some(list),
            Tenants::Only(_) | Tenants::All => None,
        }
    }

    /// The tenant that a list is confined to. With a token of several that is the one of the address or of the filter, of whatever list
    /// it is, as over the API; the first of the token's where neither names one.
    pub fn scope(&self, asked: Option<&str>, filter: &str) -> Result<Option<Tenant>, Problem> {
        bounded(filter)?;
        let named = tenant_in(filter);
        let named = named.as_ref().and_then(Glob::exact);
        let first = self.several().filter(|_| named.is_none()).and_then(<[Tenant]>::first);
        let asked = asked.filter(|name| !name.is_empty()).or(first.map(Tenant::as_str));
        self.caller.confined(asked, named)
    }

    /// What the view's address says of a name; empty = nothing.
    fn says(&self, name: &str) -> String {
        let mut query = form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes());
        query.find(|(of, _)| of == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    /// The tenant that the view is confined to, by its address.
    fn present(&self) -> Result<Option<Tenant>, Problem> {
        self.scope(Some(&self.says("tenant")), &self.says("filter"))
    }

    /// The tenant that an address has to name for the same view: one of several.
    pub fn tenant_named(&self, scope: Option<&Tenant>, asked: Option<&str>) -> String {
        let is_needed = self.several().is_some() || asked.is_some_and(|name| !name.is_empty());
        scope.filter(|_| is_needed).map(ToString::to_string).unwrap_or_default()
    }

    /// Makes a view if the caller may look at it, else says why not.
    pub async fn show(&self, app: &App, view: View, body: impl Future<Output = Result<Markup, Problem>>) -> Response {
        let made = async {
            edge::may(&self.caller.0, view.needs)?;
            let place = edge::place(app, &self.caller.0)?;
            let body = body.await?;
            let answer = html(StatusCode::OK, self.document(app, view, &body).await);
            Ok::<Response, Problem>(place.until_taken(edge::with_room(app, &self.caller.0, &Method::GET, answer)?))
        };
        match made.await {
            Ok(answer) => answer,
            Err(problem) => self.refusal(app, view, problem).await,
        }
    }

    async fn document(&self, app: &App, view: View, body: &Markup) -> String {
        let environment = app.ui.as_ref().map(|ui| ui.environment.clone()).unwrap_or_default();
        let (verdict, numbers) = tokio::join!(verdict(app), self.numbers(app));
        let frame = Frame {
            place: view.place,
            as_of: self.as_of,
            version: app.version.clone(),
            environment,
            who: self.who(app),
            verdict,
            tenants: self.choices(),
            numbers,
            live: self.live(app),
        };
        frame.document(view.title, body)
    }

    /// The numbers of the navigation, as far as the caller may see them.
    async fn numbers(&self, app: &App) -> Numbers {
        match self.present() {
            Ok(scope) if self.caller.0.may(Permission::Read) => {
                present(app, &self.caller, scope.as_ref(), PAGE_NUMBERS_TIMEOUT).await.unwrap_or_default()
            }
            _ => Numbers::new(),
        }
    }

    /// Where the numbers of this view come from; none = its caller may not look at them.
    fn live(&self, app: &App) -> Option<String> {
        let ui = app.ui.as_ref().filter(|_| self.caller.0.may(Permission::Read))?;
        let path = self.uri.path().strip_prefix(address::OVERVIEW).unwrap_or_default();
        let view = path.trim_start_matches('/');
        let scope = self.present().ok()?;
        let tenant = self.tenant_named(scope.as_ref(), Some(&self.says("tenant")));
        // New rows come before the first page of a list that is newest first.
        let is_first = self.says("after").is_empty() && self.says("sort") != "state";
        let tells_newer = is_first && tells_newer(&self.caller, scope.as_ref());
        let since = ui.watchers.since(view, app.service.totals()).filter(|_| tells_newer).unwrap_or_default();
        let is_filtered = !self.says("filter").is_empty();
        let watched = Watched { view, tenant: &tenant, since: &since, is_filtered };
        Some(watched.address())
    }

    fn who(&self, app: &App) -> Who {
        if app.auth.is_none() {
            return Who::Local;
        }
        let caller = &self.caller.0;
        let tenants = match &caller.tenants {
            Tenants::All => "all tenants".to_owned(),
            Tenants::Only(list) => list.iter().map(Tenant::as_str).collect::<Vec<_>>().join(", "),
        };
        let form_token = self.session.as_ref().map(|session| session.form_token.to_string()).unwrap_or_default();
        Who::SignedIn { name: caller.name.clone(), roles: caller.roles().join(", "), tenants, form_token }
    }

    fn choices(&self) -> Vec<TenantChoice> {
        let is_list = LISTS.contains(&self.uri.path());
        let Some(list) = self.several().filter(|_| is_list) else { return Vec::new() };
        let present = self.present().ok().flatten();
        let choice = |tenant: &Tenant| TenantChoice {
            name: tenant.to_string(),
            address: address::with(self.uri.path(), &[("tenant", tenant.as_str())]),
            is_present: present.as_ref() == Some(tenant),
        };
        list.iter().map(choice).collect()
    }
}

/// How the host is, by the worst of its checks.
pub(super) async fn verdict(app: &App) -> Verdict {
    match system::checks(app).await.iter().map(|check| check.status).max() {
        Some(CheckStatus::Ok) => Verdict::Ready,
        Some(CheckStatus::Warn) => Verdict::Look,
        Some(CheckStatus::Fail) => Verdict::NotReady,
        None => Verdict::Unknown,
    }
}

/// A problem as a part of the page shows it. What only the log may know is logged here.
pub(super) fn fault(problem: &Problem, request_id: &str) -> Fault {
    if let Some(cause) = &problem.cause {
        tracing::warn!(request_id, code = problem.code.as_str(), cause, "a part of the page can't be shown");
    }
    Fault {
        kind: match problem.code.status() {
            400 | 422 => FaultKind::Request,
            401 | 403 => FaultKind::NotAllowed,
            _ => FaultKind::Failed,
        },
        code: problem.code.as_str().to_owned(),
        detail: problem.detail.clone(),
        fix: problem.code.fix().to_owned(),
        is_retryable: problem.code.retryable() || problem.retry_after.is_some(),
        request_id: request_id.to_owned(),
    }
}

/// A page that says what went wrong; the edge counts it as what it is.
pub(super) fn written(mut page: Response, problem: Problem) -> Response {
    page.extensions_mut().insert(Problem { cause: None, ..problem });
    page.extensions_mut().insert(Written);
    page
}

/// A page around what the edge refuses: who looks isn't known there.
pub(crate) fn bare(problem: &Problem, request_id: &str, environment: Environment) -> Response {
    let frame = Frame {
        place: Place::None,
        as_of: AsOf(now()),
        version: String::new(),
        environment,
        who: Who::Nobody,
        verdict: Verdict::Unknown,
        tenants: Vec::new(),
        numbers: Numbers::new(),
        live: None,
    };
    let why = views::refused(problem.code.title(), &fault(problem, request_id));
    html(problem.status(), frame.document(problem.code.title(), &why))
}
