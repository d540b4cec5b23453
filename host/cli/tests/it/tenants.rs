//! Tenants don't see each other: what one has stored, and what the host is made of, is in no answer to another. Every GET of
//! the OpenAPI document is asked, so a new one is part of it.

use std::collections::BTreeSet;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::serve::Host;

/// In everything that tenant `a` has, and in what the operator wrote down for the host alone.
const CANARY: &str = "canary";

/// Ids of what is there, which a question may hold: they begin with the canary, and what an answer repeats of its question is
/// left out before it is searched.
const IDS: [&str; 6] = ["canary-message", "canary-later", "canary-dead", "canary-saga", "canary-key", "canary-nothing"];

struct Asked {
    client: Client,
    url: String,
}

impl Asked {
    async fn send(&self, token: &str, method: Method, path: &str, body: Option<Value>) -> (StatusCode, String) {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(secret(token));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        let headers = format!("{:?}", answer.headers());
        (answer.status(), headers + &answer.text().await.unwrap())
    }
    async fn does(&self, token: &str, path: &str, body: Value) -> Value {
        let (status, text) = self.send(token, Method::POST, path, Some(body)).await;
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(text.split_once('}').map_or("", |(_, body)| body)).unwrap_or(Value::Null)
    }
    async fn gets(&self, token: &str, path: &str) -> (StatusCode, String) {
        self.send(token, Method::GET, path, None).await
    }
}

fn secret(name: &str) -> String {
    format!("{name}-0123456789abcdef0123456789abcdef")
}

/// A host for two tenants, with a plugin and a route each of which tells something of the operator.
fn start(dir: &std::path::Path) -> Host {
    let component = waybill_bundled::find("noop").unwrap().component;
    std::fs::create_dir(dir.join("canary-folder")).unwrap();
    std::fs::write(dir.join("canary-folder/mine.wasm"), component).unwrap();
    std::fs::write(dir.join("canary-folder/canary-broken.wasm"), b"no component").unwrap();
    let mut text = "[store]\nurl = \"mem://\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
        [plugins]\ncache = \"./cache\"\nfolder = \"./canary-folder\"\n\
        [transport.mine]\nplugin = \"mine\"\n[transport.web]\nplugin = \"http\"\nallow = { http = [\"http://canary.invalid\"] }\n\
        [[route]]\nmatch = \"bus:out.**\"\ntransport = \"external\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"mine\"\n\
        [[route]]\nmatch = \"http:**\"\ntransport = \"web\"\n"
        .to_owned();
    let every = r#"["viewer", "sender", "transactor", "worker", "operator", "backup", "admin"]"#;
    for (name, tenants, roles) in [
        ("root", "*", r#"["admin"]"#),
        ("anna", "a", every),
        ("berta", "b", every),
        ("bernd", "b", r#"["viewer"]"#),
        ("both", "b\", \"c", every),
    ] {
        std::fs::write(dir.join(name), secret(name)).unwrap();
        text += &format!(
            "[[auth.token]]\nname = \"{name}\"\ntoken_file = \"{name}\"\ntenants = [\"{tenants}\"]\nroles = {roles}\n"
        );
    }
    std::fs::write(dir.join("waybill.toml"), text).unwrap();
    Host::start(dir, &[])
}

/// Everything that tenant `a` can have, and what `b` has of the same kind.
async fn seed(host: &Asked) {
    let definition = json!({ "name": "order", "version": 1, "steps": [
        { "name": "release", "action": "wait:approval" },
        { "name": "charge", "action": "https://pay.example/charges?key=canary", "compensation": "https://pay.example/refunds" },
    ]});
    host.does("root", "/v1/saga-definitions", definition).await;
    for (token, mark, tenant) in [("anna", CANARY, "a"), ("berta", "plain", "b")] {
        let text = format!("{mark} text");
        let message = |topic: &str, id: &str| {
            json!({ "topic": topic, "tenant": tenant, "id": format!("{mark}-{id}"), "key": mark, "event_type": mark, "aggregate_id": mark,
                "headers": { "x-note": text }, "payload": { "note": text } })
        };
        let mut later = message("bus:orders.created", "later");
        later["not_before"] = json!(4_000_000_000_000_u64);
        let messages = json!([
            message(&format!("bus:orders.{mark}"), "message"),
            later,
            message(&format!("bus:out.{mark}"), "dead"),
            // Nobody has that name: its destination is held.
            message(&format!("http://{mark}.invalid/{mark}"), "held"),
        ]);
        host.does(token, "/v1/messages", json!({ "messages": messages })).await;
        let claimed = host.does(token, "/v1/outbox/claim", json!({ "worker_id": mark, "wait_ms": 10_000 })).await;
        let token_of = claimed["items"][0]["token"].as_str().expect("the message for a worker").to_owned();
        let error = json!({ "code": format!("X.{}", mark.to_uppercase()), "reason": text });
        let item = json!({ "id": format!("{mark}-dead"), "token": token_of, "result": "dead", "error": error });
        host.does(token, "/v1/outbox/settle", json!({ "worker_id": mark, "items": [item] })).await;
        let saga = json!({ "definition": "order", "id": format!("{mark}-saga"), "input": { "note": text } });
        host.does(token, "/v1/sagas", saga).await;
        let begun =
            host.does(token, "/v1/idempotency/begin", json!({ "key": format!("{mark}-key"), "hash": mark })).await;
        let finish = json!({ "key": format!("{mark}-key"), "token": begun["token"], "result": { "note": text } });
        host.does(token, "/v1/idempotency/finish", finish).await;
        let operation = json!({ "kind": "replay", "filter": format!("id={mark}-none*"), "reason": text });
        host.does(token, "/v1/operations", operation).await;
    }
    host.does("root", "/v1/transports/mine/pause", json!({})).await;
}

/// Every address that a GET of the document can be asked at, with the template.
async fn questions(host: &Asked) -> Vec<(String, String)> {
    let (_, text) = host.gets("root", "/openapi.json").await;
    let document: Value = serde_json::from_str(&text[text.find("}{").unwrap() + 1..]).unwrap();
    let (_, audit) = host.gets("root", "/v1/audit?limit=1000").await;
    // Ids that the host made stand in the trail: of operations, for instance.
    let made: BTreeSet<String> = audit
        .split('"')
        .filter(|word| word.len() == 26 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .map(str::to_owned)
        .collect();
    let ids: Vec<String> = IDS.iter().map(|id| (*id).to_owned()).chain(made).collect();
    let names = ["order", "mine", "web", "OUTBOX.BUSY"].map(str::to_owned);
    let mut questions = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        let Some(operation) = item.get("get") else { continue };
        let mut paths = vec![template.clone()];
        while let Some(open) = paths.iter().position(|path| path.contains('{')) {
            let path = paths.swap_remove(open);
            let (before, rest) = path.split_once('{').unwrap();
            let (_, after) = rest.split_once('}').unwrap();
            paths.extend(ids.iter().chain(&names).map(|value| format!("{before}{value}{after}")));
        }
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let takes = |name: &str| parameters.iter().any(|one| one["in"] == "query" && one["name"] == name);
        let mut queries = vec![String::new()];
        for tenant in ["a", "b", "c"] {
            queries.extend(takes("tenant").then(|| format!("?tenant={tenant}")));
        }
        for filter in ["tenant=a", "id=canary*", "key=canary*", "state=dead", "definition=order"] {
            queries.extend(takes("filter").then(|| format!("?filter={}", filter.replace('=', "%3D"))));
        }
        queries.extend(takes("key").then(|| "?key=canary-key".to_owned()));
        queries.extend(takes("key").then(|| "?key=canary-key&tenant=a".to_owned()));
        queries.extend(takes("count").then(|| "?count=true".to_owned()));
        queries.extend(takes("version").then(|| "?version=1".to_owned()));
        queries.extend(takes("wait_ms").then(|| "?wait_ms=1".to_owned()));
        questions.extend(
            paths.iter().flat_map(|path| queries.iter().map(move |query| (template.clone(), format!("{path}{query}")))),
        );
    }
    questions
}

/// What an answer tells beside what was asked.
fn revealed(question: &str, text: &str) -> String {
    let mut text = text.to_lowercase();
    let mut asked: Vec<&str> = question.split(['/', '?', '&', '=']).filter(|word| word.contains(CANARY)).collect();
    asked.extend(["tenant%3da", "id%3dcanary*", "key%3dcanary*", "id=canary*", "key=canary*"]);
    asked.sort_by_key(|word| std::cmp::Reverse(word.len()));
    for word in asked {
        text = text.replace(&word.to_lowercase(), "");
    }
    text
}

#[test]
fn no_get_shows_a_tenant_what_another_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = start(dir.path());
    let url = host.url();
    host.says("INFO ready");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let host = Asked { client: Client::new(), url };
        seed(&host).await;
        // The destination is held once its message was tried.
        let held = async {
            while !host.gets("anna", "/v1/outbox/blocked").await.1.contains("canary.invalid") {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), held).await.expect("a held destination");
        let questions = questions(&host).await;
        let mut seen = BTreeSet::new();
        let mut leaks = Vec::new();
        for (template, question) in &questions {
            for token in ["anna", "root"] {
                let (status, text) = host.gets(token, question).await;
                if status.is_success() && revealed(question, &text).contains(CANARY) {
                    seen.insert(template.as_str());
                }
            }
            for token in ["berta", "bernd", "both"] {
                let (status, text) = host.gets(token, question).await;
                if revealed(question, &text).contains(CANARY) {
                    leaks.push(format!("{token}: GET {question}: {status} {text}"));
                }
            }
        }
        assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
        // The sweep is worth something where there is something to see.
        for template in [
            "/v1/messages",
            "/v1/messages/{id}",
            "/v1/dead-letters",
            "/v1/dead-letters/groups",
            "/v1/dead-letters/{id}",
            "/v1/idempotency",
            "/v1/operations",
            "/v1/operations/{id}",
            "/v1/outbox/blocked",
            "/v1/sagas",
            "/v1/sagas/{id}",
            "/v1/saga-definitions/{name}",
            "/v1/plugins",
            "/v1/audit",
        ] {
            assert!(seen.contains(template), "nobody sees a canary at {template}: {seen:?}");
        }
        let (status, text) = host.gets("bernd", "/v1/idempotency?key=plain-key").await;
        assert!(status.is_success() && !text.contains("plain text"), "a viewer sees no result: {text}");
        assert!(host.gets("berta", "/v1/idempotency?key=plain-key").await.1.contains("plain text"));
        let (_, brief) = host.gets("berta", "/v1/saga-definitions/order").await;
        assert!(brief.contains("\"steps\":[\"release\",\"charge\"]") && !brief.contains("pay.example"), "{brief}");
    });
}
