//! The last hour, and what changed: both in memory.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use waybill_core::new_message::NewMessage;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::{eventually, message};

use crate::support::{Api, NOW_TEXT, get, post, token, with};

/// Lets a step pass, and the host look at its end.
async fn step(api: &Api) {
    api.host.pass(Duration::from_secs(10));
    tokio::time::sleep(Duration::from_secs(11)).await;
}

/// The points of a series: of all, or of a transport.
async fn points(api: &Api, name: &str, of: Option<&str>) -> Value {
    let history = api.get(&format!("/v1/history?name={name}")).await.json();
    let series = history["series"].as_array().unwrap();
    assert!(series.iter().all(|series| series["name"] == name), "{history}");
    let found = series.iter().find(|series| series["of"] == json!(of));
    found.map(|series| series["points"].clone()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_hour_is_told_in_points_of_ten_seconds() {
    let api = Api::open().await;
    api.post("/v1/transports/bus/pause", "").await;
    step(&api).await;
    api.host.delivered(message("m-1")).await;
    api.host.dead(message("d-1")).await;
    for id in ["a", "b", "c"] {
        api.host.send(NewMessage { topic: "bus:a".to_owned(), ..message(id) }).await;
    }
    step(&api).await;
    assert_eq!(points(&api, "enqueued", None).await, json!([null, 0, 5]));
    assert_eq!(points(&api, "enqueued", Some("bus")).await, json!([null, null, 3]));
    for name in ["delivered", "dead"] {
        assert_eq!(points(&api, name, None).await, json!([null, 0, 1]), "{name}");
        assert_eq!(points(&api, name, Some("http")).await, json!([null, null, 1]), "{name}");
    }
    let waiting = points(&api, "waiting", Some("bus")).await;
    assert_eq!((&waiting[1], &waiting[2]), (&json!(0), &json!(3)));
    assert_eq!(points(&api, "blocked", None).await[2], 3, "an operator holds them");
    // A host that slept.
    api.host.pass(Duration::from_secs(30));
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(
        points(&api, "waiting", Some("bus")).await.as_array().unwrap()[2..],
        [json!(3), json!(null), json!(null), json!(3)]
    );
    assert_eq!(
        points(&api, "enqueued", None).await.as_array().unwrap()[2..],
        [json!(5), json!(null), json!(null), json!(null)]
    );
    let history = api.get("/v1/history").await.json();
    assert_eq!((&history["since"], &history["from"]), (&json!(NOW_TEXT), &json!(NOW_TEXT)));
    assert_eq!((&history["step_ms"], &history["left_out"]), (&json!(10_000), &json!(0)));
    let of_all = history["series"].as_array().unwrap().iter().find(|series| series["name"] == "sagas_stuck").unwrap();
    assert_eq!((&of_all["kind"], &of_all["by"], &of_all["of"]), (&json!("level"), &Value::Null, &Value::Null));
    let problem = api.get("/v1/history?name=deliverd").await;
    assert_eq!(problem.problem().0, 400);
    assert!(problem.text.contains("delivered"), "{}", problem.text);
}

fn by(request: Request<axum::body::Body>, token: &str) -> Request<axum::body::Body> {
    with(request, "authorization", &format!("Bearer {token}"))
}

/// Kind, object, actor and reason of each change.
fn summaries(changes: &Value) -> Vec<Value> {
    let items = changes["items"].as_array().unwrap().iter();
    items.map(|item| json!([item["kind"], item["object"], item["actor"], item["detail"]])).collect()
}

#[tokio::test]
async fn changes_are_told_newest_first_and_a_tenant_sees_its_own_and_what_is_everybodys() {
    let tokens = vec![
        token("root", &["*"], &[Role::Admin]),
        token("acme", &["acme"], &[Role::Operator]),
        token("other", &["other"], &[Role::Viewer]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let changes = async |token: &str, query: &str| {
        let answer = api.send(by(get(&format!("/v1/changes{query}")), token)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    assert_eq!(changes("root", "").await, json!({ "since": NOW_TEXT, "items": [] }));
    api.send(by(post("/v1/transports/bus/pause", r#"{"reason":"it is moved"}"#), "root")).await;
    let replay = r#"{"kind":"replay","filter":"code=NONE","reason":"once more"}"#;
    let begun = api.send(by(post("/v1/operations", replay), "acme")).await.json();
    let id = &begun["id"];
    eventually("the operation has ended", async || changes("root", "").await["items"].as_array().unwrap().len() == 3)
        .await;
    let paused = json!(["transport_paused", "bus", "root", "it is moved"]);
    let started = json!(["operation_begun", id, "acme", "replay code=NONE state=dead: 0 matched"]);
    let ended = json!(["operation_ended", id, "host", "replay: done, 0 done, 0 failed"]);
    assert_eq!(summaries(&changes("root", "").await), [ended.clone(), started.clone(), paused.clone()]);
    let everybodys = json!(["transport_paused", "bus", null, null]);
    assert_eq!(summaries(&changes("acme", "").await), [ended.clone(), started, everybodys.clone()]);
    assert_eq!(summaries(&changes("other", "").await), [everybodys]);
    assert_eq!(summaries(&changes("root", "?limit=1").await), [ended]);
    assert_eq!(summaries(&changes("root", "?since=2099-01-01").await), Vec::<Value>::new());
    assert_eq!(summaries(&changes("root", "?since=2096-10-02").await).len(), 3);
    let all = changes("root", "").await;
    let first = &all["items"][2];
    assert_eq!((&first["at"], &first["last_at"], &first["times"]), (&json!(NOW_TEXT), &json!(NOW_TEXT), &json!(1)));
    for query in ["since=yesterday", "limit=0", "limit=1001", "until=2099-01-01"] {
        assert_eq!(api.send(by(get(&format!("/v1/changes?{query}")), "root")).await.status, 400, "{query}");
    }
    assert_eq!(api.send(by(get("/v1/history"), "acme")).await.status, 403, "it counts messages of all tenants");
}
