//! The page at `/ui`: its routes, its sessions, and what it asks the services. What it looks like is in `waybill-page`.
//!
//! It has no right of its own: each view asks the same services as the API's routes, as the caller, with the caller's tenants and roles.
//!
//! | file | holds |
//! |---|---|
//! | `sessions`, `cookies` | who is signed in |
//! | `sign_in`, `oidc` | the form, and the way out; the way to the provider and back |
//! | `visit` | a request of the page: who looks, parts that fail, how it is answered |
//! | `acts` | plans, the forms that do them, operations |
//! | `live` | what changes while a view is open |
//! | `overview`, `lists`, `ones`, `inbox`, `keys`, `approvals`, `streams`, `plugins`, `system`, `help` | the views |
//! | `save` | lists as files |

mod acts;
mod approvals;
mod cookies;
mod help;
mod inbox;
mod keys;
mod lists;
mod live;
mod oidc;
mod ones;
mod overview;
mod plugins;
mod save;
mod sessions;
mod sign_in;
mod streams;
mod system;
mod visit;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::middleware::map_response_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use waybill_core::code::Code;
use waybill_page::{address, assets};

use crate::app::App;
use crate::oidc::Oidc;
use crate::problem::Problem;
use live::Watchers;
use sessions::Sessions;

pub(crate) use sessions::Found;
pub(crate) use visit::{Written, bare};
pub use waybill_page::environment::{BasePath, Colour, Environment, TraceUrl};

const ASSET: &str = "/ui/assets/{name}";
const HELP: &str = "/ui/help/{code}";
/// Whatever else is below the page's address: it isn't there.
const REST: &str = "/ui/{*rest}";

/// Every route of the page. All are open at the edge: what a view needs is asked where it is made, so that it can be said on the page.
pub(crate) const ROUTES: [(&str, Method); 34] = [
    (address::OVERVIEW, Method::GET),
    (address::MESSAGES, Method::GET),
    (address::MESSAGE, Method::GET),
    (address::DEAD_LETTERS, Method::GET),
    (address::SAGAS, Method::GET),
    (address::SAGA, Method::GET),
    (address::BLOCKED, Method::GET),
    (address::INBOX, Method::GET),
    (address::IDEMPOTENCY, Method::GET),
    (address::APPROVALS, Method::GET),
    (address::STREAMS, Method::GET),
    (address::STREAM, Method::GET),
    (address::RELAY, Method::GET),
    (address::PLUGINS, Method::GET),
    (address::PLUGIN, Method::GET),
    (address::SAVE, Method::GET),
    (HELP, Method::GET),
    (address::AUDIT, Method::GET),
    (address::CONFIGURATION, Method::GET),
    (address::FIND, Method::GET),
    (address::LIVE, Method::GET),
    (address::PLAN, Method::GET),
    (address::PLAN, Method::POST),
    (address::ANSWER, Method::GET),
    (address::OPERATIONS, Method::GET),
    (address::OPERATION, Method::GET),
    (address::SIGN_IN, Method::GET),
    (address::SIGN_IN, Method::POST),
    (address::SIGN_IN_OIDC, Method::GET),
    (address::SIGN_IN_OIDC_CALLBACK, Method::GET),
    (address::SIGN_OUT, Method::POST),
    (ASSET, Method::GET),
    (REST, Method::GET),
    (REST, Method::POST),
];

/// The routes of [`ROUTES`].
pub(crate) fn routes(app: &App) -> Router<App> {
    Router::new()
        .route(address::OVERVIEW, get(overview::overview))
        .route(address::MESSAGES, get(lists::messages))
        .route(address::MESSAGE, get(ones::message))
        .route(address::DEAD_LETTERS, get(lists::dead_letters))
        .route(address::SAGAS, get(lists::sagas))
        .route(address::SAGA, get(ones::saga))
        .route(address::BLOCKED, get(system::blocked))
        .route(address::INBOX, get(inbox::inbox))
        .route(address::IDEMPOTENCY, get(keys::keys))
        .route(address::APPROVALS, get(approvals::approvals))
        .route(address::STREAMS, get(streams::streams))
        .route(address::STREAM, get(streams::stream))
        .route(address::RELAY, get(streams::relay))
        .route(address::PLUGINS, get(plugins::plugins))
        .route(address::PLUGIN, get(plugins::plugin))
        .route(address::SAVE, get(save::save))
        .route(HELP, get(help::help))
        .route(address::AUDIT, get(lists::audit))
        .route(address::CONFIGURATION, get(system::configuration))
        .route(address::FIND, get(ones::find))
        .route(address::LIVE, get(live::live))
        .route(address::PLAN, get(acts::plan).post(acts::act))
        .route(address::ANSWER, get(acts::answer))
        .route(address::OPERATIONS, get(acts::operations))
        .route(address::OPERATION, get(acts::operation))
        .route(address::SIGN_IN, get(sign_in::form).post(sign_in::sign_in))
        .route(address::SIGN_IN_OIDC, get(oidc::begin))
        .route(address::SIGN_IN_OIDC_CALLBACK, get(oidc::come_back))
        .route(address::SIGN_OUT, post(sign_in::sign_out))
        .route(ASSET, get(asset))
        .route(REST, get(nowhere).post(nowhere))
        .layer(map_response_with_state(Arc::clone(app), below_path))
}

/// Which host this is, in its operator's words.
pub(crate) fn environment(app: &App) -> Environment {
    app.ui.as_ref().map(|ui| ui.environment.clone()).unwrap_or_default()
}

/// Whether a route, by its template, is the page's.
pub(crate) fn is_of_page(template: &str) -> bool {
    template.strip_prefix(address::OVERVIEW).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What the page keeps.
pub(crate) struct Ui {
    pub environment: Environment,
    pub sessions: Sessions,
    /// Where people sign in; none = by tokens alone.
    pub oidc: Option<Oidc>,
    /// Open pages that are told what changes.
    pub watchers: Watchers,
    pub sent_forms: acts::SentForms,
    pub drafts: acts::Drafts,
}

impl Ui {
    pub fn new(environment: Environment, oidc: Option<Oidc>) -> Self {
        Self {
            environment,
            sessions: Sessions::new(),
            oidc,
            watchers: Watchers::new(),
            sent_forms: acts::SentForms::default(),
            drafts: acts::Drafts::default(),
        }
    }
}

/// The session of a request of the page. An open page that asks for what changes makes none last longer.
pub(crate) fn session(app: &App, path: &str, headers: &HeaderMap) -> Option<Found> {
    let (auth, ui) = app.auth.as_ref().zip(app.ui.as_ref())?;
    let find = if path == address::LIVE { Sessions::seen } else { Sessions::of };
    find(&ui.sessions, headers, auth, &app.encryption)
}

/// Where browsers go that open the bare address.
pub(crate) fn to_page(ui: &Ui) -> Response {
    see_other(&ui.environment.base_path.address(address::OVERVIEW))
}

/// Ways on, too, have the path below which a proxy serves the page; those to the provider lead out of it.
async fn below_path(State(app): State<App>, mut response: Response) -> Response {
    let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let to = to.filter(|to| to.starts_with(address::OVERVIEW));
    let to = app.ui.as_ref().zip(to).map(|(ui, to)| ui.environment.base_path.address(to));
    if let Some(to) = to.and_then(|to| HeaderValue::from_str(&to).ok()) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

/// Goes on elsewhere; reload and back repeat nothing.
fn see_other(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static(address::OVERVIEW));
    response.headers_mut().insert(header::LOCATION, to);
    response
}

/// What a browser may do with the page: load its own style and script, send its own forms, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/// Browsers may keep what is under this address for a year: another content has another address.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// A page as an answer. Without a referrer of its own kind browsers send forms with `Origin: null`.
fn html(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 3] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The style sheet, the script or the sign.
async fn asset(Path(name): Path<String>) -> Result<Response, Problem> {
    let asset = assets::named(&name).ok_or_else(|| nothing(&name))?;
    let mut response = Response::new(asset.text.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    Ok(response)
}

async fn nowhere(Path(rest): Path<String>) -> Problem {
    nothing(&rest)
}

fn nothing(name: &str) -> Problem {
    Problem::new(Code::HTTP_NOT_FOUND, format!("there is nothing at /ui/{name}: begin at the overview"))
}
