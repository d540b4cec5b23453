//! What is measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use parking_lot::Mutex;
use waybill_core::port::participant::Direction;
use waybill_core::saga::state::SagaState;

use crate::support::*;

/// Keeps every value of every histogram.
#[derive(Default)]
struct Values(Mutex<BTreeMap<String, Arc<Series>>>);

#[derive(Default)]
struct Series(Mutex<Vec<f64>>);

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.0.lock().push(value);
    }
}

impl Recorder for Values {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value())).collect::<String>();
        Histogram::from_arc(Arc::clone(self.0.lock().entry(format!("{}{labels}", key.name())).or_default()))
    }
}

impl Values {
    /// Series of a metric by their labels.
    fn of(&self, name: &str) -> BTreeMap<String, Vec<f64>> {
        let all = self.0.lock();
        let of = all.iter().filter_map(|(key, series)| {
            let labels = key.strip_prefix(name)?.strip_prefix(' ')?;
            Some((labels.to_owned(), series.0.lock().clone()))
        });
        of.collect()
    }
}

#[tokio::test(start_paused = true)]
async fn durations_go_from_start_to_end_and_latencies_from_call_to_answer() {
    let values = Values::default();
    let _recording = set_default_local_recorder(&values);
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| match (call.step.as_str(), call.saga.as_str(), call.direction) {
        ("b", "two", Direction::Execute) => Some(permanent("SHOP.NO")),
        (_, _, Direction::Execute) => Some(Does::DoneAfter(millis(300), serde_json::json!({}))),
        _ => None,
    });
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
    host.run(&format!("{}{wait}{}", step("a", ""), step("b", ""))).await;
    host.begin("two").await;
    for id in ["one", "two"] {
        host.until_waiting(id, "signal:go").await;
    }
    pass(seconds(5)).await;
    for id in ["one", "two"] {
        host.signal(id, "go", serde_json::json!(1)).await.unwrap();
    }
    let ended = [host.until("one", SagaState::Completed).await, host.until("two", SagaState::Cancelled).await];
    let [completed, cancelled] = ended.map(|view| {
        let took = view.ended_at.unwrap().0.since(view.started_at.0);
        assert!(took > seconds(5));
        vec![took.as_secs_f64()]
    });
    let durations = [("definition=s state=cancelled", cancelled), ("definition=s state=completed", completed)];
    let durations = durations.map(|(labels, values)| (labels.to_owned(), values));
    assert_eq!(values.of("tx_saga_duration_seconds"), BTreeMap::from(durations));
    let latencies = values.of("tx_saga_step_latency_seconds");
    let of = |step: &str, way: &str| latencies.get(&format!("definition=s step={step} direction={way}")).cloned();
    assert_eq!(of("a", "execute"), Some(vec![0.3, 0.3]));
    assert_eq!(of("b", "execute").map(|mut values| values.drain(..).sum()), Some(0.3));
    assert_eq!(of("a", "compensate").map(|values| values.len()), Some(1));
    // Who waits isn't called.
    assert_eq!(of("w", "execute"), None);
}
