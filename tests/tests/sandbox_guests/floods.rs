//! Guests that flood the host: with entries, measurements, texts.

use serde_json::json;
use waybill_core::port::transport::{Outcome, Transport};
use waybill_tests::guests;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_the_log() {
    let transport = start(guests::FLOODS_THE_LOG, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_stdout() {
    let transport = start(guests::FLOODS_STDOUT, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_metrics() {
    let transport = start(guests::FLOODS_METRICS, settings(json!({ "amount": 5_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    the_host_still_serves().await;
}

/// Texts are cut; more than a call may hand over ends the instance.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_outcome() {
    let transport = start(guests::HUGE_OUTCOME, settings(json!({ "amount": 100_000 }))).await;
    let outcomes = send(&transport, batch(1)).await.expect("serves");
    let [Outcome::Blocked { scope, fault }] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(scope.len() <= 1_024 && fault.reason.len() <= 1_024 && fault.code.len() <= 64);
    assert!(fault.attributes.iter().all(|(name, value)| name.len() <= 256 && value.len() <= 256));

    let transport = start(guests::HUGE_OUTCOME, settings(json!({ "amount": 2_000_000 }))).await;
    assert!(send(&transport, batch(1)).await.is_err());
    the_host_still_serves().await;
    transport.close(AMPLE).await;
}

/// Cut to what a receipt may hold.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_receipt() {
    let transport = start(guests::HUGE_RECEIPT, settings(json!({ "amount": 100_000 }))).await;
    let outcomes = send(&transport, batch(3)).await.expect("serves");
    for outcome in outcomes {
        let Outcome::Ack(receipt) = outcome else { panic!("{outcome:?}") };
        assert!(receipt.broker_ref.is_some_and(|text| text.len() == 256));
        assert_eq!(receipt.attributes.len(), 32);
        assert!(receipt.attributes.iter().all(|(_, value)| value.len() == 256));
    }
}

/// More than a call may hand over never reaches the host's memory.
#[tokio::test(flavor = "multi_thread")]
pub async fn huge_string() {
    let transport = start(guests::HUGE_STRING, settings(json!({ "amount": 100_000 }))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    let transport = start(guests::HUGE_STRING, settings(json!({ "amount": 8_000_000 }))).await;
    let error = send(&transport, batch(1)).await.expect_err("ends");
    assert!(error.fault.reason.contains("fuel allocated for hostcalls"), "{}", error.fault.reason);
    the_host_still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn hoards_handles() {
    let transport = start(guests::HOARDS_HANDLES, settings(json!({ "amount": 500 }))).await;
    assert_eq!(seen(&transport).await, "holds 500");
    let transport = start(guests::HOARDS_HANDLES, settings(json!({ "amount": 5_000 }))).await;
    let error = send(&transport, batch(1)).await.expect_err("ends");
    let reason = error.fault.reason;
    assert!(reason.contains("handle limit exceeded") || reason.contains("no free keys"), "{reason}");
    the_host_still_serves().await;
}

/// Refused before anybody is connected to.
#[tokio::test(flavor = "multi_thread")]
pub async fn floods_headers() {
    let server = Server::start();
    let granted = format!("http://{}", server.address);
    let config = |amount: usize| json!({ "address": server.address.to_string(), "amount": amount });
    let transport = start(guests::FLOODS_HEADERS, granting(config(100), &[&granted])).await;
    let refused = seen(&transport).await;
    assert!(refused.contains("Limit") && refused.contains("headers"), "{refused}");
    assert_eq!(server.connects().await, 0);
}
