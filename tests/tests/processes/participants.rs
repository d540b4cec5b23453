//! Participants of the real binary take a new plugin while sagas run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use waybill_tests::guests;

use super::config_reload::Running;
use super::inbound::until;

/// Sagas of the run under load, in rounds with a new plugin after each.
const ROUNDS: usize = 12;
const SAGAS_A_ROUND: usize = 25;

/// A host whose participant `shop` is a component of its plugins folder.
struct Scene {
    running: Running,
    folder: tempfile::TempDir,
}

/// A component under another digest with each name: a custom section that nobody reads is added.
fn named(fixture: &str, name: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(fixture).unwrap();
    let length = u8::try_from(name.len()).unwrap();
    bytes.extend([0, length + 1, length]);
    bytes.extend(name.as_bytes());
    bytes
}

fn put(file: &Path, component: &[u8]) {
    let draft = file.with_extension("draft");
    std::fs::write(&draft, component).unwrap();
    std::fs::rename(&draft, file).unwrap();
}

fn text(folder: &Path, more: &str) -> String {
    format!(
        "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\n[plugins]\ncache = \"./cache\"\n\
         folder = {:?}\n{more}",
        folder.display().to_string()
    )
}

const SHOP: &str = "[participant.shop]\nplugin = \"shop\"\n";

impl Scene {
    async fn start(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join("shop.wasm"), &named(guests::SERVES_STEPS, "one"));
        let running = Running::start(&text(folder.path(), more)).await;
        Self { running, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("shop.wasm")
    }

    async fn define(&self, steps: &[Value]) {
        let definition = json!({ "name": "order", "version": 1, "steps": steps });
        let reply = self.running.api.post("/v1/saga-definitions", &definition).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
    }

    async fn begin(&self, id: &str) {
        let body = json!({ "definition": "order", "id": id, "input": { "n": 1 } });
        let reply = self.running.api.post("/v1/sagas", &body).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
    }

    async fn saga(&self, id: &str) -> Value {
        self.running.api.read(&format!("/v1/sagas/{id}"), &[]).await.unwrap()
    }

    async fn plugin(&self, name: &str) -> Option<Value> {
        let plugins: Value = self.running.api.read("/v1/plugins", &[]).await.unwrap();
        plugins["items"].as_array().unwrap().iter().find(|plugin| plugin["transport"] == name).cloned()
    }
}

fn step(name: &str, at: &str) -> Value {
    json!({ "name": name, "action": format!("fn:shop/{at}") })
}

/// Digests that a saga's history names, by step.
fn digests(saga: &Value) -> BTreeMap<String, String> {
    let steps = saga["saga"]["steps"].as_array().unwrap().iter();
    let of = |step: &Value| Some((step["name"].as_str()?.to_owned(), step["plugin"]["digest"].as_str()?.to_owned()));
    steps.filter_map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sagas_run_on_while_their_participant_is_replaced_and_each_call_names_its_plugin() {
    let scene = Scene::start(SHOP).await;
    scene.define(&[step("a", "tell"), step("b", "count"), step("c", "tell")]).await;
    let mut served = BTreeSet::new();
    for round in 0..ROUNDS {
        for saga in 0..SAGAS_A_ROUND {
            scene.begin(&format!("s-{round}-{saga}")).await;
        }
        put(&scene.file(), &named(guests::SERVES_STEPS, &format!("round-{round}")));
        let reply = scene.running.api.post("/v1/plugins/participant.shop/reload", &json!({})).await.unwrap();
        assert!(reply.is_ok() && reply.body["changed"] == true, "{reply:?}");
        served.insert(reply.body["plugin"]["live"]["digest"].as_str().unwrap().to_owned());
    }
    let mut named = BTreeSet::new();
    for round in 0..ROUNDS {
        for saga in 0..SAGAS_A_ROUND {
            let id = format!("s-{round}-{saga}");
            until("it has completed", async || scene.saga(&id).await["state"] == "completed").await;
            let digests = digests(&scene.saga(&id).await);
            assert_eq!(digests.keys().collect::<Vec<_>>(), ["a", "b", "c"], "{id}");
            named.extend(digests.into_values());
        }
    }
    // The plugin of the start served too.
    assert!(named.len() > 1 && named.iter().filter(|digest| !served.contains(*digest)).count() <= 1, "{named:?}");
    let plugin = scene.plugin("participant.shop").await.unwrap();
    assert_eq!((plugin["world"].as_str(), plugin["live"]["phase"].as_str()), (Some("participant"), Some("live")));
    let audit: Value = scene.running.api.read("/v1/audit", &[("limit", "1000")]).await.unwrap();
    let kinds = audit["items"].as_array().unwrap().iter().filter(|event| event["object"] == "participant.shop");
    assert!(kinds.filter(|event| event["kind"] == "PluginReloaded").count() >= ROUNDS);
    scene.running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_participant_that_makes_a_step_of_a_running_saga_unclear_does_not_come() {
    let scene = Scene::start(SHOP).await;
    let wait = json!({ "name": "go", "action": "wait:go" });
    scene.define(&[wait, json!({ "name": "a", "action": "fn:tell" })]).await;
    scene.begin("s-1").await;
    until("it waits", async || {
        scene.saga("s-1").await["waiting_for"].as_str().is_some_and(|wait| wait.starts_with("signal"))
    })
    .await;
    let both = format!("{SHOP}[participant.other]\nplugin = \"shop\"\n");
    scene.running.write(&text(scene.folder.path(), &both));
    let refused = scene.running.reload().await;
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(!refused.is_ok() && detail.contains("PLUGIN.AMBIGUOUS_STEP") && detail.contains("s-1"), "{refused:?}");
    assert!(scene.plugin("participant.other").await.is_none());
    assert!(scene.running.api.post("/v1/sagas/s-1/signals/go", &json!({})).await.unwrap().is_ok());
    until("it has completed", async || scene.saga("s-1").await["state"] == "completed").await;
    assert!(scene.running.reload().await.is_ok());
    scene.running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_without_a_step_that_a_running_saga_needs_is_refused_until_that_has_ended() {
    let scene = Scene::start(SHOP).await;
    let wait = json!({ "name": "go", "action": "wait:go" });
    scene.define(&[step("a", "tell"), wait, step("b", "count")]).await;
    scene.begin("s-1").await;
    until("it waits", async || {
        scene.saga("s-1").await["waiting_for"].as_str().is_some_and(|wait| wait.starts_with("signal"))
    })
    .await;
    put(&scene.file(), &named(guests::STEP_PANICS, "two"));
    let reload = async || scene.running.api.post("/v1/plugins/participant.shop/reload", &json!({})).await.unwrap();
    let refused = reload().await;
    assert_eq!((refused.status, refused.code()), (409, Some("PLUGIN.STEP_NEEDED")), "{refused:?}");
    assert!(refused.body["detail"].as_str().unwrap().contains("step \"count\" (saga s-1)"), "{refused:?}");

    // Neither does its section go while the saga runs, and what was tried beside it is given up.
    scene.running.write(&text(scene.folder.path(), "[participant.other]\nplugin = \"shop\"\n"));
    let refused = scene.running.reload().await;
    assert!(!refused.is_ok() && refused.body["detail"].as_str().unwrap().contains("PLUGIN.STEP_NEEDED"), "{refused:?}");
    assert!(scene.plugin("participant.other").await.is_none());

    assert!(scene.running.api.post("/v1/sagas/s-1/signals/go", &json!({})).await.unwrap().is_ok());
    until("it has completed", async || scene.saga("s-1").await["state"] == "completed").await;
    let taken = reload().await;
    assert!(taken.is_ok() && taken.body["changed"] == true, "{taken:?}");
    let reply = scene.running.api.post("/v1/plugins/participant.shop/rollback", &json!({})).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
    scene.running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn participants_and_the_retry_policy_come_change_and_go_with_the_configuration() {
    let scene = Scene::start("").await;
    scene.define(&[step("a", "tell")]).await;
    let policy = "[outbox.backoff]\nplugin = \"backoff-fibonacci\"\n";
    for (more, shop, backoff) in [
        (format!("{SHOP}{policy}"), Some(1), Some(1)),
        (format!("{SHOP}instances = 2\n{policy}config = {{ base_ms = 700 }}\n"), Some(2), Some(2)),
        (String::new(), None, None),
        (SHOP.to_owned(), Some(1), None),
    ] {
        scene.running.write(&text(scene.folder.path(), &more));
        let reply = scene.running.reload().await;
        assert!(reply.is_ok(), "{reply:?}");
        let generation =
            async |name: &str| scene.plugin(name).await.map(|plugin| plugin["live"]["generation"].as_u64().unwrap());
        assert_eq!(
            (generation("participant.shop").await, generation("outbox.backoff").await),
            (shop, backoff),
            "{more}"
        );
    }
    scene.begin("s-1").await;
    until("it has completed", async || scene.saga("s-1").await["state"] == "completed").await;
    scene.running.end().await;
}
