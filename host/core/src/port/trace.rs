//! The tracing port: spans of what happens to messages, sagas and events.
//!
//! Whoever makes spans holds an `Option<Arc<dyn Tracer>>`, so that a host that exports none pays for one branch. A context is passed on as
//! the text of W3C, `traceparent`, because messages, requests and plugins have it as such.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::new_message::is_traceparent;

/// Most links of one span: a commit may hold thousands of messages.
pub const LINKS_MAX: usize = 32;

/// Who does what a span stands for, in OpenTelemetry's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Server,
    /// It asks somebody else and waits for the answer.
    Client,
    /// It hands a message over.
    Producer,
    /// It takes a message.
    Consumer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(Cow<'static, str>),
    Number(i64),
    Flag(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// How a span begins. Its attributes come afterwards, and only where it is recorded: most may not be.
#[derive(Clone, Debug)]
pub struct SpanStart<'a> {
    /// First word of its name, e.g. `send`.
    pub operation: &'static str,
    /// Second word of its name; of few different texts, such as names from the configuration.
    pub of: Option<&'a str>,
    pub kind: SpanKind,
    /// `traceparent` of the span that it is part of; none, or one that can't be read = a trace begins.
    pub parent: Option<&'a str>,
    /// `traceparent` of other spans that it has to do with. Those past [`LINKS_MAX`] are left out.
    pub links: Vec<&'a str>,
    /// It began this long ago: of what is worth a span only when it is known what it brought.
    pub began_before: Duration,
}

impl<'a> SpanStart<'a> {
    /// Without name of its own, parent and links.
    pub fn new(operation: &'static str, kind: SpanKind) -> Self {
        Self { operation, of: None, kind, parent: None, links: Vec::new(), began_before: Duration::ZERO }
    }

    #[must_use]
    pub fn of(self, name: &'a str) -> Self {
        Self { of: Some(name), ..self }
    }

    #[must_use]
    pub fn parent(self, traceparent: Option<&'a str>) -> Self {
        Self { parent: traceparent, ..self }
    }

    /// Of what concerns several at once: it belongs to the trace of the first of them, and is linked with the others.
    #[must_use]
    pub fn of_several(self, traceparents: impl IntoIterator<Item = &'a str>) -> Self {
        let mut contexts = traceparents.into_iter();
        let parent = contexts.next();
        let mut links: Vec<&str> = Vec::new();
        for context in contexts {
            if links.len() == LINKS_MAX {
                break;
            }
            // Messages of one request share its context.
            if Some(context) != parent && !links.contains(&context) {
                links.push(context);
            }
        }
        Self { parent, links, ..self }
    }

    /// Name as it is exported.
    pub fn name(&self) -> Cow<'static, str> {
        match self.of {
            Some(of) => Cow::Owned(format!("{} {of}", self.operation)),
            None => Cow::Borrowed(self.operation),
        }
    }
}

/// Makes spans. Never blocks: what can't be exported is dropped.
pub trait Tracer: Send + Sync + 'static {
    fn start(&self, start: SpanStart<'_>) -> Box<dyn Span>;
}

/// A span that has begun. It ends when it is dropped, without a word on how it went, if [`Span::end`] doesn't come first.
pub trait Span: Send + Sync {
    /// Its context, for what is part of it. Also of one that isn't recorded.
    fn traceparent(&self) -> String;
    /// Whether it is exported: attributes of one that isn't go nowhere.
    fn is_recorded(&self) -> bool;
    fn set(&mut self, name: &'static str, value: AttributeValue);
    /// It went wrong, with this stable code.
    fn fail(&mut self, code: &str);
    fn end(self: Box<Self>);
}

/// Sets attributes of a span that is recorded; `fill` isn't called for any other.
pub fn describe(span: &mut Option<Box<dyn Span>>, fill: impl FnOnce(&mut dyn Span)) {
    if let Some(span) = span.as_mut().filter(|span| span.is_recorded()) {
        fill(span.as_mut());
    }
}

/// Ends a span if there is one; with a code if what it stands for failed.
pub fn finish(span: Option<Box<dyn Span>>, failed: Option<&str>) {
    if let Some(mut span) = span {
        if let Some(code) = failed {
            span.fail(code);
        }
        span.end();
    }
}

/// Starts a span where spans are made.
pub fn begin<'a>(tracer: &Option<Arc<dyn Tracer>>, start: impl FnOnce() -> SpanStart<'a>) -> Option<Box<dyn Span>> {
    tracer.as_ref().map(|tracer| tracer.start(start()))
}

/// The id of a trace within a `traceparent`, as logs have it.
pub fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.split('-').nth(1).filter(|_| is_traceparent(traceparent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn what_concerns_several_has_the_first_as_its_parent_and_links_to_the_others_once() {
        let others: Vec<String> =
            (1..100).map(|n| format!("00-0af7651916cd43dd8448eb211c80319c-{n:016x}-01")).collect();
        let all = [A, A].into_iter().chain(others.iter().map(String::as_str)).chain(others.iter().map(String::as_str));
        let start = SpanStart::new("commit", SpanKind::Internal).of_several(all);
        assert_eq!(start.parent, Some(A));
        assert_eq!(start.links, others.iter().take(LINKS_MAX).map(String::as_str).collect::<Vec<_>>());
        assert_eq!(SpanStart::new("commit", SpanKind::Internal).of_several([]).parent, None);
    }

    #[test]
    fn a_name_is_what_is_done_and_with_what() {
        let start = SpanStart::new("send", SpanKind::Producer);
        assert_eq!((start.name().as_ref(), start.of("orders").name().as_ref()), ("send", "send orders"));
    }

    #[test]
    fn logs_have_the_id_of_a_trace_that_can_be_read() {
        assert_eq!(trace_id(A), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(trace_id("00-0af7651916cd43dd8448eb211c80319c"), None);
        assert_eq!(trace_id(""), None);
    }
}
