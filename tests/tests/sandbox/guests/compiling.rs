//! Components from outside are compiled in a process of their own: the same machine code, and no harm from one that fails.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use waybill_core::port::transport::Transport;
use waybill_sandbox::{
    CodeOrigin, CompileLimits, CompilerProcess, PluginSource, Sandbox, SandboxError, SandboxOptions, WasmTransport,
    World,
};
use waybill_tests::guests;
use waybill_tests::hostile::component::{slow_to_compile, with_idle_module};

use super::support::*;

/// Enough for a fixture.
const ENOUGH: CompileLimits = CompileLimits { cpu: Duration::from_secs(60), memory_bytes: 2 << 30 };

fn compiling_outside(cache: Option<&Path>, limits: CompileLimits) -> Sandbox {
    let program = env!("CARGO_BIN_EXE_compile-component").into();
    Sandbox::new(SandboxOptions {
        cache_dir: cache.map(Path::to_owned),
        compiler: Some(CompilerProcess { program, arguments: Vec::new(), limits }),
        ..SandboxOptions::default()
    })
    .expect("engine")
}

fn file(path: &str) -> PluginSource {
    PluginSource::File(path.into())
}

async fn refusal(limits: CompileLimits, path: &str) -> SandboxError {
    let sandbox = compiling_outside(None, limits);
    let error = sandbox.load(file(path), World::Transport).await.expect_err("refused");
    // The host isn't affected: with enough, the same sandbox's twin loads it.
    assert!(compiling_outside(None, ENOUGH).load(file(path), World::Transport).await.is_ok());
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_child_compiled_serves_and_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    for expected in [CodeOrigin::Compiled, CodeOrigin::Cached] {
        let plugin = compiling_outside(Some(&cache), ENOUGH).load(file(guests::MIRRORS), World::Transport).await;
        let plugin = plugin.expect("loads");
        assert_eq!(plugin.origin(), expected);
        let transport = WasmTransport::start(plugin, settings(json!({}))).await.expect("opens");
        assert_eq!(send(&transport, batch(3)).await.expect("serves").len(), 3);
        transport.close(AMPLE).await;
    }
    let mut kept: Vec<_> = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    kept.retain(|path| path.file_name().unwrap() != "seal.key");
    assert_eq!(kept.len(), 1, "{kept:?}");

    // A host that compiles in its own process takes the same code from the same cache.
    let own = Sandbox::new(SandboxOptions { cache_dir: Some(cache), ..SandboxOptions::default() }).expect("engine");
    let plugin = own.load(file(guests::MIRRORS), World::Transport).await.expect("loads");
    assert_eq!(plugin.origin(), CodeOrigin::Cached);
}

/// Policies have an engine of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_is_compiled_for_its_engine() {
    let sandbox = compiling_outside(None, ENOUGH);
    assert!(sandbox.load(file(guests::BACKOFF_PANICS), World::Backoff).await.is_ok());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_needs_too_much_memory_is_ended() {
    let error = refusal(CompileLimits { memory_bytes: 40 << 20, ..ENOUGH }, guests::MIRRORS).await;
    assert!(matches!(error.code().as_str(), "PLUGIN.COMPILE_MEMORY" | "PLUGIN.COMPILE_CRASHED"), "{error}");
}

/// What a body of code that no compiler likes to see makes of a limit of one second.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_takes_too_long_is_ended() {
    let component = with_idle_module(&fs::read(guests::MIRRORS).unwrap(), &slow_to_compile());
    let limits = CompileLimits { cpu: Duration::from_secs(1), memory_bytes: 16 << 30 };
    let error = compiling_outside(None, limits)
        .load(PluginSource::Bytes(component.into()), World::Transport)
        .await
        .expect_err("takes too long");
    assert_eq!(error.code().as_str(), "PLUGIN.COMPILE_TIMEOUT", "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_isnt_there_is_told() {
    let process =
        CompilerProcess { program: "/no/such/program".into(), arguments: Vec::new(), limits: CompileLimits::default() };
    let options = SandboxOptions { compiler: Some(process), ..SandboxOptions::default() };
    let sandbox = Sandbox::new(options).expect("engine");
    let error = sandbox.load(file(guests::MIRRORS), World::Transport).await.expect_err("no compiler");
    assert_eq!(error.code().as_str(), "PLUGIN.COMPILER");
    // What is in the binary needs none.
    let embedded = PluginSource::Embedded(waybill_bundled::find("noop").expect("bundled").component);
    assert!(sandbox.load(embedded, World::Transport).await.is_ok());
}
