//! Two recorders as one.

use std::sync::Arc;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Hands on to both all that is described and recorded.
pub(super) struct Both<A, B>(pub A, pub B);

impl<A: Recorder, B: Recorder> Recorder for Both<A, B> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.0.describe_counter(key.clone(), unit, description.clone());
        self.1.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.0.describe_gauge(key.clone(), unit, description.clone());
        self.1.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.0.describe_histogram(key.clone(), unit, description.clone());
        self.1.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let both = (self.0.register_counter(key, metadata), self.1.register_counter(key, metadata));
        Counter::from_arc(Arc::new(Handles(both.0, both.1)))
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let both = (self.0.register_gauge(key, metadata), self.1.register_gauge(key, metadata));
        Gauge::from_arc(Arc::new(Handles(both.0, both.1)))
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let both = (self.0.register_histogram(key, metadata), self.1.register_histogram(key, metadata));
        Histogram::from_arc(Arc::new(Handles(both.0, both.1)))
    }
}

/// The handles of one series.
struct Handles<H>(H, H);

impl CounterFn for Handles<Counter> {
    fn increment(&self, value: u64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn absolute(&self, value: u64) {
        self.0.absolute(value);
        self.1.absolute(value);
    }
}

impl GaugeFn for Handles<Gauge> {
    fn increment(&self, value: f64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.0.decrement(value);
        self.1.decrement(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
        self.1.set(value);
    }
}

impl HistogramFn for Handles<Histogram> {
    fn record(&self, value: f64) {
        self.0.record(value);
        self.1.record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.0.record_many(value, count);
        self.1.record_many(value, count);
    }
}
