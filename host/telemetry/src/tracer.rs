//! The port of spans, by the SDK.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use waybill_core::new_message::is_traceparent;
use waybill_core::port::trace::{AttributeValue, Span, SpanKind, SpanStart, Tracer};

use crate::watched::Tally;

pub(crate) struct OtelTracer {
    tracer: SdkTracer,
    tally: Arc<Tally>,
}

impl OtelTracer {
    pub fn new(tracer: SdkTracer, tally: Arc<Tally>) -> Self {
        Self { tracer, tally }
    }
}

impl Tracer for OtelTracer {
    fn start(&self, start: SpanStart<'_>) -> Box<dyn Span> {
        let mut builder = SpanBuilder::from_name(start.name()).with_kind(kind(start.kind));
        if !start.links.is_empty() {
            let contexts = start.links.iter().filter_map(|link| context(link));
            builder = builder.with_links(contexts.map(|context| Link::new(context, Vec::new(), 0)).collect());
        }
        let began = SystemTime::now().checked_sub(start.began_before);
        if let Some(began) = began.filter(|_| !start.began_before.is_zero()) {
            builder = builder.with_start_time(began);
        }
        // Of no span that may be current on this thread: what Waybill's spans belong to is always said.
        let parent = match start.parent.and_then(context) {
            Some(parent) => Context::new().with_remote_span_context(parent),
            None => Context::new(),
        };
        let span = self.tracer.build_with_context(builder, &parent);
        Box::new(OtelSpan { span, tally: Arc::clone(&self.tally) })
    }
}

struct OtelSpan {
    span: SdkSpan,
    tally: Arc<Tally>,
}

impl Drop for OtelSpan {
    fn drop(&mut self) {
        if self.span.is_recording() {
            self.tally.count();
        }
        self.span.end();
    }
}

impl Span for OtelSpan {
    fn traceparent(&self) -> String {
        let context = self.span.span_context();
        format!("00-{}-{}-{:02x}", context.trace_id(), context.span_id(), context.trace_flags().to_u8())
    }

    fn is_recorded(&self) -> bool {
        self.span.is_recording()
    }

    fn set(&mut self, name: &'static str, value: AttributeValue) {
        let value = match value {
            AttributeValue::Text(Cow::Borrowed(text)) => Value::from(text),
            AttributeValue::Text(Cow::Owned(text)) => Value::from(text),
            AttributeValue::Number(number) => Value::I64(number),
            AttributeValue::Flag(flag) => Value::Bool(flag),
        };
        self.span.set_attribute(KeyValue::new(name, value));
    }

    fn fail(&mut self, code: &str) {
        self.span.set_attribute(KeyValue::new("error.type", code.to_owned()));
        self.span.set_status(Status::error(code.to_owned()));
    }

    fn end(self: Box<Self>) {}
}

fn kind(kind: SpanKind) -> opentelemetry::trace::SpanKind {
    use opentelemetry::trace::SpanKind as Kind;
    match kind {
        SpanKind::Internal => Kind::Internal,
        SpanKind::Server => Kind::Server,
        SpanKind::Client => Kind::Client,
        SpanKind::Producer => Kind::Producer,
        SpanKind::Consumer => Kind::Consumer,
    }
}

/// The context that a text calls; none = it can't be read, and W3C's rule is to go on without it.
fn context(traceparent: &str) -> Option<SpanContext> {
    if !is_traceparent(traceparent) {
        return None;
    }
    let mut parts = traceparent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    // Of the flags of versions to come only this one is known.
    let flags = TraceFlags::new(flags & TraceFlags::SAMPLED.to_u8());
    Some(SpanContext::new(trace, span, flags, true, TraceState::NONE))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
    use parking_lot::Mutex;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01";

    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for Kept {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().extend(batch);
            Ok(())
        }
    }

    fn tracer(sampler: Sampler) -> (OtelTracer, Kept) {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder().with_sampler(sampler).with_simple_exporter(kept.clone()).build();
        (OtelTracer::new(provider.tracer("test"), Arc::new(Tally::new("traces"))), kept)
    }

    #[test]
    fn a_span_is_part_of_what_its_parent_is_part_of() {
        let (tracer, kept) = tracer(Sampler::AlwaysOn);
        let start = SpanStart::new("send", SpanKind::Producer).of("orders").of_several([PARENT, OTHER]);
        let mut span = tracer.start(start);
        let context = span.traceparent();
        span.set("waybill.attempt", 2_u32.into());
        span.fail("HTTP.503");
        span.end();
        let all = kept.0.lock().clone();
        let [data] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(data.name, "send orders");
        assert_eq!(data.span_kind, opentelemetry::trace::SpanKind::Producer);
        assert_eq!(data.parent_span_id.to_string(), "b7ad6b7169203331");
        let (trace, span) = (data.span_context.trace_id(), data.span_context.span_id());
        assert_eq!(trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context, format!("00-{trace}-{span}-01"));
        assert!(is_traceparent(&context));
        assert_eq!(data.links.links.len(), 1);
        assert_eq!(data.status, Status::error("HTTP.503"));
        assert!(data.attributes.contains(&KeyValue::new("waybill.attempt", 2_i64)));
        assert_eq!(tracer.tally.made(), 1);
    }

    #[test]
    fn a_span_that_is_not_sampled_is_not_exported_and_still_has_a_context() {
        let (tracer, kept) = tracer(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)));
        let span = tracer.start(SpanStart::new("send", SpanKind::Producer));
        assert!(!span.is_recorded());
        let context = span.traceparent();
        assert!(is_traceparent(&context) && context.ends_with("-00"), "{context}");
        span.end();
        let of_parent = tracer.start(SpanStart::new("send", SpanKind::Producer).parent(Some(PARENT)));
        assert!(of_parent.is_recorded(), "whoever began the trace decided");
        drop(of_parent);
        assert_eq!(kept.0.lock().len(), 1);
    }

    #[test]
    fn a_parent_that_cannot_be_read_begins_a_trace() {
        let (tracer, _) = tracer(Sampler::AlwaysOn);
        for odd in ["", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"] {
            let span = tracer.start(SpanStart::new("send", SpanKind::Producer).parent(Some(odd)));
            assert!(is_traceparent(&span.traceparent()), "{odd}");
        }
    }
}
