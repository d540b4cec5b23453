//! The form that takes an API token and begins a session, with the link to the provider beside it; and the way out.

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Deserialize;
use waybill_core::code::Code;
use waybill_page::address;
use waybill_page::frame::{Frame, Place, Verdict, Who};
use waybill_page::live::Numbers;
use waybill_page::parts::Fault;
use waybill_page::time::AsOf;
use waybill_page::views::{self, Door, ProviderLink};

use super::cookies::{SESSION, is_encrypted};
use super::sessions::Holder;
use super::visit::{fault, request_id, written};
use super::{Ui, html, see_other};
use crate::app::App;
use crate::auth::{Tokens, hash_of};
use crate::body;
use crate::caller::now;
use crate::limits::{FORM_BYTES_MAX, TOKEN_BYTES_MAX};
use crate::listen::{SEC_FETCH_SITE, is_local_name, is_own_page};
use crate::problem::Problem;
use crate::routes::query::query;

/// Where to go on behind the form.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FormAsked {
    pub to: String,
}

/// The form, or why there is none.
pub(super) async fn form(State(app): State<App>, headers: HeaderMap, uri: Uri) -> Response {
    let asked: FormAsked = query(&uri).unwrap_or_default();
    let door = door(&app, &headers, &uri, &asked.to);
    page(&app, StatusCode::OK, &door, None)
}

/// Takes a token and begins a session.
pub(super) async fn sign_in(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (headers, uri, id) = (parts.headers.clone(), parts.uri.clone(), request_id(&parts));
    let read = body::fields(&app, Request::from_parts(parts, body), FORM_BYTES_MAX).await;
    let fields = match read {
        Ok(read) => read.fields,
        Err(problem) => return refused(&app, &headers, &uri, "", problem, &id),
    };
    let field = |name: &str| fields.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value.as_str());
    match begin(&app, &headers, &uri, field("form"), field("token")) {
        Ok(cookie) => {
            let mut response = see_other(within(field("to")));
            SESSION.set(&mut response, &cookie, None, &app.encryption);
            response
        }
        Err(problem) => refused(&app, &headers, &uri, field("to"), problem, &id),
    }
}

pub(super) async fn sign_out(State(app): State<App>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (headers, uri, id) = (parts.headers.clone(), parts.uri.clone(), request_id(&parts));
    let read = body::fields(&app, Request::from_parts(parts, body), FORM_BYTES_MAX).await;
    let ended = read.and_then(|read| {
        let given = read.fields.iter().find(|(name, _)| name == "form").map_or("", |(_, value)| value.as_str());
        let session = app.auth.as_ref().zip(app.ui.as_ref());
        let session = session.and_then(|(auth, ui)| ui.sessions.of(&headers, auth, &app.encryption));
        // Who isn't signed in is out already. A form of another site comes without the cookie, and takes none away.
        let Some(session) = session else { return Ok(false) };
        may_post(&app, &headers, &uri, given, &session.form_token).map(|()| true)
    });
    let mut response = see_other(address::SIGN_IN);
    match ended {
        Err(problem) => return refused(&app, &headers, &uri, "", problem, &id),
        Ok(false) => return response,
        Ok(true) => {}
    }
    if let Some(ui) = &app.ui {
        ui.sessions.end(&headers, &app.encryption);
    }
    SESSION.forget(&mut response, &app.encryption);
    response
}

/// A session's cookie for a token that was typed into the form.
fn begin(app: &App, headers: &HeaderMap, uri: &Uri, form_token: &str, token: &str) -> Result<String, Problem> {
    let (ui, auth) = asked_for(app)?;
    check_open(app, headers, uri)?;
    may_post(app, headers, uri, form_token, &ui.sessions.door)?;
    let token = token.trim();
    let is_known = token.len() <= TOKEN_BYTES_MAX && auth.authenticate(token).is_some();
    if !is_known {
        let refusal = auth.refusal(Some(token));
        return Err(match refusal.code {
            Code::AUTH_REQUIRED => Problem::new(Code::AUTH_REQUIRED, "this isn't a token of this host"),
            _ => refusal,
        });
    }
    begun(app, ui, headers, Holder::Token(hash_of(token)))
}

/// The cookie of a session that begins in the place of the one that the browser has.
pub(super) fn begun(app: &App, ui: &Ui, headers: &HeaderMap, holder: Holder) -> Result<String, Problem> {
    ui.sessions.end(headers, &app.encryption);
    ui.sessions.begin(holder).map_err(|_| {
        let text = "as many sessions are open as this host keeps: sign out elsewhere, or try again later";
        Problem::new(Code::HTTP_OVERLOADED, text)
    })
}

/// Refuses to let anybody in where others could read what goes to and fro.
pub(super) fn check_open(app: &App, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    if is_open(app, headers, uri) {
        return Ok(());
    }
    let text = "TLS is needed to sign in: what is typed could be read on its way";
    Err(Problem::new(Code::AUTH_ORIGIN, text))
}

pub(super) fn asked_for(app: &App) -> Result<(&Ui, &Tokens), Problem> {
    let both = app.ui.as_ref().zip(app.auth.as_ref());
    both.ok_or_else(|| Problem::new(Code::AUTH_ORIGIN, "there is no sign-in here: nobody is asked for a token"))
}

/// Whether a form comes from this host's own page: by what the browser says of it, and by the token that only the page has.
pub(super) fn may_post(app: &App, headers: &HeaderMap, uri: &Uri, given: &str, expected: &str) -> Result<(), Problem> {
    let says_so = headers.contains_key(header::ORIGIN) || headers.contains_key(SEC_FETCH_SITE);
    let is_own = host(headers, uri).is_some_and(|host| is_own_page(host, headers, &app.encryption));
    let has_token = !expected.is_empty() && hash_of(given) == hash_of(expected);
    if says_so && is_own && has_token {
        return Ok(());
    }
    let text = "the form isn't one of this page as it is now: open the page anew and send it from there";
    Err(Problem::new(Code::AUTH_ORIGIN, text))
}

fn host<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(header::HOST).and_then(|value| value.to_str().ok()),
    }
}

/// Whether nobody reads what is typed: it is encrypted, or doesn't leave this machine.
fn is_open(app: &App, headers: &HeaderMap, uri: &Uri) -> bool {
    is_encrypted(&app.encryption) || host(headers, uri).is_some_and(is_local_name)
}

fn door(app: &App, headers: &HeaderMap, uri: &Uri, to: &str) -> Door {
    match asked_for(app) {
        Err(_) => Door::NotNeeded,
        Ok(_) if !is_open(app, headers, uri) => Door::NeedsTls,
        Ok((ui, auth)) => {
            let to = within(to).to_owned();
            let provider = ui.oidc.as_ref().map(|oidc| ProviderLink {
                name: oidc.name.clone(),
                address: address::with(address::SIGN_IN_OIDC, &[("to", &to)]),
            });
            // Where people come by the provider alone, no token could be typed.
            let form_token = (provider.is_none() || !auth.is_empty()).then(|| ui.sessions.door.clone());
            Door::Open { form_token, to, provider }
        }
    }
}

/// An address of the page; any other is the overview's.
pub(super) fn within(to: &str) -> &str {
    let rest = to.strip_prefix(address::OVERVIEW);
    let is_within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    let is_plain = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_within && is_plain && !to.starts_with(address::SIGN_IN) { to } else { address::OVERVIEW }
}

fn page(app: &App, status: StatusCode, door: &Door, refusal: Option<&Fault>) -> Response {
    let frame = Frame {
        place: Place::None,
        as_of: AsOf(now()),
        version: app.version.clone(),
        environment: app.ui.as_ref().map(|ui| ui.environment.clone()).unwrap_or_default(),
        who: if app.auth.is_some() { Who::Nobody } else { Who::Local },
        verdict: Verdict::Unknown,
        tenants: Vec::new(),
        numbers: Numbers::new(),
        live: None,
    };
    html(status, frame.document("Sign in", &views::sign_in(door, refusal)))
}

pub(super) fn refused(app: &App, headers: &HeaderMap, uri: &Uri, to: &str, problem: Problem, id: &str) -> Response {
    let door = door(app, headers, uri, to);
    written(page(app, problem.status(), &door, Some(&fault(&problem, id))), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_form_is_the_page_and_nothing_else() {
        for to in ["/ui", "/ui?x=1", "/ui/message?tenant=a&id=..%2F"] {
            assert_eq!(within(to), to);
        }
        for to in [
            "",
            "//evil.example",
            "https://evil.example",
            "/uix",
            "/v1/messages",
            "/ui/\\evil",
            "/ui/\r\nx",
            "/ui/sign-in",
        ] {
            assert_eq!(within(to), "/ui", "{to}");
        }
    }
}
