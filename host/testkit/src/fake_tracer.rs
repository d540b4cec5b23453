//! A tracer that keeps the spans that were made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::port::trace::{AttributeValue, Span, SpanStart, Tracer, trace_id};

/// A span that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedSpan {
    pub name: String,
    /// Its own context.
    pub context: String,
    pub parent: Option<String>,
    pub links: Vec<String>,
    pub attributes: BTreeMap<&'static str, String>,
    /// Code of what went wrong.
    pub failed: Option<String>,
    /// How long ago it began when it was made.
    pub began_before: Duration,
}

#[derive(Default)]
struct Shared {
    made: AtomicU64,
    ended: Mutex<Vec<EndedSpan>>,
}

/// Records every span, or none.
#[derive(Clone)]
pub struct FakeTracer {
    shared: Arc<Shared>,
    is_recording: bool,
}

impl FakeTracer {
    pub fn recording() -> Self {
        Self { shared: Arc::default(), is_recording: true }
    }

    /// Spans have contexts, and are not recorded.
    pub fn sampling_none() -> Self {
        Self { shared: Arc::default(), is_recording: false }
    }

    /// Those that have ended, in this order.
    pub fn ended(&self) -> Vec<EndedSpan> {
        self.shared.ended.lock().clone()
    }
}

impl Tracer for FakeTracer {
    fn start(&self, start: SpanStart<'_>) -> Box<dyn Span> {
        let number = self.shared.made.fetch_add(1, Ordering::Relaxed) + 1;
        let trace = start.parent.and_then(trace_id).map_or_else(|| format!("{number:032x}"), str::to_owned);
        let context = format!("00-{trace}-{number:016x}-{:02x}", u8::from(self.is_recording));
        let span = EndedSpan {
            name: start.name().into_owned(),
            context,
            parent: start.parent.map(str::to_owned),
            links: start.links.iter().map(|link| (*link).to_owned()).collect(),
            began_before: start.began_before,
            ..EndedSpan::default()
        };
        Box::new(FakeSpan { tracer: self.clone(), span: Some(span) })
    }
}

struct FakeSpan {
    tracer: FakeTracer,
    /// Taken when it ends.
    span: Option<EndedSpan>,
}

impl Span for FakeSpan {
    fn traceparent(&self) -> String {
        self.span.as_ref().map(|span| span.context.clone()).unwrap_or_default()
    }

    fn is_recorded(&self) -> bool {
        self.tracer.is_recording
    }

    fn set(&mut self, name: &'static str, value: AttributeValue) {
        let text = match value {
            AttributeValue::Text(text) => text.into_owned(),
            AttributeValue::Number(number) => number.to_string(),
            AttributeValue::Flag(flag) => flag.to_string(),
        };
        if let Some(span) = &mut self.span {
            span.attributes.insert(name, text);
        }
    }

    fn fail(&mut self, code: &str) {
        if let Some(span) = &mut self.span {
            span.failed = Some(code.to_owned());
        }
    }

    fn end(self: Box<Self>) {}
}

impl Drop for FakeSpan {
    fn drop(&mut self) {
        if let Some(span) = self.span.take().filter(|_| self.tracer.is_recording) {
            self.tracer.shared.ended.lock().push(span);
        }
    }
}
