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
