//! Spans of the messages of one call: each begins when its message is made ready and ends when it is decided what follows.

use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::ids::Seq;
use waybill_core::outbox::owner::{Sending, Verdict};
use waybill_core::port::trace::{self, Span, SpanKind, SpanStart, Tracer};

use crate::spans;

/// By their messages' places in the order. Empty, and without memory, where no spans are made.
#[derive(Default)]
pub(super) struct SendSpans(Mutex<Vec<(Seq, Box<dyn Span>)>>);

impl SendSpans {
    /// Begins the span of a message; its context where it is recorded. Where it isn't, the message keeps the context it has.
    pub fn begin(&self, tracer: &Arc<dyn Tracer>, sending: &Sending, transport: &str) -> Option<String> {
        let span = spans::send(tracer, &sending.message, sending.attempt, transport);
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
        if contexts.is_empty() {
            return None;
        }
        let start = SpanStart::new("call", SpanKind::Client).of(transport);
        let mut span = Some(tracer.start(start.of_several(contexts.iter().map(String::as_str))));
        trace::describe(&mut span, |span| {
            span.set("messaging.batch.message_count", count.into());
            span.set("waybill.transport", transport.to_owned().into());
        });
        span
    }

    /// Ends the span of a message.
    pub fn end(&self, seq: Seq, verdict: &Verdict) {
        let mut all = self.0.lock();
        let Some(at) = all.iter().position(|(of, _)| *of == seq) else { return };
        let (_, mut span) = all.swap_remove(at);
        drop(all);
        let (outcome, failed) = match verdict {
            Verdict::Ack(_) => ("delivered", None),
            Verdict::Retry { fault, .. } => ("retry", Some(fault)),
            Verdict::Dead(fault) => ("dead", Some(fault)),
            Verdict::Blocked { fault, .. } => ("blocked", Some(fault)),
            Verdict::Release { .. } => ("released", None),
            Verdict::Expired => ("expired", None),
            Verdict::Cancelled => ("cancelled", None),
        };
        span.set("waybill.outcome", outcome.into());
        trace::finish(Some(span), failed.map(|fault| fault.code.as_str()));
    }
}
