//! Error codes as the API serves them at `/errors/{code}`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::code::Code;

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// An error code as served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorPage {
    /// Stable code, as problems, attempts and dead letters have it.
    pub code: String,
    /// HTTP status it is answered with; absent where no request is answered with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The same for every occurrence.
    pub title: String,
    /// The same request may succeed later; absent where no request is answered with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What a caller or an operator can do about it.
    pub fix: String,
    /// Where it is seen, why it comes and what to do, as Markdown.
    pub page: String,
}

impl ErrorPage {
    /// What is known of a code: of the host, of a bundled plugin, or of what a receiver answered.
    pub fn of(code: &str) -> Option<Self> {
        let page = page(code)?;
        let answer = of_answer(code);
        let (title, fix) = match answer {
            Some(answer) => (answer.title().to_owned(), answer.fix().to_owned()),
            None => (title(page).to_owned(), fix(page).to_owned()),
        };
        Some(Self {
            code: code.to_owned(),
            status: answer.map(Code::status),
            title,
            retryable: answer.map(Code::retryable),
            fix,
            page: page.to_owned(),
        })
    }
}

/// The page of a code. A status of a receiver without one of its own has that of all of them.
fn page(code: &str) -> Option<&'static str> {
    let of = |code: &str| {
        let place = PAGES.binary_search_by_key(&code, |(of, _)| of).ok()?;
        PAGES.get(place).map(|(_, page)| *page)
    };
    let is_status = || code.strip_prefix("HTTP.").is_some_and(|number| number.parse::<http::StatusCode>().is_ok());
    of(code).or_else(|| is_status().then(|| of("HTTP.STATUS")).flatten())
}

/// The first sentences of a page, before what says where the code is seen.
fn title(page: &str) -> &str {
    let first = page.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
    first.split_once(" Seen as:").map_or(first, |(title, _)| title).trim_end_matches('.')
}

/// What a page says is to be done.
fn fix(page: &str) -> &str {
    let (_, below) = page.split_once("## What to do").unwrap_or_default();
    below.split_once("\n## ").map_or(below, |(fix, _)| fix).trim()
}

/// Address of a code's page: relative, so that it works on every host.
pub fn uri(code: Code) -> String {
    format!("/errors/{code}")
}

/// The code with this text, if requests are answered with it.
pub fn of_answer(text: &str) -> Option<Code> {
    Code::of(text).filter(|code| code.is_answer())
}

/// The code for an answer that only has a status (made by the router, not by us).
pub fn of_status(status: u16) -> Code {
    match status {
        401 => Code::AUTH_REQUIRED,
        403 => Code::AUTH_ROLE,
        404 => Code::HTTP_NOT_FOUND,
        405 => Code::HTTP_METHOD,
        413 => Code::HTTP_TOO_LARGE,
        415 => Code::HTTP_MEDIA_TYPE,
        503 => Code::HTTP_OVERLOADED,
        400..500 => Code::SCHEMA_VALIDATION_FAILED,
        _ => Code::UNKNOWN_INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_page_whoever_tells_it() {
        assert!(PAGES.is_sorted_by_key(|(code, _)| code));
        for (code, page) in PAGES {
            let served = ErrorPage::of(code);
            let is_whole = served.is_some_and(|served| !served.title.is_empty() && !served.fix.is_empty());
            assert!(is_whole && page.starts_with(&format!("# {code}\n")), "{code}");
        }
        let busy = ErrorPage::of("OUTBOX.BUSY").map(|page| (page.status, page.retryable));
        assert_eq!(busy, Some((Some(429), Some(true))));
        let throttled = ErrorPage::of("KAFKA.THROTTLED").map(|page| (page.status, page.title));
        assert_eq!(throttled, Some((None, "A quota of the cluster is used up".to_owned())));
        let receiver = ErrorPage::of("HTTP.422").map(|page| (page.code, page.page));
        assert_eq!(receiver, ErrorPage::of("HTTP.STATUS").map(|page| ("HTTP.422".to_owned(), page.page)));
        assert_eq!(ErrorPage::of("HTTP.99").or(ErrorPage::of("NO.SUCH")), None);
    }

    #[test]
    fn an_answer_without_a_code_gets_one_of_its_kind() {
        assert!(of_status(418).status() == 400 && of_status(502).status() == 500);
    }
}
