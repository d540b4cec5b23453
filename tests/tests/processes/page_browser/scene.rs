//! Hosts that show something of everything: one that asks nobody for a token, with a broker beside it, and one that does.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use waybill_testkit::api::Api;
use waybill_testkit::nats;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

use super::PATIENCE;
use crate::monitoring::receiver;

const VIEWER: &str = "a-token-of-somebody-who-looks-with-enough-of-entropy";
const ADMIN: &str = "a-token-of-somebody-who-may-do-it-all-with-enough-of-entropy";

const CONFIG: &str = r#"
[server]
listen = "127.0.0.1:0"
[ui]
name = "browser test"
color = "amber"
[outbox]
backoff = { base_ms = 10 }
[[route]]
match = "bus:work.**"
transport = "external"
[[route]]
match = "bus:held.**"
transport = "held"
[[route]]
match = "http:**"
transport = "http"
[transport.http]
plugin = "http"
allow = { http = ["http://127.0.0.1:*"] }
[transport.held]
plugin = "noop"
[transport.nowhere]
plugin = "noop"
[relay.copies]
match = "task.**"
transport = "nowhere"
topic = "bus:{stream}"
"#;

pub struct Scene {
    open: Host,
    secured: Host,
    /// The source of the open host reads from it.
    _broker: nats::Server,
    /// Refuses what comes, however much.
    _refusing: Receiver,
    /// What the driver has to know of it.
    pub given: Value,
    /// An operation that is over.
    pub operation: String,
}

impl Scene {
    pub async fn set(dir: &Path) -> Self {
        let url = receiver().await;
        let broker = nats::Server::start().await.unwrap();
        broker.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
        let refusing = Receiver::start(|_: &Delivered| Answer::status(422)).await.unwrap();
        let (open, api, Launch { config, .. }) = host(&dir.join("open"), &source(&broker, &url)).await;
        let operation = fill(&api, &url).await;
        let admin = token("admin", "admin", ADMIN);
        let tokens = format!("{admin}{}", token("looker", "viewer", VIEWER));
        let (secured, behind, Launch { config: file, .. }) = host(&dir.join("secured"), &tokens).await;
        let text = std::fs::read_to_string(&file).unwrap();
        let given = json!({
            "base": api.base(), "pid": open.id(), "config": config, "refuses": format!("{url}/refuse"), "refusesMany": refusing.url("many"),
            "secured": behind.base(), "token": VIEWER, "admin": ADMIN,
            "file": file, "revoked": text.replace(&tokens, &admin),
        });
        Self { open, secured, _broker: broker, _refusing: refusing, given, operation }
    }

    pub async fn end(self) {
        for host in [self.open, self.secured] {
            assert!(host.terminate(PATIENCE).await.unwrap().success());
        }
    }
}

fn token(name: &str, role: &str, text: &str) -> String {
    let hash: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[auth.token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\nroles = [\"{role}\"]\n")
}

fn source(broker: &nats::Server, url: &str) -> String {
    let (server, peer) = (broker.url(), broker.url().replace("nats://", "tcp://"));
    format!(
        "[source.orders]\nplugin = \"nats\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\n\
         config = {{ servers = [\"{server}\"], stream = \"ORDERS\", durable = \"orders\" }}\n\
         [consumer.ship]\nsource = \"orders\"\nhandler = \"{url}/good\"\n"
    )
}

/// A host with its API, and how it is started.
pub async fn host(dir: &Path, more: &str) -> (Host, Api, Launch) {
    std::fs::create_dir(dir).unwrap();
    let config = format!("[store]\nurl = \"surrealkv://{}\"\n{CONFIG}{more}", dir.join("data").display());
    let launch = Launch::prepare(binary().unwrap(), dir, &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    (host, api, launch)
}

/// Something of everything that the views show, some of it hostile. The id of an operation.
async fn fill(api: &Api, url: &str) -> String {
    let hostile = "<script>alert(1)</script> \u{202e}'\"&amp;";
    let payload =
        json!({ "note": hostile, "long": "x".repeat(400), "n": 9_007_199_254_740_993_u64, "list": [1, null, true] });
    let done = (0..60).map(|number| {
        let id = format!("done-{number}");
        json!({ "topic": format!("{url}/good"), "id": id, "key": format!("key-{}", number % 7), "payload": payload })
    });
    post(api, "/v1/messages", json!({ "messages": done.collect::<Vec<_>>() })).await;
    let dead = ["dead-0", "dead-1", "dead-2", "dead-3", "dead-4", "dead-5", "fenced-1"].map(|id| {
        let headers = json!({ "x-note": "line <b>", "x-api-key": "hidden" });
        json!({ "topic": format!("{url}/refuse"), "id": id, "headers": headers, "payload": payload })
    });
    post(api, "/v1/messages", json!({ "messages": dead })).await;
    let waiting =
        (0..5).map(|number| json!({ "topic": "bus:work.wait", "id": format!("waiting-{number}"), "payload": 1 }));
    post(api, "/v1/messages", json!({ "messages": waiting.collect::<Vec<_>>() })).await;
    let later =
        json!({ "topic": "bus:work.wait", "id": "later-1", "payload": 1, "not_before": "2099-01-01T00:00:00Z" });
    post(api, "/v1/messages", later).await;
    define_and_start(api, url).await;
    for stream in ["task.node.7", "task.node.8", "audit.log"] {
        let events = (0..12).map(|number| {
            json!({ "event_id": format!("{stream}-{number}"), "resource_type": "TASK", "resource_id": "t-17", "op": "UPDATE", "schema_version": 1 })
        });
        post(api, &format!("/v1/streams/{stream}/events"), json!({ "events": events.collect::<Vec<_>>() })).await;
    }
    for (path, member, value) in [
        ("/v1/messages/done-59", "state", "done"),
        ("/v1/messages/dead-0", "state", "dead"),
        ("/v1/messages/dead-3", "state", "dead"),
        ("/v1/messages/fenced-1", "state", "dead"),
        ("/v1/sagas/order-1", "state", "completed"),
        ("/v1/sagas/order-2", "state", "cancelled"),
        ("/v1/sagas/ask-1", "waiting_for", "approval"),
        ("/v1/sagas/stuck-1", "state", "failed"),
    ] {
        until(api, path, member, value).await;
    }
    post(api, "/v1/idempotency/begin", json!({ "key": "nightly", "hash": "a1" })).await;
    post(api, "/v1/dead-letters/fenced-1/quarantine", json!({ "note": "looked at" })).await;
    // Something holds messages back.
    post(api, "/v1/transports/held/pause", json!({})).await;
    post(api, "/v1/messages", json!({ "topic": "bus:held.back", "id": "held-1", "payload": 1 })).await;
    // Its message dies again.
    let replayed = post(api, "/v1/operations", json!({ "kind": "replay", "filter": "id=dead-3" })).await;
    let operation = replayed["id"].as_str().unwrap().to_owned();
    until(api, &format!("/v1/operations/{operation}"), "state", "done").await;
    operation
}

/// Definitions for views and acts, and a saga in each state.
async fn define_and_start(api: &Api, url: &str) {
    let step = |name: &str, action: &str, undo: &str| json!({ "name": name, "action": format!("{url}/{action}"), "compensation": format!("{url}/{undo}") });
    let waits = |name: &str, what: &str| json!({ "name": name, "action": format!("wait:{what}") });
    for (name, steps) in [
        ("order", json!([step("reserve", "good", "undo"), step("charge", "good", "undo")])),
        ("refused", json!([step("reserve", "good", "undo"), step("charge", "refuse", "undo")])),
        ("stuck", json!([step("reserve", "good", "refuse"), step("charge", "refuse", "undo")])),
        ("asks", json!([waits("release", "approval")])),
        ("listens", json!([waits("pay", "paid")])),
    ] {
        post(api, "/v1/saga-definitions", json!({ "name": name, "version": 1, "steps": steps })).await;
    }
    for (definition, id, input) in [
        ("order", "order-1", json!({ "total": 12.5 })),
        ("refused", "order-2", json!({})),
        ("stuck", "stuck-1", json!({})),
        ("asks", "ask-1", json!({ "amount": 1_200, "to": "<b>Ann</b>" })),
    ] {
        post(api, "/v1/sagas", json!({ "definition": definition, "id": id, "input": input })).await;
    }
}

/// What is answered to something that has to be taken.
async fn post(api: &Api, path: &str, body: Value) -> Value {
    let reply = api.post(path, &body).await.unwrap();
    assert!(reply.is_ok(), "{path}: {reply:?}");
    reply.body
}

/// Waits until a member of what is read has a value.
async fn until(api: &Api, path: &str, member: &str, value: &str) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while api.get(path, &[]).await.unwrap().body[member] != value {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "{path}: {member} isn't {value}: {:?}", api.get(path, &[]).await);
}
