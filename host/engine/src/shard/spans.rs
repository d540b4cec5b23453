//! Spans of the messages of one call: each begins when its message is made ready and ends when it is decided what follows.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::ids::Seq;
use waybill_core::outbox::owner::{Sending, Verdict};
use waybill_core::port::trace::{Span, Tracer};

use crate::spans;

/// By their messages' places in the order. Empty, and without memory, where no spans are made.
#[derive(Default)]
pub(super) struct SendSpans(Mutex<Vec<(Seq, Box<dyn Span>)>>);

impl SendSpans {
    /// Begins the span of a message; its context where it is recorded. Where it isn't, the message keeps the context it has.
    pub fn begin(&self, tracer: &Arc<dyn Tracer>, sending: &Sending, transport: &str) -> Option<String> {
        let span = spans::send(tracer, &sending.message, sending.attempt, transport, Duration::ZERO);
        if !span.is_recorded() {
            return None;
        }
        let context = span.traceparent();
        self.0.lock().push((sending.seq, span));
        Some(context)
    }

    /// The span of the call with these messages.
    pub fn call(&self, tracer: &Option<Arc<dyn Tracer>>, transport: &str, count: usize) -> Option<Box<dyn Span>> {
        let tracer = tracer.as_ref()?;
        let contexts: Vec<String> = self.0.lock().iter().map(|(_, span)| span.traceparent()).collect();
        spans::call(tracer, transport, &contexts, count)
    }

    /// Ends the span of a message.
    pub fn end(&self, seq: Seq, verdict: &Verdict) {
        let mut all = self.0.lock();
        let Some(at) = all.iter().position(|(of, _)| *of == seq) else { return };
        let (_, span) = all.swap_remove(at);
        drop(all);
        spans::decided(span, verdict);
    }
}
