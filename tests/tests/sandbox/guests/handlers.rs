//! Handlers: verdicts, and what becomes of a call whose instance is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::handler::{Handler, Inbound, Verdict, VerdictSink};
use waybill_core::port::transport::{CallError, ErrorKind, Health};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, WasmHandler, World};
use waybill_tests::guests;

use super::support::*;

async fn start(path: &str, config: Value) -> Arc<WasmHandler> {
    let plugin = load(path, World::Handler).await.expect("loads");
    let settings = EndpointSettings { config, ..EndpointSettings::new("payments") };
    WasmHandler::start_supervised(plugin, EndpointSpec::new(settings)).await.expect("can serve").0
}

fn inbound(word: &str) -> Inbound {
    Inbound {
        id: "m-1".to_owned(),
        consumer: "billing".to_owned(),
        source: "orders-nats".to_owned(),
        tenant: "acme".to_owned(),
        topic: "orders.paid".to_owned(),
        key: Some("order-1".to_owned()),
        headers: vec![("x-shop".to_owned(), "berlin".to_owned())],
        content_type: Some("application/json".to_owned()),
        payload: json!(word).to_string().into(),
        event_type: Some("order.paid".to_owned()),
        event_version: Some(3),
        envelope_id: Some("env-1".to_owned()),
        correlation_id: Some("cor-1".to_owned()),
        causation_id: Some("cause-1".to_owned()),
        reply_to: Some("replies".to_owned()),
        occurred_at: Some(UnixMillis(1_700_000_000_000)),
        received_at: UnixMillis(1_700_000_000_500),
        attempt: 2,
        maybe_handled: true,
        attributes: vec![("position".to_owned(), "S/7".to_owned())],
    }
}

/// What was told early.
#[derive(Default)]
struct RecordedVerdicts(Mutex<Vec<(usize, Verdict)>>);

impl VerdictSink for RecordedVerdicts {
    fn settled(&self, index: usize, verdict: Verdict) {
        self.0.lock().unwrap().push((index, verdict));
    }
}

async fn handle_all(
    handler: &WasmHandler,
    batch: Vec<Inbound>,
) -> (Result<Vec<Verdict>, CallError>, Vec<(usize, Verdict)>) {
    let told = Arc::new(RecordedVerdicts::default());
    let answer = handler.handle(0, batch, AMPLE, Arc::clone(&told) as Arc<dyn VerdictSink>).await;
    let told = std::mem::take(&mut *told.0.lock().unwrap());
    (answer, told)
}

async fn handle(handler: &WasmHandler, words: &[&str]) -> Result<Vec<Verdict>, CallError> {
    handle_all(handler, words.iter().map(|word| inbound(word)).collect()).await.0
}

#[tokio::test(flavor = "multi_thread")]
pub async fn handles_as_told() {
    let handler = start(guests::HANDLES_AS_TOLD, json!({})).await;
    assert_eq!((handler.limits().max_batch, handler.limits().calls_per_lane), (10, 1));
    let words = ["fine", "duplicate", "poison", "retry", "blocked", "tell", "busy", "signal"];
    let verdicts = handle(&handler, &words).await.expect("handled");
    let [
        Verdict::Processed(fine),
        Verdict::Duplicate,
        Verdict::Poison(poison),
        Verdict::Retry(retry),
        Verdict::Blocked { scope, .. },
        Verdict::Processed(told),
        Verdict::Busy(busy),
        Verdict::Processed(signalling),
    ] = verdicts.as_slice()
    else {
        panic!("{verdicts:?}")
    };
    assert!(fine.messages.is_empty() && poison.code == "FIXTURE.NEVER" && scope == "stock");
    assert_eq!(retry.after, Some(Duration::from_secs(2)));
    assert_eq!(busy.after, Some(Duration::from_secs(3)));
    let [signal] = signalling.signals.as_slice() else { panic!("{signalling:?}") };
    assert_eq!((signal.saga.as_str(), signal.name.as_str(), &*signal.payload), ("saga-1", "paid", &b"7"[..]));
    let told = String::from_utf8(told.messages[0].payload.to_vec()).unwrap();
    for part in [
        "m-1",
        "billing",
        "orders-nats",
        "acme",
        "orders.paid",
        "order-1",
        "x-shop",
        "application/json",
        "order.paid",
        "env-1",
        "cor-1",
        "cause-1",
        "replies",
        "1700000000000",
        "1700000000500",
        "attempt: 2",
        "event-version: Some(3)",
        "maybe-handled: true",
        "S/7",
    ] {
        assert!(told.contains(part), "{part} isn't in {told}");
    }
    // What can't be read is poison by the helper's word.
    let garbled = Inbound { payload: "{".into(), ..inbound("") };
    let verdicts = handle_all(&handler, vec![garbled]).await.0.expect("handled");
    assert!(matches!(&verdicts[0], Verdict::Poison(fault) if fault.code == "PLUGIN.PAYLOAD"), "{verdicts:?}");
    assert_eq!(handle(&handler, &[]).await, Ok(Vec::new()));

    // What is left behind is taken whole or not at all, and the attempt counts.
    let verdicts = handle(&handler, &["many"]).await.expect("handled");
    assert!(matches!(&verdicts[0], Verdict::Retry(fault) if fault.code == "PLUGIN.OUTPUT_TOO_LARGE"), "{verdicts:?}");

    // A verdict that was told survives the trap of the one after it.
    let (answer, told) = handle_all(&handler, vec![inbound("duplicate"), inbound("panic"), inbound("fine")]).await;
    let error = answer.expect_err("traps");
    assert_eq!(error.kind, ErrorKind::Trapped);
    // The reason is what the guest said, and no heading without its backtrace.
    let reason = &error.fault.reason;
    assert!(reason.starts_with("panicked at examples/handles_as_told.rs:"), "{reason}");
    assert!(reason.contains("as told (") && !reason.contains("backtrace"), "{reason}");
    assert_eq!(told, [(0, Verdict::Duplicate)]);
    // A fresh instance serves the one that wasn't to blame.
    assert_eq!(handle(&handler, &["fine"]).await.expect("handled").len(), 1);
    assert_eq!(handler.health().health, Health::Ready);
    handler.close(AMPLE).await;
    assert_eq!(handle(&handler, &["fine"]).await.expect_err("closed").fault.code, "PLUGIN.CLOSED");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn handles_too_few() {
    let handler = start(guests::HANDLES_TOO_FEW, json!({})).await;
    let error = handle(&handler, &["a", "b"]).await.expect_err("broke the contract");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Contract, "PLUGIN.CONTRACT"));
    assert!(error.fault.reason.contains("1 verdicts for 2"), "{}", error.fault.reason);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_open_says_why_and_is_tried_again_when_told() {
    let handler = start(guests::HANDLES_AS_TOLD, json!({ "address": "denied" })).await;
    assert_eq!(handle(&handler, &["fine"]).await.expect_err("not open").kind, ErrorKind::Denied);
    let health = handler.health();
    assert_eq!(health.health, Health::Down);
    assert!(health.detail.is_some_and(|why| why.contains("FIXTURE.DENIED")));
    handler.reopen();
    handler.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn verdicts_of_others() {
    let handler = start(guests::VERDICTS_OF_OTHERS, json!({})).await;
    let (answer, told) = handle_all(&handler, vec![inbound("a"), inbound("b")]).await;
    assert_eq!(answer.expect("handled").len(), 2);
    assert!(told.iter().all(|(_, verdict)| matches!(verdict, Verdict::Processed(_))), "its own alone: {told:?}");
    let beyond = Inbound { payload: "beyond".into(), ..inbound("") };
    let (answer, told) = handle_all(&handler, vec![beyond]).await;
    let error = answer.expect_err("broke the contract");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Contract, "PLUGIN.CONTRACT"));
    assert!(error.fault.reason.contains("message 7 of a batch of 1"), "{}", error.fault.reason);
    assert_eq!(told, []);
    the_host_still_serves().await;
}
