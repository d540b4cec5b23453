//! `/v1/relays`.

use serde_json::json;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, get, token, with};

#[tokio::test]
async fn relays_are_listed_shown_paused_and_resumed() {
    let api = Api::open().await;
    let list = api.get("/v1/relays").await.json();
    let first = &list["items"][0];
    assert_eq!(
        (&first["name"], &first["lag_events"], &first["lag_ms"]),
        (&json!("bus"), &json!(1_234), &json!(90_000))
    );
    assert_eq!((&first["state"], &first["reason"]), (&json!("running"), &json!("10.0.0.7 asks for a pause")));
    let shown = api.get("/v1/relays/bus").await.json();
    assert_eq!((&shown["name"], &shown["behind"][0]["upto"]), (&json!("bus"), &json!("4")));
    assert_eq!(shown["behind"].as_array().unwrap().len(), 2);
    assert_eq!(api.post("/v1/relays/bus/pause", r#"{"reason":"broker moves"}"#).await.json()["state"], "paused");
    assert_eq!(api.post("/v1/relays/bus/resume", "").await.json()["state"], "running");
    for path in ["/v1/relays/gone", "/v1/relays/a%20b"] {
        assert_eq!(api.get(path).await.problem(), (404, "RELAY.NOT_FOUND".into()), "{path}");
    }
    assert_eq!(api.streams().calls(), ["pause_relay bus [broker moves] local", "resume_relay bus [] local"]);
}

#[tokio::test]
async fn a_relay_is_sent_elsewhere_in_a_stream() {
    let api = Api::open().await;
    let path = "/v1/relays/bus/seek";
    let seek = api.post(path, r#"{"stream":"task","after":2,"reason":"again"}"#).await.json();
    assert_eq!((&seek["upto"], &seek["generation"]), (&json!("2"), &json!(2)));
    api.post(path, r#"{"stream":"task","tenant":"acme","to":"latest"}"#).await.json();
    api.post(path, r#"{"stream":"task","to":"earliest"}"#).await.json();
    let below = api.post(path, r#"{"stream":"task","after":1}"#).await;
    assert_eq!((below.problem(), &below.json()["first_seq"]), ((409, "RELAY.SEEK".into()), &json!("3")));
    assert_eq!(
        api.streams().calls(),
        [
            "seek_relay bus default/task After(2) [again] local",
            "seek_relay bus acme/task Latest [] local",
            "seek_relay bus default/task Earliest [] local",
            "seek_relay bus default/task After(1) [] local",
        ]
    );
    for wrong in [
        r#"{"stream":"task"}"#,
        r#"{"stream":"task","after":1,"to":"latest"}"#,
        r#"{"stream":"a b","after":1}"#,
        r#"{"stream":"task","to":"middle"}"#,
        r#"{"after":1}"#,
    ] {
        assert_eq!(api.post(path, wrong).await.problem().0, 400, "{wrong}");
    }
    assert!(api.streams().calls().is_empty());
}

#[tokio::test]
async fn who_sees_some_tenants_sees_their_streams_and_lag_and_nothing_of_others() {
    let tokens = vec![token("acme", &["acme"], &[Role::Admin]), token("other", &["other"], &[Role::Viewer])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let other = api.send(with(get("/v1/relays"), "authorization", "Bearer other")).await.json()["items"][0].clone();
    assert_eq!(
        (&other["lag_events"], &other["streams_behind"], &other["lag_ms"]),
        (&json!(0), &json!(0), &json!(null))
    );
    let as_acme = |path| with(get(path), "authorization", "Bearer acme");
    let first = api.send(as_acme("/v1/relays")).await.json()["items"][0].clone();
    assert_eq!(
        (&first["lag_events"], &first["streams_behind"], &first["lag_ms"]),
        (&json!(3), &json!(1), &json!(90_000))
    );
    for hidden in ["reason", "in_flight", "delivered", "refused", "overtaken"] {
        assert_eq!(first[hidden], json!(null), "{hidden}");
    }
    let shown = api.send(as_acme("/v1/relays/bus")).await.json();
    assert_eq!((&shown["reason"], shown["behind"].as_array().unwrap().len()), (&json!(null), 1));
    assert_eq!(shown["behind"][0]["tenant"], "acme");
}

#[tokio::test]
async fn what_a_relay_never_had_is_listed_to_whoever_may_see_its_streams() {
    let of = |name: &str, tenants: &[&str]| token(name, tenants, &[Role::Viewer]);
    let tokens = vec![of("acme", &["acme"]), of("both", &["acme", "other"]), of("all", &["*"])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let list = async |name: &str, path: &'static str| {
        api.send(with(get(path), "authorization", &format!("Bearer {name}"))).await
    };
    let all = list("all", "/v1/relays/bus/overtaken?limit=7").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    let range = &all["items"][0];
    assert_eq!((&range["stream"], &range["from"], &range["to"]), (&json!("task"), &json!("1"), &json!("3")));
    assert_eq!(api.streams().calls(), ["overtaken bus of all None 7"]);
    let acme = list("acme", "/v1/relays/bus/overtaken").await.json();
    assert_eq!((acme["items"].as_array().unwrap().len(), &acme["items"][0]["tenant"]), (1, &json!("acme")));
    // Others aren't even read: a cursor would name them.
    assert_eq!(api.streams().calls(), ["overtaken bus of acme None 100"]);
    assert_eq!(list("both", "/v1/relays/bus/overtaken").await.problem().0, 400);
    assert_eq!(list("both", "/v1/relays/bus/overtaken?tenant=secret").await.problem(), (403, "AUTH.TENANT".into()));
    assert_eq!(list("both", "/v1/relays/bus/overtaken?tenant=other").await.json()["items"], json!([]));
    assert_eq!(api.streams().calls(), ["overtaken bus of other None 100"]);
    let foreign = list("all", "/v1/relays/bus/overtaken?cursor=abc").await;
    assert_eq!(foreign.problem().0, 400);
}
