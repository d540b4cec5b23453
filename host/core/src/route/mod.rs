//! Routes: which transport takes a topic. The first match wins.

mod url;

use std::time::Duration;

use thiserror::Error;

use self::url::UrlPattern;
use crate::glob::Glob;
use crate::topic::{Scheme, Topic};

/// A topic pattern such as `bus:orders.**`.
///
/// `bus` and `custom` names are split at `.`. `*` stands for one whole part or, inside a part, for any run of characters of
/// it; `**` as the last part stands for whatever follows, at least one part. URLs are compared by scheme, host, port and
/// path of what is really called ([`Topic::subject`]), never as text: see [`url`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    scheme: Scheme,
    matcher: Matcher,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Matcher {
    Name(Parts),
    Url(UrlPattern),
}

/// A pattern that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("route pattern {pattern:?} isn't usable: {cause}")]
pub struct PatternError {
    pub pattern: String,
    /// What is wrong and what to write instead.
    pub cause: &'static str,
}

/// Parts with wildcards, and whether more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    parts: Vec<Glob>,
    rest: bool,
}

impl Parts {
    pub(crate) fn parse(text: &str, separator: char) -> Result<Self, &'static str> {
        let mut parts: Vec<&str> = text.split(separator).collect();
        let rest = parts.last() == Some(&"**");
        if rest {
            parts.pop();
        }
        if parts.iter().any(|part| part.contains("**")) {
            return Err("** may only stand alone at the end");
        }
        Ok(Self { parts: parts.into_iter().map(Glob::new).collect(), rest })
    }

    /// A regular expression that matches the same names, whose parts are between dots.
    pub(crate) fn regex_of_dotted(&self) -> String {
        const DOT: &str = r"\x2E";
        let parts: Vec<String> = self.parts.iter().map(|part| part.regex(r"[^\x2E]")).collect();
        let end = match (self.rest, parts.is_empty()) {
            (false, _) => "$",
            (true, false) => DOT,
            (true, true) => "",
        };
        format!("^{}{end}", parts.join(DOT))
    }

    pub(crate) fn matches<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        for part in &self.parts {
            match names.next() {
                Some(name) if part.matches(name) => {}
                _ => return false,
            }
        }
        if self.rest { names.next().is_some() } else { names.next().is_none() }
    }
}

impl Pattern {
    /// Reads a pattern. A bare `http(s)://...` is taken as `http:` of it.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let refuse = |cause| PatternError { pattern: text.to_owned(), cause };
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| refuse("start it with http:, bus: or custom:, e.g. \"bus:orders.**\""))?;
        let (scheme, name) = match scheme {
            "http" | "https" if rest.starts_with("//") => (Scheme::Http, text),
            "http" => (Scheme::Http, rest),
            "bus" => (Scheme::Bus, rest),
            "custom" => (Scheme::Custom, rest),
            _ => return Err(refuse("start it with http:, bus: or custom:, e.g. \"bus:orders.**\"")),
        };
        if name.is_empty() {
            return Err(refuse("write what follows the scheme, or ** for everything"));
        }
        let matcher = match scheme {
            Scheme::Http => UrlPattern::parse(name).map(Matcher::Url),
            Scheme::Bus | Scheme::Custom => Parts::parse(name, '.').map(Matcher::Name),
        };
        Ok(Self { text: text.to_owned(), scheme, matcher: matcher.map_err(refuse)? })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it takes a topic.
    pub fn matches(&self, topic: &Topic) -> bool {
        topic.scheme() == self.scheme
            && match &self.matcher {
                Matcher::Name(parts) => parts.matches(topic.subject().split('.')),
                Matcher::Url(pattern) => pattern.matches(topic.subject()),
            }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub pattern: Pattern,
    /// Name of the transport that takes them.
    pub transport: String,
    /// A payload that was delivered to the same destination within this time isn't sent again; none = it is.
    pub dedup: Option<Duration>,
}

impl Route {
    /// A route without payload dedup.
    pub fn new(pattern: Pattern, transport: impl Into<String>) -> Self {
        Self { pattern, transport: transport.into(), dedup: None }
    }
}

/// All routes in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes(pub Vec<Route>);

impl Routes {
    /// The first route that takes a topic.
    pub fn find(&self, topic: &Topic) -> Option<&Route> {
        self.0.iter().find(|route| route.pattern.matches(topic))
    }
    /// Its number, from 0: small and bounded, so usable as a metric label with the pattern.
    pub fn index_of(&self, topic: &Topic) -> Option<usize> {
        self.0.iter().position(|route| route.pattern.matches(topic))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn takes(pattern: &str, topic: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(&Topic::parse(topic).unwrap())
    }

    #[test]
    fn one_star_is_one_part_and_two_are_the_rest() {
        assert!(takes("bus:orders.*", "bus:orders.created"));
        assert!(!takes("bus:orders.*", "bus:orders.created.v1"));
        assert!(takes("bus:orders.**", "bus:orders.created.v1"));
        assert!(!takes("bus:orders.**", "bus:orders"));
        assert!(takes("bus:**", "bus:orders"));
        assert!(!takes("custom:**", "bus:orders"));
    }

    #[test]
    fn urls_match_by_path_and_host() {
        assert!(takes("http:**", "https://a.example/x/y"));
        assert!(takes("https://*.example/**", "https://a.example/x/y"));
        assert!(!takes("https://*.example/**", "https://a.other/x"));
        assert!(takes("http:http://127.0.0.1:*/orders", "http://127.0.0.1:9000/orders"));
    }

    #[test]
    fn bad_patterns_say_what_to_write() {
        for text in ["orders", "kafka:x", "bus:", "bus:a.**.b", "bus:a**", "http:", "http:*", "https://**.example/x"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
