//! Panics between a transport's word and the settlement: no message stays on its way for ever, no lane is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt};
use waybill_core::port::service::MessageState;
use waybill_core::time::Now;
use waybill_engine::{Clock, Engine};
use waybill_testkit::fake_transport::{Answer, ack, retryable};

use crate::support::*;

/// A recorder that tells when the counter of this name is asked for; it may panic the first time it counts.
struct Watching {
    name: &'static str,
    seen: Arc<AtomicBool>,
    panics: Option<Arc<PanicsOnce>>,
}

#[derive(Default)]
struct PanicsOnce(AtomicBool);

impl CounterFn for PanicsOnce {
    fn increment(&self, _: u64) {
        assert!(self.0.swap(true, Ordering::AcqRel), "a test made the recorder panic");
    }
    fn absolute(&self, _: u64) {}
}

impl Recorder for Watching {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != self.name {
            return Counter::noop();
        }
        self.seen.store(true, Ordering::Release);
        self.panics.as_ref().map_or_else(Counter::noop, |panics| Counter::from_arc(Arc::clone(panics)))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct NoOpinion;

#[async_trait]
impl BackoffPolicy for NoOpinion {
    fn name(&self) -> &str {
        "no-opinion"
    }
    async fn decide(&self, _: &FailedAttempt) -> BackoffDecision {
        BackoffDecision::Fallback
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_after_a_policy_was_asked_loses_no_message() {
    let seen = Arc::new(AtomicBool::new(false));
    let panics = Some(Arc::default());
    let recorder = Watching { name: "tx_outbox_retry_total", seen: Arc::clone(&seen), panics };
    let _recording = set_default_local_recorder(&recorder);
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 3 { retryable("HTTP.503") } else { ack() });
    let host = world.start_with(|config| config.retries.component = Some(Arc::new(NoOpinion))).await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.attempts, 3);
    assert_eq!(view.history[0].code.as_deref(), Some("HTTP.503"));
    assert!(seen.load(Ordering::Acquire));
    host.drain().await;
}

/// Panics at the next reading after it was armed.
struct Fragile {
    clock: SteppedClock,
    armed: Arc<AtomicBool>,
}

impl Clock for Fragile {
    fn now(&self) -> Now {
        assert!(!self.armed.swap(false, Ordering::AcqRel), "a test made the clock panic");
        self.clock.now()
    }
}

/// The task that watches a delivery counts its failure first: from there on the next reading of the clock is its own.
#[tokio::test(start_paused = true)]
async fn a_panic_while_a_failed_delivery_is_given_up_loses_neither_its_message_nor_its_lane() {
    let armed = Arc::new(AtomicBool::new(false));
    let recorder = Watching { name: "waybill_task_failures_total", seen: Arc::clone(&armed), panics: None };
    let _recording = set_default_local_recorder(&recorder);
    let world = World::new();
    world.main.answer(|batch| {
        assert!(!batch.has_payload("poison"), "a test made the transport panic");
        Answer::each(batch, |_| ack())
    });
    let clock = Fragile { clock: world.stepped.clone(), armed };
    let engine = Engine::start(world.config("host-a"), world.stores(), Arc::new(clock));
    let host = Host { outbox: engine.outbox(), engine };
    host.until_ready().await;
    let poison = host.send_one(message("poison")).await;
    eventually("it was tried", async || host.view(&poison).await.attempts == 1).await;
    let attempt = host.view(&poison).await.history.remove(0);
    assert_eq!((attempt.outcome, attempt.code.as_deref()), (AttemptOutcome::Unknown, Some("UNKNOWN.INTERNAL")));
    let next = host.send_one(message("next")).await;
    host.until_state(&next, MessageState::Done).await;
    world.main.tell(|_| ack());
    host.until_state(&poison, MessageState::Done).await;
    host.drain().await;
}

/// The count of it panics as well.
#[tokio::test(start_paused = true)]
async fn a_failed_delivery_that_cannot_be_counted_is_given_up_all_the_same() {
    let panics = Some(Arc::default());
    let recorder = Watching { name: "waybill_task_failures_total", seen: Arc::default(), panics };
    let _recording = set_default_local_recorder(&recorder);
    let world = World::new();
    world.main.answer(|batch| {
        assert!(!batch.has_payload("poison"), "a test made the transport panic");
        Answer::each(batch, |_| ack())
    });
    let host = world.start().await;
    let poison = host.send_one(message("poison")).await;
    eventually("it was tried", async || host.view(&poison).await.attempts == 1).await;
    world.main.tell(|_| ack());
    host.until_state(&poison, MessageState::Done).await;
    host.drain().await;
}
