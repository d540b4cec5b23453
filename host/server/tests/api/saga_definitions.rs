//! `/v1/saga-definitions`.

use serde_json::json;
use waybill_testkit::memory_host::ORDER;

use crate::sagas::NESTED;
use crate::support::{Answer, Api, post, with};

const D: &str = "/v1/saga-definitions";
const S: &str = "/v1/sagas";

async fn define(api: &Api, query: &str, media: &'static str, body: impl Into<axum::body::Body>) -> Answer {
    api.send(with(post(&format!("{D}{query}"), body), "content-type", media)).await
}

#[tokio::test]
async fn a_definition_is_taken_as_json_or_toml() {
    let api = Api::open().await;
    let first = r#"{"name": "order", "version": 1, "steps": [{"name": "wait", "action": "wait:never"}]}"#;
    let answer = define(&api, "", "application/json", first).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "/v1/saga-definitions/order?version=1"));
    let body = answer.json();
    assert_eq!((&body["name"], &body["version"], &body["created"]), (&json!("order"), &json!(1), &json!(true)));
    api.post(S, r#"{"definition":"order","id":"order-1"}"#).await;
    api.host.until_waiting("default", "order-1", "signal:never").await;
    let second = "name = \"order\"\nversion = 2\n[[steps]]\nname = \"pay\"\naction = \"https://pay.example/charges\"\nidempotent = false\n";
    for query in ["?dry_run", "?dry_run=true", "?dry_run=1"] {
        let answer = define(&api, query, "application/toml", second).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["dry_run"]), (200, &json!(true)), "{query}");
    }
    assert_eq!(api.get(&format!("{D}/order")).await.json()["versions"], json!([1]), "nothing was stored");
    let answer = define(&api, "", "application/toml; charset=utf-8", second).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (201, "/v1/saga-definitions/order?version=2"));
    let warned = &answer.json()["warnings"][0];
    assert!(warned["line"].as_u64().is_some() && warned["path"].as_str().unwrap().starts_with("steps[0]"), "{warned}");
    assert_eq!(answer.json()["running"][0]["could_move"], false);
    assert_eq!(define(&api, "", "application/toml", second).await.status, 200, "it was there");
    assert_eq!(define(&api, "?dry_run=maybe", "application/toml", "").await.problem().0, 400);
}

#[tokio::test]
async fn a_bad_definition_is_told_everything_that_is_wrong_with_it() {
    let api = Api::open().await;
    let bad = "name = \"order\"\nversion = 1\n[[steps]]\nname = \"a\"\naction = \"htp://x\"\n\
               [[steps]]\nname = \"b\"\naction = \"fn:orders/charge\"\ninput = { of = \"${ steps.c.output }\" }\n";
    let answer = define(&api, "", "application/toml", bad).await;
    assert_eq!(answer.problem(), (400, "SAGA.DEFINITION".into()));
    let problem = answer.json();
    assert_eq!((&problem["line"], &problem["column"]), (&json!(5), &json!(10)));
    assert_eq!(problem["path"], "steps[0].action");
    let problems = problem["problems"].as_array().unwrap();
    assert!(problems.len() >= 2, "{problems:?}");
    for one in problems {
        for member in ["severity", "line", "column", "path", "what", "fix"] {
            assert!(one.get(member).is_some(), "{member}: {one}");
        }
    }
    let plain = api.get("/v1/sagas/gone").await.json();
    assert!(plain.get("problems").is_none(), "{plain}");
}

#[tokio::test]
async fn toml_and_lines_are_taken_where_they_belong_only() {
    let api = Api::open().await;
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
    assert_eq!(api.get(D).await.json()["items"], json!([]));
}

#[tokio::test]
async fn definitions_are_listed_and_shown() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    api.host.define(&ORDER.replace("version = 1", "version = 2")).await;
    api.host.define(NESTED).await;
    let list = api.get(&format!("{D}?name=order&limit=1")).await.json();
    assert_eq!((&list["items"][0]["name"], &list["items"][0]["created_by"]), (&json!("order"), &json!("ann")));
    assert!(list["items"][0].get("document").is_none(), "{list}");
    let next = api.get(&format!("{D}?name=order&cursor={}", list["next_cursor"].as_str().unwrap())).await.json();
    assert_eq!((next["items"].as_array().unwrap().len(), &next["next_cursor"]), (1, &json!(null)));
    assert_ne!(next["items"][0]["version"], list["items"][0]["version"]);
    let other = api.get(&format!("{D}?cursor={}", list["next_cursor"].as_str().unwrap())).await;
    assert_eq!(other.problem().0, 400, "a cursor belongs to its list");
    let shown = api.get(&format!("{D}/order?version=2")).await.json();
    assert_eq!((&shown["versions"], &shown["document"]["name"]), (&json!([1, 2]), &json!("order")));
    assert_eq!((&shown["version"], &shown["document"]["version"]), (&json!(2), &json!(2)));
    assert_eq!(api.get(&format!("{D}/gone")).await.problem(), (404, "SAGA.NO_DEFINITION".into()));
}
