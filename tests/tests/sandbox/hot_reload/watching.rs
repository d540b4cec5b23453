//! A file that changes is loaded by itself; what is refused isn't tried again until it changes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use waybill_core::endpoint::SlotPolicy;
use waybill_core::port::transport::Transport as _;
use waybill_sandbox::{Phase, StageOptions, Trust};

use super::support::{Place, good, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_loaded_junk_is_refused_once_and_a_touch_changes_nothing() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let mut spec = place.spec(SlotPolicy::default());
    spec.endpoint.settings.watch = true;
    let slot = place.start(spec).await;
    let stop = CancellationToken::new();
    let watch = tokio::spawn({
        let (fleet, stop) = (place.fleet.clone(), stop.clone());
        async move { fleet.watch(stop).await }
    });
    // The first look has to come before the first change.
    tokio::time::sleep(waybill_sandbox::POLL_EVERY * 2).await;

    place.put(&good("1.0.0"));
    tokio::time::sleep(waybill_sandbox::POLL_EVERY * 4).await;
    assert_eq!(slot.life().records().count(), 1, "the same bytes");

    place.put(&good("2.0.0"));
    until(&slot, "the new version is live", |records| {
        (records.last()?.phase == Phase::Live && records.len() == 2).then_some(())
    })
    .await;
    assert_eq!(slot.identity().version, "2.0.0");

    place.put(b"junk");
    until(&slot, "junk is refused", |records| (records.last()?.phase == Phase::Rejected).then_some(())).await;
    tokio::time::sleep(waybill_sandbox::POLL_EVERY * 4).await;
    let refused = slot.life().records().filter(|record| record.phase == Phase::Rejected).count();
    assert_eq!((refused, slot.identity().version.as_str()), (1, "2.0.0"));

    std::fs::remove_file(place.file()).unwrap();
    tokio::time::sleep(waybill_sandbox::POLL_EVERY * 4).await;
    assert_eq!(slot.identity().version, "2.0.0", "a file that is gone takes nothing away");
    place.put(&good("3.0.0"));
    until(&slot, "the third version is live", |_| (slot.identity().version == "3.0.0").then_some(())).await;
    stop.cancel();
    watch.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_that_finds_no_room_is_loaded_when_there_is_some() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let mut spec = place.spec(SlotPolicy { drain_timeout: Duration::from_secs(600), ..SlotPolicy::default() });
    spec.endpoint.settings.watch = true;
    let endpoint = spec.endpoint.clone();
    let slot = place.start(spec).await;
    // Somebody has each of them still in use, so none of them ends.
    let mut in_use = Vec::new();
    for _ in 0..4 {
        in_use.push(slot.serving().unwrap());
        let staged = slot.stage(slot.plugin(), endpoint.clone(), StageOptions::default()).await.unwrap();
        slot.swap(staged).await.unwrap();
    }
    let stop = CancellationToken::new();
    let watch = tokio::spawn({
        let (fleet, stop) = (place.fleet.clone(), stop.clone());
        async move { fleet.watch(stop).await }
    });
    // The first look has to come before the change.
    tokio::time::sleep(waybill_sandbox::POLL_EVERY * 4).await;
    place.put(&good("2.0.0"));
    until(&slot, "there is no room", |records| {
        records.iter().any(|record| record.why.as_ref().is_some_and(|why| why.code == "PLUGIN.DRAINING")).then_some(())
    })
    .await;
    assert_eq!(slot.identity().version, "1.0.0");
    in_use.clear();
    until(&slot, "the new version is live", |_| (slot.identity().version == "2.0.0").then_some(())).await;
    stop.cancel();
    watch.await.unwrap();
}
