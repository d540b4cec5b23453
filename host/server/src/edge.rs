//! The one layer every request passes: request id, names, credentials, permission, load, time, problems, metrics.
//!
//! It does not read bodies and knows no route but by its template.

mod answers;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body;
use waybill_core::code::Code;

use crate::app::{App, Entry};
use crate::auth::{Permission, Principal};
use crate::caller::Caller;
use crate::crowd::Visit;
use crate::grpc;
use crate::head;
use crate::limits::{RETRY_AFTER_BUSY, SMALL_ANSWER_BYTES, TOKEN_BYTES_MAX, TRANSACTION_WAIT_MAX, TRANSACTIONS_MAX};
use crate::listen::check_names;
use crate::places::{Full, Place, Sharer};
use crate::problem::Problem;
use crate::refusals::{Peer, Refusals};
use crate::runs_on::RunsOn;
use crate::subscribe::feed::Ongoing;
use crate::ui;

use answers::{finish, request_id};
pub(crate) use answers::{panicked, turned_away};

/// The route of subscriptions.
const SUBSCRIBE: &str = "/v1/subscribe";

/// When a request's time began; the edge puts it into the request, whose body has no time beyond that.
#[derive(Clone, Copy)]
pub(crate) struct Begun(pub tokio::time::Instant);

/// The request's id; the edge puts it into the request, for answers that show it.
#[derive(Clone)]
pub(crate) struct RequestId(pub HeaderValue);

pub(crate) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let uri = request.uri().clone();
    let method = request.method().clone();
    let peer = request.extensions().get::<Peer>().copied();
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let rule = app.rules.of_route(matched);
    let template = &*rule.template;
    let entry = app.rules.entry(matched, &method);
    let is_grpc = rule.is_grpc || matched.is_none() && grpc::is_asked(request.headers());
    // Calls of gRPC are looks, whatever its method says.
    let kind = if is_grpc { Method::GET } else { method.clone() };
    let runs_on = !matches!(kind, Method::GET | Method::HEAD) && entry != Entry::Needs(Permission::Work);
    let mut place = None;
    let answer = match admit(&app, entry, &request) {
        Err(Refused::Problem(problem)) => problem.into_response(),
        Err(Refused::NoMethod { allow }) => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allow)]).into_response(),
        Ok(admitted) => {
            let caller = Arc::clone(&admitted.principal);
            request.extensions_mut().insert(Caller(admitted.principal));
            request.extensions_mut().insert(Begun(tokio::time::Instant::now()));
            request.extensions_mut().insert(RequestId(id.clone()));
            if let Some(session) = admitted.session {
                request.extensions_mut().insert(session);
            }
            let work = work(next, request, admitted.place, runs_on);
            match tokio::time::timeout(app.limits.request_timeout, work).await {
                Ok((response, kept)) => {
                    // What goes on for days has a place of its own kind.
                    place = kept.filter(|_| response.extensions().get::<Ongoing>().is_none());
                    if place.is_some() {
                        with_room(&app, &caller, &kind, response).unwrap_or_else(Problem::into_response)
                    } else {
                        response
                    }
                }
                Err(_) => Problem::new(
                    Code::TX_TIMEOUT,
                    format!(
                        "the request wasn't finished within {} s; what it asked for may still happen",
                        app.limits.request_timeout.as_secs_f64()
                    ),
                )
                .after(RETRY_AFTER_BUSY)
                .into_response(),
            }
        }
    };
    if let Some(problem) = answer.extensions().get::<Problem>().filter(|problem| Refusals::concern(problem)) {
        app.refusals.note(problem, peer, template);
    }
    // An answer of gRPC says by other means how it went.
    let status = answer.status();
    let response = finish(&app, answer, &id, uri.path(), template, is_grpc);
    let took = started.elapsed();
    tracing::debug!(request_id = id.to_str().unwrap_or("-"), %method, route = template, status = status.as_u16(), ?took, "answered");
    rule.series.request(&rule.template, &method, status, took);
    match place {
        Some(place) => place.until_taken(response),
        None => response,
    }
}

/// A request's work, which holds its place until it ends.
///
/// What changes something runs on when the caller goes away or the time is over: what it asked for is done to its end, and so
/// its place is taken as long. A look ends with its caller, and so does what a worker asks for: nothing is leased for nobody.
async fn work(next: Next, request: Request, place: Option<Place>, runs_on: bool) -> (Response, Option<Place>) {
    let work = async move { (next.run(request).await, place) };
    if runs_on { RunsOn::new(work).await } else { work.await }
}

/// An answer with its part of the memory for large ones, which it gives back when it is taken.
///
/// Without room it is dropped at once: who waits for room holds the memory that there isn't. A look may be asked for again; of
/// anything else the caller has to hear that it was done.
pub(crate) fn with_room(app: &App, caller: &Principal, method: &Method, answer: Response) -> Result<Response, Problem> {
    let bytes = usize::try_from(answer.body().size_hint().lower()).unwrap_or(usize::MAX);
    if bytes <= SMALL_ANSWER_BYTES {
        return Ok(answer);
    }
    let full = match app.answers.take_many(&shares(app, caller), bytes.div_ceil(1024)) {
        Ok(room) => return Ok(room.until_taken(answer)),
        Err(full) => full,
    };
    if answer.status().is_success() && !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Problem::new(
            Code::HTTP_ANSWER_DROPPED,
            format!(
                "what was asked for is done and would have been answered {} with {bytes} bytes, but large answers that \
                 aren't taken yet fill the memory for them: don't ask for it anew; where the request has an \
                 Idempotency-Key or ids of its own, the same request again does nothing twice and tells what is known of it",
                answer.status().as_u16()
            ),
        ));
    }
    Err(no_room(full))
}

/// Room for a large answer that isn't made yet: without it nothing is made.
pub(crate) fn room(app: &App, caller: &Principal, bytes: usize) -> Result<Place, Problem> {
    app.answers.take_many(&shares(app, caller), bytes.div_ceil(1024)).map_err(no_room)
}

fn no_room(full: Full) -> Problem {
    let (code, whose) = match full {
        Full::All => (Code::HTTP_OVERLOADED, ""),
        Full::Share { .. } => (Code::HTTP_SHARE, " that a tenant has"),
    };
    let detail = format!(
        "large answers that aren't taken yet fill the memory{whose} for them: read answers to their end, ask for less at \
         once, or try again after a moment"
    );
    Problem::new(code, detail).after(RETRY_AFTER_BUSY)
}

struct Admitted {
    principal: Arc<Principal>,
    /// Its place among the requests at work.
    place: Option<Place>,
    /// Of a request of the page that came with one in the place of a token.
    session: Option<ui::Found>,
}

/// Why a request goes no further.
enum Refused {
    Problem(Problem),
    /// The route takes these methods.
    NoMethod {
        allow: String,
    },
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn admit(app: &App, entry: Entry, request: &Request) -> Result<Admitted, Refused> {
    head::check(&app.limits, request)?;
    let (principal, session) = match &app.auth {
        None => {
            let pages = if is_subscription(request) { &*app.cors_origins } else { &[] };
            check_names(request.method(), request.uri(), request.headers(), &app.encryption, pages)?;
            (Some(app.local.clone()), None)
        }
        Some(auth) => match token(request.headers()) {
            // Whoever asked for a ticket may have lost their token since.
            None if is_subscription(request) => {
                (app.tickets.used(request.uri()).filter(|holder| auth.still(holder).is_some()), None)
            }
            None if is_of_page(request) => {
                let session = ui::session(app, request.uri().path(), request.headers());
                (session.as_ref().map(|session| Arc::clone(&session.principal)), session)
            }
            None => (None, None),
            Some(token) => (auth.authenticate(token?), None),
        },
    };
    if let (Some(_), Some(visit)) = (&principal, request.extensions().get::<Visit>()) {
        visit.known();
    }
    let permission = match entry {
        Entry::Needs(permission) => permission,
        // An address or method that doesn't exist is told to anybody.
        Entry::NoRoute => return Ok(Admitted { principal: app.anonymous.clone(), place: None, session: None }),
        Entry::NoMethod { allow } => return Err(Refused::NoMethod { allow }),
        Entry::Closed => {
            let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
            let cause = format!("{} {route} says nothing about who may call it, so nobody may", request.method());
            return Err(Problem::internal(cause).into());
        }
    };
    if permission == Permission::Public {
        let principal = principal.unwrap_or_else(|| app.anonymous.clone());
        return Ok(Admitted { principal, place: None, session });
    }
    let principal = principal.ok_or_else(|| refusal(app, request.headers()))?;
    let place = place_for(app, &principal, permission)?;
    Ok(Admitted { principal, place, session })
}

/// Whether a ticket opens it.
fn is_subscription(request: &Request) -> bool {
    request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str() == SUBSCRIBE)
        && request.method() == Method::GET
}

/// Whether it is the page's, which has a session in the place of a token.
fn is_of_page(request: &Request) -> bool {
    request.extensions().get::<MatchedPath>().is_some_and(|path| ui::is_of_page(path.as_str()))
}

/// Why somebody without a valid credential isn't let in.
fn refusal(app: &App, headers: &HeaderMap) -> Problem {
    match &app.auth {
        Some(auth) => auth.refusal(bearer(headers)),
        None => Problem::internal("a host that asks for no token refused a caller for it"),
    }
}

/// The place of a caller of a route that isn't open to everybody, if they may call it; metrics take none.
fn place_for(app: &App, caller: &Principal, permission: Permission) -> Result<Option<Place>, Problem> {
    may(caller, permission)?;
    if permission == Permission::Metrics {
        return Ok(None);
    }
    place(app, caller).map(Some)
}

/// Whether a caller has a role that a route needs.
pub(crate) fn may(caller: &Principal, permission: Permission) -> Result<(), Problem> {
    if caller.may(permission) {
        return Ok(());
    }
    let all = if permission.needs_all_tenants() { " for all tenants" } else { "" };
    let roles = permission.granted_by();
    let detail = format!("token {:?} may not do this: it needs one of the roles {roles}{all}", caller.name);
    Err(Problem::new(Code::AUTH_ROLE, detail))
}

/// A place among the requests at work. Public routes that ask the service take one themselves.
pub(crate) fn place(app: &App, caller: &Principal) -> Result<Place, Problem> {
    let all = app.limits.requests_max;
    app.requests.take(&shares(app, caller)).map_err(|full| {
        let problem = match full {
            Full::All => Problem::new(
                Code::HTTP_OVERLOADED,
                format!("{all} requests are at work, as many as limits allow: try again after a moment"),
            ),
            Full::Share { share } => Problem::new(
                Code::HTTP_SHARE,
                format!(
                    "{share} requests of {:?}, or of tokens that name one of its tenants, are at work, the share of a \
                     tenant in {all}: wait for some of them, or send fewer at once",
                    caller.name
                ),
            ),
        };
        problem.after(RETRY_AFTER_BUSY)
    })
}

/// A place among the transactions whose statements run, each of which may take much memory. It is waited for, since most take
/// milliseconds.
pub(crate) async fn transacting(app: &App, caller: &Principal) -> Result<Place, Problem> {
    let wait = TRANSACTION_WAIT_MAX.min(app.limits.request_timeout / 2);
    app.transactions.take_within(&shares(app, caller), wait).await.map_err(|full| {
        let (code, whose) = match full {
            Full::All => {
                (Code::HTTP_OVERLOADED, format!("{TRANSACTIONS_MAX} transactions with statements, as many as may"))
            }
            Full::Share { share } => {
                (Code::HTTP_SHARE, format!("{share} transactions with statements, the share of a tenant,"))
            }
        };
        Problem::new(
            code,
            format!("{whose} run at once and none ended for a while: nothing was run, try again after a moment"),
        )
        .after(RETRY_AFTER_BUSY)
    })
}

/// A place among those who wait in a request; none = too many do, so this one doesn't.
pub(crate) fn waiting(app: &App, caller: &Principal) -> Option<Place> {
    app.waiters.take(&shares(app, caller)).ok()
}

/// A place among those who wait briefly because there is none among those who wait; none = too many do that as well.
pub(crate) fn pausing(app: &App, caller: &Principal) -> Option<Place> {
    app.pausers.take(&shares(app, caller)).ok()
}

/// Whose shares count. Without tokens all are the same caller, so nobody has one.
pub(crate) fn shares(app: &App, caller: &Principal) -> Vec<Sharer> {
    app.auth.as_ref().map_or_else(Vec::new, |_| Sharer::of(caller))
}

/// The bearer token of a request that has a good one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    token(headers)?.ok()
}

/// The bearer token; an error when there is something else or more than one.
fn token(headers: &HeaderMap) -> Option<Result<&str, Problem>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?;
    let bearer = || {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        let token = token.trim();
        let usable = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES_MAX;
        usable.then_some(token)
    };
    let refuse = || Problem::new(Code::AUTH_REQUIRED, "the authorization header isn't one `Bearer <token>`");
    Some(if values.next().is_some() { Err(refuse()) } else { bearer().ok_or_else(refuse) })
}

/// A method's name for metrics: callers may send any token as a method, labels have to stay few.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}
