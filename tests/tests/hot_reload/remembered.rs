//! What the next start knows of the one before.

use waybill_core::port::plugins::PluginService as _;
use waybill_core::port::transport::Transport as _;
use waybill_sandbox::{Phase, Reload, SlotPolicy, Trust};
use waybill_tests::guests;

use crate::support::{Place, component, good, send, until};

fn quick() -> SlotPolicy {
    SlotPolicy { probation: std::time::Duration::ZERO, ..SlotPolicy::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_rolled_back_gives_way_to_the_last_good_one_at_the_next_start() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    // It is still on probation itself: that it is worth going back to makes it the last good one.
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(place.fleet.plugins().await.plugins[0].probation, None, "there is nothing to go back to");
    place.put(&component(guests::SEND_PANICS, "2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    while slot.life().live() == Some(2) {
        let _lost = send(&slot, 1).await;
    }
    until(&slot, "it is rolled back", |records| {
        records.iter().any(|record| record.number == 3 && record.phase == Phase::Live).then_some(())
    })
    .await;
    let bad = slot.life().bad_digests().next().unwrap().clone();
    let json = place.folder.path().join("state").join("orders.json");
    let written = async {
        while !std::fs::read_to_string(&json).is_ok_and(|text| text.contains(&bad.digest) && text.contains("1.0.0")) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, written).await.expect("it is written down");
    slot.close(crate::support::PATIENCE).await;
    let Place { folder, fleet } = place;
    drop((slot, fleet));

    let place = Place::in_folder(folder, Trust::default());
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(slot.identity().version, "1.0.0", "the last good one serves");
    let view = place.fleet.plugins().await.plugins.remove(0);
    let fallback = view.fallback.unwrap();
    assert!(fallback.contains(&bad.digest) && fallback.contains("PLUGIN.PROBATION_FAILED"), "{fallback}");
    assert_eq!(view.bad[0].digest, bad.digest);
    let again = place.fleet.reload("orders", Reload::default()).await.unwrap_err();
    assert_eq!(again.code(), "PLUGIN.REMEMBERED_BAD");
    // A corrected one ends it.
    place.put(&good("2.1.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    let view = place.fleet.plugins().await.plugins.remove(0);
    assert_eq!((view.live.version.as_deref(), view.fallback), (Some("2.1.0"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_good_component_that_was_tampered_with_isnt_used() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let slot = place.start(place.spec(quick())).await;
    place.put(&good("2.0.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    place.fleet.roll_back("orders", "a mistake").await.unwrap();
    let state = place.folder.path().join("state");
    let find = || {
        let mut files = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|extension| extension == "wasm"))
    };
    let written = async {
        while find().is_none()
            || !std::fs::read_to_string(state.join("orders.json")).is_ok_and(|text| text.contains("ROLLED_BACK"))
        {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, written).await.expect("it is written down");
    slot.close(crate::support::PATIENCE).await;
    std::fs::write(find().unwrap(), good("6.6.6")).unwrap();
    let Place { folder, fleet } = place;
    drop((slot, fleet));
    let place = Place::in_folder(folder, Trust::default());
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(slot.identity().version, "2.0.0", "rather the one at its source than a changed one");
}
