//! Guests that trap, loop, leak or break the contract in `send-batch`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use waybill_core::port::transport::{CallError, ErrorKind, Health, Outcome, SendCall, Transport};
use waybill_sandbox::limits::BREAKER_DELAY_MIN;
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_tests::guests;

use super::support::*;

/// The call fails like this, its fate is unknown, and the next call meets a fresh instance that fails alike.
async fn fails_each_time(transport: &WasmTransport, kind: ErrorKind, code: &str) {
    for _ in 0..2 {
        let error = send(transport, batch(4)).await.expect_err("fails");
        assert_eq!((error.kind, error.fault.code.as_str()), (kind, code), "{}", error.fault.reason);
        assert!(error.fault.maybe_delivered);
    }
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn send_panics() {
    let transport = start_plain(guests::SEND_PANICS).await;
    fails_each_time(&transport, ErrorKind::Trapped, "PLUGIN.TRAPPED").await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn send_recurses_for_ever() {
    let transport = start_plain(guests::SEND_RECURSES_FOR_EVER).await;
    fails_each_time(&transport, ErrorKind::Trapped, "PLUGIN.STACK_OVERFLOW").await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn send_allocates_for_ever() {
    let transport = start_plain(guests::SEND_ALLOCATES_FOR_EVER).await;
    fails_each_time(&transport, ErrorKind::Trapped, "PLUGIN.MEMORY").await;
}

/// The CPU budget stops it long before its deadline.
#[tokio::test(flavor = "multi_thread")]
pub async fn send_loops() {
    let settings = EndpointSpec { limits: little_cpu(), ..settings(json!({})) };
    let transport = start(guests::SEND_LOOPS, settings).await;
    fails_each_time(&transport, ErrorKind::Trapped, "PLUGIN.CPU").await;
}

/// The deadline stops it even when its CPU budget would last.
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_loop_misses_its_deadline_too() {
    let mut settings = settings(json!({}));
    settings.limits.cpu_per_call = Duration::from_secs(3600);
    let transport = start(guests::SEND_LOOPS, settings).await;
    let error = transport
        .send_batch(SendCall::new(0, SHORT), batch(1), Arc::new(RecordedOutcomes::default()))
        .await
        .expect_err("stops");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::TimedOut, "PLUGIN.TIMED_OUT"));
    the_host_still_serves().await;
}

/// It holds the Store while it sleeps, so only a watch from outside can end it.
#[tokio::test(flavor = "multi_thread")]
pub async fn sleeps_past_the_deadline() {
    let transport = start_plain(guests::SLEEPS_PAST_THE_DEADLINE).await;
    let error = transport
        .send_batch(SendCall::new(0, SHORT), batch(1), Arc::new(RecordedOutcomes::default()))
        .await
        .expect_err("stops");
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(error.fault.maybe_delivered);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn waits_for_a_silent_server() {
    let server = Server::start();
    let grant = format!("tcp://{}", server.address);
    let transport = start(guests::WAITS_FOR_A_SILENT_SERVER, granting(server.config(), &[&grant])).await;
    let error = transport
        .send_batch(SendCall::new(0, SHORT), batch(1), Arc::new(RecordedOutcomes::default()))
        .await
        .expect_err("stops");
    assert_eq!(error.kind, ErrorKind::TimedOut);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn send_too_few_outcomes() {
    let transport = start_plain(guests::SEND_TOO_FEW_OUTCOMES).await;
    fails_each_time(&transport, ErrorKind::Contract, "PLUGIN.CONTRACT").await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn send_too_many_outcomes() {
    let transport = start_plain(guests::SEND_TOO_MANY_OUTCOMES).await;
    fails_each_time(&transport, ErrorKind::Contract, "PLUGIN.CONTRACT").await;
}

/// What was told before the trap stands.
#[tokio::test(flavor = "multi_thread")]
pub async fn send_panics_after_progress() {
    let transport = start_plain(guests::SEND_PANICS_AFTER_PROGRESS).await;
    let told = Arc::new(RecordedOutcomes::default());
    let error = transport.send_batch(SendCall::new(0, AMPLE), batch(5), told.clone()).await.expect_err("traps");
    assert_eq!(error.kind, ErrorKind::Trapped);
    assert_eq!(told.places(), [0, 1, 2]);
    assert!(told.0.lock().unwrap().iter().all(|(_, outcome)| matches!(outcome, Outcome::Ack(_))));
}

/// The same for a call that fails in good order; the instance lives on.
#[tokio::test(flavor = "multi_thread")]
pub async fn send_fails_after_progress() {
    let transport = start_plain(guests::SEND_FAILS_AFTER_PROGRESS).await;
    let told = Arc::new(RecordedOutcomes::default());
    let error = transport.send_batch(SendCall::new(0, AMPLE), batch(5), told.clone()).await.expect_err("fails");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(told.places(), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
pub async fn progress_told_twice() {
    let transport = start_plain(guests::PROGRESS_TOLD_TWICE).await;
    let told = Arc::new(RecordedOutcomes::default());
    let outcomes = transport.send_batch(SendCall::new(0, AMPLE), batch(3), told.clone()).await.expect("answers");
    assert_eq!(outcomes.len(), 3);
    assert_eq!(told.places(), [0, 1, 2]);
    assert!(told.0.lock().unwrap().iter().all(|(_, outcome)| matches!(outcome, Outcome::Ack(_))), "the first counts");
}

/// A place outside the batch is a defect: nothing of anybody's is settled.
#[tokio::test(flavor = "multi_thread")]
pub async fn progress_of_others() {
    let transport = start_plain(guests::PROGRESS_OF_OTHERS).await;
    let told = Arc::new(RecordedOutcomes::default());
    let error =
        transport.send_batch(SendCall::new(0, AMPLE), batch(3), told.clone()).await.expect_err("breaks the contract");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Contract, "PLUGIN.CONTRACT"));
    assert!(told.places().is_empty());
    the_host_still_serves().await;
}

/// One poisoned batch costs its own instance; the next batch meets a fresh one at once.
#[tokio::test(flavor = "multi_thread")]
pub async fn send_panics_on_poison() {
    let transport = start_plain(guests::SEND_PANICS_ON_POISON).await;
    for _ in 0..3 {
        assert_eq!(send(&transport, vec![delivery(1, "fine")]).await.expect("serves").len(), 1);
        assert_eq!(send(&transport, vec![delivery(2, "poison")]).await.expect_err("traps").kind, ErrorKind::Trapped);
    }
    assert_eq!(send(&transport, vec![delivery(3, "fine")]).await.expect("serves").len(), 1);
}

/// The other lane doesn't notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_trap_in_one_lane_leaves_the_other_alone() {
    let mut spec = settings(json!({}));
    spec.settings.instances = 2;
    let transport = start(guests::SEND_PANICS_ON_POISON, spec).await;
    let (poisoned, fine) = tokio::join!(
        transport.send_batch(
            SendCall::new(0, AMPLE),
            vec![delivery(1, "poison")],
            Arc::new(RecordedOutcomes::default())
        ),
        transport.send_batch(SendCall::new(1, AMPLE), vec![delivery(2, "fine")], Arc::new(RecordedOutcomes::default())),
    );
    assert_eq!(poisoned.expect_err("traps").kind, ErrorKind::Trapped);
    assert_eq!(fine.expect("serves").len(), 1);
}

/// The restart budget is spent, the breaker opens, and it says when to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_traps_again_and_again_opens_the_breaker() {
    let mut tries = 0;
    let (transport, traps, refused, health) = loop {
        let transport = start_plain(guests::SEND_PANICS_ON_POISON).await;
        let (mut traps, mut last) = (0, Instant::now());
        let refused: CallError = loop {
            let began = Instant::now();
            match send(&transport, vec![delivery(1, "poison")]).await.expect_err("fails") {
                error if error.kind == ErrorKind::Trapped => (traps, last) = (traps + 1, began),
                error => break error,
            }
            assert!(traps < 50, "the breaker never opens");
        };
        let health = transport.health().await.health;
        // Only a breaker that was open all the while shows anything; it stays open for a second.
        if last.elapsed() < BREAKER_DELAY_MIN {
            break (transport, traps, refused, health);
        }
        tries += 1;
        assert!(tries < 20, "the machine stood still for a second each time");
    };
    assert_eq!(traps, 6, "five fresh instances, then none");
    assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Unavailable, "PLUGIN.BREAKER_OPEN"));
    assert!(refused.fault.after.is_some_and(|after| after > Duration::ZERO));
    assert!(!refused.fault.maybe_delivered, "nothing was handed to a guest");
    assert_eq!(health, Health::Down);

    // The trial succeeds, and the breaker is closed again.
    eventually("the breaker lets one try", || transport.lanes()[0].0 == "serving").await;
    assert_eq!(send(&transport, vec![delivery(2, "fine")]).await.expect("serves").len(), 1);
    assert_eq!(send(&transport, vec![delivery(1, "poison")]).await.expect_err("traps").kind, ErrorKind::Trapped);
    assert_eq!(send(&transport, vec![delivery(2, "fine")]).await.expect("a fresh one at once").len(), 1);
}

/// A failing `health`, `tick` and `close` don't keep it from sending, and its end isn't held up.
#[tokio::test(flavor = "multi_thread")]
pub async fn fails_besides_sending() {
    let transport = start_plain(guests::FAILS_BESIDES_SENDING).await;
    assert_eq!(send(&transport, batch(2)).await.expect("serves").len(), 2);
    let report = transport.health().await;
    assert_eq!(report.health, Health::Down);
    assert!(report.detail.is_some_and(|detail| detail.contains("PLUGIN.TRAPPED")));
    assert_eq!(send(&transport, batch(2)).await.expect("serves").len(), 2);
    transport.close(AMPLE).await;
    assert_eq!(send(&transport, batch(1)).await.expect_err("has ended").fault.code, "PLUGIN.CLOSED");
}

/// Nothing will ever wake it: it ends at its deadline, or as soon as the engine sees that it waits for nothing.
#[tokio::test(flavor = "multi_thread")]
pub async fn never_ready() {
    let transport = start_plain(guests::NEVER_READY).await;
    let error = transport
        .send_batch(SendCall::new(0, SHORT), batch(1), Arc::new(RecordedOutcomes::default()))
        .await
        .expect_err("stops");
    assert!(matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Trapped), "{error:?}");
    assert!(error.fault.maybe_delivered);
    the_host_still_serves().await;
}

/// What it told before its time was over stands.
#[tokio::test(flavor = "multi_thread")]
pub async fn drips_outcomes() {
    let transport = start(guests::DRIPS_OUTCOMES, settings(json!({ "amount": 150 }))).await;
    let told = Arc::new(RecordedOutcomes::default());
    let error = transport.send_batch(SendCall::new(0, SHORT), batch(100), told.clone()).await.expect_err("stops");
    assert_eq!(error.kind, ErrorKind::TimedOut);
    let places = told.places();
    assert!(places.len() < 100 && places.iter().copied().eq(0..places.len()), "{places:?}");
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn panics_in_drop() {
    let transport = start_plain(guests::PANICS_IN_DROP).await;
    fails_each_time(&transport, ErrorKind::Trapped, "PLUGIN.TRAPPED").await;
}

/// The manifest's own word on the time of a call counts too.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_takes_no_longer_than_its_limit() {
    let mut settings = settings(json!({}));
    settings.limits.call_time = SHORT;
    let transport = start(guests::SLEEPS_PAST_THE_DEADLINE, settings).await;
    // The caller would wait for much longer.
    let error = send(&transport, batch(1)).await.expect_err("stops");
    assert_eq!(error.kind, ErrorKind::TimedOut);
}
