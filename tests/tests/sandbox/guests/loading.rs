//! What isn't loaded, and what is taken from the cache.

use std::fs;

use serde_json::json;
use waybill_sandbox::{CodeOrigin, PluginSource, Sandbox, SandboxOptions, WasmTransport, World, inspect};
use waybill_tests::guests;

use super::support::*;

async fn code(path: &str, world: World) -> &'static str {
    load(path, world).await.expect_err("refused").code().as_str()
}

#[tokio::test(flavor = "multi_thread")]
pub async fn without_manifest() {
    assert_eq!(code(guests::WITHOUT_MANIFEST, World::Transport).await, "PLUGIN.NO_MANIFEST");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn wrong_world() {
    assert_eq!(code(guests::WRONG_WORLD, World::Transport).await, "PLUGIN.MISSING_EXPORT");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn other_contract() {
    let error = load(guests::OTHER_CONTRACT, World::Transport).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.CONTRACT_VERSION");
    assert!(error.to_string().contains("0.9.0") && error.to_string().contains("update waybill"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn imports_the_unknown() {
    let error = load(guests::IMPORTS_THE_UNKNOWN, World::Transport).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.UNKNOWN_IMPORT");
    assert!(error.to_string().contains("elsewhere:secret/door"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_another_world_is_refused_by_name() {
    let error = load(guests::BACKOFF_PANICS, World::Transport).await.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.OTHER_WORLD");
    assert_eq!(code(guests::MIRRORS, World::Backoff).await, "PLUGIN.OTHER_WORLD");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_isnt_a_component_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(guests::MIRRORS).unwrap();
    let core_module = b"\0asm\x01\0\0\0".to_vec();
    for (name, bytes, expected) in [
        ("empty", Vec::new(), "PLUGIN.NOT_A_COMPONENT"),
        ("text", b"hello".to_vec(), "PLUGIN.NOT_A_COMPONENT"),
        ("module", core_module, "PLUGIN.CORE_MODULE"),
        ("truncated", whole[..whole.len() / 2].to_vec(), "PLUGIN.NOT_A_COMPONENT"),
        ("precompiled", sandbox_machine_code().await, "PLUGIN.PRECOMPILED"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        assert_eq!(code(path.to_str().unwrap(), World::Transport).await, expected, "{name}");
    }
    assert_eq!(code("/no/such/plugin.wasm", World::Transport).await, "PLUGIN.READ");
}

/// Machine code as the host itself makes it: the cached file without its checksum.
async fn sandbox_machine_code() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let cached = cached_sandbox(&folder.path().join("cache"));
    cached.load(PluginSource::File(guests::MIRRORS.into()), World::Transport).await.expect("loads");
    let file = only_file(&folder.path().join("cache"));
    fs::read(file).unwrap()[32..].to_vec()
}

fn cached_sandbox(folder: &std::path::Path) -> Sandbox {
    Sandbox::new(SandboxOptions { cache_dir: Some(folder.to_owned()), ..SandboxOptions::default() }).expect("engine")
}

fn only_file(folder: &std::path::Path) -> std::path::PathBuf {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap() != "seal.key");
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiled_plugin_is_used_again_and_a_damaged_one_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("cache");
    let origin = || async {
        // A sandbox of its own each time, as after a restart.
        let plugin = cached_sandbox(&folder).load(PluginSource::File(guests::MIRRORS.into()), World::Transport).await;
        let plugin = plugin.expect("loads");
        let origin = plugin.origin();
        let transport = WasmTransport::start(plugin, settings(json!({}))).await.expect("opens");
        assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
        origin
    };
    assert_eq!(origin().await, CodeOrigin::Compiled);
    assert_eq!(origin().await, CodeOrigin::Cached);

    let file = only_file(&folder);
    let whole = fs::read(&file).unwrap();
    for damage in [whole.len() / 2, 5, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(origin().await, CodeOrigin::Compiled, "flipped a bit of byte {damage}");
    }
    fs::write(&file, &whole[..whole.len() / 3]).unwrap();
    assert_eq!(origin().await, CodeOrigin::Compiled, "truncated");
    assert_eq!(origin().await, CodeOrigin::Cached);
    assert_eq!(fs::read(&file).unwrap(), whole, "the same code again");
}

#[cfg(unix)]
#[test]
fn a_cache_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("cache");
    cached_sandbox(&inside);
    assert_eq!(fs::metadata(&inside).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&inside, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Sandbox::new(SandboxOptions { cache_dir: Some(inside), ..SandboxOptions::default() });
    assert_eq!(refused.expect_err("refused").code().as_str(), "PLUGIN.CACHE");
}

/// Machine code of another host, or of somebody who can write there but has not the key, is never run.
#[tokio::test(flavor = "multi_thread")]
async fn machine_code_with_another_key_is_compiled_again() {
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("cache");
    let load = async |key: &str| {
        let options = SandboxOptions {
            cache_dir: Some(cache.clone()),
            seal_key: Some(place.path().join("data").join(key)),
            ..SandboxOptions::default()
        };
        let sandbox = Sandbox::new(options).expect("engine");
        sandbox.keep_seal().expect("a key");
        sandbox.load(PluginSource::File(guests::MIRRORS.into()), World::Transport).await.expect("loads").origin()
    };
    assert_eq!((load("mine").await, load("mine").await), (CodeOrigin::Compiled, CodeOrigin::Cached));
    let mine = only_file(&cache);
    let bytes = fs::read(&mine).unwrap();
    fs::remove_file(&mine).unwrap();
    // Two hosts may share a folder, each with entries of its own.
    assert_eq!((load("theirs").await, load("theirs").await), (CodeOrigin::Compiled, CodeOrigin::Cached));
    let theirs = only_file(&cache);
    assert_ne!(mine, theirs);
    fs::write(&theirs, &bytes).unwrap();
    assert_eq!(load("theirs").await, CodeOrigin::Compiled, "what bears another key's mark isn't run");
    assert_eq!(load("theirs").await, CodeOrigin::Cached);

    // A link in the place of an entry is not followed.
    #[cfg(unix)]
    {
        let elsewhere = place.path().join("elsewhere");
        fs::rename(&theirs, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &theirs).unwrap();
        assert_eq!(load("theirs").await, CodeOrigin::Compiled);
    }
}

/// As root, which may give folders away: the host would run what their owner puts there.
#[cfg(unix)]
#[test]
fn a_cache_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("cache");
    fs::create_dir(&inside).unwrap();
    let nobody = Some(65_534);
    if std::os::unix::fs::chown(&inside, nobody, nobody).is_err() {
        return;
    }
    let refused = Sandbox::new(SandboxOptions { cache_dir: Some(inside), ..SandboxOptions::default() });
    let error = refused.expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.CACHE");
    assert!(
        error.to_string().contains("belongs to user 65534") && error.to_string().contains("plugins.cache"),
        "{error}"
    );
}

#[test]
fn the_bundled_plugins_say_what_they_are() {
    for bundled in waybill_bundled::all() {
        let inspection = inspect(bundled.component).expect("readable");
        assert_eq!(inspection.manifest.name, bundled.name);
        assert!(inspection.digest.starts_with("sha256:") && inspection.digest.len() == 71);
    }
}
