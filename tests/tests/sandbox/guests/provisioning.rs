//! Provisioning: what a plugin would create at its peer, in an instance of its own, by hand and before it serves.

use std::sync::Arc;

use serde_json::{Value, json};
use waybill_core::port::kv::{KvQuota, KvStore};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::transport::{ErrorKind, Transport};
use waybill_sandbox::{EndpointSpec, MemoryKv, SandboxError, WasmTransport, World};
use waybill_tests::guests;

use super::support::*;

use ProvisionAction::{Change, Conflict, Create, Keep};

/// Settings of the fixture over a store that outlives it.
fn wanting(config: Value, kv: &Arc<MemoryKv>) -> EndpointSpec {
    let mut spec = settings(config);
    spec.kv = Some(Arc::clone(kv) as Arc<dyn KvStore>);
    spec.settings.grants.kv = Some(KvQuota::default());
    spec
}

async fn transport(config: Value, kv: &Arc<MemoryKv>) -> Arc<WasmTransport> {
    start(guests::PROVISIONS_IN_KV, wanting(config, kv)).await
}

/// Starts it with `provision = true`; answers how the first `open` went.
async fn start_provisioned(config: Value, kv: &Arc<MemoryKv>) -> (Arc<WasmTransport>, Result<(), SandboxError>) {
    let plugin = load(guests::PROVISIONS_IN_KV, World::Transport).await.expect("loads");
    let mut spec = wanting(config, kv);
    (spec.settings.provision, spec.settings.instances) = (true, 3);
    WasmTransport::start_supervised(plugin, spec).await.expect("may serve")
}

fn actions(changes: &[ProvisionChange]) -> Vec<(&str, ProvisionAction)> {
    changes.iter().map(|change| (change.target.as_str(), change.action)).collect()
}

/// A plan changes nothing; what is applied is there, once; a conflict is told and left alone.
#[tokio::test(flavor = "multi_thread")]
pub async fn provisions_in_kv() {
    let kv = Arc::new(MemoryKv::default());
    let first = transport(json!({ "names": ["a", "b"] }), &kv).await;
    for _ in 0..2 {
        assert_eq!(actions(&first.provision(false).await.unwrap()), [("a", Create), ("b", Create)]);
    }
    assert_eq!(seen(&first).await, "[]");
    assert_eq!(actions(&first.provision(true).await.unwrap()), [("a", Create), ("b", Create)]);
    assert_eq!(seen(&first).await, "[\"a\", \"b\"]");
    assert_eq!(actions(&first.provision(true).await.unwrap()), [("a", Keep), ("b", Keep)]);
    first.close(AMPLE).await;

    let other = transport(json!({ "names": ["a=v2", "b=v2!", "c"] }), &kv).await;
    let expected = [("a", Change), ("b", Conflict), ("c", Create)];
    assert_eq!(actions(&other.provision(true).await.unwrap()), expected);
    let after = other.provision(false).await.unwrap();
    assert_eq!(actions(&after), [("a", Keep), ("b", Conflict), ("c", Keep)]);
    assert_eq!(after[1].detail, "is v1, wanted v2");
}

/// What goes wrong costs the provisioning instance, never the serving one.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_provisioning_harms_nobody_else() {
    let kv = Arc::new(MemoryKv::default());
    for (way, kind, code) in [
        ("the broker is gone", ErrorKind::Unavailable, "THINGS.GONE"),
        ("panic", ErrorKind::Trapped, "PLUGIN.TRAPPED"),
        ("loop", ErrorKind::TimedOut, "PLUGIN.TIMED_OUT"),
    ] {
        let mut settings = wanting(json!({ "address": way, "names": ["a"] }), &kv);
        if way == "loop" {
            settings.limits.provision_timeout = SHORT;
        }
        let transport = start(guests::PROVISIONS_IN_KV, settings).await;
        let Err(ProvisionError::Failed(error)) = transport.provision(false).await else { panic!("{way}: no error") };
        assert_eq!((error.kind, error.fault.code.as_str()), (kind, code), "{way}");
        assert_eq!(seen(&transport).await, "[]", "{way}");
        assert_eq!(transport.lanes(), [("serving", None)], "{way}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_provisioning_says_so() {
    let mirrors = start_plain(guests::MIRRORS).await;
    assert!(matches!(mirrors.provision(false).await, Err(ProvisionError::NotOffered { .. })));
    let plugin = load(guests::MIRRORS, World::Transport).await.expect("loads");
    assert!(!plugin.provisions());
    let mut spec = settings(json!({}));
    spec.settings.provision = true;
    let error = WasmTransport::start_supervised(plugin, spec).await.map(|_| ()).expect_err("refused");
    assert_eq!(error.code().as_str(), "PLUGIN.NO_PROVISIONING");
    assert!(error.to_string().contains("leave the key out"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_there_before_the_first_instance_serves() {
    let kv = Arc::new(MemoryKv::default());
    let (transport, opened) = start_provisioned(json!({ "names": ["a", "b"] }), &kv).await;
    opened.expect("opens");
    assert_eq!(seen(&transport).await, "[\"a\", \"b\"]");
}

/// Nothing is applied beside a conflict; when somebody has solved it, provisioning opens the transport.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_keeps_the_transport_from_opening() {
    let kv = Arc::new(MemoryKv::default());
    let old = transport(json!({ "names": ["a"] }), &kv).await;
    old.provision(true).await.unwrap();

    let (held, opened) = start_provisioned(json!({ "names": ["a=v2!", "b"] }), &kv).await;
    let told = opened.expect_err("held").to_string();
    assert!(told.contains("PLUGIN.PROVISION_CONFLICT") && told.contains("is v1, wanted v2"), "{told}");
    eventually("all are refused", || held.lanes().iter().all(|(state, _)| *state == "refused")).await;
    assert_eq!(seen(&old).await, "[\"a\"]");

    // By hand: here another transport's configuration replaces it.
    transport(json!({ "names": ["a=v2"] }), &kv).await.provision(true).await.unwrap();
    assert_eq!(actions(&held.provision(true).await.unwrap()), [("a", Keep), ("b", Create)]);
    eventually("it serves", || held.lanes().iter().all(|(state, _)| *state == "serving")).await;
    assert_eq!(seen(&held).await, "[\"a\", \"b\"]");
}

/// A peer that is gone is waited for, as after a failed `open`.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_peer_is_tried_again() {
    let kv = Arc::new(MemoryKv::default());
    let (waiting, opened) = start_provisioned(json!({ "address": "gone", "names": ["a"] }), &kv).await;
    let error = opened.expect_err("not open yet");
    assert!(error.retryable() && error.to_string().contains("THINGS.GONE"), "{error}");
    assert!(waiting.lanes().iter().all(|(state, _)| matches!(*state, "waiting" | "opening")), "{:?}", waiting.lanes());
}
