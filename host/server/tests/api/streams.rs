//! `/v1/streams` and `/v1/events`: what is read, refused and answered. What streams do is the engine's, with its own tests.

use http::{Request, StatusCode};
use serde_json::{Value, json};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::access::StreamRole;
use waybill_server::auth::{Role, TokenRecord};
use waybill_server::limits::Limits;

use crate::support::{Api, delete, get, post, token, with};

const EVENT: &str = r#"{"resource_type":"TASK","resource_id":"t","op":"CREATE","schema_version":1}"#;

fn events(more: &str) -> String {
    format!(r#"{{"events":[{EVENT},{EVENT}]{more}}}"#)
}

fn by<B>(name: &str, request: Request<B>) -> Request<B> {
    let mut request = request;
    request.headers_mut().insert("authorization", format!("Bearer {name}").parse().unwrap());
    request
}

/// A credential with a right to streams and no role beside it.
fn of_streams(name: &str, tenants: &[&str], roles: &[&str]) -> TokenRecord {
    let streams = roles.iter().map(|role| StreamRole::parse(role).unwrap().unwrap()).collect();
    TokenRecord { streams, ..token(name, tenants, &[]) }
}

#[tokio::test]
async fn events_are_appended_and_get_their_numbers_at_once_or_later() {
    let api = Api::open().await;
    let answer = api.post("/v1/streams/task/events", events("")).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.json(), json!({"ids": ["made-0", "made-1"], "seqs": ["6", "7"], "duplicates": []}));
    let answer = api.post("/v1/streams/slow/events", events(r#","tenant":"acme""#)).await;
    assert_eq!((answer.status, answer.json()), (StatusCode::ACCEPTED, json!({"ids": ["made-0", "made-1"]})));
    let answer = api.post("/v1/streams/a%2Fb/events", events(r#","expected_seq":5"#)).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(
        api.streams().calls(),
        ["append default/task 2 None", "append acme/slow 2 None", "append default/a/b 2 Some(5)"]
    );
}

#[tokio::test]
async fn an_append_at_another_end_is_refused_with_the_end() {
    let api = Api::open().await;
    let answer = api.post("/v1/streams/task/events", events(r#","expected_seq":4"#)).await;
    assert_eq!(answer.problem(), (409, "STREAM.EXPECTED_SEQ".into()));
    assert_eq!((&answer.json()["last_seq"], &answer.json()["first_seq"]), (&json!("5"), &json!(null)));
}

#[tokio::test]
async fn unusable_appends_reach_nothing() {
    let api = Api::open().await;
    for (path, body, code) in [
        ("/v1/streams/a%20b/events", events(""), "SCHEMA.VALIDATION_FAILED"),
        ("/v1/streams/..%2Fa/events", events(""), "SCHEMA.VALIDATION_FAILED"),
        ("/v1/streams/task/events", r#"{"events":[]}"#.to_owned(), "SCHEMA.VALIDATION_FAILED"),
        ("/v1/streams/task/events", EVENT.to_owned(), "SCHEMA.VALIDATION_FAILED"),
        ("/v1/streams/task/events", events(r#","tenant":"""#), "SCHEMA.VALIDATION_FAILED"),
        ("/v1/streams/task/events", "][".to_owned(), "SCHEMA.JSON"),
    ] {
        assert_eq!(api.post(path, body).await.problem(), (400, code.into()), "{path}");
    }
    let two = format!(
        r#"{{"events":[{EVENT},{}]}}"#,
        EVENT.replace("\"op\"", "\"payload\":{\"type_url\":\"t\"},\"payload_bytes\":\"\",\"op\"")
    );
    let answer = api.post("/v1/streams/task/events", two).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(1)));
    assert!(api.streams().calls().is_empty());
}

#[tokio::test]
async fn a_stream_is_read_page_by_page() {
    let api = Api::open().await;
    let page = api.get("/v1/streams/task/events?limit=2").await.json();
    let seqs = |page: &serde_json::Value| {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| SeqJson::in_value(&event["seq"]).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!((seqs(&page), &page["next_after"], &page["end"]), (vec![3, 4], &json!("4~5"), &json!(false)));
    assert_eq!((&page["first_seq"], &page["last_seq"]), (&json!("3"), &json!("5")));
    let first = &page["items"][0];
    assert_eq!((&first["op"], &first["payload_bytes"]), (&json!("CREATE"), &json!("ewp9")));
    assert_eq!(first.get("resume_token"), None, "a page has a cursor of its own");
    let page = api.get("/v1/streams/task/events?after=4~5&tenant=acme").await.json();
    assert_eq!((seqs(&page), &page["end"], &page["items"][0]["tenant"]), (vec![5], &json!(true), &json!("acme")));
    assert_eq!(api.streams().calls(), ["read_stream default/task None 2", r#"read_stream acme/task Some("4~5") 100"#]);
}

#[tokio::test]
async fn a_position_outside_of_what_is_kept_is_refused_with_the_range() {
    let api = Api::open().await;
    let answer = api.get("/v1/streams/task/events?after=0").await;
    assert_eq!(answer.problem(), (410, "EVENT.CURSOR_EXPIRED".into()));
    assert_eq!((&answer.json()["first_seq"], &answer.json()["last_seq"]), (&json!("3"), &json!("5")));
    let answer = api.get("/v1/streams/task/events?after=6").await;
    assert_eq!((answer.problem(), &answer.json()["last_seq"]), ((409, "EVENT.CURSOR_AHEAD".into()), &json!("5")));
    let answer = api.get("/v1/streams/gone/events").await;
    assert_eq!(answer.problem(), (404, "STREAM.NOT_FOUND".into()));
    assert!(answer.json()["detail"].as_str().unwrap().contains("?tenant="), "{}", answer.text);
    for wrong in ["limit=0", "limit=1001", "after=-1", "after=x", "before=1"] {
        assert_eq!(api.get(&format!("/v1/streams/task/events?{wrong}")).await.problem().0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn events_of_many_streams_are_read_by_prefix_or_resource() {
    let api = Api::open().await;
    let page = api.get("/v1/events?prefix=t").await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let cursor = page["next_cursor"].as_str().unwrap();
    let last = api.get(&format!("/v1/events?prefix=t&limit=7&cursor={cursor}")).await.json();
    assert_eq!(last["next_cursor"], json!(null));
    let foreign = api.get(&format!("/v1/events?prefix=u&cursor={cursor}")).await;
    assert_eq!(foreign.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()));
    let all = api.get("/v1/events?resource_type=TASK&resource_id=t-1").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(api.get("/v1/events?resource_type=TASK").await.status, StatusCode::OK);
    let calls = api.streams().calls();
    assert_eq!(calls[0], r#"read_many default Prefix("t") None 100"#);
    assert_eq!(calls[1], r#"read_many default Prefix("t") Some("next") 7"#);
    // Exactly it: t-17 begins with t-1 and isn't it.
    assert!(calls[2].contains(r#"OneResource { resource_type: "TASK", resource_id: "t-1" }"#), "{calls:?}");
    assert!(calls[3].contains(r#"Resource { resource_type: "TASK", id_prefix: "" }"#), "{calls:?}");
    let wrong = ["", "?prefix=a&resource_type=b", "?resource_id=b", "?resource_type=", "?resource_type=b&resource_id="];
    for wrong in wrong {
        assert_eq!(api.get(&format!("/v1/events{wrong}")).await.problem().0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn streams_are_listed_and_shown() {
    let api = Api::open().await;
    let page = api.get("/v1/streams?prefix=ta&limit=2").await.json();
    assert_eq!((&page["items"][0]["name"], &page["items"][0]["readers"]), (&json!("task"), &json!(1)));
    let cursor = page["next_cursor"].as_str().unwrap();
    api.get(&format!("/v1/streams?prefix=ta&cursor={cursor}")).await.json();
    let shown = api.get("/v1/streams/task").await.json();
    assert_eq!((&shown["first_seq"], &shown["shard"], &shown["settings"]), (&json!("3"), &json!(3), &json!("task.**")));
    assert_eq!(shown["relays"], json!([{"relay": "bus", "upto": "4"}]));
    assert_eq!(api.get("/v1/streams/gone").await.problem(), (404, "STREAM.NOT_FOUND".into()));
    assert_eq!(
        api.streams().calls()[..2],
        [r#"streams default "ta" None 2"#.to_owned(), r#"streams default "ta" Some("task") 100"#.to_owned(),]
    );
}

#[tokio::test]
async fn how_streams_do_is_counted_of_a_credentials_tenants_and_told_of_the_host_to_who_sees_all() {
    let tokens = vec![
        token("all", &["*"], &[Role::Viewer]),
        token("acme", &["acme"], &[Role::Viewer]),
        token("several", &["acme", "other"], &[Role::Viewer]),
        of_streams("reader", &["acme"], &["read:task"]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let all = api.send(by("all", get("/v1/events/stats"))).await.json();
    let counted = |stats: &Value| ["tenants", "streams", "more", "events", "bytes"].map(|name| stats[name].clone());
    assert_eq!(counted(&all), [json!(["default"]), json!(4), json!(false), json!(12), json!(3_600)]);
    let of_host = ["readers", "door_rows", "door_age_ms"].map(|name| all["host"][name].clone());
    assert_eq!(of_host, [json!(7), json!(3), json!(5_000)]);
    let calls = api.streams().calls();
    assert_eq!(calls[0], r#"streams default "" None 1000"#);
    assert_eq!(calls[1], r#"streams default "" Some("task") 1000"#, "the count goes on behind a page");
    let acme = api.send(by("acme", get("/v1/events/stats"))).await.json();
    assert_eq!((&acme["tenants"], &acme["host"]), (&json!(["acme"]), &json!(null)));
    let several = api.send(by("several", get("/v1/events/stats"))).await.json();
    assert_eq!(counted(&several), [json!(["acme", "other"]), json!(8), json!(false), json!(24), json!(7_200)]);
    assert_eq!(several["host"], json!(null));
    let one = api.send(by("several", get("/v1/events/stats?tenant=other"))).await.json();
    assert_eq!((&one["tenants"], &one["streams"]), (&json!(["other"]), &json!(4)));
    let other = api.send(by("acme", get("/v1/events/stats?tenant=other"))).await;
    assert_eq!(other.problem(), (403, "AUTH.TENANT".into()));
    assert_eq!(api.send(by("reader", get("/v1/events/stats"))).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_operator_sees_what_would_go_before_it_goes() {
    let api = Api::open().await;
    let plan = api.post("/v1/streams/task/purge", r#"{"before":5,"dry_run":true,"reason":"old"}"#).await.json();
    assert_eq!((&plan["dry_run"], &plan["events"], &plan["first_seq"]), (&json!(true), &json!(2), &json!("5")));
    assert_eq!(api.post("/v1/streams/task/purge", "").await.json()["dry_run"], json!(false));
    let gone = api.send(delete("/v1/streams/task?tenant=acme&reason=over")).await.json();
    assert_eq!((&gone["first_seq"], &gone["last_seq"]), (&json!("6"), &json!("5")));
    assert_eq!(api.send(delete("/v1/streams/task?dry_run=true")).await.json()["dry_run"], json!(true));
    assert_eq!(api.send(delete("/v1/streams/gone")).await.problem(), (404, "STREAM.NOT_FOUND".into()));
    assert_eq!(
        api.streams().calls(),
        [
            "purge default/task Some(5) plan true [old] local",
            "purge default/task None plan false [] local",
            "delete acme/task plan false [over] local",
            "delete default/task plan true [] local",
            "delete default/gone plan false [] local",
        ]
    );
    let long = format!("/v1/streams/task?reason={}", "x".repeat(2_001));
    assert_eq!(api.send(delete(&long)).await.problem().0, 400);
}

#[tokio::test]
async fn a_stream_is_imported_with_its_numbers() {
    let api = Api::open().await;
    let event = |seq: u64, stream: &str| {
        json!({"event_id": format!("e-{seq}"), "ts_ms": 1_700_000_000_123_u64, "stream": stream, "seq": seq,
            "resource_type": "TASK", "resource_id": "t", "op": "CREATE", "schema_version": 1})
    };
    let body = json!({"events": [event(1, "task"), event(2, "task")]}).to_string();
    let done = api.post("/v1/streams/task/import?tenant=acme", body).await.json();
    assert_eq!((&done["events"], &done["last_seq"], done.get("note")), (&json!(2), &json!("2"), None));
    let holes = json!({"events": [event(1, "task"), event(4, "task")]}).to_string();
    let done = api.post("/v1/streams/task/import", holes).await.json();
    assert!(done["note"].as_str().unwrap().contains("begin anew"), "{done}");
    let elsewhere = json!({"events": [event(1, "task"), event(1, "b")]}).to_string();
    let refused = api.post("/v1/streams/task/import", elsewhere).await;
    assert_eq!((refused.problem().0, &refused.json()["index"]), (400, &json!(1)));
    assert_eq!(api.post("/v1/streams/task/import", r#"{"events":[]}"#).await.problem().0, 400);
    assert_eq!(api.streams().calls(), ["import acme/task [1, 2] [] local", "import default/task [1, 4] [] local"]);
}

#[tokio::test]
async fn roles_that_name_streams_reach_these_alone() {
    let tokens = vec![
        of_streams("reader", &["acme"], &["read:task"]),
        of_streams("writer", &["acme"], &["append:task"]),
        token("viewer", &["acme"], &[Role::Viewer]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let list = api.send(by("reader", get("/v1/streams"))).await.json();
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["name"]), (1, &json!("task")));
    let scan = api.send(by("reader", get("/v1/events?prefix="))).await.json();
    assert_eq!((scan["items"].as_array().unwrap().len(), &scan["items"][0]["stream"]), (1, &json!("task")));
    assert_eq!(api.send(by("viewer", get("/v1/streams"))).await.json()["items"].as_array().unwrap().len(), 2);
    api.streams().calls();
    for request in [
        by("reader", get("/v1/streams/hidden")),
        by("reader", get("/v1/streams/hidden/events")),
        by("writer", post("/v1/streams/hidden/events", events(""))),
    ] {
        assert_eq!(api.send(request).await.problem(), (403, "AUTH.STREAM".into()));
    }
    for request in [
        by("writer", get("/v1/streams/task")),
        by("reader", post("/v1/streams/task/events", events(""))),
        by("reader", post("/v1/streams/task/purge", "")),
        by("writer", delete("/v1/streams/task")),
        by("reader", get("/v1/messages")),
    ] {
        assert_eq!(api.send(request).await.problem(), (403, "AUTH.ROLE".into()));
    }
    assert!(api.streams().calls().is_empty());
    assert_eq!(api.send(by("writer", post("/v1/streams/task/events", events("")))).await.status, 201);
    assert_eq!(api.streams().calls(), ["append acme/task 2 None"]);
}

#[tokio::test]
async fn the_history_of_a_saga_is_read_by_its_name_and_found_by_no_prefix() {
    let tokens = vec![
        of_streams("some", &["acme"], &["read:task.**"]),
        of_streams("sagas", &["acme"], &["read:saga.**"]),
        token("viewer", &["acme"], &[Role::Viewer]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for path in ["/v1/events?prefix=saga.", "/v1/streams?prefix=saga.one", "/v1/subscribe?selector=prefix:saga."] {
        let refused = api.send(by("viewer", get(path))).await;
        assert_eq!(refused.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{path}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("stream:saga.ID"), "{path}");
    }
    let path = "/v1/streams/saga.order%25207/events";
    assert_eq!(api.send(by("some", get(path))).await.problem(), (403, "AUTH.STREAM".into()));
    let elsewhere = format!("{path}?tenant=b");
    assert_eq!(api.send(by("viewer", get(&elsewhere))).await.problem(), (404, "STREAM.NOT_FOUND".into()));
    assert!(api.streams().calls().is_empty());
    for who in ["sagas", "viewer"] {
        assert_eq!(api.send(by(who, get(path))).await.status, StatusCode::OK, "{who}");
        assert_eq!(api.streams().calls(), ["read_stream acme/saga.order%207 None 100"], "{who}");
    }
}

#[tokio::test]
async fn a_stream_of_another_tenant_does_not_exist() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default()).await;
    for path in ["/v1/streams/task?tenant=b", "/v1/streams/task/events?tenant=b"] {
        assert_eq!(api.send(by("acme", get(path))).await.problem(), (404, "STREAM.NOT_FOUND".into()), "{path}");
    }
    for request in [
        get("/v1/streams?tenant=b"),
        get("/v1/events?prefix=&tenant=b"),
        get("/v1/subscribe?selector=prefix:&tenant=b"),
    ] {
        assert_eq!(api.send(by("acme", request)).await.problem(), (403, "AUTH.TENANT".into()));
    }
    let append = with(post("/v1/streams/task/events", events(r#","tenant":"b""#)), "authorization", "Bearer acme");
    assert_eq!(api.send(append).await.problem(), (403, "AUTH.TENANT".into()));
    assert!(api.streams().calls().is_empty());
}
