//! Tasks of plugins that panic in the host: who keeps account of tasks is told, and they go on.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::participant::{Participant, StepContext};
use waybill_core::port::tasks::Tasks;
use waybill_core::port::transport::Transport;
use waybill_sandbox::{
    EndpointSpec, LoadedPlugin, ParticipantLimits, PluginSource, Sandbox, SandboxOptions, WasmParticipant,
    WasmTransport, World,
};
use waybill_tests::guests;

use super::guests::support::*;

/// What was told of tasks.
#[derive(Default)]
struct Failures(Mutex<Vec<(&'static str, String)>>);

impl Failures {
    fn tasks(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(task, _)| *task).collect()
    }
}

impl Tasks for Failures {
    fn failed(&self, task: &'static str, reason: String) -> Duration {
        self.0.lock().unwrap().push((task, reason));
        Duration::from_millis(1)
    }
}

/// A measurement that panics once: a counter when it grows, a gauge when it shrinks.
struct Panics {
    left: AtomicI64,
    value: Arc<AtomicI64>,
}

impl Panics {
    fn add(&self, change: i64, panics: bool) {
        self.value.fetch_add(change, Ordering::AcqRel);
        assert!(!panics || self.left.fetch_sub(1, Ordering::AcqRel) <= 0, "a test made the recorder panic");
    }
}

impl CounterFn for Panics {
    fn increment(&self, _: u64) {
        self.add(1, true);
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Panics {
    fn increment(&self, _: f64) {
        self.add(1, false);
    }
    fn decrement(&self, _: f64) {
        self.add(-1, true);
    }
    fn set(&self, _: f64) {}
}

/// A recorder one of whose measurements panics once.
struct Panicking {
    name: &'static str,
    value: Arc<AtomicI64>,
}

impl Panicking {
    fn new(name: &'static str) -> Self {
        Self { name, value: Arc::default() }
    }
    fn panics(&self) -> Arc<Panics> {
        Arc::new(Panics { left: AtomicI64::new(1), value: Arc::clone(&self.value) })
    }
}

impl Recorder for Panicking {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == self.name { Counter::from_arc(self.panics()) } else { Counter::noop() }
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        if key.name() == self.name { Gauge::from_arc(self.panics()) } else { Gauge::noop() }
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// A plugin of a host that keeps account of its tasks.
async fn watched(path: &str, world: World) -> (LoadedPlugin, Arc<Failures>) {
    let failures = Arc::new(Failures::default());
    let options = SandboxOptions {
        cache_dir: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox-guests")),
        tasks: Some(failures.clone()),
        ..SandboxOptions::default()
    };
    let sandbox = Sandbox::new(options).expect("engine");
    (sandbox.load(PluginSource::File(path.into()), world).await.expect("loads"), failures)
}

#[tokio::test]
async fn a_lane_that_panics_is_told_of_and_serves_again() {
    // Counted when an instance was replaced, by the lane itself.
    let recorder = Panicking::new("waybill_plugin_restarts_total");
    let _recording = set_default_local_recorder(&recorder);
    let (plugin, failures) = watched(guests::SEND_PANICS_ON_POISON, World::Transport).await;
    let transport = WasmTransport::start(plugin, settings(json!({}))).await.expect("opens");
    assert_eq!(send(&transport, batch(1)).await.expect("answers").len(), 1);
    send(&transport, vec![delivery(1, "poison")]).await.expect_err("its instance is lost");
    eventually("the lane failed and was told of", || failures.tasks() == ["plugin lane"]).await;
    eventually("it is open again", || transport.lanes()[0].0 == "serving").await;
    assert_eq!(send(&transport, batch(1)).await.expect("answers").len(), 1);
    assert!(failures.0.lock().unwrap()[0].1.contains("a test made the recorder panic"));
    transport.close(AMPLE).await;
    assert_eq!(failures.tasks(), ["plugin lane"]);
}

#[tokio::test]
async fn a_participant_goes_on_to_retire_idle_instances_after_a_panic() {
    let recorder = Panicking::new("waybill_plugin_instances_open");
    let _recording = set_default_local_recorder(&recorder);
    let (plugin, failures) = watched(guests::SERVES_STEPS, World::Participant).await;
    let limits = ParticipantLimits { idle_time: Duration::from_millis(50), ..ParticipantLimits::default() };
    let settings = EndpointSettings { instances: 2, config: json!({}), ..EndpointSettings::new("shop") };
    let (participant, opened) =
        WasmParticipant::start(plugin, EndpointSpec::new(settings), limits).await.expect("can serve");
    opened.expect("opens");
    eventually("the first idle instance is gone, and the task with it", || failures.tasks() == ["idle instances"])
        .await;
    let context = StepContext::new("saga-1", "order", "first");
    participant.execute("count", &context, "{}".into(), AMPLE).await.result.expect("another instance serves");
    eventually("that one is retired as well", || recorder.value.load(Ordering::Acquire) == 0).await;
    assert_eq!(failures.tasks(), ["idle instances"]);
}
