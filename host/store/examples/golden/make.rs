//! Makes a directory: a host of today does everything that leaves records, and is killed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use waybill_core::ids::ShardId;
use waybill_core::new_message::NewMessage;
use waybill_core::port::kv::{KvExpectation, KvQuota, KvStore};
use waybill_core::port::transact::{DoorGroup, TransactStore};
use waybill_core::time::UnixMillis;
use waybill_store::SurrealStore;
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

use waybill_testkit::golden::{ARCHIVE, ARCHIVE_BYTES_MAX, Ask, MANIFEST, Manifest, Step, config, holds};

use crate::raw::{Raw, open_store};
use crate::{inbox, streams};

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const PAUSE: Duration = Duration::from_millis(20);
/// An instant that no test will see.
const FAR: &str = "2199-01-01T00:00:00Z";
/// What is kept for a year at most is looked for this long.
const YEAR: Duration = Duration::from_secs(360 * 24 * 3600);
/// Longest time of a saga's step.
const STEP_MS: u64 = 366 * 24 * 3600 * 1000;

/// The saga for which the inbox leaves a signal.
const SIGNALLED: &str = "signalled";

/// A host, and what has to be found in its data afterwards.
pub struct Making {
    pub api: Api,
    pub steps: Vec<Step>,
}

/// Makes a directory of this version in `folder`.
pub async fn make(folder: &Path, version: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // It takes requests and never answers, so that what was sent is claimed when the host dies.
    let receiver = Receiver::start(|_: &Delivered| Answer::status(200).after(PATIENCE)).await.unwrap();
    let web = "plugin = \"http\"\nallow = { net = [\"http://127.0.0.1:*\"] }";
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config(&data, web)).unwrap();

    let (host, api) = Host::ready(&launch).await.unwrap();
    let mut making = Making { api, steps: Vec::new() };
    making.messages().await;
    making.sagas().await;
    making.keys().await;
    making.rows().await;
    making.spoilt().await;
    assert!(host.terminate(PATIENCE).await.unwrap().success());

    let raw = Raw::open(&data).await;
    raw.run("UPDATE outbox SET data = <bytes> 'WBSspoilt' WHERE tenant = 'spoilt' RETURN NONE").await;
    raw.run("UPDATE saga SET data = <bytes> 'WBTspoilt' WHERE saga_id = 'spoilt' RETURN NONE").await;
    raw.close().await;
    let store = open_store(&data).await;
    let quota = KvQuota::default();
    store.put("web", "cursor", "golden-42".into(), KvExpectation::Anything, quota).await.unwrap();
    store.close().await.unwrap();

    let (host, api) = Host::ready(&launch).await.unwrap();
    making.api = api;
    making.unreadable().await;
    streams::keep(&mut making).await;
    making.claimed(&receiver).await;
    making.running().await;
    assert!(host.kill().await.unwrap(), "the host ended by itself");

    making.doorsteps(&data).await;
    let manifest = Manifest { version: version.to_owned(), steps: making.steps };
    std::fs::create_dir_all(folder).unwrap();
    let text = serde_json::to_string_pretty(&manifest).unwrap() + "\n";
    std::fs::write(folder.join(MANIFEST), text).unwrap();
    let archive = folder.join(ARCHIVE);
    let packed = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--exclude=LOCK", "-czf"])
        .arg(&archive)
        .arg("-C")
        .arg(dir.path())
        .arg("data")
        .status();
    assert!(packed.expect("this needs `tar`").success());
    let bytes = std::fs::metadata(&archive).unwrap().len();
    assert!(
        bytes <= ARCHIVE_BYTES_MAX,
        "{} has {bytes} bytes, at most {ARCHIVE_BYTES_MAX} are kept",
        archive.display()
    );
    println!("{}: {} steps, {bytes} bytes", folder.display(), manifest.steps.len());
}

fn message(id: &str, topic: &str, key: &str) -> Value {
    json!({ "id": id, "topic": topic, "key": key, "tenant": "acme", "payload": { "golden": id }, "headers": { "x-golden": "1" } })
}

/// JSON that earlier versions took and none can show as JSON: its id, its text, and how it is shown.
const ODD: [(&str, &str, &str); 2] =
    [("odd-number", "1e999", "MWU5OTk="), ("odd-surrogate", "\"\\ud800\"", "Ilx1ZDgwMCI=")];

fn odd(id: &str, payload: &'static str) -> NewMessage {
    NewMessage {
        id: Some(id.into()),
        tenant: Some("acme".into()),
        topic: "bus:odd".into(),
        payload: payload.into(),
        ..NewMessage::default()
    }
}

fn until() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + YEAR;
    u64::try_from(now.as_millis()).ok()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

impl Making {
    pub async fn post(&self, path: &str, body: Value) -> Value {
        let reply = self.api.post(path, &body).await.unwrap();
        assert!(reply.is_ok(), "{path} {body}: {reply:?}");
        reply.body
    }

    async fn send(&self, messages: Vec<Value>) {
        self.post("/v1/messages", json!({ "messages": messages })).await;
    }

    pub fn get(&mut self, what: &str, path: &str, answer: Value) {
        let (what, path) = (what.to_owned(), path.to_owned());
        let ask = Ask { what, path, post: None, key: None, status: 200, answer, patient: true, until: None };
        self.steps.push(Step::Ask(ask));
    }

    /// What is asked for isn't there any more.
    pub fn get_refused(&mut self, what: &str, path: &str, status: u16) {
        self.get(what, path, Value::Null);
        if let Some(Step::Ask(ask)) = self.steps.last_mut() {
            ask.status = status;
        }
    }

    pub fn act(&mut self, what: &str, path: &str, post: Value, status: u16, answer: Value) {
        let (what, path) = (what.to_owned(), path.to_owned());
        let ask = Ask { what, path, post: Some(post), key: None, status, answer, patient: false, until: None };
        self.steps.push(Step::Ask(ask));
    }

    /// The latest step is looked for within a year only.
    fn for_a_year(&mut self) {
        if let Some(Step::Ask(ask)) = self.steps.last_mut() {
            ask.until = until();
        }
    }

    fn message_is(&mut self, id: &str, answer: Value) {
        self.get("a message", &format!("/v1/messages/{id}?tenant=acme"), answer);
    }

    /// Claims the messages of a topic once and answers each as told.
    async fn work(&self, topic: &str, settle: impl Fn(&str) -> Value) {
        let claim = json!({ "worker_id": "maker", "topic": topic, "limit": 100, "wait_ms": 5_000 });
        let items = self.post("/v1/outbox/claim", claim).await["items"].as_array().cloned().unwrap();
        assert!(!items.is_empty(), "{topic} gave nothing");
        let settled = items.iter().map(|item| {
            let mut one = settle(item["id"].as_str().unwrap());
            one["id"] = item["id"].clone();
            one["tenant"] = item["tenant"].clone();
            one["token"] = item["token"].clone();
            one
        });
        let answer = self.post("/v1/outbox/settle", json!({ "items": settled.collect::<Vec<_>>() })).await;
        assert!(answer["items"].as_array().unwrap().iter().all(|item| item["applied"] == true), "{answer}");
    }

    async fn messages(&mut self) {
        // In segments, small ones and one whose data lies apart.
        let small = names("small", 3);
        for id in &small {
            self.send(vec![message(id, "bus:work.small", "k")]).await;
        }
        let many = names("many", 120);
        self.send(many.iter().map(|id| message(id, "bus:work.many", id)).collect()).await;
        let large = json!({ "id": "large", "topic": "bus:work.large", "tenant": "acme", "payload": { "text": "x".repeat(100_000) } });
        self.send(vec![large]).await;
        self.message_is("small-0", json!({ "state": "pending", "payload": { "golden": "small-0" }, "headers": { "x-golden": "1" }, "key": "k" }));
        self.message_is("many-119", json!({ "state": "pending", "topic": "bus:work.many" }));
        self.message_is("large", json!({ "state": "pending", "payload_bytes": 100_011 }));
        self.steps.push(Step::Take { topic: "bus:work.small".into(), keys: vec![small] });
        self.steps
            .push(Step::Take { topic: "bus:work.many".into(), keys: many.into_iter().map(|id| vec![id]).collect() });
        self.steps.push(Step::Take { topic: "bus:work.large".into(), keys: vec![vec!["large".into()]] });
        self.message_is("small-2", json!({ "state": "done" }));
        self.message_is("many-7", json!({ "state": "done" }));

        // Waiting for their time.
        let mut later = message("later", "bus:work.later", "later");
        later["not_before"] = json!(FAR);
        let mut moved = message("moved", "bus:work.moved", "moved");
        moved["not_before"] = json!("2198-01-01T00:00:00Z");
        self.send(vec![later, moved]).await;
        self.post("/v1/messages/moved/reschedule?tenant=acme", json!({ "not_before": FAR })).await;
        for id in ["later", "moved"] {
            self.message_is(id, json!({ "state": "pending", "not_before": "2199-01-01T00:00:00.000Z", "waiting": { "on": "schedule" } }));
        }
        self.act(
            "a scheduled message is sent now",
            "/v1/messages/later/reschedule?tenant=acme",
            json!({ "not_before": "2020-01-01T00:00:00Z" }),
            200,
            Value::Null,
        );
        self.steps.push(Step::Take { topic: "bus:work.later".into(), keys: vec![vec!["later".into()]] });

        // Delivered, with receipts; cancelled.
        let done = names("done", 3);
        self.send(done.iter().map(|id| message(id, "bus:done.x", id)).collect()).await;
        self.work("bus:done.**", |id| json!({ "result": "ack", "receipt": format!("receipt of {id}") })).await;
        self.message_is("done-1", json!({ "state": "done", "receipt": { "broker_ref": "receipt of done-1" }, "payload": { "golden": "done-1" } }));
        self.get(
            "the history",
            "/v1/messages?filter=state%3Ddone%20topic%3Dbus:done.x",
            json!({ "items": [{ "id": "done-0" }, { "id": "done-2" }] }),
        );
        self.send(vec![message("cancelled", "bus:work.never", "c")]).await;
        self.post("/v1/messages/cancelled/cancel?tenant=acme", json!({})).await;
        self.message_is("cancelled", json!({ "state": "cancelled" }));
        let repeat = json!({ "messages": [message("done-1", "bus:done.x", "done-1")] });
        self.act("an id that is known", "/v1/messages", repeat, 200, json!({ "duplicates": ["done-1"] }));

        // Failed and waiting, behind it another one of its key.
        self.send(vec![message("parked", "bus:fails.x", "p"), message("behind", "bus:fails.x", "p")]).await;
        self.work("bus:fails.**", |_| json!({ "result": "nack", "error": { "code": "GOLDEN.TRY", "reason": "not now" }, "next_attempt_at": FAR })).await;
        // What it waits for depends on when it is looked at: its retry is due an hour after.
        self.message_is("parked", json!({ "state": "pending", "attempts": 1, "last_error": "GOLDEN.TRY: not now" }));
        self.message_is("behind", json!({ "state": "pending", "waiting": { "on": "key" } }));
        self.act(
            "a parked message is tried now",
            "/v1/messages/parked/reschedule?tenant=acme",
            json!({ "not_before": "2020-01-01T00:00:00Z" }),
            200,
            Value::Null,
        );
        self.steps
            .push(Step::Take { topic: "bus:fails.**".into(), keys: vec![vec!["parked".into(), "behind".into()]] });

        // Dead: one that holds its key, one fenced off, and some for a bulk act.
        self.send(vec![
            message("dead", "bus:dies.x", "d"),
            message("held", "bus:dies.x", "d"),
            message("fenced", "bus:dies.x", "f"),
        ])
        .await;
        let purged = names("purged", 30);
        self.send(purged.iter().map(|id| message(id, "bus:dies.many", id)).collect()).await;
        let code = |id: &str| if id.starts_with("purged") { "GOLDEN.MANY" } else { "GOLDEN.DEAD" };
        self.work("bus:dies.x", |id| json!({ "result": "dead", "error": { "code": code(id), "reason": "never" } }))
            .await;
        self.work("bus:dies.many", |id| json!({ "result": "dead", "error": { "code": code(id), "reason": "never" } }))
            .await;
        self.post("/v1/dead-letters/fenced/quarantine?tenant=acme", json!({ "note": "golden note" })).await;
        self.get(
            "a dead letter",
            "/v1/dead-letters/dead?tenant=acme",
            json!({ "state": "dead", "last_error": "GOLDEN.DEAD: never" }),
        );
        self.get(
            "dead letters",
            "/v1/dead-letters?filter=code%3DGOLDEN.DEAD",
            json!({ "items": [{ "id": "dead" }, { "id": "fenced", "state": "quarantined", "note": "golden note" }] }),
        );
        self.get(
            "groups",
            "/v1/dead-letters/groups?filter=code%3DGOLDEN.DEAD",
            json!({ "items": [{ "code": "GOLDEN.DEAD", "count": 2 }] }),
        );
        self.message_is("held", json!({ "state": "pending", "waiting": { "on": "key" } }));
        self.act(
            "a dead letter is replayed",
            "/v1/dead-letters/dead/replay?tenant=acme",
            json!({ "reason": "golden" }),
            200,
            Value::Null,
        );
        self.steps.push(Step::Take { topic: "bus:dies.x".into(), keys: vec![vec!["dead".into(), "held".into()]] });

        // Payload dedup.
        let twin =
            |id: &str| json!({ "id": id, "topic": "bus:dedup.x", "tenant": "acme", "payload": { "same": true } });
        self.send(vec![twin("first")]).await;
        self.work("bus:dedup.**", |_| json!({ "result": "ack", "receipt": "once" })).await;
        let view = self.api.get("/v1/messages/first?tenant=acme", &[]).await.unwrap().body;
        let ask = json!({ "tenant": "acme", "target": "dedup.x", "payload_sha": view["payload_sha256"] });
        self.act("what was delivered", "/v1/outbox/check-dedup", ask, 200, json!({ "first": { "id": "first" } }));

        self.post("/v1/transports/spare/pause", json!({})).await;
        self.send(vec![message("spare", "bus:spare.x", "s")]).await;
        self.message_is("spare", json!({ "state": "pending", "waiting": { "on": "paused" } }));
        self.act("a transport is resumed", "/v1/transports/spare/resume", json!({}), 200, Value::Null);
        self.message_is("spare", json!({ "state": "done" }));
        self.get("the audit trail", "/v1/audit?limit=1000", json!({ "items": [{ "kind": "DeadLetterQuarantined", "object": "fenced" }, { "kind": "TransportPaused", "object": "spare" }] }));
    }

    async fn reply(&self, saga: &str, step: &str, direction: &str, answer: Value) {
        let path = format!("/v1/sagas/{saga}/replies");
        let mut body = json!({ "step": step, "direction": direction });
        body.as_object_mut().unwrap().extend(answer.as_object().cloned().unwrap());
        let told = async {
            loop {
                let reply = self.api.post(&path, &body).await.unwrap();
                if reply.is_ok() {
                    return;
                }
                // Its step isn't there yet.
                assert!(matches!(reply.status, 404 | 409), "{reply:?}");
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.unwrap_or_else(|_| panic!("{saga}/{step} took no reply"));
    }

    /// Waits until a saga is so.
    async fn until(&self, id: &str, answer: Value) {
        let path = format!("/v1/sagas/{id}");
        let so = async {
            while !holds(&answer, &self.api.get(&path, &[]).await.unwrap().body) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, so).await.unwrap_or_else(|_| panic!("{id} never was {answer}"));
    }

    async fn saga_is(&mut self, id: &str, answer: Value) {
        self.until(id, answer.clone()).await;
        self.get("a saga", &format!("/v1/sagas/{id}"), answer);
        self.for_a_year();
    }

    async fn sagas(&mut self) {
        let step = |name: &str| json!({ "name": name, "action": format!("bus:saga.{name}"), "compensation": format!("bus:saga.un{name}"), "timeout_ms": STEP_MS });
        let wait = json!({ "name": "go", "action": "wait:go", "timeout_ms": STEP_MS });
        for version in [1, 2] {
            let steps = json!([step("reserve"), step("charge"), wait]);
            let definition =
                json!({ "name": "order", "version": version, "summary": format!("golden {version}"), "steps": steps });
            self.post("/v1/saga-definitions", definition).await;
        }
        self.get("a definition", "/v1/saga-definitions/order?version=1", json!({ "name": "order", "version": 1 }));
        self.get("definitions", "/v1/saga-definitions", json!({ "items": [{ "name": "order", "version": 2 }] }));
        let good = json!({ "output": { "ok": true } });
        let bad = json!({ "error": { "code": "golden.no", "reason": "never" } });
        for id in ["resting", "completed", "cancelled", "stuck", "paused", "spoilt", "big", SIGNALLED] {
            let input = if id == "big" { json!({ "text": "x".repeat(60_000) }) } else { json!({ "order": id }) };
            self.post("/v1/sagas", json!({ "definition": "order", "id": id, "input": input })).await;
        }
        for id in ["completed", "cancelled", "stuck", SIGNALLED] {
            self.reply(id, "reserve", "execute", good.clone()).await;
        }
        for id in ["completed", "cancelled", SIGNALLED] {
            self.reply(id, "charge", "execute", good.clone()).await;
            self.until(id, json!({ "waiting_for": "signal:go" })).await;
        }
        self.post("/v1/sagas/completed/signals/go", json!({ "by": "golden" })).await;
        self.post("/v1/sagas/cancelled/cancel", json!({ "reason": "golden" })).await;
        self.reply("cancelled", "charge", "compensate", good.clone()).await;
        self.reply("cancelled", "reserve", "compensate", good.clone()).await;
        self.reply("stuck", "charge", "execute", bad.clone()).await;
        self.reply("stuck", "reserve", "compensate", bad).await;
        self.post("/v1/sagas/paused/pause", json!({ "reason": "golden" })).await;
        self.saga_is("resting", json!({ "state": "running", "waiting_for": "reply", "version": 2 })).await;
        self.saga_is("big", json!({ "state": "running", "waiting_for": "reply" })).await;
        self.saga_is("completed", json!({ "state": "completed" })).await;
        self.saga_is("cancelled", json!({ "state": "cancelled" })).await;
        self.saga_is("stuck", json!({ "state": "failed" })).await;
        self.saga_is("paused", json!({ "state": "paused" })).await;
        self.get(
            "a stuck saga among the dead letters",
            "/v1/dead-letters?filter=kind%3Dsaga",
            json!({ "items": [{ "id": "stuck", "code": "golden.no" }] }),
        );
        self.act(
            "a saga goes on",
            "/v1/sagas/resting/replies",
            json!({ "step": "reserve", "output": 1 }),
            200,
            Value::Null,
        );
        self.get("its next step", "/v1/sagas/resting", json!({ "state": "running", "steps": ["charge"] }));
        self.for_a_year();
        self.act("a stuck saga is accepted", "/v1/sagas/stuck/accept", json!({ "reason": "golden" }), 200, Value::Null);
        // Its rest is written: it is spoilt there.
        self.saga_rests("spoilt").await;
    }

    /// Waits until a saga has a row of its own. There is no word for it, so another one is waited for that began later.
    async fn saga_rests(&self, id: &str) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found = self.api.get(&format!("/v1/sagas/{id}"), &[]).await.unwrap();
        assert!(found.is_ok(), "{found:?}");
    }

    async fn keys(&mut self) {
        for (key, end) in [("k-open", None), ("k-done", Some("finish")), ("k-failed", Some("fail"))] {
            let begun = self
                .post(
                    "/v1/idempotency/begin",
                    json!({ "key": key, "hash": format!("hash of {key}"), "tenant": "acme" }),
                )
                .await;
            let token = begun["token"].clone();
            match end {
                Some("finish") => {
                    let body =
                        json!({ "key": key, "token": token, "tenant": "acme", "result": { "golden": [1, 2.5, null] } });
                    self.post("/v1/idempotency/finish", body).await;
                }
                Some(_) => {
                    let body = json!({ "key": key, "token": token, "tenant": "acme", "error": "golden error" });
                    self.post("/v1/idempotency/fail", body).await;
                }
                None => {}
            }
        }
        let body = json!({ "messages": [message("by-key", "bus:work.key", "by-key")] });
        let first = self.api.post_once("/v1/messages", "k-header", &body).await.unwrap();
        assert!(first.is_ok(), "{first:?}");
        self.get(
            "a key in flight",
            "/v1/idempotency?key=k-open&tenant=acme",
            json!({ "state": "in_flight", "hash": "hash of k-open" }),
        );
        self.for_a_year();
        for (key, answer) in [
            ("k-done", json!({ "state": "succeeded", "result": { "golden": [1, 2.5, null] } })),
            ("k-failed", json!({ "state": "failed", "error": "golden error" })),
        ] {
            let begin = json!({ "key": key, "hash": format!("hash of {key}"), "tenant": "acme" });
            self.act("a key that is known", "/v1/idempotency/begin", begin, 200, answer);
            self.for_a_year();
        }
        let ask = Ask {
            what: "a repeat with its header".into(),
            path: "/v1/messages".into(),
            post: Some(body),
            key: Some("k-header".into()),
            status: first.status,
            answer: first.body,
            patient: false,
            until: until(),
        };
        self.steps.push(Step::Ask(ask));
    }

    /// Callers' own rows, beside a message.
    async fn rows(&mut self) {
        let statements = json!([
            { "query": "CREATE golden_customer:ada CONTENT { name: $name, since: d'2020-02-29T12:00:00Z' }", "bindings": { "name": "Ada" } },
            { "query": "CREATE golden_order:1 CONTENT { total: 10, price: 12.50dec, lines: [{ sku: 'a', count: 2 }], customer: golden_customer:ada }" },
            { "query": "CREATE golden_order:['eu', 2] CONTENT { total: 20, raw: <bytes> 'raw', note: NONE }" },
            { "query": "RELATE golden_customer:ada->golden_bought->golden_order:1 SET at = d'2021-01-01T00:00:00Z'" },
        ]);
        let message = message("of-rows", "bus:work.rows", "rows");
        self.post("/v1/transactions", json!({ "statements": statements, "messages": [message] })).await;
        let queries = [
            "SELECT * FROM golden_customer ORDER BY id",
            "SELECT * FROM golden_order ORDER BY id",
            "SELECT VALUE ->golden_bought->golden_order.total FROM golden_customer:ada",
        ];
        for query in queries {
            let body = json!({ "statements": [{ "query": query }] });
            let answer = self.post("/v1/transactions", body.clone()).await;
            assert!(answer["results"][0].as_array().is_some_and(|rows| !rows.is_empty()), "{query}: {answer}");
            self.act("callers' rows are read", "/v1/transactions", body, 200, json!({ "results": answer["results"] }));
        }
        let changes = json!({ "statements": [
            { "query": "UPDATE golden_order:1 SET total += 5 RETURN VALUE total" },
            { "query": "DELETE golden_order:['eu', 2] RETURN BEFORE" },
            { "query": "CREATE golden_order:3 SET total = 30 RETURN VALUE total" },
        ] });
        self.act("callers' rows are written", "/v1/transactions", changes, 200, json!({ "results": [[15], [30]] }));
        let sum = json!({ "statements": [{ "query": "SELECT VALUE total FROM golden_order" }] });
        self.act("and are there then", "/v1/transactions", sum, 200, json!({ "results": [[15, 30]] }));
        self.steps.push(Step::Take { topic: "bus:work.rows".into(), keys: vec![vec!["of-rows".into()]] });
    }

    /// Messages whose segment is going to be unreadable.
    async fn spoilt(&self) {
        let lost = json!({ "id": "lost", "topic": "bus:work.lost", "tenant": "spoilt", "payload": 1 });
        self.send(vec![lost]).await;
    }

    async fn unreadable(&mut self) {
        let seen = async {
            while !self.api.get("/readyz", &[]).await.unwrap().body.to_string().contains("unreadable") {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the spoilt segment goes to quarantine");
        self.steps.push(Step::Quarantined { table: "outbox".into(), count: 1 });
        self.steps.push(Step::Quarantined { table: "saga".into(), count: 1 });
        self.steps.push(Step::Kept { scope: "web".into(), key: "cursor".into(), value: "golden-42".into() });
    }

    /// Messages that are being sent when the host is killed.
    async fn claimed(&mut self, receiver: &Receiver) {
        let url = receiver.url("hooks");
        let claimed = names("claimed", 3);
        self.send(claimed.iter().map(|id| message(id, &url, id)).collect()).await;
        let mut gauges = receiver.watch();
        let sent = gauges.wait_for(|gauges| gauges.in_flight > 0);
        tokio::time::timeout(PATIENCE, sent).await.expect("something is sent").unwrap();
        for id in &claimed {
            self.message_is(id, json!({ "state": "done" }));
        }
    }

    /// A bulk act and sagas that are at work when the host is killed.
    async fn running(&mut self) {
        let begin = json!({ "kind": "purge", "filter": "code=GOLDEN.MANY", "rate": 5, "reason": "golden" });
        let operation = self.post("/v1/operations", begin).await;
        let id = operation["id"].as_str().unwrap().to_owned();
        self.get(
            "a bulk act goes on",
            &format!("/v1/operations/{id}"),
            json!({ "kind": "purge", "matched": 30, "state": "done" }),
        );
        for id in names("journal", 3) {
            self.post("/v1/sagas", json!({ "definition": "order", "id": id, "version": 1, "input": {} })).await;
            self.get(
                "a saga of the journal",
                &format!("/v1/sagas/{id}"),
                json!({ "state": "running", "version": 1, "steps": ["reserve"] }),
            );
            self.for_a_year();
        }
    }

    /// What the inbox keeps, and how a host shows it that has no source any more.
    async fn inbox(&mut self, store: &SurrealStore) {
        let kept = inbox::write(store, SIGNALLED).await;
        self.steps.push(kept);
        self.steps.push(inbox::write_table(store).await);
        let row = json!({ "id": "golden-row", "place": "inbox-0-1", "consumer": "ship", "attempts": 3 });
        let (large, full) = (json!({ "id": "golden-large" }), json!({ "id": "golden-full", "key": "order-17" }));
        self.get("stored messages", "/v1/inbox?filter=consumer%3Dship", json!({ "items": [row, large, full] }));
        self.get(
            "a stored message",
            "/v1/inbox/ship/golden-row?tenant=acme",
            json!({ "state": "stored", "message": { "place": "inbox-0-1" } }),
        );
        self.get(
            "a received message among the dead letters",
            "/v1/dead-letters?filter=kind%3Dinbox",
            json!({ "items": [{ "id": "inbox-0-4", "message_id": "golden-dead", "code": "GOLDEN.INBOX", "state": "dead" }] }),
        );
        let note = json!({ "note": "golden note" });
        self.act("it is fenced off", "/v1/dead-letters/inbox-0-4/quarantine?tenant=acme", note, 200, Value::Null);
        self.get("a saga that was signalled", &format!("/v1/sagas/{SIGNALLED}"), json!({ "state": "completed" }));
        self.for_a_year();
    }

    /// What lies on the doorstep while no host runs: written by a host, and by a client of the database.
    async fn doorsteps(&mut self, data: &Path) {
        let store = open_store(data).await;
        let draft = NewMessage {
            id: Some("door-packed".into()),
            tenant: Some("acme".into()),
            key: Some("door".into()),
            topic: "bus:door.packed".into(),
            payload: "{\"golden\":1}".into(),
            ..NewMessage::default()
        };
        let drafts = [draft].into_iter().chain(ODD.map(|(id, payload, _)| odd(id, payload)));
        let messages = drafts.map(|draft| draft.check(UnixMillis(0), usize::MAX).unwrap().message).collect();
        let group = DoorGroup { shard: ShardId(0), messages };
        store.transact(Vec::new(), vec![group], Default::default(), None).await.unwrap();
        self.inbox(&store).await;
        streams::put(self, &store).await;
        store.close().await.unwrap();
        let raw = Raw::open(data).await;
        inbox::is_whole(&raw).await;
        streams::is_whole(&raw).await;
        let plain = "{ topic: 'bus:door.plain', id: 'door-plain', tenant: 'acme', payload: { golden: 2 } }";
        raw.run(&format!("BEGIN; CREATE golden_order:4 SET total = 40; fn::waybill::enqueue({plain}); COMMIT;")).await;
        raw.run("CREATE outbox_door:[0, 1, 0, 'a'] SET topic = 'bus:malformed'").await;
        raw.close().await;
        for (id, _, shown) in ODD {
            let path = format!("/v1/messages/{id}?tenant=acme");
            self.get("JSON that today is refused", &path, json!({ "payload_base64": shown, "state": "pending" }));
        }
        let keys = vec![vec!["door-packed".to_owned()], vec!["door-plain".to_owned()]];
        self.steps.insert(0, Step::Take { topic: "bus:door.**".into(), keys });
        self.get(
            "a malformed row of the doorstep",
            "/v1/dead-letters?filter=code%3DOUTBOX.MALFORMED",
            json!({ "items": [{ "state": "dead", "topic": "custom:malformed-door-row" }] }),
        );
    }
}
