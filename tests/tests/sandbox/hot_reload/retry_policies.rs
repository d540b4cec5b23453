//! Retry policies: swapped and rolled back like transports, under the name of the section that configures them.

use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::transport::{Fault, Transport as _};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{ComponentSource, EndpointSpec, PolicySlot, Reload, TransportSpec, Trust, World};
use waybill_tests::guests;

use super::support::*;

const POLICY: &str = "outbox.backoff";

fn policy(fixture: &str, version: &str) -> Vec<u8> {
    component_of("backoff", fixture, version, "")
}

fn well(version: &str) -> Vec<u8> {
    policy(guests::FROZEN_BACKOFF, version)
}

async fn start(place: &Place) -> PolicySlot {
    let settings = EndpointSettings { config: json!({}), ..EndpointSettings::new(POLICY) };
    let spec = TransportSpec { source: ComponentSource::File(place.file()), endpoint: EndpointSpec::new(settings) };
    let loaded = place.fleet.load_for_start(World::Backoff, POLICY, &spec.source, None).await.unwrap();
    let (slot, opened) = place.fleet.start_policy(spec, loaded).await.unwrap();
    opened.unwrap();
    slot
}

async fn decide(slot: &PolicySlot) -> BackoffDecision {
    let attempt = FailedAttempt {
        work: WorkKind::Delivery,
        kind: FailureKind::Retryable,
        fault: Fault::new("T.NO", "thrown"),
        number: 1,
        max_attempts: 5,
        elapsed: std::time::Duration::ZERO,
        age: std::time::Duration::ZERO,
        previous_delay: None,
        tenant: "default".to_owned(),
        topic: "bus:orders".to_owned(),
        endpoint: "orders".to_owned(),
        now: UnixMillis(1_700_000_000_000),
        deadline: None,
        random: 0.5,
    };
    slot.decide(&attempt).await
}

fn version(slot: &PolicySlot) -> String {
    (**slot).identity().version
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_decision_is_that_of_the_policy_that_serves_and_one_that_traps_is_rolled_back() {
    let place = Place::new(Trust::default());
    place.put(&well("1.0.0"));
    let slot = start(&place).await;
    assert_eq!(((*slot).name(), BackoffPolicy::name(&slot)), (POLICY, POLICY));
    let first = decide(&slot).await;
    place.put(&well("2.0.0"));
    place.fleet.reload(POLICY, Reload::default()).await.unwrap();
    assert_eq!((decide(&slot).await, version(&slot)), (first.clone(), "2.0.0".to_owned()));

    place.put(&policy(guests::BACKOFF_PANICS, "3.0.0"));
    place.fleet.reload(POLICY, Reload::default()).await.unwrap();
    let back = async {
        while version(&slot) != "2.0.0" {
            // Until then the formula decides.
            let _decided = decide(&slot).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("it is rolled back");
    assert_eq!(decide(&slot).await, first);
    let log = place.log(POLICY).await;
    let said = log.iter().find(|line| line.message.contains("the built-in formula decides: PLUGIN.TRAPPED: "));
    assert!(said.is_some_and(|line| (line.generation, line.level.as_str()) == (3, "warn")), "{log:?}");

    place.fleet.roll_back(POLICY, "there is nothing further back").await.unwrap_err();
    place.put(&good("4.0.0"));
    let refused = place.fleet.reload(POLICY, Reload::default()).await.unwrap_err();
    assert_eq!((refused.code().as_str(), version(&slot)), ("PLUGIN.OTHER_WORLD", "2.0.0".to_owned()));
}
