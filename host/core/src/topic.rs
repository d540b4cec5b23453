//! Topics: where a message goes, as a URI (`product.md`, Vocabulary).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{InputError, InputResult};
use crate::limits::TOPIC_BYTES_MAX;

/// Kind of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http:<url>`, or a bare `http://` or `https://` URL.
    Http,
    /// `bus:<subject>`.
    Bus,
    /// `custom:<name>`.
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

/// A topic in its one normal form: `http:<absolute URL>`, `bus:<subject>` or `custom:<name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Topic(Arc<str>);

impl Topic {
    /// Reads a topic. A bare `http(s)://...` is taken as `http:` of that URL.
    pub fn parse(text: &str) -> InputResult<Self> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err(InputError::TooLong { field: "topic", bytes: text.len(), bytes_max: TOPIC_BYTES_MAX });
        }
        if text.chars().any(char::is_control) {
            return Err(InputError::ControlCharacter { field: "topic" });
        }
        let (scheme, rest) = text.split_once(':').ok_or_else(|| InputError::TopicScheme { topic: text.to_owned() })?;
        match scheme {
            "bus" | "custom" => {
                if rest.is_empty() || rest.contains(char::is_whitespace) {
                    return Err(InputError::TopicName { topic: text.to_owned() });
                }
                Ok(Self(Arc::from(text)))
            }
            "http" | "https" => {
                let bare = rest.starts_with("//");
                let address = if bare { text } else { rest };
                let parsed = url::Url::parse(address)
                    .map_err(|cause| InputError::TopicUrl { topic: text.to_owned(), cause: cause.to_string() })?;
                let refuse = |cause: &str| InputError::TopicUrl { topic: text.to_owned(), cause: cause.to_owned() };
                if !matches!(parsed.scheme(), "http" | "https") || (!bare && scheme == "https") {
                    return Err(refuse("it must be http:<url>, http://... or https://..."));
                }
                if parsed.host_str().is_none_or(str::is_empty) {
                    return Err(refuse("it has no host"));
                }
                if !parsed.username().is_empty() || parsed.password().is_some() {
                    return Err(refuse("credentials don't belong in a topic: give the transport a secret"));
                }
                Ok(Self(Arc::from(format!("http:{address}"))))
            }
            _ => Err(InputError::TopicScheme { topic: text.to_owned() }),
        }
    }

    /// Whether this is what [`Topic::parse`] makes of a text, as far as that is seen without reading a URL again.
    pub(crate) fn is_written(&self, text: &str) -> bool {
        *self.0 == *text || self.0.strip_prefix("http:").is_some_and(|url| url == text)
    }

    /// The whole topic.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its kind.
    pub fn scheme(&self) -> Scheme {
        match self.0.as_bytes().first() {
            Some(b'h') => Scheme::Http,
            Some(b'b') => Scheme::Bus,
            _ => Scheme::Custom,
        }
    }

    /// What follows the scheme: the URL, subject or name.
    pub fn subject(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, subject)| subject)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Topic {
    type Error = InputError;
    fn try_from(text: String) -> InputResult<Self> {
        Self::parse(&text)
    }
}

impl From<Topic> for String {
    fn from(topic: Topic) -> Self {
        topic.0.to_string()
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
