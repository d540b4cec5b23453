//! The way to the provider and back, for people who sign in there.
//!
//! It begins with a link, since the page's policy lets forms go to this host alone. The answer comes with a navigation from another site, so
//! what proves that it belongs here is the state with the cookie of the browser that began.

use axum::extract::{Request, State};
use axum::response::Response;
use http::request::Parts;
use serde::Deserialize;
use waybill_core::code::Code;
use waybill_page::address;

use super::cookies::{SESSION, SIGN_IN};
use super::sessions::Holder;
use super::sign_in::{FormAsked, asked_for, begun, check_open, refused, within};
use super::visit::request_id;
use super::{Ui, see_other};
use crate::app::App;
use crate::caller::now;
use crate::limits::SIGN_IN_TIME;
use crate::oidc::{Begin, Begun, Oidc, said};
use crate::problem::Problem;
use crate::routes::query::query;

/// What comes back from the provider (RFC 6749, section 4.1.2; RFC 9207). What else it says is passed over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answered {
    state: String,
    code: String,
    error: String,
    error_description: String,
    iss: String,
}

/// Leads to the provider.
pub(super) async fn begin(State(app): State<App>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let asked: FormAsked = query(&parts.uri).unwrap_or_default();
    // Another site would change who is signed in here, unseen, where the provider asks nothing.
    if parts.headers.get_all("sec-fetch-site").iter().any(|site| site.as_bytes() == b"cross-site") {
        return see_other(&address::with(address::SIGN_IN, &[("to", within(&asked.to))]));
    }
    match way_out(&app, &parts, within(&asked.to)).await {
        Ok((to, cookie)) => {
            let mut response = see_other(&to);
            SIGN_IN.set(&mut response, &cookie, Some(SIGN_IN_TIME), &app.encryption);
            response
        }
        Err(problem) => refused(&app, &parts.headers, &parts.uri, &asked.to, problem, &request_id(&parts)),
    }
}

/// Takes the provider's answer and begins a session.
pub(super) async fn come_back(State(app): State<App>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match way_in(&app, &parts).await {
        Ok((to, cookie)) => {
            let mut response = see_other(&to);
            SESSION.set(&mut response, &cookie, None, &app.encryption);
            SIGN_IN.forget(&mut response, &app.encryption);
            response
        }
        // The cookie stays: the answer to a sign-in that was begun later, in another tab, may still come.
        Err(problem) => refused(&app, &parts.headers, &parts.uri, "", problem, &request_id(&parts)),
    }
}

/// The provider's address for this sign-in, and the cookie that binds it to the browser.
async fn way_out(app: &App, parts: &Parts, to: &str) -> Result<(String, String), Problem> {
    let (ui, oidc) = provider(app)?;
    check_open(app, &parts.headers, &parts.uri)?;
    let sent = oidc.sign_ins.begin(to, now());
    let begin = Begin {
        redirect_uri: &redirect_uri(ui, oidc),
        state: &sent.state,
        nonce: &sent.nonce,
        challenge: &sent.challenge,
    };
    Ok((oidc.address(&begin).await?, sent.cookie))
}

/// Where to go on, and the cookie of the session that begins.
async fn way_in(app: &App, parts: &Parts) -> Result<(String, String), Problem> {
    let (ui, oidc) = provider(app)?;
    check_open(app, &parts.headers, &parts.uri)?;
    let answered: Answered = query(&parts.uri)?;
    let begun_there = oidc.sign_ins.begun(&answered.state, SIGN_IN.of(&parts.headers, &app.encryption), now());
    let Some(sign_in) = begun_there else {
        let text = format!(
            "no such sign-in is under way in this browser: it was finished, is older than {} minutes, was begun anew, or began under \
             another address than {}; begin again there",
            SIGN_IN_TIME.as_secs() / 60,
            oidc.public_url
        );
        return Err(Problem::new(Code::AUTH_SIGN_IN, text));
    };
    oidc.check_issuer(&answered.iss)?;
    let person = oidc.person(&code(&answered)?, &sign_in, &redirect_uri(ui, oidc)).await?;
    let cookie = begun(app, ui, &parts.headers, Holder::Person(person.principal.clone().into()))?;
    oidc.note(&person).await;
    Ok((onward(&sign_in), cookie))
}

fn provider(app: &App) -> Result<(&Ui, &Oidc), Problem> {
    let (ui, _) = asked_for(app)?;
    let nowhere =
        || Problem::new(Code::AUTH_SIGN_IN, "people don't sign in at a provider here: [auth.oidc] isn't configured");
    Ok((ui, ui.oidc.as_ref().ok_or_else(nowhere)?))
}

/// The code that the provider gave, or why it gave none.
fn code(answered: &Answered) -> Result<String, Problem> {
    if !answered.error.is_empty() {
        let said = said(&answered.error, &answered.error_description);
        return Err(Problem::new(
            Code::AUTH_SIGN_IN,
            format!("the provider let nobody in: {said}; begin again, or ask who runs it"),
        ));
    }
    if answered.code.is_empty() {
        return Err(Problem::new(Code::AUTH_SIGN_IN, "the provider's answer has neither a code nor an error"));
    }
    Ok(answered.code.clone())
}

/// An address of this page, whatever was asked for.
fn onward(sign_in: &Begun) -> String {
    within(&sign_in.to).to_owned()
}

/// Where the provider leads back to, as it has to be registered there.
fn redirect_uri(ui: &Ui, oidc: &Oidc) -> String {
    let path = ui.environment.base_path.address(address::SIGN_IN_OIDC_CALLBACK);
    format!("{}{path}", oidc.public_url.trim_end_matches('/'))
}
