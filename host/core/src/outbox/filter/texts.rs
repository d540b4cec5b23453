//! Texts that are compared as they were typed and as they are shown.

use crate::glob::Glob;

/// `topic=` as it was typed: a bare URL stands for the topic that it is when a message is sent to it, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicGlob {
    written: Glob,
    /// With the scheme that a bare URL has in a topic.
    whole: Option<Glob>,
}

impl TopicGlob {
    pub fn new(pattern: &str) -> Self {
        let is_bare = pattern.starts_with("http://") || pattern.starts_with("https://");
        Self { written: Glob::new(pattern), whole: is_bare.then(|| Glob::new(format!("http:{pattern}"))) }
    }

    /// Whether a topic matches, or what stands in its place.
    pub fn matches(&self, topic: &str) -> bool {
        self.written.matches(topic) || self.whole.as_ref().is_some_and(|whole| whole.matches(topic))
    }
}

/// `error=`: the error as lists show it (`CODE: reason`), its reason alone, or the signature by which errors are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGlob(Glob);

impl ErrorGlob {
    pub fn new(pattern: &str) -> Self {
        Self(Glob::new(pattern))
    }

    pub fn matches(&self, code: &str, reason: &str) -> bool {
        let Self(glob) = self;
        glob.matches(reason) || glob.matches(&format!("{code}: {reason}")) || glob.matches(&signature(reason))
    }
}

/// The error text with what differs from case to case taken out: digits become `#`, quoted parts `"…"`. Whose error it is stays: the
/// host and port behind `://`.
pub fn signature(reason: &str) -> String {
    let mut out = String::with_capacity(reason.len());
    let mut quoted = false;
    let mut digits = false;
    let mut named = false;
    for c in reason.chars() {
        named &= !matches!(c, '/' | '?' | '#' | '"') && !c.is_whitespace();
        if named {
            out.push(c);
        } else if c == '"' {
            if !quoted {
                out.push_str("\"…");
            }
            quoted = !quoted;
            if !quoted {
                out.push('"');
            }
            digits = false;
        } else if quoted {
        } else if c.is_ascii_digit() {
            if !digits {
                out.push('#');
            }
            digits = true;
        } else {
            digits = false;
            out.push(c);
            named = out.ends_with("://");
        }
    }
    out
}
