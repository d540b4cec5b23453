//! Tasks that panic or hang: their messages get a fate, their neighbours go on, and a drain ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use tokio_util::sync::CancellationToken;
use waybill_api::idempotency::BeginRequest;
use waybill_core::idempotency::{Begun, EntryKey};
use waybill_core::ids::{IdempotencyKey, RequestHash};
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt};
use waybill_core::port::service::{MessageState, OperationRequest, Planned};
use waybill_core::port::tasks::Tasks;
use waybill_core::port::transact::OperationState;
use waybill_engine::Supervisor;
use waybill_testkit::fake_transport::{Answer, ack, permanent, retryable};

use crate::support::*;

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The names of ill tasks in readiness.
async fn ill(host: &Host) -> Vec<String> {
    let checks = host.outbox.ready().await.into_iter();
    checks.filter(|check| check.name.starts_with("task ")).map(|check| check.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_panics_in_the_host_costs_what_it_had_one_attempt_of_unknown_fate() {
    let world = World::new();
    world.main.answer(|batch| {
        assert!(!batch.has_payload("poison"), "a test made the transport panic");
        Answer::each(batch, |_| ack())
    });
    let host = world.start().await;
    let poison = host.send_one(keyed("poison", "p")).await;
    let ids = host.send((0..50).map(|number| keyed(&number.to_string(), &format!("k-{}", number % 5)))).await;
    host.until_done(&ids).await;
    let view = host.view(&poison).await;
    assert_eq!(view.state, MessageState::Pending);
    let attempt = view.history.last().unwrap();
    assert_eq!((attempt.outcome, attempt.maybe_delivered), (AttemptOutcome::Unknown, true));
    assert_eq!(attempt.code.as_deref(), Some("UNKNOWN.INTERNAL"));
    world.main.tell(|_| ack());
    host.until_state(&poison, MessageState::Done).await;
    host.drain().await;
}

enum Broken {
    Panics,
    Hangs,
}

#[async_trait]
impl BackoffPolicy for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    async fn decide(&self, _: &FailedAttempt) -> BackoffDecision {
        match self {
            Self::Panics => panic!("a test made the policy panic"),
            Self::Hangs => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_panics_or_hangs_has_no_opinion() {
    for policy in [Broken::Panics, Broken::Hangs] {
        let world = World::new();
        world.main.tell(|delivery| if delivery.attempt < 3 { retryable("HTTP.503") } else { ack() });
        let host = world.start_with(|config| config.retries.component = Some(Arc::new(policy))).await;
        let id = host.send_one(message("a")).await;
        let view = host.until_state(&id, MessageState::Done).await;
        assert_eq!(view.attempts, 3);
        host.drain().await;
    }
}

/// Whether a route of `bus:` wants payload dedup.
fn with_dedup(config: &mut waybill_engine::EngineConfig) {
    for route in &mut config.routes.0 {
        if route.pattern.as_str() == "bus:**" {
            route.dedup = Some(seconds(3_600));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_a_delivery_holds_up_nobody_else() {
    for stuck in ["reserve", "conclude", "blob"] {
        let world = World::new();
        let host = world.start_with(with_dedup).await;
        world.shim.on(move |call| match call {
            Call::Dedup(name) | Call::Read(name) if name == stuck => Act::Slow(FOR_EVER),
            _ => Act::Pass,
        });
        let held = host.send_one(message(&"x".repeat(100_000))).await;
        let mut neighbour = message("neighbour");
        neighbour.topic = "custom:other".to_owned();
        let neighbour = host.send_one(neighbour).await;
        host.until_state(&neighbour, MessageState::Done).await;
        // The call that hangs is given up, and what it had is sent when the store answers again.
        pass(seconds(600)).await;
        world.shim.calm();
        host.until_state(&held, MessageState::Done).await;
        host.drain().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_although_the_store_never_answers() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|_| Act::Slow(FOR_EVER));
    let _sent = tokio::time::timeout(seconds(1), host.try_send([named("a", "a")])).await;
    let drained = tokio::time::timeout(seconds(60), host.engine.drain(seconds(5))).await;
    assert_eq!(drained, Ok(false), "it ended, and not in good order");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_never_answered_is_of_unknown_outcome_and_found_out() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(FOR_EVER) } else { Act::Pass });
    let error = host.try_send([named("a", "a")]).await.unwrap_err();
    assert_eq!(error.code().as_str(), "TX.TIMEOUT", "{error}");
    world.shim.calm();
    eventually("the shard goes on", async || host.try_send([named("a", "a")]).await.is_ok()).await;
    host.until_state("a", MessageState::Done).await;
    assert_eq!(world.main.log().count("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retirement_that_panics_is_begun_again_and_named_while_the_others_go_on() {
    let world = World::new();
    let left = Arc::new(AtomicU32::new(5));
    let counted = Arc::clone(&left);
    world.shim.on(move |call| {
        let is_hit = matches!(call, Call::Dedup("purge"))
            && counted.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok();
        if is_hit { Act::Panic } else { Act::Pass }
    });
    let host = world.start_with(|config| config.keep_done = seconds(60)).await;
    eventually("it is named", async || ill(&host).await == ["task retirement of payload dedup"]).await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Done).await;
    eventually("history is retired", async || world.memory.read(|tables| tables.history.is_empty())).await;
    eventually("it ran again", async || left.load(Ordering::Acquire) == 0).await;
    eventually("it is well", async || ill(&host).await.is_empty()).await;
    host.drain().await;
}

fn replay(filter: &str) -> OperationRequest {
    OperationRequest {
        kind: "replay".into(),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        filter: filter.into(),
        tenant: None,
        rate: Some(1_000),
        reason: "fixed".into(),
        actor: "ops".into(),
    }
}

async fn with_dead(world: &World, count: u64) -> Host {
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    host.send((0..count).map(|index| message(&index.to_string()))).await;
    eventually("all are dead", async || host.outbox.count_dead(None, "").await.unwrap().value == count).await;
    world.main.tell(|_| ack());
    host
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_panics_goes_on_and_ends() {
    let world = World::new();
    let host = with_dead(&world, 20).await;
    let mut notes = 0;
    world.shim.on(move |call| {
        notes += u32::from(matches!(call, Call::Note(_)));
        if matches!(call, Call::Note(_)) && (2..5).contains(&notes) { Act::Panic } else { Act::Pass }
    });
    let operation = host.outbox.start_operation(replay("")).await.unwrap();
    eventually("it is over", async || {
        host.outbox.operation(&operation.id).await.unwrap().state == OperationState::Done
    })
    .await;
    assert_eq!(host.outbox.count_dead(None, "").await.unwrap().value, 0);
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_always_panics_can_be_cancelled() {
    let world = World::new();
    let host = with_dead(&world, 3).await;
    let mut notes = 0;
    world.shim.on(move |call| {
        let Call::Note(operation) = call else { return Act::Pass };
        notes += 1;
        if notes > 1 && operation.state != OperationState::Cancelled { Act::Panic } else { Act::Pass }
    });
    let operation = host.outbox.start_operation(replay("")).await.unwrap();
    eventually("it failed", async || ill(&host).await == ["task bulk operation"]).await;
    pass(seconds(120)).await;
    host.outbox.cancel_operation(&operation.id, "ops").await.unwrap();
    eventually("it is cancelled", async || {
        host.outbox.operation(&operation.id).await.unwrap().state == OperationState::Cancelled
    })
    .await;
    host.drain().await;
}

/// A recorder one of whose histograms panics once.
struct Panicking;

#[derive(Default)]
struct PanicsOnce(AtomicU32);

impl HistogramFn for PanicsOnce {
    fn record(&self, _: f64) {
        assert!(self.0.fetch_add(1, Ordering::AcqRel) > 0, "a test made the recorder panic");
    }
}

impl Recorder for Panicking {
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
        match key.name() {
            "tx_idempo_commit_seconds" => Histogram::from_arc(Arc::new(PanicsOnce::default())),
            _ => Histogram::noop(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lane_of_idempotency_keys_that_panics_takes_keys_again() {
    let _recording = set_default_local_recorder(&Panicking);
    let world = World::new();
    let host = world.start().await;
    let keys = host.engine.idempotency();
    let request = |key: &str| BeginRequest {
        of: EntryKey { tenant: tenant("default"), key: IdempotencyKey::new(key).unwrap() },
        hash: RequestHash::new("h").unwrap(),
        ttl: None,
        lease: None,
    };
    for number in 0..20 {
        let begun = keys.begin(request(&format!("k-{number}"))).await;
        assert!(matches!(begun, Ok(Begun::New(_))), "{number}: {begun:?}");
    }
    assert_eq!(ill(&host).await, ["task idempotency keys"]);
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_beside_the_engine_that_panics_is_begun_again_and_readiness_names_it() {
    let world = World::new();
    let supervisor = Arc::new(Supervisor::default());
    let shared = Arc::clone(&supervisor);
    let host = world.start_with(move |config| config.supervisor = shared).await;
    assert!(ill(&host).await.is_empty());
    let (begun, stop) = (Arc::new(AtomicU32::new(0)), CancellationToken::new());
    let task = supervisor.run("plugin files", stop.clone(), {
        let begun = Arc::clone(&begun);
        move || {
            let number = begun.fetch_add(1, Ordering::AcqRel);
            async move {
                assert!(number > 1, "a test made the task panic");
                std::future::pending::<()>().await;
            }
        }
    });
    eventually("it is begun a third time", async || begun.load(Ordering::Acquire) == 3).await;
    assert_eq!(ill(&host).await, ["task plugin files"]);
    // Parts that know no engine tell through the port.
    let beside: Arc<dyn Tasks> = supervisor.clone();
    let pauses = [(); 2].map(|()| beside.failed("plugin lane", "shop: a panic".to_owned()));
    assert!(pauses[0] < pauses[1], "{pauses:?}");
    assert_eq!(ill(&host).await, ["task plugin files", "task plugin lane"]);
    pass(seconds(120)).await;
    assert!(ill(&host).await.is_empty());
    stop.cancel();
    task.await.unwrap();
    host.drain().await;
}

/// What the store says of a call that was given up is what it says of one whose outcome nobody knows.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_never_answered_is_of_unknown_outcome() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| if matches!(call, Call::Transact) { Act::Slow(FOR_EVER) } else { Act::Pass });
    let error = host.outbox.transact(Vec::new(), vec![message("a")], Default::default(), None).await.unwrap_err();
    assert_eq!(error.code().as_str(), "TX.TIMEOUT", "{error}");
}
