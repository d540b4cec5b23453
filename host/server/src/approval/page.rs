//! The page on which a person decides who has a link and nothing else: the page's own look, without script, without another address.
//!
//! What stands on it comes from sagas and from whoever made the link: its templates escape, and mark what can't be seen. Its policy takes
//! its own style and its own form.

use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};
use waybill_api::instant::Instant;
use waybill_page::Markup;
use waybill_page::assets::STYLE;
use waybill_page::frame::{Frame, Place, Verdict, Who};
use waybill_page::live::Numbers;
use waybill_page::time::AsOf;
use waybill_page::views::{self, Ask, Asking, Decided};

use super::token::Decision;
use crate::app::App;
use crate::caller::now;
use crate::json::approvals::ApprovalOut;
use crate::problem::Problem;
use crate::ui::{Environment, environment};

/// Nothing is loaded, framed or sent to others; the style is the one that stands in the page.
static POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE.text));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::from_str(&policy).ok()
});
/// The same without any style.
const BARE: &str = "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Marks an answer whose problem is shown as a page.
#[derive(Clone, Copy)]
pub(crate) struct AsPage;

/// Whether the caller is a browser.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let names = |media: &str| {
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepted.any(|value| value.to_ascii_lowercase().contains(media))
    };
    // Generated clients name all that the document has. What reads JSON is no browser.
    names("text/html") && !names("application/json")
}

/// What would be decided. The tokens are of the link, and of the other decision of the same wait and person.
pub(crate) fn ask(app: &App, approval: &ApprovalOut, until: Option<Instant>, (token, other): (&str, &str)) -> Response {
    let approves = approval.decision == Decision::Approve;
    let (approve, reject) = if approves { (token, other) } else { (other, token) };
    let asking = Asking {
        ask: Ask {
            tenant: approval.tenant.clone(),
            saga: approval.saga.clone(),
            root: approval.saga.clone(),
            definition: approval.definition.clone(),
            version: approval.version,
            step: approval.step.clone(),
            since: Some(approval.since),
            until,
            input: approval.input.as_ref().map(|input| input.get().to_owned()),
        },
        by: approval.by.clone(),
        expires_at: approval.expires_at,
        approves,
        approve: approve.to_owned(),
        reject: reject.to_owned(),
    };
    let as_of = AsOf(now());
    page(environment(app), StatusCode::OK, "Approval", as_of, &views::ask(&asking, as_of))
}

pub(crate) fn decided(app: &App, decision: Decision, saga: &str, step: &str) -> Response {
    let decided = match decision {
        Decision::Approve => Decided::Approved,
        Decision::Reject => Decided::Rejected,
    };
    page(environment(app), StatusCode::OK, "Approval", AsOf(now()), &views::decided(decided, saga, step))
}

/// Why nothing was decided.
pub(crate) fn refused(problem: &Problem, request_id: &str, environment: Environment) -> Response {
    let body =
        views::undecided(problem.code.title(), problem.code.as_str(), &problem.detail, problem.code.fix(), request_id);
    page(environment, problem.status(), problem.code.title(), AsOf(now()), &body)
}

fn page(environment: Environment, status: StatusCode, title: &str, as_of: AsOf, body: &Markup) -> Response {
    let frame = Frame {
        live: None,
        place: Place::None,
        as_of,
        version: String::new(),
        environment,
        who: Who::Nobody,
        verdict: Verdict::Unknown,
        tenants: Vec::new(),
        numbers: Numbers::new(),
    };
    let mut response = Response::new(Body::from(frame.alone(title, body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone().unwrap_or(HeaderValue::from_static(BARE)));
    // The address is the credential. Not `no-referrer`: browsers would then send the form without its origin.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_policy_takes_the_style_that_stands_in_the_page_and_no_other() {
        let page = refused(&Problem::invalid("<b>no</b>"), "r-1", Environment::default());
        let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        let bytes = axum::body::to_bytes(page.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let style = text.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        assert!(policy.contains(&format!("style-src 'sha256-{hash}';")), "{policy}");
    }

    #[test]
    fn only_who_asks_for_html_gets_it() {
        let wanted =
            |accept: &'static str| is_wanted(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]));
        assert!(wanted("text/html,application/xhtml+xml,*/*;q=0.8") && wanted("Text/HTML"));
        assert!(!wanted("*/*") && !wanted("application/json") && !is_wanted(&HeaderMap::new()));
        assert!(!wanted("application/json, text/html, application/problem+json"));
    }
}
