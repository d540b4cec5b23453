//! What the next start knows of the one before.

use waybill_api::plugins::PluginService as _;
use waybill_core::endpoint::SlotPolicy;
use waybill_core::port::transport::Transport as _;
use waybill_sandbox::{ComponentSource, Phase, Reload, SigningKey, TransportSpec, Trust, World, signature_path};
use waybill_tests::guests;

use super::support::{Place, bundled, component, good, send, until};

fn quick() -> SlotPolicy {
    SlotPolicy { probation: std::time::Duration::ZERO, ..SlotPolicy::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_was_rolled_back_gives_way_to_the_last_good_one_at_the_next_start() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    // It is still on probation itself: that it is worth going back to makes it the last good one.
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(place.fleet.plugins().await.items[0].probation, None, "there is nothing to go back to");
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
    let written = async {
        while !place.remembered().is_some_and(|text| text.contains(&bad.digest) && text.contains("1.0.0")) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(super::support::PATIENCE, written).await.expect("it is written down");
    slot.close(super::support::PATIENCE).await;
    let Place { folder, fleet } = place;
    drop((slot, fleet));

    let place = Place::in_folder(folder, Trust::default());
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(slot.identity().version, "1.0.0", "the last good one serves");
    let view = place.fleet.plugins().await.items.remove(0);
    let fallback = view.fallback.unwrap();
    assert!(fallback.contains(&bad.digest) && fallback.contains("PLUGIN.PROBATION_FAILED"), "{fallback}");
    assert_eq!(view.bad[0].digest, bad.digest);
    let again = place.fleet.reload("orders", Reload::default()).await.unwrap_err();
    assert_eq!(again.code().as_str(), "PLUGIN.REMEMBERED_BAD");
    // A corrected one ends it.
    place.put(&good("2.1.0"));
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    let view = place.fleet.plugins().await.items.remove(0);
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
        while find().is_none() || !place.remembered().is_some_and(|text| text.contains("ROLLED_BACK")) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(super::support::PATIENCE, written).await.expect("it is written down");
    slot.close(super::support::PATIENCE).await;
    std::fs::write(find().unwrap(), good("6.6.6")).unwrap();
    let Place { folder, fleet } = place;
    drop((slot, fleet));
    let place = Place::in_folder(folder, Trust::default());
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(slot.identity().version, "2.0.0", "rather the one at its source than a changed one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundled_component_is_the_last_good_one_too() {
    let place = Place::new(Trust::default());
    let source = ComponentSource::Bundled { name: "acme".to_owned(), component: bundled() };
    let slot = place.start(TransportSpec { source, ..place.spec(quick()) }).await;
    // Another configuration names a file instead.
    place.put(&good("2.0.0"));
    let source = ComponentSource::File(place.file());
    let plugin = place.fleet.load(&source, None, World::Transport).await.unwrap();
    let staged = place.fleet.stage(World::Transport, place.spec(quick()), plugin, false).await.unwrap();
    place.fleet.swap(staged).await.unwrap();
    place.fleet.roll_back("orders", "a mistake").await.unwrap();
    let written = async {
        while !place.remembered().is_some_and(|text| text.contains("ROLLED_BACK") && text.contains("\"bundled\": true"))
        {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(super::support::PATIENCE, written).await.expect("it is written down");
    slot.close(super::support::PATIENCE).await;
    let Place { folder, fleet } = place;
    drop((slot, fleet));
    let place = Place::in_folder(folder, Trust::default());
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    assert_eq!(slot.identity().version, "0.9.0", "the one in the binary serves");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_trusted_vouches_for_any_more_doesnt_come_back() {
    let (old, new) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let trust = |keys: &[(&str, &SigningKey)]| Trust {
        keys: keys.iter().map(|(name, key)| ((*name).to_owned(), key.public())).collect(),
        required: true,
    };
    let place = Place::new(trust(&[("old", &old), ("new", &new)]));
    let put = |version: &str, key: &SigningKey| {
        let component = good(version);
        std::fs::write(signature_path(&place.file()), key.sign(&component).to_string()).unwrap();
        place.put(&component);
    };
    put("1.0.0", &old);
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    put("2.0.0", &new);
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    assert_eq!(place.fleet.plugins().await.items[0].previous.as_ref().unwrap().version.as_deref(), Some("1.0.0"));

    let folder = place.folder.path().join("plugins");
    place.fleet.configure(trust(&[("new", &new)]), Some(folder)).await;
    let view = place.fleet.plugins().await.items.remove(0);
    assert_eq!(view.previous, None);
    let first = view.history.iter().find(|one| one.generation == 1).unwrap();
    assert_eq!(first.code.as_deref(), Some("PLUGIN.KEY_UNKNOWN"));
    let error = place.fleet.roll_back("orders", "it was better").await.unwrap_err();
    assert_eq!(error.code().as_str(), "PLUGIN.NO_PREVIOUS");
    assert_eq!(slot.identity().version, "2.0.0", "what serves goes on");
}
