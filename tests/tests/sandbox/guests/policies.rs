//! Retry policies that misbehave. A broken one has no opinion: the built-in formula decides.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::transport::Fault;
use waybill_core::time::UnixMillis;
use waybill_sandbox::{PluginSource, WasmBackoff, World};
use waybill_tests::guests;

use super::support::*;

pub(super) fn attempt(number: u32) -> FailedAttempt {
    FailedAttempt {
        work: WorkKind::Delivery,
        kind: FailureKind::Retryable,
        fault: Fault::new("HTTP.503", "busy"),
        number,
        max_attempts: 12,
        elapsed: Duration::from_secs(1),
        age: Duration::from_secs(2),
        previous_delay: None,
        tenant: "acme".to_owned(),
        topic: "bus:orders.created".to_owned(),
        endpoint: "orders".to_owned(),
        now: UnixMillis(1_700_000_000_000),
        deadline: None,
        random: 0.5,
    }
}

async fn policy(path: &str) -> WasmBackoff {
    let plugin = load(path, World::Backoff).await.expect("loads");
    WasmBackoff::start(plugin, "fixture", &json!({})).await.expect("starts")
}

#[tokio::test(flavor = "multi_thread")]
pub async fn backoff_panics() {
    let policy = policy(guests::BACKOFF_PANICS).await;
    for number in 1..4 {
        assert_eq!(policy.decide(&attempt(number)).await, BackoffDecision::Fallback);
    }
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn backoff_loops() {
    let policy = policy(guests::BACKOFF_LOOPS).await;
    assert_eq!(policy.decide(&attempt(1)).await, BackoffDecision::Fallback);
    the_host_still_serves().await;
}

/// Its surroundings are inert: whatever it looks at is the same every time.
#[tokio::test(flavor = "multi_thread")]
pub async fn backoff_looks_around() {
    let policy = policy(guests::BACKOFF_LOOKS_AROUND).await;
    let first = policy.decide(&attempt(1)).await;
    assert!(
        matches!(&first, BackoffDecision::Dead(found) if found.contains("clock 0") && found.contains("environment 0")),
        "{first:?}"
    );
    for _ in 0..3 {
        assert_eq!(policy.decide(&attempt(1)).await, first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bundled_policy_decides_by_its_configuration() {
    let bundled = waybill_bundled::find("backoff-fibonacci").expect("bundled");
    let plugin = sandbox().load(PluginSource::Embedded(bundled.component), World::Backoff).await.expect("loads");
    let policy = WasmBackoff::start(plugin.clone(), "fibonacci", &json!({})).await.expect("starts");
    let mut delays = Vec::new();
    for number in 1..6 {
        match policy.decide(&attempt(number)).await {
            BackoffDecision::Delay(delay) => delays.push(delay),
            other => panic!("{other:?}"),
        }
    }
    assert!(delays.is_sorted(), "{delays:?}");
    assert_eq!(policy.decide(&attempt(3)).await, policy.decide(&attempt(3)).await);
    let error = WasmBackoff::start(plugin, "fibonacci", &json!({ "no_such_key": 1 })).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.CONFIG");
}
