//! What isn't a plugin, isn't one for this host, or isn't configured for it: each is refused with its code, the reason and what to do,
//! and what runs goes on.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::endpoint::{EndpointSettings, Grants};
use waybill_sandbox::{EndpointSpec, PluginSource, SandboxError, WasmTransport, World};
use waybill_tests::guests;
use waybill_tests::hostile::component::section;

use super::support::*;

fn mirrors() -> Vec<u8> {
    fs::read(guests::MIRRORS).unwrap()
}

/// The component with another manifest: its own stays where the toolchain put it, and one at the top level goes before it.
fn with_manifest(manifest: &str) -> Vec<u8> {
    let name = b"waybill-plugin";
    let content = [&[u8::try_from(name.len()).unwrap()][..], name, manifest.as_bytes()].concat();
    [mirrors(), section(0, &content)].concat()
}

fn manifest(change: (&str, &str)) -> String {
    let good = "name = 'x'\nversion = '1.0.0'\nworld = 'transport'\ncontract = '0.1.0'\ndescription = 'x'\n\
                config_schema = '''{ \"type\": \"object\", \"additionalProperties\": false, \"properties\": { \"peers\": { \"type\": \"array\", \
                \"items\": { \"type\": \"object\", \"additionalProperties\": false, \"properties\": { \"port\": { \"type\": \"integer\" } } } } } }'''\n\
                [ask]\nnet = ['tcp://*:*', 'tcp://broker.example:5672']\nsecrets = ['token']\nfeatures = ['kv']\ninstances = 2\n\
                required = ['net', 'kv', 'secrets.token']\n";
    let changed = good.replace(change.0, change.1);
    assert!(change.0.is_empty() || changed != good, "{change:?}");
    changed
}

/// Bytes, the code of their refusal, and what it must say: words between bars.
fn files() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let whole = mirrors();
    let changed = |from, to| with_manifest(&manifest((from, to)));
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped.truncate(middle);
    flipped.extend(vec![0xff; 64]);
    vec![
        ("nothing", Vec::new(), "PLUGIN.NOT_A_COMPONENT", "component"),
        ("text", b"hello".to_vec(), "PLUGIN.NOT_A_COMPONENT", "component"),
        ("an archive", b"PK\x03\x04junk".to_vec(), "PLUGIN.NOT_A_COMPONENT", "component"),
        ("a core module", b"\0asm\x01\0\0\0".to_vec(), "PLUGIN.CORE_MODULE", "component"),
        ("a truncated file", whole[..whole.len() / 2].to_vec(), "PLUGIN.NOT_A_COMPONENT", ""),
        ("one byte short", whole[..whole.len() - 1].to_vec(), "PLUGIN.NOT_A_COMPONENT", ""),
        ("rubbish in the middle", flipped, "PLUGIN.NOT_A_COMPONENT", ""),
        ("too large", vec![0; 49 << 20], "PLUGIN.TOO_LARGE", "at most"),
        ("no manifest", fs::read(guests::WITHOUT_MANIFEST).unwrap(), "PLUGIN.NO_MANIFEST", "manifest!"),
        ("no TOML", with_manifest("= 1"), "PLUGIN.BAD_MANIFEST", ""),
        ("an unknown key", changed("[ask]", "[ask]\nfiles = ['/']"), "PLUGIN.BAD_MANIFEST", "files"),
        ("an unknown world", changed("'transport'", "'transporter'"), "PLUGIN.BAD_MANIFEST", "transporter|participant"),
        (
            "a need that isn't asked",
            changed("'secrets.token']\n", "'secrets.key']\n"),
            "PLUGIN.BAD_MANIFEST",
            "secrets.key",
        ),
        (
            "a schema that isn't one",
            changed("\"object\", \"add", "\"objekt\", \"add"),
            "PLUGIN.BAD_MANIFEST",
            "config_schema",
        ),
        ("another world", changed("'transport'", "'backoff'"), "PLUGIN.OTHER_WORLD", "backoff|transport"),
        ("an older contract", changed("'0.1.0'\nd", "'0.0.9'\nd"), "PLUGIN.CONTRACT_VERSION", "0.0.9|rebuild"),
        ("a newer contract", changed("'0.1.0'\nd", "'0.9.0'\nd"), "PLUGIN.CONTRACT_VERSION", "0.9.0|update waybill"),
        (
            "an interface nobody has",
            fs::read(guests::IMPORTS_THE_UNKNOWN).unwrap(),
            "PLUGIN.UNKNOWN_IMPORT",
            "elsewhere:secret/door|remove",
        ),
        (
            "another world's exports",
            fs::read(guests::WRONG_WORLD).unwrap(),
            "PLUGIN.MISSING_EXPORT",
            "transport-api|export it",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_isnt_a_plugin_is_refused_with_a_reason() {
    let running = start_plain(guests::MIRRORS).await;
    let folder = tempfile::tempdir().unwrap();
    for (what, bytes, code, says) in files() {
        let path = folder.path().join("plugin.wasm");
        fs::write(&path, &bytes).unwrap();
        for source in [PluginSource::File(path), PluginSource::Bytes(Arc::from(bytes))] {
            let error = sandbox().load(source, World::Transport).await.expect_err(what);
            assert_eq!(error.code().as_str(), code, "{what}: {error}");
            let text = error.to_string();
            assert!(says.split('|').all(|word| text.contains(word)), "{what}: {text}");
        }
    }
    let missing = PluginSource::File(folder.path().join("no-such.wasm"));
    assert_eq!(sandbox().load(missing, World::Transport).await.expect_err("missing").code().as_str(), "PLUGIN.READ");
    let a_folder = PluginSource::File(folder.path().to_owned());
    assert_eq!(sandbox().load(a_folder, World::Transport).await.expect_err("a folder").code().as_str(), "PLUGIN.READ");
    assert_eq!(send(&running, batch(2)).await.expect("goes on").len(), 2);
}

async fn refusal(config: Value, grants: Grants, instances: u32) -> SandboxError {
    let bytes = with_manifest(&manifest(("", "")));
    let plugin = sandbox().load(PluginSource::Bytes(bytes.into()), World::Transport).await.expect("loads");
    let settings = EndpointSettings { config, grants, instances, ..EndpointSettings::new("orders") };
    WasmTransport::start(plugin, EndpointSpec::new(settings)).await.expect_err("refused")
}

/// All that the manifest requires.
fn enough() -> Grants {
    let mut grants = Grants::none().allow(["tcp://broker.example:5672", "tcp://other.example:1"]);
    grants.secrets.insert("token".to_owned(), "env:TOKEN".to_owned());
    grants.kv = Some(waybill_core::port::kv::KvQuota::default());
    grants
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_dont_fit_are_refused_with_their_place() {
    for (config, place) in [
        (json!({ "peer": [] }), "at /"),
        (json!({ "peers": {} }), "at /peers:"),
        (json!({ "peers": [{ "port": 1 }, { "port": "2" }] }), "at /peers/1/port:"),
        (json!({ "peers": [{ "prot": 1 }] }), "at /peers/0:"),
        (json!([]), "at /"),
        (json!("text"), "at /"),
    ] {
        let error = refusal(config.clone(), enough(), 1).await;
        assert_eq!(error.code().as_str(), "PLUGIN.CONFIG", "{config}");
        assert!(error.to_string().contains(place), "{config}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asks_beyond_the_grants_are_refused_with_the_lines_to_add() {
    let error = refusal(Value::Null, Grants::none(), 1).await;
    assert_eq!(error.code().as_str(), "PLUGIN.GRANT_MISSING");
    for line in [
        "[transport.orders]",
        "allow.net = [\"tcp://HOST:PORT\", \"tcp://broker.example:5672\"]",
        "allow.kv = \"1MiB\"",
        "secrets.token = \"env:TOKEN\"",
    ] {
        assert!(error.to_string().contains(line), "{error}");
    }
    let part = Grants { kv: None, ..enough() };
    let error = refusal(Value::Null, part, 1).await.to_string();
    assert!(
        error.contains("allow.kv") && !error.contains("allow.net") && !error.contains("secrets.token ="),
        "{error}"
    );

    let error = refusal(Value::Null, enough(), 3).await;
    assert_eq!(error.code().as_str(), "PLUGIN.INSTANCES");
    assert!(error.to_string().contains("write instances = 2"), "{error}");
}

/// A secret written where none belongs isn't repeated by the refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_doesnt_repeat_what_may_be_a_secret() {
    for config in [
        json!({ "token": "hunter2-hunter2" }),
        json!({ "peers": "hunter2-hunter2" }),
        json!({ "peers": ["hunter2-hunter2"] }),
        json!({ "peers": [{ "port": "hunter2-hunter2" }] }),
        json!("hunter2-hunter2"),
    ] {
        let error = refusal(config.clone(), enough(), 1).await;
        assert_eq!(error.code().as_str(), "PLUGIN.CONFIG");
        assert!(!error.to_string().contains("hunter2"), "{config}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{config}: {error:?}");
    }
}
