//! Components as they were built for the released contract, `waybill:plugin@0.1.0`: what serves for ever, and what has moved.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy};
use waybill_core::port::participant::{Participant, StepContext, StepDone};
use waybill_core::port::transport::Transport;
use waybill_sandbox::{ParticipantLimits, WasmBackoff, WasmParticipant, World};
use waybill_tests::guests;

use super::policies::attempt;
use super::support::*;

#[tokio::test(flavor = "multi_thread")]
pub async fn frozen_transport() {
    let transport = start_plain(guests::FROZEN_TRANSPORT).await;
    assert_eq!(seen(&transport).await, "m0");
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn frozen_participant() {
    let plugin = load(guests::FROZEN_PARTICIPANT, World::Participant).await.expect("loads");
    let limits = ParticipantLimits::default();
    let (participant, opened) = WasmParticipant::start(plugin, settings(json!({})), limits).await.expect("can serve");
    opened.expect("opens");
    let context = StepContext { tenant: "acme".to_owned(), ..StepContext::new("saga-1", "order", "first") };
    let answered = participant.execute("echo", &context, "7".into(), AMPLE).await;
    assert!(matches!(answered.result, Ok(StepDone::Output(output)) if &*output.data == b"7"));
    participant.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn frozen_backoff() {
    let plugin = load(guests::FROZEN_BACKOFF, World::Backoff).await.expect("loads");
    let policy = WasmBackoff::start(plugin, "fixture", &json!({})).await.expect("starts");
    assert_eq!(policy.decide(&attempt(3)).await, BackoffDecision::Delay(Duration::from_secs(3)));
}

async fn is_told_to_be_rebuilt(path: &str, world: World) {
    let error = load(path, world).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.CONTRACT_VERSION");
    let text = error.to_string();
    assert!(text.contains("waybill:plugin@0.1.0") && text.contains("waybill:inbound@0.1.0"), "{text}");
    assert!(text.contains("rebuild it with this host's SDK"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn frozen_source() {
    is_told_to_be_rebuilt(guests::FROZEN_SOURCE, World::Source).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn frozen_handler() {
    is_told_to_be_rebuilt(guests::FROZEN_HANDLER, World::Handler).await;
}
