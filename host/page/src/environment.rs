//! Which host this is, in its operator's words, and what stands around it.

use crate::address::OVERVIEW;

/// Colour of the environment's name, so that production is told from the rest at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    #[default]
    Grey,
    Blue,
    Green,
    Amber,
    Red,
    Violet,
}

impl Colour {
    pub const ALL: [(&'static str, Self); 6] = [
        ("grey", Self::Grey),
        ("blue", Self::Blue),
        ("green", Self::Green),
        ("amber", Self::Amber),
        ("red", Self::Red),
        ("violet", Self::Violet),
    ];

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Grey => "",
            Self::Blue => "move",
            Self::Green => "ok",
            Self::Amber => "hold",
            Self::Red => "dead",
            Self::Violet => "undo",
        }
    }
}

/// Which host this is, in the operator's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Empty = it has no name.
    pub name: String,
    pub colour: Colour,
    pub base_path: BasePath,
    /// Nothing can be done from the page, whoever looks.
    pub is_read_only: bool,
    /// None = trace ids are no links.
    pub trace_url: Option<TraceUrl>,
}

/// The path under which a proxy serves this host's page, and which it takes away from requests. Empty = there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(String);

/// Attributes that hold addresses of the page.
const ADDRESSES: [&str; 4] = ["href", "src", "action", "data-source"];

impl BasePath {
    /// None = it isn't one or more names with a slash before each.
    pub fn new(text: &str) -> Option<Self> {
        let is_name = |name: &str| {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
            !matches!(name, "" | "." | "..") && name.chars().all(is_plain)
        };
        let is_path = |path: &str| path.split('/').all(is_name);
        (text.is_empty() || text.strip_prefix('/').is_some_and(is_path)).then(|| Self(text.to_owned()))
    }

    /// An address of the page as a browser has to ask for it.
    pub fn address(&self, address: &str) -> String {
        format!("{}{address}", self.0)
    }

    /// A whole page with this path before each of its addresses. They are attributes, in which others' quotes are escaped.
    pub fn before(&self, page: String) -> String {
        if self.0.is_empty() {
            return page;
        }
        ADDRESSES.into_iter().fold(page, |page, name| {
            page.replace(&format!(" {name}=\"{OVERVIEW}"), &format!(" {name}=\"{}{OVERVIEW}", self.0))
        })
    }
}

/// The address of a trace at whatever shows traces here, with a place for its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceUrl(String);

/// Stands for a trace's id.
const TRACE_ID: &str = "{trace_id}";
/// Hex digits of a trace's id.
const TRACE_ID_DIGITS: usize = 32;

impl TraceUrl {
    /// None = it isn't an address of the web with one place for an id.
    pub fn new(text: &str) -> Option<Self> {
        let is_web = text.starts_with("https://") || text.starts_with("http://");
        let is_plain = text.chars().all(|letter| letter.is_ascii_graphic());
        (is_web && is_plain && text.matches(TRACE_ID).count() == 1).then(|| Self(text.to_owned()))
    }

    /// The address of the trace that a `traceparent` names.
    pub fn of(&self, traceparent: &str) -> Option<String> {
        let id = traceparent.split('-').nth(1)?;
        let is_id = id.len() == TRACE_ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_id.then(|| self.0.replace(TRACE_ID, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_names_with_a_slash_before_each() {
        for good in ["", "/ops", "/ops/waybill-1.x"] {
            assert!(BasePath::new(good).is_some(), "{good}");
        }
        for bad in ["/", "ops", "/ops/", "//evil.example", "/a//b", "/..", "/a b", "/a\"", "https://a"] {
            assert!(BasePath::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_trace_leads_to_where_traces_are_shown() {
        let url = TraceUrl::new("https://traces.example/t/{trace_id}?x=1").unwrap();
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(url.of(&format!("00-{id}-00f067aa0ba902b7-01")), Some(format!("https://traces.example/t/{id}?x=1")));
        assert_eq!((url.of("no trace"), url.of("00-../..-1-1")), (None, None));
        for bad in [
            "",
            "https://a",
            "javascript:{trace_id}",
            "/t/{trace_id}",
            "https://a/{trace_id}{trace_id}",
            "https://a/ {trace_id}",
        ] {
            assert!(TraceUrl::new(bad).is_none(), "{bad}");
        }
    }
}
