//! The page on which a person decides: plain HTML, no scripts, nothing from elsewhere.
//!
//! What stands on it comes from sagas and from whoever made the link, so every text is escaped; the policy of the page
//! allows nothing but its own style and its own forms.

use std::fmt::{self, Display};

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::token::Decision;
use crate::json::approvals::ApprovalOut;
use crate::problem::Problem;

/// Nothing is loaded, framed or sent to others.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}\
    dt{font-weight:600}dd{margin:0 0 .5rem}pre{overflow:auto;padding:.5rem;border:1px solid}\
    form{margin:1rem 0}input{width:100%;box-sizing:border-box}button{margin-top:.5rem;padding:.4rem 1rem}";

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

/// What would be decided, with a form for each decision. The token of either belongs to the same wait and person.
pub(crate) fn ask(approval: &ApprovalOut, tokens: [(Decision, &str); 2]) -> Response {
    let title = format!("{} step {} of saga {}?", verb(approval.decision), approval.step, approval.saga);
    let mut rows = String::new();
    let mut row = |name: &str, value: &dyn Display| {
        rows.push_str(&format!("<dt>{name}</dt><dd>{}</dd>", Escaped(&value.to_string())));
    };
    row("Saga", &approval.saga);
    row("Definition", &format!("{} v{}", approval.definition, approval.version));
    row("Step", &approval.step);
    row("Waits since", &approval.since.0);
    row("You decide as", &approval.by);
    row("This link ends", &approval.expires_at.0);
    let input =
        approval.input.as_ref().map_or_else(String::new, |input| format!("<pre>{}</pre>", Escaped(input.get())));
    let forms = tokens.map(|(decision, token)| {
        let verb = verb(decision);
        format!(
            "<form method=\"post\" action=\"{}\"><label>Reason <input name=\"reason\" maxlength=\"1000\" \
             autocomplete=\"off\"></label><button>{verb}</button></form>",
            Escaped(token)
        )
    });
    page(StatusCode::OK, &title, &format!("<dl>{rows}</dl>{input}{}", forms.concat()))
}

pub(crate) fn decided(decision: Decision, saga: &str, step: &str) -> Response {
    let word = match decision {
        Decision::Approve => "Approved: the saga goes on.",
        Decision::Reject => "Rejected: the saga undoes what was done.",
    };
    page(StatusCode::OK, &format!("Step {step} of saga {saga}"), &format!("<p>{word}</p>"))
}

/// Why nothing was decided.
pub(crate) fn refused(problem: &Problem, request_id: &str) -> Response {
    let (detail, fix) = (Escaped(&problem.detail), Escaped(problem.code.fix()));
    let small = format!("{}, request {request_id}", problem.code);
    let body = format!("<p>{detail}</p><p>{fix}</p><p><small>{}</small></p>", Escaped(&small));
    page(problem.status(), problem.code.title(), &body)
}

fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Approve => "Approve",
        Decision::Reject => "Reject",
    }
}

/// A page; the title is escaped here, the body is HTML.
fn page(status: StatusCode, title: &str, body: &str) -> Response {
    let title = Escaped(title);
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main><h1>{title}</h1>{body}</main></body></html>\n"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // The address is the credential. Not `no-referrer`: browsers would then send the form without its origin.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

/// A text in which nothing is HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => write!(f, "{c}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_not_html() {
        assert_eq!(Escaped("<a href=\"x\">'&'").to_string(), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
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
