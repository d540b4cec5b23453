//! Participants: steps, their answers, the pool of instances, and what becomes of a call whose instance is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use waybill_core::endpoint::{EndpointSettings, PluginLimits};
use waybill_core::port::participant::{Answered, Direction, Participant, StepContext, StepDone, StepError, StepOutput};
use waybill_core::port::transport::{ErrorKind, Health};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{
    EndpointSpec, MemoryKv, ParticipantLimits, SandboxError, WasmParticipant, World, participant_steps,
};
use waybill_tests::guests;

use super::support::*;

fn settings(instances: u32, config: Value) -> EndpointSpec {
    EndpointSpec::new(EndpointSettings { instances, config, ..EndpointSettings::new("shop") })
}

async fn start_with(path: &str, spec: EndpointSpec, limits: ParticipantLimits) -> Arc<WasmParticipant> {
    let plugin = load(path, World::Participant).await.expect("loads");
    let (participant, opened) = WasmParticipant::start(plugin, spec, limits).await.expect("can serve");
    opened.expect("opens");
    participant
}

async fn start(path: &str, instances: u32) -> Arc<WasmParticipant> {
    start_with(path, settings(instances, json!({})), ParticipantLimits::default()).await
}

fn context(tenant: &str) -> StepContext {
    StepContext { tenant: tenant.to_owned(), ..StepContext::new("saga-1", "order", "first") }
}

async fn execute(participant: &WasmParticipant, step: &str, tenant: &str, input: Value) -> Answered<StepDone> {
    participant.execute(step, &context(tenant), input.to_string().into(), AMPLE).await
}

/// The output of a step as JSON.
async fn output(participant: &WasmParticipant, step: &str, tenant: &str, input: Value) -> Value {
    match execute(participant, step, tenant, input).await.result {
        Ok(StepDone::Output(StepOutput { data, .. })) => serde_json::from_slice(&data).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

async fn error(participant: &WasmParticipant, step: &str, input: Value) -> StepError {
    execute(participant, step, "acme", input).await.result.expect_err("fails")
}

fn code(error: &StepError) -> (&'static str, &str) {
    let class = match error {
        StepError::Retryable(_) => "retryable",
        StepError::Permanent(_) => "permanent",
        StepError::Blocked { .. } => "blocked",
        StepError::Release(_) => "release",
    };
    (class, error.fault().code.as_str())
}

/// Everything that the contract promises reaches the guest, and what it answers comes back.
#[tokio::test(flavor = "multi_thread")]
pub async fn serves_steps() {
    let participant = start(guests::SERVES_STEPS, 2).await;
    let names: Vec<String> = participant.steps().into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["tell", "count", "wait", "fail", "sleep", "leave", "fill", "keep"]);
    let tell = &participant.steps()[0];
    assert!(tell.compensates && tell.idempotent && tell.summary.starts_with("Tells"));
    assert!(!participant.steps()[2].idempotent);

    let context = StepContext {
        definition_version: 4,
        attempt: 3,
        envelope_id: Some("env".to_owned()),
        correlation_id: Some("cor".to_owned()),
        saga_deadline: Some(UnixMillis(1_800_000_000_000)),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        headers: vec![("x-shop".to_owned(), "berlin".to_owned())],
        attributes: vec![("a".to_owned(), "b".to_owned())],
        ..context("acme")
    };
    let answered = participant.execute("tell", &context, Bytes::from(r#"{"sku":1}"#), AMPLE).await;
    assert_eq!((answered.by.plugin.as_str(), answered.by.generation), ("participant-guest", 1));
    assert!(answered.by.digest.starts_with("sha256:") && answered.by == participant.identity());
    let Ok(StepDone::Output(told)) = answered.result else { panic!("{answered:?}") };
    let mut told: Value = serde_json::from_slice(&told.data).unwrap();
    let timeout = told["timeout"].take().as_u64().unwrap();
    assert!(timeout <= AMPLE.as_millis() as u64 && timeout > 0, "{timeout}");
    let expected = json!({
        "saga_id": "saga-1", "definition": "order", "definition_version": 4, "tenant": "acme", "step": "first",
        "idempotency_key": "~acme/saga-1/first/execute", "attempt": 3, "envelope_id": "env", "correlation_id": "cor",
        "saga_deadline": 1_800_000_000_000_u64, "headers": [["x-shop", "berlin"]], "attributes": [["a", "b"]],
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "timeout": null, "input": {"sku": 1},
    });
    assert_eq!(told, expected);
    assert_eq!(context.idempotency_key(Direction::Execute), "~acme/saga-1/first/execute");
    participant.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compensation_gets_the_output_or_the_word_that_nobody_knows_it() {
    let participant = start(guests::SERVES_STEPS, 1).await;
    for (output, seen) in [(Some(Bytes::from("[7]")), json!([7])), (None, Value::Null)] {
        let answered = participant.compensate("tell", &context("acme"), Bytes::from("1"), output, AMPLE).await;
        let undone = answered.result.expect("undone");
        assert_eq!(undone.data, "null");
        let message: Value = serde_json::from_slice(&undone.messages[0].payload).unwrap();
        assert_eq!(message["output"], seen);
        assert_eq!(message["told"]["idempotency_key"], "~acme/saga-1/first/compensate");
    }
    let undo = |step: &'static str| {
        let participant = Arc::clone(&participant);
        async move { participant.compensate(step, &context("acme"), Bytes::from("1"), None, AMPLE).await.result }
    };
    assert_eq!(code(&undo("wait").await.unwrap_err()), ("permanent", "FIXTURE.STUCK"));
    assert_eq!(code(&undo("count").await.unwrap_err()), ("blocked", "PLUGIN.NO_COMPENSATION"));
    assert_eq!(code(&undo("gone").await.unwrap_err()), ("blocked", "PLUGIN.NO_STEP"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_of_a_step_is_told_apart() {
    let participant = start(guests::SERVES_STEPS, 1).await;
    let Ok(StepDone::Pending(pending)) = execute(&participant, "wait", "acme", json!({"a": 1})).await.result else {
        panic!("pending")
    };
    assert_eq!((pending.signal.as_str(), pending.timeout), ("approved", Some(Duration::from_secs(60))));
    assert_eq!(pending.data, r#"{"a":1}"#);
    for (how, class, found) in [
        ("retryable", "retryable", "FIXTURE.LATER"),
        ("unknown", "retryable", "FIXTURE.UNKNOWN"),
        ("never", "permanent", "FIXTURE.NEVER"),
        ("blocked", "blocked", "FIXTURE.DOWN"),
    ] {
        let failed = error(&participant, "fail", json!(how)).await;
        assert_eq!(code(&failed), (class, found));
        assert_eq!(failed.fault().maybe_delivered, how == "unknown");
        match &failed {
            StepError::Blocked { scope, .. } => assert_eq!(scope, "stock"),
            _ if how == "retryable" => assert_eq!(failed.fault().after, Some(Duration::from_millis(1_500))),
            _ => {}
        }
    }
    // What isn't the step's input is final, and says where.
    let failed = error(&participant, "sleep", json!("soon")).await;
    assert_eq!(code(&failed), ("permanent", "PLUGIN.STEP_INPUT"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_leaves_behind_is_taken_whole_or_not_at_all() {
    let participant = start(guests::SERVES_STEPS, 1).await;
    let Ok(StepDone::Output(left)) = execute(&participant, "leave", "acme", json!(2)).await.result else {
        panic!("output")
    };
    assert_eq!((left.messages.len(), left.events.len()), (2, 2));
    let message = &left.messages[1];
    assert_eq!(
        (message.topic.as_str(), message.key.as_deref(), &message.payload[..]),
        ("bus:left", Some("k"), b"1".as_slice())
    );
    assert_eq!(message.headers, [("x-n".to_owned(), "1".to_owned())]);
    assert_eq!((left.events[0].stream.as_str(), left.events[0].op.as_str()), ("left", "create"));
    for (step, input) in [("leave", json!(501)), ("fill", json!(256 * 1024))] {
        let failed = error(&participant, step, input).await;
        assert_eq!(code(&failed), ("permanent", "PLUGIN.OUTPUT_TOO_LARGE"), "{failed:?}");
        assert!(failed.fault().maybe_delivered, "what it did is done");
    }
    let large = Value::String("x".repeat(1024 * 1024));
    assert_eq!(code(&error(&participant, "tell", large).await), ("permanent", "PLUGIN.INPUT_TOO_LARGE"));
}

/// Tenant data must not leak between sagas: an instance that has served one tenant never serves another.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_used_again_by_its_own_tenant_only() {
    let participant = start(guests::SERVES_STEPS, 2).await;
    for calls in 1..=3 {
        let counted = output(&participant, "count", "acme", json!({})).await;
        assert_eq!(counted, json!({ "instance": 0, "calls": calls, "tenants": vec!["acme"; calls] }));
    }
    let counted = output(&participant, "count", "bolt", json!({})).await;
    assert_eq!(counted, json!({ "instance": 1, "calls": 1, "tenants": ["bolt"] }));
    // A third tenant takes the place of the longest unused.
    let counted = output(&participant, "count", "cern", json!({})).await;
    assert_eq!(counted, json!({ "instance": 0, "calls": 1, "tenants": ["cern"] }));
    let counted = output(&participant, "count", "bolt", json!({})).await;
    assert_eq!(counted["calls"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_replaced_after_its_uses_and_when_it_idles() {
    let limits = ParticipantLimits { uses: 2, ..ParticipantLimits::default() };
    let participant = start_with(guests::SERVES_STEPS, settings(1, json!({})), limits).await;
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(output(&participant, "count", "acme", json!({})).await["calls"].as_u64().unwrap());
    }
    assert_eq!(calls, [1, 2, 1, 2]);

    let limits = ParticipantLimits { idle_time: Duration::from_millis(200), ..ParticipantLimits::default() };
    let participant = start_with(guests::SERVES_STEPS, settings(1, json!({})), limits).await;
    output(&participant, "count", "acme", json!({})).await;
    let mut fresh = false;
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        fresh = output(&participant, "count", "acme", json!({})).await["calls"] == 1;
        if fresh {
            break;
        }
    }
    assert!(fresh, "an idle instance is never let go");
}

/// Calls beside each other have instances of their own; when all are at work a call waits, and then is told to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_its_instance_to_itself() {
    let limits = ParticipantLimits { wait: Duration::from_millis(100), ..ParticipantLimits::default() };
    let participant = start_with(guests::SERVES_STEPS, settings(2, json!({})), limits).await;
    let is_seen = Arc::new(AtomicBool::new(false));
    let sleepers: Vec<_> = (0..2)
        .map(|_| {
            let (participant, is_seen) = (Arc::clone(&participant), Arc::clone(&is_seen));
            tokio::spawn(async move {
                let mut slept = 0;
                // The call that looks may have one of the places for a while.
                while slept == 0 || !is_seen.load(Ordering::Acquire) {
                    match execute(&participant, "sleep", "acme", json!(1_000)).await.result {
                        Ok(StepDone::Output(_)) => slept += 1,
                        Err(error) => assert_eq!(code(&error), ("release", "PLUGIN.BUSY")),
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    // Both places are taken when a call is told to come back.
    let refused = loop {
        match execute(&participant, "count", "acme", json!({})).await.result {
            Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    is_seen.store(true, Ordering::Release);
    assert_eq!(code(&refused), ("release", "PLUGIN.BUSY"));
    assert!(refused.fault().after.is_some() && !refused.fault().maybe_delivered);
    for sleeper in sleepers {
        sleeper.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
pub async fn step_panics() {
    let participant = start(guests::STEP_PANICS, 1).await;
    let failed = error(&participant, "panic", Value::Null).await;
    assert_eq!(code(&failed), ("retryable", "PLUGIN.TRAPPED"));
    assert!(failed.fault().maybe_delivered, "its effect is unknown");
    // A fresh instance serves; after too many losses the breaker opens, and calls are held instead of burned.
    output(&participant, "fine", "acme", Value::Null).await;
    let held = loop {
        let failed = error(&participant, "panic", Value::Null).await;
        if !matches!(failed, StepError::Retryable(_)) {
            break failed;
        }
    };
    assert_eq!(code(&held), ("blocked", "PLUGIN.BREAKER_OPEN"));
    assert!(matches!(&held, StepError::Blocked { scope, .. } if scope == "fn:shop"));
    assert_eq!(participant.health().health, Health::Down);
    participant.reopen();
    output(&participant, "fine", "acme", Value::Null).await;
    assert_eq!(participant.health().health, Health::Ready);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn step_loops() {
    let participant = start(guests::STEP_LOOPS, 1).await;
    let started = |timeout| participant.execute("loop", &CONTEXT, Bytes::from("null"), timeout);
    static CONTEXT: std::sync::LazyLock<StepContext> = std::sync::LazyLock::new(|| context("acme"));
    let failed = started(SHORT).await.result.expect_err("misses its deadline");
    assert_eq!(code(&failed), ("retryable", "PLUGIN.TIMED_OUT"));
    assert!(failed.fault().maybe_delivered);

    // The operator's bound is shorter than the caller's.
    let limits = ParticipantLimits { call_time: SHORT, ..ParticipantLimits::default() };
    let participant = start_with(guests::STEP_LOOPS, settings(1, json!({})), limits).await;
    let failed = error(&participant, "loop", Value::Null).await;
    assert_eq!(code(&failed), ("retryable", "PLUGIN.TIMED_OUT"));

    let limits = PluginLimits { cpu_per_call: Duration::from_millis(200), ..PluginLimits::default() };
    let little = EndpointSpec { limits, ..settings(1, json!({})) };
    let participant = start_with(guests::STEP_LOOPS, little, ParticipantLimits::default()).await;
    assert_eq!(code(&error(&participant, "loop", Value::Null).await), ("retryable", "PLUGIN.CPU"));
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn steps_of_one_name() {
    let plugin = load(guests::STEPS_OF_ONE_NAME, World::Participant).await.expect("loads");
    let refused = participant_steps(&plugin).await.expect_err("refused");
    assert_eq!(refused.code().as_str(), "PLUGIN.STEPS");
    assert!(refused.to_string().contains("\"same\" twice"), "{refused}");
    let started = WasmParticipant::start(plugin, settings(1, json!({})), ParticipantLimits::default()).await;
    assert!(started.is_err());
}

/// Steps are read without secrets or state, whatever is granted.
#[tokio::test(flavor = "multi_thread")]
pub async fn steps_look_around() {
    let mut granted = settings(1, json!({}));
    granted.settings.grants.secrets.insert("granted".to_owned(), "env:PATH".to_owned());
    granted.settings.grants.kv = Some(Default::default());
    granted.kv = Some(Arc::new(MemoryKv::default()));
    let participant = start_with(guests::STEPS_LOOK_AROUND, granted, ParticipantLimits::default()).await;
    assert_eq!(participant.steps()[0].name, "secret-false.kv-false");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_participant_that_does_not_open_holds_its_steps_and_burns_nothing() {
    for (how, kind) in [("denied", ErrorKind::Denied), ("unavailable", ErrorKind::Unavailable)] {
        let plugin = load(guests::SERVES_STEPS, World::Participant).await.expect("loads");
        let config = settings(1, json!({ "address": how }));
        let (participant, opened) =
            WasmParticipant::start(plugin, config, ParticipantLimits::default()).await.expect("kept");
        let refused = opened.expect_err("doesn't open");
        assert!(matches!(refused, SandboxError::Open { kind: found, .. } if found == kind), "{refused}");
        let held = error(&participant, "tell", Value::Null).await;
        assert!(matches!(&held, StepError::Blocked { scope, .. } if scope == "fn:shop"), "{held:?}");
        assert!(held.fault().after.is_some() && !held.fault().maybe_delivered);
        assert_eq!(participant.health().health, Health::Down);
    }
}

/// Durable state is the participant's own: a transport of the same name has another.
#[tokio::test(flavor = "multi_thread")]
async fn state_is_kept_by_participant() {
    let kv: Arc<MemoryKv> = Arc::new(MemoryKv::default());
    let with_kv = |name: &str| {
        let mut settings = EndpointSettings::new(name);
        settings.grants.kv = Some(Default::default());
        EndpointSpec { kv: Some(Arc::clone(&kv) as _), ..EndpointSpec::new(settings) }
    };
    let participant = start_with(guests::SERVES_STEPS, with_kv("shop"), ParticipantLimits::default()).await;
    assert_eq!(output(&participant, "keep", "acme", json!({})).await, 1);
    assert_eq!(output(&participant, "keep", "acme", json!({})).await, 2);
    let other = start_with(guests::SERVES_STEPS, with_kv("other"), ParticipantLimits::default()).await;
    assert_eq!(output(&other, "keep", "acme", json!({})).await, 1);
    use waybill_core::port::kv::KvStore;
    assert!(kv.get("participant.shop", "calls").await.unwrap().is_some());
    assert!(kv.get("shop", "calls").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_participant_asks_no_guest() {
    let participant = start(guests::SERVES_STEPS, 1).await;
    let sleeper = {
        let participant = Arc::clone(&participant);
        tokio::spawn(async move { execute(&participant, "sleep", "acme", json!(300)).await.result })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    participant.close(AMPLE).await;
    // What was under way ended by itself, or wasn't begun.
    match sleeper.await.unwrap() {
        Ok(_) => {}
        Err(error) => assert_eq!(code(&error), ("release", "PLUGIN.CLOSED")),
    }
    assert_eq!(code(&error(&participant, "count", json!({})).await), ("release", "PLUGIN.CLOSED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transport_is_no_participant() {
    let refused = load(guests::MIRRORS, World::Participant).await.expect_err("refused");
    assert_eq!(refused.code().as_str(), "PLUGIN.OTHER_WORLD");
}
