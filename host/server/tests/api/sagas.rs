//! `/v1/sagas` and `/v1/saga-definitions`.

use serde_json::json;
use waybill_core::saga::error::SagaError;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_server::tls::Encryption;

use crate::support::{Answer, Api, get, post, send, token, with};

const D: &str = "/v1/saga-definitions";
const S: &str = "/v1/sagas";

async fn define(api: &Api, query: &str, media: &'static str, body: &'static str) -> Answer {
    api.send(with(post(&format!("{D}{query}"), body), "content-type", media)).await
}

#[tokio::test]
async fn a_definition_is_taken_as_json_or_toml() {
    let api = Api::open();
    let answer = define(&api, "", "application/json", "{\"name\": \"order\"}").await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "/v1/saga-definitions/order?version=2"));
    let body = answer.json();
    assert_eq!((&body["name"], &body["version"], &body["created"]), (&json!("order"), &json!(2), &json!(true)));
    assert_eq!(body["warnings"][0]["line"], 4);
    assert_eq!(body["running"][0]["could_move"], false);
    assert_eq!(define(&api, "", "application/toml; charset=utf-8", "again = 1").await.status, 200);
    for query in ["?dry_run", "?dry_run=true", "?dry_run=1"] {
        let answer = define(&api, query, "application/toml", "name = 1").await;
        assert_eq!((answer.status.as_u16(), &answer.json()["dry_run"]), (200, &json!(true)), "{query}");
    }
    assert_eq!(define(&api, "?dry_run=maybe", "application/toml", "").await.problem().0, 400);
    assert_eq!(
        api.fake.calls(),
        [
            "define Json false local [{\"name\": \"order\"}]",
            "define Toml false local [again = 1]",
            "define Toml true local [name = 1]",
            "define Toml true local [name = 1]",
            "define Toml true local [name = 1]",
        ]
    );
}

#[tokio::test]
async fn a_bad_definition_is_told_everything_that_is_wrong_with_it() {
    let answer = define(&Api::open(), "", "application/toml", "broken = 1").await;
    assert_eq!(answer.problem(), (400, "SAGA.DEFINITION".into()));
    let problem = answer.json();
    assert_eq!(
        (&problem["line"], &problem["column"], &problem["path"]),
        (&json!(3), &json!(7), &json!("steps[0].action"))
    );
    let second = json!({"severity": "warning", "line": 9, "column": 7, "path": "steps[0].action", "what": "it is odd", "fix": "write http://"});
    assert_eq!(problem["problems"][1], second);
    let plain = Api::open().get("/v1/sagas/gone").await.json();
    assert!(plain.get("problems").is_none(), "{plain}");
}

#[tokio::test]
async fn toml_and_lines_are_taken_where_they_belong_only() {
    let api = Api::open();
    for (path, media) in [
        (S, "application/toml"),
        ("/v1/messages", "application/toml"),
        ("/v1/sagas/a/pause", "application/toml"),
        (D, "application/x-ndjson"),
        (S, "application/x-ndjson"),
        (D, "text/yaml"),
    ] {
        let answer = api.send(with(post(path, "a = 1"), "content-type", media)).await;
        assert_eq!(answer.problem(), (415, "HTTP.MEDIA_TYPE".into()), "{path} {media}");
    }
    let large = "#".repeat(300 * 1024);
    let answer = api.send(with(post(D, large), "content-type", "application/toml")).await;
    assert_eq!(answer.problem(), (413, "HTTP.TOO_LARGE".into()));
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn definitions_are_listed_and_shown() {
    let api = Api::open();
    let list = api.get(&format!("{D}?name=order&limit=1")).await.json();
    assert!(list["items"][0].get("document").is_none(), "{list}");
    let next = api.get(&format!("{D}?name=order&cursor={}", list["next_cursor"].as_str().unwrap())).await;
    assert_eq!(next.json()["next_cursor"], json!(null));
    let other = api.get(&format!("{D}?cursor={}", list["next_cursor"].as_str().unwrap())).await;
    assert_eq!(other.problem().0, 400, "a cursor belongs to its list");
    let shown = api.get(&format!("{D}/order?version=2")).await.json();
    assert_eq!((&shown["versions"], &shown["document"]["name"]), (&json!([1, 2]), &json!("order")));
    assert_eq!(api.get(&format!("{D}/gone")).await.problem(), (404, "SAGA.NO_DEFINITION".into()));
    assert_eq!(
        api.fake.calls(),
        [
            "definitions Some(\"order\") None 1",
            "definitions Some(\"order\") Some(\"order/2\") 100",
            "definition order Some(2)",
            "definition gone None",
        ]
    );
}

#[tokio::test]
async fn a_saga_starts_and_a_repeat_is_told_apart() {
    let api = Api::open();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let body =
        r#"{"definition":"order","input":{"n": 1.10},"id":"a/b ä","tenant":"acme","ttl_ms":5,"headers":{"x":"y"}}"#;
    let answer = api.send(with(post(S, body), "traceparent", trace)).await;
    assert_eq!(answer.json(), json!({"id": "a/b ä", "tenant": "acme", "duplicate": false}));
    assert_eq!((answer.status.as_u16(), answer.header("location")), (202, "/v1/sagas/a%2Fb%20%C3%A4?tenant=acme"));
    assert_eq!(api.get(answer.header("location")).await.json()["id"], "a/b ä");
    let again = api.post(S, r#"{"def_name":"order","version":3,"id":"again"}"#).await;
    assert_eq!((again.status.as_u16(), &again.json()["duplicate"]), (200, &json!(true)));
    assert_eq!(
        api.fake.calls(),
        [
            format!(
                "saga start acme order None Some(\"a/b ä\") {{\"n\": 1.10}} Some(5ms) [(\"x\", \"y\")] Some(\"{trace}\") local"
            ),
            "saga acme a/b ä".to_owned(),
            "saga start default order Some(3) Some(\"again\") null None [] None local".to_owned(),
        ]
    );
}

#[tokio::test]
async fn a_caller_may_wait_until_a_saga_is_at_rest() {
    let api = Api::open();
    let start = |id: &str| format!("{{\"definition\":\"order\",\"id\":\"{id}\"}}");
    let over = api.post(&format!("{S}?wait_ms=20000"), start("order-17")).await;
    assert_eq!((over.status.as_u16(), &over.json()["state"]), (200, &json!("completed")));
    let slow = api.post(&format!("{S}?wait_ms=1"), start("order-slow")).await;
    assert_eq!((slow.status.as_u16(), &slow.json()["state"]), (202, &json!("running")));
    assert_eq!(api.get(&format!("{S}/order-17?wait_ms=10")).await.status, 200);
    assert_eq!(api.get(&format!("{S}/gone?wait_ms=10")).await.problem(), (404, "SAGA.NOT_FOUND".into()));
    for path in [format!("{S}/order-17?wait_ms=20001"), format!("{S}/order-17?wait_ms=-1")] {
        assert_eq!(api.get(&path).await.problem().0, 400, "{path}");
    }
    assert_eq!(api.post(&format!("{S}?wait_ms=20001"), start("x")).await.problem().0, 400);
    assert!(!api.fake.calls().iter().any(|call| call.contains("\"x\"")), "refused before anything is started");
}

#[tokio::test]
async fn a_saga_shows_its_steps_and_sub_sagas() {
    let api = Api::open();
    let saga = api.get("/v1/sagas/order-17~pay?tenant=acme").await.json();
    assert_eq!((&saga["id"], &saga["tenant"], &saga["state"]), (&json!("order-17"), &json!("acme"), &json!("paused")));
    assert_eq!((&saga["definition"], &saga["version"]), (&json!("order"), &json!(2)));
    let step = &saga["saga"]["steps"][0];
    assert_eq!(
        (&step["state"], &step["direction"], &step["effect"]),
        (&json!("in_flight"), &json!("execute"), &json!("unknown"))
    );
    assert_eq!(step["since"], "2026-09-21T14:13:20.123Z");
    assert_eq!(saga["saga"]["steps"][1]["saga"]["steps"][0]["name"], "card");
    assert_eq!(saga["paused"]["cause"], "unknown_result");
    assert_eq!(saga["history"][2]["failure"]["maybe_done"], true);
    assert_eq!(saga["history"][1]["took_ms"], 12);
    let text = api.get("/v1/sagas/order-17").await.text;
    assert!(text.contains("{\"n\":12345678901234567890.10}"), "inputs are shown as they are: {text}");
    assert_eq!(api.fake.calls()[0], "saga acme order-17~pay");
}

#[tokio::test]
async fn sagas_are_listed_by_filter_and_page() {
    let api = Api::open();
    let list = api.get(&format!("{S}?filter=definition%3Dorder&limit=5")).await.json();
    assert_eq!((&list["items"][0]["id"], &list["items"][0]["waiting_for"]), (&json!("order-17"), &json!("operator")));
    assert!(list["items"][0].get("saga").is_none());
    let cursor = list["next_cursor"].as_str().unwrap();
    assert_eq!(api.get(&format!("{S}?filter=definition%3Dorder&cursor={cursor}")).await.status, 200);
    for bad in ["filter=colour%3Dred", "filter=state%3Dhappy", "limit=1001", "cursor=AAAA", "count=true", "tenant="] {
        assert_eq!(api.get(&format!("{S}?{bad}")).await.problem().0, 400, "{bad}");
    }
    assert_eq!(api.fake.calls(), ["sagas * Some(\"order\") None 5", "sagas * Some(\"order\") Some(\"0:9\") 100"]);
}

#[tokio::test]
async fn a_tenant_with_a_star_in_its_name_sees_its_own_sagas_and_no_others() {
    let api = Api::with(Some(vec![token("star", &["a*", "b"], &[Role::Operator])]), Limits::default());
    let ask = |path: &str| with(get(path), "authorization", "Bearer star");
    assert_eq!(api.send(ask(&format!("{S}?tenant=a%2A"))).await.status, 200);
    assert_eq!(api.send(ask(&format!("{S}?tenant=a%2A&filter=tenant%3Da*"))).await.status, 200);
    // In a filter it is a pattern, and that names no tenant.
    assert_eq!(api.send(ask(&format!("{S}?filter=tenant%3Da*"))).await.problem().0, 400);
    let calls = api.fake.calls();
    assert!(calls.len() == 2 && calls.iter().all(|call| call.starts_with("sagas a* ")), "{calls:?}");
}

#[tokio::test]
async fn every_act_takes_its_words() {
    let api = Api::open();
    for (path, body) in [
        ("pause", r#"{"reason":"stop"}"#),
        ("resume", ""),
        ("cancel", "{}"),
        ("kill", r#"{"note":"gone"}"#),
        ("retry", r#"{"mode":"retry"}"#),
        ("retry", r#"{"step":"charge"}"#),
        ("skip", r#"{"step":"charge","reason":"by hand"}"#),
        ("approve", "{}"),
        ("reject", r#"{"step":"release","reason":"no"}"#),
        ("accept", r#"{"note":"refunded by hand"}"#),
    ] {
        let answer = api.post(&format!("{S}/order-17~pay/{path}"), body).await;
        assert_eq!(answer.json(), json!({"id": "order-17", "state": "running", "unchanged": false}), "{path}");
    }
    let on = "default order-17~pay";
    assert_eq!(
        api.fake.calls(),
        [
            format!("Pause by local Some(\"stop\") {on}"),
            format!("Resume by local None {on}"),
            format!("Cancel by local None {on}"),
            format!("Kill by local Some(\"gone\") {on}"),
            format!("Retry {{ step: None, mode: Retry }} by local None {on}"),
            format!("Retry {{ step: Some(\"charge\"), mode: Compensate }} by local None {on}"),
            format!("Skip {{ step: \"charge\" }} by local Some(\"by hand\") {on}"),
            format!("Approve {{ step: None, since: None }} by local None {on}"),
            format!("Reject {{ step: Some(\"release\"), since: None }} by local Some(\"no\") {on}"),
            format!("Accept by local Some(\"refunded by hand\") {on}"),
        ]
    );
}

#[tokio::test]
async fn acts_that_say_too_little_or_too_much_are_refused() {
    let api = Api::open();
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(1025));
    for (act, body, field) in [
        ("pause", long.as_str(), Some("reason")),
        ("pause", r#"{"step":"a"}"#, Some("step")),
        ("skip", "{}", None),
        ("skip", r#"{"step":""}"#, Some("step")),
        ("accept", r#"{"reason":" "}"#, Some("reason")),
        ("accept", "{}", None),
        ("retry", r#"{"mode":"again"}"#, Some("mode")),
        ("replies", r#"{"step":"a","output":1,"error":{"reason":"x"}}"#, Some("error")),
        ("replies", r#"{"step":"a","error":{"code":"two words","reason":"x"}}"#, Some("error.code")),
    ] {
        let answer = api.post(&format!("{S}/a/{act}"), body.to_owned()).await;
        assert_eq!(answer.problem().0, 400, "{act} {body}");
        assert_eq!(answer.json()["path"].as_str(), field, "{act} {body}");
    }
    assert_eq!(api.post(&format!("{S}/a~/pause"), "").await.problem().0, 400);
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn signals_and_replies_carry_json_as_it_is() {
    let api = Api::open();
    assert_eq!(api.post(&format!("{S}/a~b/signals/paid"), "{\"n\": 1.10}").await.status, 200);
    assert_eq!(api.post(&format!("{S}/a/signals/paid"), "").await.status, 200);
    assert_eq!(api.post(&format!("{S}/a/signals/paid"), "nonsense").await.problem().0, 400);
    assert_eq!(api.post(&format!("{S}/a/signals/{}", "x".repeat(65)), "").await.problem().0, 400);
    assert_eq!(
        api.post(&format!("{S}/a/replies"), r#"{"step":"charge","attempt":2,"output":{"n": 1.10}}"#).await.status,
        200
    );
    let failed = r#"{"step":"charge","direction":"compensate","error":{"reason":"no","retryable":true}}"#;
    assert_eq!(api.post(&format!("{S}/a/replies"), failed).await.status, 200);
    assert_eq!(
        api.fake.calls(),
        [
            "signal paid {\"n\": 1.10} by local default a~b",
            "signal paid null by local default a",
            "reply charge Execute Some(2) Ok({\"n\": 1.10}) default a",
            "reply charge Compensate None Err(ReplyFailure { failure: Failure { code: \"SAGA.REPLY\", reason: \"no\", \
             maybe_done: false }, retryable: true }) default a",
        ]
    );
}

#[tokio::test]
async fn a_missing_saga_is_told_with_where_was_looked() {
    let api = Api::open();
    let answer = api.get("/v1/sagas/gone").await;
    assert_eq!(answer.problem(), (404, "SAGA.NOT_FOUND".into()));
    assert!(
        answer.json()["detail"]
            .as_str()
            .unwrap()
            .ends_with("looked for in tenant \"default\": name another with ?tenant=")
    );
    let named = api.get("/v1/sagas/gone?tenant=acme").await.json();
    assert!(!named["detail"].as_str().unwrap().contains("looked for"), "{named}");
}

#[tokio::test]
async fn sagas_of_other_tenants_do_not_exist() {
    let tokens =
        vec![token("one", &["acme"], &[Role::Sender, Role::Operator]), token("two", &["a", "b"], &[Role::Operator])];
    let api = Api::with(Some(tokens), Limits::default());
    let bearer = |who: &str| format!("Bearer {who}");
    let ask = |who: &str, path: &str| with(get(path), "authorization", &bearer(who));
    let act = |who: &str, path: &str, body: &'static str| with(post(path, body), "authorization", &bearer(who));
    let hidden = api.send(ask("one", "/v1/sagas/x?tenant=other")).await;
    assert_eq!(hidden.problem(), (404, "SAGA.NOT_FOUND".into()));
    assert_eq!(api.send(act("one", "/v1/sagas/x/kill?tenant=other", "{}")).await.problem().0, 404);
    let body = r#"{"definition":"order","tenant":"other"}"#;
    assert_eq!(api.send(act("one", S, body)).await.problem(), (403, "AUTH.TENANT".into()));
    assert_eq!(api.send(ask("one", &format!("{S}?tenant=other"))).await.problem(), (403, "AUTH.TENANT".into()));
    let empty = api.send(ask("one", &format!("{S}?filter=tenant%3Dother"))).await;
    assert_eq!(empty.json(), json!({"items": [], "next_cursor": null}));
    assert_eq!(api.send(ask("two", S)).await.problem().0, 400, "which of the two?");
    assert!(api.fake.calls().is_empty());
    assert_eq!(api.send(ask("one", S)).await.status, 200);
    assert_eq!(api.send(ask("two", &format!("{S}?filter=tenant%3Db"))).await.status, 200);
    assert_eq!(api.send(act("one", S, r#"{"definition":"order","tenant":"acme"}"#)).await.status, 202);
    assert_eq!(api.send(act("one", S, r#"{"definition":"order"}"#)).await.json()["tenant"], "acme", "its only one");
    let calls = api.fake.calls();
    assert!(calls[0].starts_with("sagas acme") && calls[1].starts_with("sagas b"), "{calls:?}");
}

#[tokio::test]
async fn what_sagas_refuse_has_its_status() {
    let api = Api::open();
    let text = || "x".to_owned();
    for (error, status, retry) in [
        (SagaError::Ended { id: text(), state: text() }, 409, false),
        (SagaError::IdTaken { id: text() }, 409, false),
        (SagaError::InputTooLarge { bytes: 2, bytes_max: 1 }, 413, false),
        (SagaError::Busy { what: "sagas", count: 1, count_max: 1 }, 429, true),
        (SagaError::Unavailable(text()), 503, true),
    ] {
        *api.fake.saga_fails.lock().unwrap() = Some(error.clone());
        let answer = api.post(S, r#"{"definition":"order"}"#).await;
        assert_eq!(answer.problem(), (status, error.code().into()));
        assert_eq!((answer.json()["retryable"] == true, answer.headers.contains_key("retry-after")), (retry, retry));
    }
}

/// A host without sagas, and without a key for links.
pub fn bare() -> axum::Router {
    let fake = std::sync::Arc::new(crate::support::Fake::default());
    let idempotency = fake.keys.clone();
    Server::new(Parts {
        service: fake,
        idempotency,
        sagas: None,
        approvals: None,
        inbound: None,
        configuration: None,
        plugins: None,
        auth: None,
        encryption: Encryption::None,
        limits: Limits::default(),
        metrics: None,
        version: "1".into(),
    })
    .router()
}

#[tokio::test]
async fn a_host_without_sagas_says_so() {
    let router = bare();
    for path in [S, D, "/v1/sagas/a"] {
        let answer = send(&router, get(path)).await;
        assert_eq!(answer.problem(), (503, "PROVIDER.UNAVAILABLE".into()), "{path}");
    }
    let metrics = send(&router, get("/metrics")).await.text;
    assert!(!metrics.contains("tx_saga_running"));
}
