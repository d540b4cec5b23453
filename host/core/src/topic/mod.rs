//! Topics: where a message goes, as a URI (`product.md`, Vocabulary).

mod plain;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::error::{InputError, InputResult};
use crate::limits::TOPIC_BYTES_MAX;

/// Kind of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http:<url>`, or a bare `http://` or `https://` URL.
    Http,
    Bus,
    Custom,
}

impl Scheme {
    /// As written before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Bus => "bus",
            Self::Custom => "custom",
        }
    }
}

/// A topic: `http:<absolute URL>`, `bus:<subject>` or `custom:<name>`.
///
/// People, filters and digests of content see it as it was written. Routes, holds and transports go by
/// [`Topic::subject`], which for a URL is the one that is really called, however it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Topic {
    /// As written, with `http:` before a URL.
    text: Arc<str>,
    /// The URL that is called, where it is written otherwise.
    called: Option<Arc<str>>,
}

impl Topic {
    /// Reads a topic that somebody sends. A bare `http(s)://...` is taken as `http:` of that URL.
    pub fn parse(text: &str) -> InputResult<Self> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err(InputError::TooLong { field: "topic", bytes: text.len(), bytes_max: TOPIC_BYTES_MAX });
        }
        if text.contains('\\') && text.starts_with("http") {
            let cause = "a backslash is no part of a URL: write / for the path, or %5C".to_owned();
            return Err(InputError::TopicUrl { topic: text.to_owned(), cause });
        }
        Self::stored(text)
    }

    /// Reads a topic that was taken before, maybe by an earlier version, which took some spellings that
    /// [`Topic::parse`] refuses. What it calls is what would have been called then.
    pub fn stored(text: &str) -> InputResult<Self> {
        if text.chars().any(char::is_control) {
            return Err(InputError::ControlCharacter { field: "topic" });
        }
        let (scheme, rest) = text.split_once(':').ok_or_else(|| InputError::TopicScheme { topic: text.to_owned() })?;
        match scheme {
            "bus" | "custom" => {
                if rest.is_empty() || rest.contains(char::is_whitespace) {
                    return Err(InputError::TopicName { topic: text.to_owned() });
                }
                Ok(Self { text: Arc::from(text), called: None })
            }
            "http" | "https" => {
                let bare = rest.starts_with("//");
                let address = if bare { text } else { rest };
                let is_form = bare || scheme == "http";
                let written = || -> Arc<str> { if bare { format!("http:{text}").into() } else { text.into() } };
                if is_form && plain::is_plain(address) {
                    return Ok(Self { text: written(), called: None });
                }
                let called = called(address)
                    .and_then(|url| if is_form { Ok(url) } else { Err(FORMS.to_owned()) })
                    .map_err(|cause| InputError::TopicUrl { topic: text.to_owned(), cause })?;
                let called = (called.as_str() != address).then(|| Arc::from(called.as_str()));
                Ok(Self { text: written(), called })
            }
            _ => Err(InputError::TopicScheme { topic: text.to_owned() }),
        }
    }

    /// Whether this is what [`Topic::parse`] makes of a text, as far as that is seen without reading a URL again.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        *self.text == *text || self.text.strip_prefix("http:").is_some_and(|url| url == text)
    }

    /// The whole topic, as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn scheme(&self) -> Scheme {
        match self.text.as_bytes().first() {
            Some(b'h') => Scheme::Http,
            Some(b'b') => Scheme::Bus,
            _ => Scheme::Custom,
        }
    }

    /// What a transport is given: the subject, the name, or the URL that is called.
    pub fn subject(&self) -> &str {
        match &self.called {
            Some(called) => called,
            None => self.text.split_once(':').map_or("", |(_, subject)| subject),
        }
    }
}

const FORMS: &str = "it must be http:<url>, http://... or https://...";

/// The URL that a client calls when it is given `address`, in the one form in which it can be compared: scheme and host
/// in lower case, without the scheme's own port, dot segments, the host's final dots and what isn't sent (`#...`).
fn called(address: &str) -> Result<Url, String> {
    let mut url = Url::parse(address).map_err(|cause| cause.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(FORMS.to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("credentials don't belong in a topic: give the transport a secret".to_owned());
    }
    let no_host = || "it has no host".to_owned();
    if let Some(Host::Domain(name)) = url.host()
        && name.ends_with('.')
    {
        let name = name.trim_end_matches('.').to_owned();
        url.set_host(Some(&name)).map_err(|_| no_host())?;
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(no_host());
    }
    url.set_fragment(None);
    Ok(url)
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Topic {
    type Error = InputError;
    fn try_from(text: String) -> InputResult<Self> {
        Self::stored(&text)
    }
}

impl From<Topic> for String {
    fn from(topic: Topic) -> Self {
        topic.text.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_bare_url_and_a_prefixed_one_are_the_same_topic() {
        let bare = Topic::parse("https://shop.example/hook?x=1").unwrap();
        assert_eq!(bare, Topic::parse("http:https://shop.example/hook?x=1").unwrap());
        assert_eq!(bare.scheme(), Scheme::Http);
        assert_eq!(bare.subject(), "https://shop.example/hook?x=1");
    }

    #[test]
    fn a_url_is_shown_as_written_and_called_in_one_form() {
        for (written, called) in [
            ("https://Shop.Example", "https://shop.example/"),
            ("https://shop.example.:443/a/../b#c", "https://shop.example/b"),
            ("http:HTTP://2130706433:80/?q", "http://127.0.0.1/?q"),
            ("http://127.0.0.1../", "http://127.0.0.1/"),
            ("http://b\u{fc}cher.example/\u{fc}", "http://xn--bcher-kva.example/%C3%BC"),
        ] {
            let topic = Topic::parse(written).unwrap();
            assert_eq!(topic.subject(), called);
            assert!(topic.as_str().ends_with(written.trim_start_matches("http:")), "{topic}");
            assert!(topic.is_written(written) && topic == Topic::stored(topic.as_str()).unwrap());
        }
    }

    #[test]
    fn what_an_earlier_version_took_is_read_as_it_was_called() {
        let written = r"https://evil.example\.shop.example/x";
        assert!(Topic::parse(written).unwrap_err().to_string().contains("backslash"));
        let stored = Topic::stored(&format!("http:{written}")).unwrap();
        assert_eq!(stored.subject(), "https://evil.example/.shop.example/x");
        assert_eq!(Topic::parse(r"bus:a\b").unwrap().subject(), r"a\b");
    }

    #[test]
    fn bus_and_custom_topics_keep_their_names() {
        assert_eq!(Topic::parse("bus:orders.created").unwrap().subject(), "orders.created");
        assert_eq!(Topic::parse("custom:mail").unwrap().scheme(), Scheme::Custom);
    }

    #[test]
    fn bad_topics_are_refused() {
        for text in [
            "",
            "orders",
            "kafka:x",
            "bus:",
            "bus:a b",
            "http:",
            "http:ftp://x",
            "https:x",
            "http://",
            "http:http://u:p@h/",
        ] {
            assert!(Topic::parse(text).is_err(), "{text}");
        }
    }
}
