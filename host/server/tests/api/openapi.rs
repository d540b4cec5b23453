//! The OpenAPI document: complete, in step with the committed file, and true about real answers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use waybill_server::openapi::document;

use crate::examples::example;
use crate::support::{Answer, Api, full_message, post, with};

/// `host/server/openapi.json` is what clients are generated from. After an intended change, run this test with
/// `UPDATE_OPENAPI=1` and commit the file.
#[test]
fn the_committed_document_is_the_one_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "openapi.json is out of date: run this test with UPDATE_OPENAPI=1 and look at the difference"
    );
}

#[test]
fn every_call_of_the_surface_is_there() {
    let api = document();
    let mut found = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            found.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let surface = [
        "POST /v1/messages",
        "GET /v1/messages",
        "GET /v1/messages/facets",
        "GET /v1/messages/{id}",
        "GET /v1/messages/{id}/neighbours",
        "POST /v1/messages/{id}/cancel",
        "POST /v1/messages/{id}/reschedule",
        "POST /v1/transactions",
        "GET /v1/outbox/stats",
        "GET /v1/outbox/blocked",
        "POST /v1/outbox/claim",
        "POST /v1/outbox/settle",
        "POST /v1/outbox/check-dedup",
        "GET /v1/dead-letters",
        "GET /v1/dead-letters/facets",
        "GET /v1/dead-letters/groups",
        "GET /v1/dead-letters/{id}",
        "POST /v1/dead-letters/{id}/replay",
        "POST /v1/dead-letters/{id}/quarantine",
        "POST /v1/dead-letters/{id}/edit",
        "GET /v1/quarantine",
        "GET /v1/quarantine/{id}",
        "POST /v1/quarantine/{id}/restore",
        "POST /v1/quarantine/{id}/drop",
        "GET /v1/operations",
        "POST /v1/operations",
        "GET /v1/operations/{id}",
        "POST /v1/operations/{id}/cancel",
        "GET /v1/idempotency",
        "POST /v1/idempotency/begin",
        "POST /v1/idempotency/finish",
        "POST /v1/idempotency/fail",
        "POST /v1/idempotency/release",
        "POST /v1/idempotency/renew",
        "POST /v1/idempotency/forget",
        "GET /v1/inbox",
        "GET /v1/inbox/stats",
        "GET /v1/inbox/{consumer}/{id}",
        "GET /v1/streams",
        "GET /v1/streams/{name}",
        "DELETE /v1/streams/{name}",
        "GET /v1/streams/{name}/events",
        "POST /v1/streams/{name}/events",
        "POST /v1/streams/{name}/import",
        "POST /v1/streams/{name}/purge",
        "GET /v1/events",
        "GET /v1/events/stats",
        "GET /v1/subscribe",
        "POST /v1/subscribe/tickets",
        "GET /v1/relays",
        "GET /v1/relays/{name}",
        "GET /v1/relays/{name}/overtaken",
        "POST /v1/relays/{name}/pause",
        "POST /v1/relays/{name}/resume",
        "POST /v1/relays/{name}/seek",
        "GET /v1/sources",
        "POST /v1/sources/{name}/pause",
        "POST /v1/sources/{name}/resume",
        "POST /v1/sources/{name}/provision",
        "GET /v1/sources/{name}/failed",
        "POST /v1/sources/{name}/replay",
        "POST /v1/saga-definitions",
        "GET /v1/saga-definitions",
        "GET /v1/saga-definitions/{name}",
        "POST /v1/sagas",
        "GET /v1/sagas",
        "GET /v1/sagas/{id}",
        "POST /v1/sagas/{id}/signals/{name}",
        "POST /v1/sagas/{id}/replies",
        "POST /v1/sagas/{id}/pause",
        "POST /v1/sagas/{id}/resume",
        "POST /v1/sagas/{id}/cancel",
        "POST /v1/sagas/{id}/kill",
        "POST /v1/sagas/{id}/retry",
        "POST /v1/sagas/{id}/skip",
        "POST /v1/sagas/{id}/approve",
        "POST /v1/sagas/{id}/reject",
        "POST /v1/sagas/{id}/accept",
        "POST /v1/sagas/{id}/links",
        "GET /v1/approvals/{token}",
        "POST /v1/approvals/{token}",
        "GET /v1/transports",
        "POST /v1/transports/{name}/pause",
        "POST /v1/transports/{name}/resume",
        "POST /v1/transports/{name}/probe",
        "POST /v1/transports/{name}/provision",
        "GET /v1/plugins",
        "GET /v1/plugins/{name}",
        "POST /v1/plugins/{name}/reload",
        "POST /v1/plugins/{name}/rollback",
        "PUT /v1/plugins/{name}/component",
        "GET /v1/plugins/{name}/log",
        "POST /v1/backup",
        "GET /v1/config",
        "POST /v1/config/reload",
        "GET /v1/tokens",
        "POST /v1/tokens",
        "DELETE /v1/tokens/{name}",
        "GET /v1/history",
        "GET /v1/changes",
        "GET /v1/audit",
        "GET /v1/whoami",
        "GET /",
        "GET /livez",
        "GET /readyz",
        "GET /metrics",
        "GET /openapi.json",
        "GET /errors/{code}",
    ];
    assert_eq!(found, surface.iter().map(|call| (*call).to_owned()).collect());
}

#[test]
fn the_document_is_well_formed() {
    let api = document();
    assert!(api["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut ids = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(!operation["summary"].as_str().unwrap_or("").is_empty(), "{method} {path} has no summary");
            let named: BTreeSet<&str> =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let documented: BTreeSet<&str> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            assert_eq!(named, documented, "{method} {path}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                // A redirect says all in its headers.
                if status == "303" {
                    continue;
                }
                let content = response["content"]
                    .as_object()
                    .unwrap_or_else(|| panic!("{method} {path} {status} has no content"));
                assert!(content.values().all(|media| media.get("schema").is_some()), "{method} {path} {status}");
            }
            assert!(operation["responses"].get("default").is_some(), "{method} {path} doesn't document problems");
        }
    }
    references(&api, &api);
}

fn references(api: &Value, node: &Value) {
    match node {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref") {
                assert!(api.pointer(target.trim_start_matches('#')).is_some(), "{target} leads nowhere");
            }
            map.values().for_each(|value| references(api, value));
        }
        Value::Array(list) => list.iter().for_each(|value| references(api, value)),
        _ => {}
    }
}

/// Checks an answer against the schema that the document gives for its route and status.
fn check(api: &Value, method: &str, template: &str, answer: &Answer) {
    let responses = &api["paths"][template][method]["responses"];
    let status = answer.status.as_u16().to_string();
    let response = responses.get(&status).unwrap_or(&responses["default"]);
    let media = answer.header("content-type").split(';').next().unwrap().to_owned();
    let schema = response["content"]
        .get(&media)
        .unwrap_or_else(|| panic!("{method} {template} {status}: {media} isn't documented"))["schema"]
        .clone();
    if matches!(media.as_str(), "text/plain" | "text/event-stream" | "application/octet-stream") {
        return;
    }
    let root = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema], "components": api["components"]});
    let validator = jsonschema::draft202012::new(&root).unwrap_or_else(|error| panic!("{template}: {error}"));
    let body = answer.json();
    let faults: Vec<String> =
        validator.iter_errors(&body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{method} {template} {status}: {faults:#?}\n{body:#}");
    if let (Some(Value::String(target)), Some(object)) = (schema.get("$ref"), body.as_object()) {
        let mut known = Vec::new();
        members(api, api.pointer(target.trim_start_matches('#')).unwrap(), &mut known);
        for member in object.keys() {
            assert!(known.contains(member), "{method} {template}: {member} isn't documented");
        }
    }
}

/// Names of the members that a schema has, in whichever of its forms.
fn members(api: &Value, schema: &Value, names: &mut Vec<String>) {
    names.extend(schema["properties"].as_object().into_iter().flat_map(|members| members.keys().cloned()));
    if let Some(target) = schema["$ref"].as_str() {
        members(api, api.pointer(target.trim_start_matches('#')).unwrap(), names);
    }
    for form in ["allOf", "oneOf"] {
        schema[form].as_array().into_iter().flatten().for_each(|part| members(api, part, names));
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_as_documented() {
    let document = waybill_server::openapi::document();
    let api = Api::open().await;
    let mut checked = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let good = api.send(example(&api.host, method, template, "default").await).await;
            assert!(good.status.is_success(), "{method} {template}: {}", good.text);
            check(&document, method, template, &good);
            let mut bad = example(&api.host, method, template, "default").await;
            *bad.uri_mut() = format!("{}?nonsense=1", bad.uri().path()).parse().unwrap();
            *bad.body_mut() = "][".into();
            check(&document, method, template, &api.send(bad).await);
            checked += 1;
        }
    }
    assert!(checked >= 31);
    api.host.stuck_saga("default", "stuck-1").await;
    api.host.paused_saga("default", "paused-1").await;
    api.host.held(full_message("held"), "http://shop.example").await;
    for (method, path, template, body) in [
        ("post", "/v1/operations", "/v1/operations", r#"{"kind":"replay","filter":"id=*","dry_run":true}"#),
        ("post", "/v1/operations", "/v1/operations", r#"{"kind":"pause","filter":"id=*","dry_run":true}"#),
        ("post", "/v1/operations", "/v1/operations", r#"{"kind":"cancel_messages","filter":"id=*","dry_run":true}"#),
        ("get", "/v1/dead-letters?count=true", "/v1/dead-letters", ""),
        ("get", "/v1/dead-letters/groups", "/v1/dead-letters/groups", ""),
        ("get", "/v1/dead-letters/facets", "/v1/dead-letters/facets", ""),
        ("get", "/v1/dead-letters/stuck-1", "/v1/dead-letters/{id}", ""),
        ("get", "/v1/dead-letters/inbox-3-17", "/v1/dead-letters/{id}", ""),
        ("get", "/v1/sagas/stuck-1", "/v1/sagas/{id}", ""),
        ("get", "/v1/sagas/paused-1", "/v1/sagas/{id}", ""),
        ("get", "/v1/messages/held", "/v1/messages/{id}", ""),
        ("get", "/v1/messages/held/neighbours", "/v1/messages/{id}/neighbours", ""),
        ("get", "/v1/messages", "/v1/messages", ""),
        ("get", "/v1/messages/facets", "/v1/messages/facets", ""),
        ("get", "/v1/outbox/blocked", "/v1/outbox/blocked", ""),
        ("get", "/v1/history", "/v1/history", ""),
        ("get", "/v1/changes", "/v1/changes", ""),
        ("post", "/v1/dead-letters/stuck-1/quarantine", "/v1/dead-letters/{id}/quarantine", r#"{"note":"n"}"#),
        ("post", "/v1/dead-letters/stuck-1/replay", "/v1/dead-letters/{id}/replay", "{}"),
        ("post", "/v1/dead-letters/inbox-3-17/quarantine", "/v1/dead-letters/{id}/quarantine", r#"{"note":"n"}"#),
        ("post", "/v1/dead-letters/inbox-3-17/replay", "/v1/dead-letters/{id}/replay", "{}"),
        ("post", "/v1/outbox/settle", "/v1/outbox/settle", r#"{"items":[{"id":"a","token":"old","result":"ack"}]}"#),
    ] {
        let answer = match method {
            "get" => api.get(path).await,
            _ => api.post(path, body).await,
        };
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.text);
        check(&document, method, template, &answer);
    }
    let defined = post("/v1/saga-definitions", "name = 1");
    let refused = api.send(with(defined, "content-type", "application/toml")).await;
    check(&document, "post", "/v1/saga-definitions", &refused);
}

#[test]
fn documented_requests_are_what_is_read() {
    let document = waybill_server::openapi::document();
    let schema = |name: &str| {
        let root = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
        jsonschema::draft202012::new(&root).unwrap()
    };
    let post = schema("PostMessages");
    for good in [
        json!({"topic": "bus:a", "payload": {"x": [1]}, "headers": {"a": "b", "c": ["d"]}, "not_before": "2026-09-21T14:13:20Z", "occurred_at": 1_790_000_000_123_u64}),
        json!({"messages": [{"topic": "bus:a", "payload_base64": "AA=="}]}),
        json!({"topic": "bus:a", "payload": null}),
    ] {
        assert!(post.is_valid(&good), "{good}");
        assert!(waybill_server::json::post::json(&good.to_string()).is_ok(), "{good}");
    }
    let transaction = schema("Transaction");
    let event = json!({"stream": "task", "expected_seq": "0", "tenant": "acme", "resource_type": "TASK", "resource_id": "t", "op": "CREATE",
        "schema_version": 1, "payload_bytes": "e30="});
    assert!(transaction.is_valid(&json!({ "events": [event] })));
    for (field, value) in [("stream", None), ("resource_type", None), ("seq", Some(1))] {
        let mut bad = event.clone();
        match value {
            Some(value) => drop(bad.as_object_mut().unwrap().insert(field.to_owned(), json!(value))),
            None => drop(bad.as_object_mut().unwrap().remove(field)),
        }
        assert!(!transaction.is_valid(&json!({ "events": [bad] })), "{field}");
    }
    for bad in [
        json!({"payload": 1}),
        json!({"topic": "bus:a", "payload": 1, "x": 1}),
        json!({"topic": "bus:a"}),
        json!({"topic": "bus:a", "payload_base64": null}),
        json!({"topic": "bus:a", "payload": 1, "payload_base64": "AA=="}),
        json!({"messages": [{"topic": "bus:a", "payload": null, "payload_base64": "AA=="}]}),
        json!({"messages": 1}),
        json!([]),
    ] {
        assert!(!post.is_valid(&bad), "{bad}");
        assert!(waybill_server::json::post::json(&bad.to_string()).is_err(), "{bad}");
    }
}
