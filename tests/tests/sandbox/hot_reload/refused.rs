//! Bad input: each is refused with its code, and the running generation goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use waybill_api::plugins::PluginService as _;
use waybill_core::endpoint::SlotPolicy;
use waybill_sandbox::{ComponentSource, Phase, Reload, Reloaded, SigningKey, SwapError, Trust, World, signature_path};
use waybill_tests::guests;

use super::support::{Place, component, component_with, good};

struct Row {
    what: &'static str,
    bytes: Vec<u8>,
    signature: Option<String>,
    sha256: Option<String>,
    code: &'static str,
}

fn row(what: &'static str, bytes: Vec<u8>, code: &'static str) -> Row {
    Row { what, bytes, signature: None, sha256: None, code }
}

fn rows(key: &SigningKey, stranger: &SigningKey) -> Vec<Row> {
    let new = good("2.0.0");
    let mut half = new.clone();
    half.truncate(new.len() / 2);
    let other_contract = std::fs::read(guests::OTHER_CONTRACT).unwrap();
    let mut rows = vec![
        row("text", b"hello".to_vec(), "PLUGIN.NOT_A_COMPONENT"),
        row("nothing", Vec::new(), "PLUGIN.NOT_A_COMPONENT"),
        row("core module", b"\0asm\x01\0\0\0".to_vec(), "PLUGIN.CORE_MODULE"),
        row("truncated", half, "PLUGIN.NOT_A_COMPONENT"),
        row("other contract", other_contract, "PLUGIN.CONTRACT_VERSION"),
        row("other world", std::fs::read(guests::BACKOFF_LOOPS).unwrap(), "PLUGIN.OTHER_WORLD"),
        row("no manifest", std::fs::read(guests::WITHOUT_MANIFEST).unwrap(), "PLUGIN.NO_MANIFEST"),
        row(
            "manifest that isn't one",
            component_with(guests::MIRRORS, "2.0.1", "colour = 'red'"),
            "PLUGIN.BAD_MANIFEST",
        ),
        row(
            "config it doesn't take",
            component_with(
                guests::MIRRORS,
                "2.0.2",
                "config_schema = '{\"type\":\"object\",\"required\":[\"servers\"]}'",
            ),
            "PLUGIN.CONFIG",
        ),
        row("opens and traps", component(guests::OPEN_PANICS, "2.0.3"), "PLUGIN.PROBE_FAILED"),
        row("opens and is denied", component(guests::OPEN_DENIED, "2.0.4"), "PLUGIN.PROBE_FAILED"),
        row("refuses its config", component(guests::OPEN_INVALID_CONFIG, "2.0.5"), "PLUGIN.PROBE_FAILED"),
    ];
    for one in &mut rows {
        one.signature = Some(key.sign(&one.bytes).to_string());
    }
    let signed = |what, signature: Option<String>, code| Row { signature, ..row(what, good("2.0.0"), code) };
    rows.extend([
        signed("unsigned", None, "PLUGIN.SIGNATURE_MISSING"),
        signed("signed by a stranger", Some(stranger.sign(&new).to_string()), "PLUGIN.KEY_UNKNOWN"),
        signed("signed for another", Some(key.sign(b"another").to_string()), "PLUGIN.SIGNATURE_BAD"),
        signed("signature that is none", Some("trust me".into()), "PLUGIN.SIGNATURE_BAD"),
        Row {
            sha256: Some("0".repeat(64)),
            ..signed("another digest", Some(key.sign(&new).to_string()), "PLUGIN.DIGEST_MISMATCH")
        },
    ]);
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn each_is_refused_with_its_code_and_what_serves_goes_on() {
    let (key, stranger) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let trust = Trust { keys: BTreeMap::from([("acme".to_owned(), key.public())]), required: true };
    let place = Place::new(trust);
    let put = |bytes: &[u8], signature: Option<&str>| {
        let beside = signature_path(&place.file());
        match signature {
            Some(text) => std::fs::write(&beside, text).unwrap(),
            None => drop(std::fs::remove_file(&beside)),
        }
        place.put(bytes);
    };
    let first = good("1.0.0");
    put(&first, Some(&key.sign(&first).to_string()));
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    let serves = waybill_core::port::transport::Transport::identity(&slot);
    assert_eq!(place.fleet.plugins().await.items[0].live.signature.as_deref(), Some("signed by acme"));

    for Row { what, bytes, signature, sha256, code } in rows(&key, &stranger) {
        put(&bytes, signature.as_deref());
        let error = place.fleet.reload("orders", Reload { sha256, force: false }).await.unwrap_err();
        assert_eq!(error.code().as_str(), code, "{what}: {error}");
        assert_eq!(waybill_core::port::transport::Transport::identity(&slot), serves, "{what}");
        let view = place.fleet.plugins().await.items.remove(0);
        let refused = view.refused.unwrap();
        assert_eq!((refused.code.as_deref(), refused.phase.as_str()), (Some(code), "rejected"), "{what}");
        assert!(refused.reason.unwrap().len() > 20, "{what}");
    }
    // And a good one goes on being taken.
    let new = good("2.0.0");
    put(&new, Some(&key.sign(&new).to_string()));
    assert!(matches!(place.fleet.reload("orders", Reload::default()).await.unwrap(), Reloaded::Live(_)));
    assert_eq!(slot.plugin().manifest().version, "2.0.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_while_it_is_read_is_loaded_whole_or_not_at_all() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let slot = place.start(place.spec(SlotPolicy::default())).await;
    let versions: Vec<Vec<u8>> = (0..4).map(|minor| good(&format!("1.{minor}.0"))).collect();
    let digests: Vec<String> =
        versions.iter().map(|bytes| waybill_sandbox::Fetched::new(bytes.clone(), None).digest().to_owned()).collect();
    let file = place.file();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (stop, versions) = (Arc::clone(&stop), versions.clone());
        move || {
            // Written in place, in pieces: the way that a careless copy does it.
            for bytes in versions.iter().cycle() {
                let (front, back) = bytes.split_at(bytes.len() / 2);
                std::fs::write(&file, front).unwrap();
                std::thread::yield_now();
                use std::io::Write;
                std::fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(back).unwrap();
                if stop.load(std::sync::atomic::Ordering::Acquire) {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
    let mut refused = 0;
    for _ in 0..60 {
        match place.fleet.reload("orders", Reload::default()).await {
            Ok(_) => {}
            Err(SwapError::Plugin(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(digests.iter().any(|digest| digest == slot.plugin().digest()));
    }
    stop.store(true, std::sync::atomic::Ordering::Release);
    writer.join().unwrap();
    place.fleet.reload("orders", Reload::default()).await.unwrap();
    println!("{refused} of 60 reads met a file that was being written");
    for record in slot.life().records().filter(|record| record.phase == Phase::Live || record.phase == Phase::Gone) {
        assert!(digests.contains(&record.digest), "{record:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn junk_in_the_plugins_folder_is_shown_and_stops_nothing() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let folder = place.folder.path().join("plugins");
    std::fs::write(folder.join("notes.txt"), "hello").unwrap();
    std::fs::write(folder.join("half.wasm"), &good("1.0.0")[..1000]).unwrap();
    place.start(place.spec(SlotPolicy::default())).await;
    let refused = place.fleet.plugins().await.refused_files;
    let codes: Vec<(&str, &str)> = refused.iter().map(|file| (file.file.as_str(), file.code.as_str())).collect();
    assert_eq!(codes, [("half.wasm", "PLUGIN.NOT_A_COMPONENT"), ("notes.txt", "PLUGIN.NOT_A_COMPONENT")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_loaded_has_every_digest_that_is_expected() {
    let place = Place::new(Trust::default());
    place.put(&good("1.0.0"));
    let source = ComponentSource::File(place.file());
    let found = source.fetch().unwrap().digest().to_owned();
    let other = "0".repeat(64);
    let load = async |pins: &[&str]| place.fleet.load(&source, pins.iter().copied(), World::Transport).await;
    assert_eq!(load(&[&found, &found]).await.unwrap().digest(), found);
    for pins in [[&found, &other], [&other, &found]] {
        let error = load(&pins.map(String::as_str)).await.unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.DIGEST_MISMATCH", "{error}");
    }
}
