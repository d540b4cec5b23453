//! The worker of `examples/worker-python` against the real binary: what the lease protocol's typical flow does with success,
//! retry, dead letter, repeat, conflict, and a worker that is killed in the middle of its batch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};

use crate::inbound::until;

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

const CONFIG: &str = "[[route]]\nmatch = \"bus:memory.**\"\ntransport = \"external\"\ndedup = \"payload\"\n";

/// A script of the example, with the lines of JSON that it has written.
struct Script {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/worker-python").join(name)
}

impl Script {
    /// Starts it; the lines that aren't JSON go to `told`.
    fn start(name: &str, arguments: &[&str]) -> (Self, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let mut child = Command::new("python3")
            .arg(example(name))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this test needs python3: `cargo xtask test` says how to get it");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (told, listen) = tokio::sync::mpsc::unbounded_channel();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let heard = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                match serde_json::from_str(&line) {
                    Ok(value) => heard.lock().unwrap().push(value),
                    Err(_) => drop(told.send(line)),
                }
            }
        });
        (Self { child, lines }, listen)
    }

    fn lines(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// Result codes by message, in order.
    fn results(&self) -> BTreeMap<String, Vec<String>> {
        let mut results: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for line in self.lines() {
            results.entry(text(&line["id"])).or_default().push(text(&line["result"]));
        }
        results
    }
}

/// Everything that a test needs: the host, and the store that workers write to.
struct Scene {
    host: Host,
    api: Api,
    store: Script,
    store_url: String,
    _dir: tempfile::TempDir,
}

impl Scene {
    async fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}", dir.path().join("data").display());
        let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
        let (host, api) = Host::ready(&launch).await.unwrap();
        let (store, mut told) = Script::start("store.py", &["0"]);
        let first = tokio::time::timeout(PATIENCE, told.recv()).await.expect("the store starts").unwrap();
        let store_url = first.strip_prefix("listening on ").expect("the store says where it listens").to_owned();
        Self { host, api, store, store_url, _dir: dir }
    }

    fn worker(&self, name: &str, more: &[&str]) -> Script {
        let base = ["--url", self.api.base(), "--store", &self.store_url, "--worker-id", name, "--wait-ms", "500"];
        let arguments: Vec<&str> = base.iter().chain(more).copied().collect();
        Script::start("worker.py", &arguments).0
    }

    async fn send(&self, messages: Vec<Value>) {
        let reply = self.api.post("/v1/messages", &json!({ "messages": messages })).await.unwrap();
        assert!(reply.is_ok(), "{reply:?}");
    }

    async fn message(&self, id: &str) -> Value {
        self.api.get(&format!("/v1/messages/{id}"), &[]).await.unwrap().body
    }

    async fn until_states(&self, wanted: &[(&str, &str)]) {
        for (id, state) in wanted {
            until(&format!("{id} is {state}"), async || self.message(id).await["state"] == *state).await;
        }
    }
}

fn memory(id: &str, payload: Value) -> Value {
    json!({ "topic": "bus:memory.notes", "id": id, "payload": payload })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_delivers_retries_gives_up_and_finds_repeats() {
    let scene = Scene::open().await;
    scene
        .send(vec![
            memory("plain", json!({ "text": "a" })),
            memory("repeat", json!({ "text": "a" })),
            memory("flaky", json!({ "text": "b", "fail": 2 })),
            memory("refused", json!({ "text": "c", "refuse": true })),
            memory("hopeless", json!({ "text": "d", "fail": 99 })),
        ])
        .await;
    let backoff = ["--base-seconds", "0.05", "--max-seconds", "0.3", "--max-retries", "4"];
    let worker = scene.worker("w-1", &backoff);
    scene
        .until_states(&[
            ("plain", "done"),
            ("repeat", "done"),
            ("flaky", "done"),
            ("refused", "dead"),
            ("hopeless", "dead"),
        ])
        .await;
    until("the worker has said all", async || worker.results().values().flatten().count() == 10).await;
    let results = worker.results();
    assert_eq!(results["plain"], ["outbox_flush_success"]);
    assert_eq!(results["repeat"], ["outbox_flush_dedup_hit"]);
    assert_eq!(results["flaky"], ["outbox_flush_retry", "outbox_flush_retry", "outbox_flush_success"]);
    assert_eq!(results["refused"], ["outbox_flush_dead"]);
    assert_eq!(results["hopeless"].last().unwrap(), "outbox_flush_dead");
    assert_eq!(results["hopeless"].len(), 4);

    // The host keeps what the worker said: receipts, who tried, why it died.
    let (plain, repeat) = (scene.message("plain").await, scene.message("repeat").await);
    assert_eq!(plain["receipt"]["broker_ref"], repeat["receipt"]["broker_ref"]);
    assert!(plain["receipt"]["broker_ref"].as_str().unwrap().starts_with("mem-"));
    assert_eq!(
        (&plain["history"][0]["worker"], &plain["history"][0]["transport"]),
        (&json!("w-1"), &json!("external"))
    );
    assert_eq!(scene.message("flaky").await["attempts"], 3);
    assert_eq!(scene.message("refused").await["last_error"], "MEMORY.422: the store answered 422");
    let stored: BTreeSet<String> =
        scene.store.lines().iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(stored, ["plain", "flaky"].map(str::to_owned).into());
    let metrics = scene.api.get("/metrics", &[]).await.unwrap().body;
    assert!(metrics.as_str().unwrap().contains("outbox_flush_dedup_hit"), "{metrics}");
    drop(worker);
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_answers_garbage_fails_the_attempt_and_never_the_worker() {
    let scene = Scene::open().await;
    let long = json!({ "memory_id": "x".repeat(1_025) }).to_string();
    let said = ["null", "[]", "\"ok\"", "certainly", "{}", "{\"memory_id\": 7}", "{\"memory_id\": \"\\ud800\"}", &long];
    let mut messages: Vec<Value> = said
        .iter()
        .enumerate()
        .map(|(number, text)| memory(&format!("said-{number}"), json!({ "say": text })))
        .collect();
    messages.extend([
        memory("noise", json!({ "noise": "certainly\r\n\r\n" })),
        memory("silence", json!({ "noise": "" })),
        memory("cut", json!({ "cut": true })),
    ]);
    let ids: Vec<String> = messages.iter().map(|message| message["id"].as_str().unwrap().to_owned()).collect();
    scene.send(messages).await;
    let worker = scene.worker("w-1", &["--base-seconds", "0.05", "--max-seconds", "0.1", "--max-retries", "2"]);
    let wanted: Vec<(&str, &str)> = ids.iter().map(|id| (id.as_str(), "dead")).collect();
    scene.until_states(&wanted).await;
    scene.send(vec![memory("after", json!({ "text": "a" }))]).await;
    scene.until_states(&[("after", "done")]).await;
    until("the worker has said all", async || worker.results().contains_key("after")).await;
    let results = worker.results();
    for id in &ids {
        assert_eq!(results[id], ["outbox_flush_retry", "outbox_flush_dead"], "{id}");
        let error = scene.message(id).await["last_error"].as_str().unwrap().to_owned();
        assert!(error.starts_with("MEMORY.UN"), "{id}: {error}");
    }
    drop(worker);
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stalls_past_its_lease_hears_that_another_has_the_message() {
    let scene = Scene::open().await;
    scene.send(vec![memory("slow", json!({ "text": "a", "slow_s": 30 }))]).await;
    let stalled = scene.worker("stalled", &["--lease-ms", "8000"]);
    until("the first worker has it", async || scene.message("slow").await["lease"]["worker"] == "stalled").await;
    let other = scene.worker("other", &["--lease-ms", "60000"]);
    scene.until_states(&[("slow", "done")]).await;
    assert_eq!(scene.message("slow").await["history"][0]["worker"], "other");
    until("both have said what they know", async || !stalled.lines().is_empty() && !other.lines().is_empty()).await;
    assert_eq!(other.results()["slow"], ["outbox_flush_success"]);
    let line = stalled.lines().remove(0);
    assert_eq!((&line["result"], &line["state"]), (&json!("outbox_flush_conflict"), &json!("done")));
    let audit = scene.api.get("/v1/audit", &[]).await.unwrap().body;
    let events = audit["items"].as_array().unwrap();
    let conflict =
        events.iter().find(|event| event["kind"] == "outbox_flush_conflict").expect("the conflict is audited");
    assert_eq!((&conflict["object"], &conflict["detail"]["worker"]), (&json!("slow"), &json!("stalled")));
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_in_the_middle_of_its_batch_loses_nothing() {
    let scene = Scene::open().await;
    let all: Vec<String> = (0..40).map(|number| format!("m{number:02}")).collect();
    scene
        .send(
            all.iter()
                .enumerate()
                .map(|(number, id)| {
                    // The first worker is killed while the store takes its time over one, and is done with that before the lease ends.
                    let slow = if number == 6 { 8.0 } else { 0.02 };
                    let mut message = memory(id, json!({ "text": id, "slow_s": slow }));
                    message["key"] = json!(format!("k{}", number % 20));
                    message
                })
                .collect(),
        )
        .await;
    let mut killed = scene.worker("killed", &["--limit", "20", "--lease-ms", "24000"]);
    until("it is in the middle of its batch", async || killed.lines().len() >= 5).await;
    killed.child.kill().await.unwrap();
    let done = killed.results().len();
    assert!(done < 20, "it was too fast to be killed in the middle: {done}");
    let heir = scene.worker("heir", &["--limit", "20", "--lease-ms", "60000"]);
    let wanted: Vec<(&str, &str)> = all.iter().map(|id| (id.as_str(), "done")).collect();
    scene.until_states(&wanted).await;
    let stored = scene.store.lines();
    let ids: BTreeSet<&str> = stored.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 40);
    // Twice at most what the killed one had written and not acknowledged; and each key in order.
    assert!(stored.len() <= 41, "{} writes", stored.len());
    let mut latest: BTreeMap<usize, usize> = BTreeMap::new();
    for line in &stored {
        let number: usize = line["id"].as_str().unwrap()[1..].parse().unwrap();
        let before = latest.insert(number % 20, number);
        assert!(before.is_none_or(|before| before <= number), "{before:?} before {number}");
    }
    drop(heir);
    assert!(scene.host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_dont_survive_the_host_and_no_message_is_lost_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}", dir.path().join("data").display());
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let claim = json!({ "worker_id": "w", "limit": 100, "lease_ms": 3_600_000 });
    let mut tokens = Vec::new();
    for round in 0..3 {
        let (host, api) = Host::ready(&launch).await.unwrap();
        if round == 0 {
            let messages: Vec<Value> = (0..10).map(|number| memory(&format!("m{number}"), json!(number))).collect();
            assert!(api.post("/v1/messages", &json!({ "messages": messages })).await.unwrap().is_ok());
        }
        // A host that has just taken its shard over may not have read all of it yet.
        let mut items: Vec<Value> = Vec::new();
        until("all of them are given out", async || {
            let claimed = api.post("/v1/outbox/claim", &claim).await.unwrap().body;
            items.extend(claimed["items"].as_array().unwrap().iter().cloned());
            items.len() >= 10
        })
        .await;
        items.sort_by_key(|item| item["id"].as_str().unwrap().to_owned());
        assert_eq!(items.len(), 10, "round {round}");
        assert!(items.iter().all(|item| item["suspect"] == 0 && item["attempt"] == 1));
        tokens.push(items[0]["token"].clone());
        if round < 2 {
            host.kill().await.unwrap();
            continue;
        }
        let settle = |token: &Value| {
            let item = json!({ "id": "m0", "token": token, "result": "ack" });
            json!({ "items": [item] })
        };
        for token in &tokens[..2] {
            let old = api.post("/v1/outbox/settle", &settle(token)).await.unwrap().body["items"][0].clone();
            assert_eq!((&old["applied"], &old["code"]), (&json!(false), &json!("TX.LEASE_LOST")));
        }
        let new = api.post("/v1/outbox/settle", &settle(&tokens[2])).await.unwrap().body["items"][0].clone();
        assert_eq!(new["applied"], true);
        // It doesn't wait for the nine others.
        assert!(host.terminate(PATIENCE).await.unwrap().success());
        return;
    }
}
