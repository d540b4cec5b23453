//! Spans of requests that bring messages, events or sagas: what follows from them is part of the caller's trace.

use waybill_core::code::Code;
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart};

use crate::app::App;

/// A request's span, if spans are made.
pub(crate) struct RequestSpan(Option<Box<dyn Span>>);

impl RequestSpan {
    /// Begins it. `parent` is what the request's header says.
    pub fn begin(app: &App, operation: &'static str, kind: SpanKind, parent: Option<&str>) -> Self {
        Self(trace::begin(&app.tracer, || SpanStart::new(operation, kind).parent(parent)))
    }

    /// What is stored with what the request brings, where that names no trace context of its own: the span's, else what the request said.
    pub fn context(&self, parent: Option<String>) -> Option<String> {
        self.0.as_ref().map(|span| span.traceparent()).or(parent)
    }

    /// How much the request brings, and for whom.
    pub fn describe(&mut self, operation: &'static str, count: usize, tenant: Option<&str>) {
        trace::describe(&mut self.0, |span| {
            span.set("messaging.system", "waybill".into());
            span.set("messaging.operation.name", operation.into());
            span.set("messaging.operation.type", "create".into());
            span.set("messaging.batch.message_count", count.into());
            if let Some(tenant) = tenant {
                span.set("waybill.tenant", tenant.to_owned().into());
            }
        });
    }

    pub fn set(&mut self, name: &'static str, text: &str) {
        trace::describe(&mut self.0, |span| span.set(name, text.to_owned().into()));
    }

    /// Ends it with why the request wasn't met, if it wasn't. One that is refused before ends without a word on it.
    pub fn end(self, failed: Option<Code>) {
        trace::finish(self.0, failed.map(Code::as_str));
    }
}
