//! `waybill transport provision` and `provision = true` with the real binary, a real host and a real plugin.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_tests::guests;

const PATIENCE: Duration = Duration::from_secs(180);

/// A host whose transport wants these things; the plugin keeps them in `kv`, which outlives the host.
async fn host(dir: &Path, names: &Value, provision: bool) -> (Host, Api) {
    let config = format!(
        "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\n[plugins]\ncache = \"./cache\"\n\
         [transport.things]\nplugin = {:?}\nprovision = {provision}\nconfig = {{ names = {names} }}\nallow = {{ kv = \"1MiB\" }}\n\
         [[route]]\nmatch = \"bus:**\"\ntransport = \"things\"\n",
        guests::PROVISIONS_IN_KV
    );
    Host::ready(&Launch::prepare(binary().unwrap(), dir, &config).unwrap()).await.unwrap()
}

/// Exit code and stdout of `waybill transport provision things`.
async fn provision(api: &Api, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(binary().unwrap());
    command.args(["transport", "provision", "things", "--url", api.base()]).args(arguments);
    let done = command.output().await.unwrap();
    (done.status.code(), String::from_utf8(done.stdout).unwrap())
}

/// Action and target of each line of a table.
fn table(out: &str) -> Vec<(String, String)> {
    let words = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    };
    out.lines().skip(1).map(words).collect()
}

fn is(action: &str, target: &str) -> (String, String) {
    (action.to_owned(), target.to_owned())
}

async fn transport(api: &Api) -> Value {
    let shown: Value = api.read("/v1/transports", &[]).await.unwrap();
    shown["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_is_provisioned_by_hand_and_before_a_transport_serves() {
    let dir = tempfile::tempdir().unwrap();
    let (first, api) = host(dir.path(), &json!(["a"]), false).await;
    let (exit, out) = provision(&api, &["--dry-run"]).await;
    assert_eq!((exit, table(&out)), (Some(0), vec![is("create", "a")]));
    assert_eq!(provision(&api, &[]).await.0, Some(2), "nobody to ask");
    assert_eq!(provision(&api, &["--yes"]).await.0, Some(0));
    assert_eq!(table(&provision(&api, &["--dry-run"]).await.1), [is("keep", "a")]);
    let audit: Value = api.read("/v1/audit", &[]).await.unwrap();
    assert!(audit.to_string().contains("TransportProvisioned"), "{audit}");
    assert!(first.terminate(PATIENCE).await.unwrap().success());

    // Before it serves; what is there is kept.
    let (second, api) = host(dir.path(), &json!(["a", "b"]), true).await;
    assert_eq!(table(&provision(&api, &["--dry-run"]).await.1), [is("keep", "a"), is("keep", "b")]);
    assert_eq!(transport(&api).await["health"], "ready");
    assert!(second.terminate(PATIENCE).await.unwrap().success());

    // What would lose data isn't applied, nor is what stands beside it; the host serves, the transport doesn't.
    let (third, api) = host(dir.path(), &json!(["a=v2!", "c"]), true).await;
    let (exit, out) = provision(&api, &["--dry-run"]).await;
    assert_eq!((exit, table(&out)), (Some(4), vec![is("conflict", "a"), is("create", "c")]));
    let held = transport(&api).await;
    assert_eq!(held["health"], "down");
    assert!(held["health_detail"].as_str().unwrap().contains("PLUGIN.PROVISION_CONFLICT"), "{held}");
    let (exit, out) = provision(&api, &["--yes", "-o", "jsonl"]).await;
    assert_eq!((exit, out.lines().count()), (Some(4), 2), "{out}");
    assert!(third.terminate(PATIENCE).await.unwrap().success());
}
