//! `/v1/plugins`.

use http::Request;
use serde_json::json;
use waybill_api::plugin_outcomes::{CallTimes, GenerationOutcomes};
use waybill_core::code::Code;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, get, post, token, with};

#[tokio::test]
async fn the_list_shows_generations_and_files_that_cant_be_used() {
    let api = Api::open().await;
    api.host.plugins.refuse_file("junk.wasm", Code::PLUGIN_CORE_MODULE, "it is a core module");
    api.host.plugins.build("http", &"cd".repeat(32));
    api.post("/v1/plugins/http/reload", "{}").await;
    api.post("/v1/plugins/http/rollback", r#"{"reason":"it trapped"}"#).await;
    let body = api.get("/v1/plugins").await.json();
    let (bus, http) = (&body["items"][0], &body["items"][1]);
    assert_eq!(
        (&bus["transport"], &bus["live"]["generation"], &bus["previous"]),
        (&json!("bus"), &json!(1), &json!(null))
    );
    assert_eq!((&http["transport"], &http["live"]["generation"]), (&json!("http"), &json!(3)));
    assert_eq!(
        (&http["rolled_back"]["generation"], &http["rolled_back"]["reason"]),
        (&json!(2), &json!("by local: it trapped"))
    );
    assert_eq!((&http["previous"]["phase"], &http["history"][1]["generation"]), (&json!("gone"), &json!(2)));
    assert_eq!((&http["bad"][0]["code"], &http["fallback"]), (&json!("PLUGIN.ROLLED_BACK"), &json!(null)));
    assert_eq!(http["bad"][0]["digest"], format!("sha256:{}", "cd".repeat(32)));
    assert_eq!(body["refused_files"][0]["file"], "junk.wasm");
}

#[tokio::test]
async fn one_plugin_is_shown_with_what_each_generation_did() {
    let tokens = vec![token("all", &["*"], &[Role::Viewer]), token("acme", &["acme"], &[Role::Viewer])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let ask =
        |who: &str, name: &str| with(get(&format!("/v1/plugins/{name}")), "authorization", &format!("Bearer {who}"));
    let took = Some(CallTimes { mean_us: 900, p50_us: 800, p95_us: 2_000, p99_us: 9_000 });
    api.host.plugins.did("http", GenerationOutcomes { generation: 1, delivered: 90, took, ..Default::default() });
    api.host.plugins.did("http", GenerationOutcomes { generation: 2, refused: 7, ..Default::default() });
    let shown = api.send(ask("all", "http")).await.json();
    assert_eq!((&shown["plugin"]["transport"], &shown["outcomes"][0]["generation"]), (&json!("http"), &json!(2)));
    assert_eq!((&shown["outcomes"][0]["refused"], &shown["outcomes"][0]["took"]), (&json!(7), &json!(null)));
    assert_eq!(shown["outcomes"][1]["took"]["p99_us"], 9_000);
    let some = api.send(ask("acme", "http")).await.json();
    assert_eq!((&some["plugin"]["transport"], &some["outcomes"]), (&json!("http"), &json!([])), "others' counts");
    let gone = api.send(ask("all", "gone")).await;
    assert_eq!(gone.problem(), (404, "TRANSPORT.NOT_FOUND".to_owned()));
}

#[tokio::test]
async fn a_reload_needs_no_body_and_a_rollback_takes_a_reason() {
    let api = Api::open().await;
    let digest = "cd".repeat(32);
    api.host.plugins.build("http", &digest);
    let pinned = json!({ "sha256": digest, "force": true }).to_string();
    for (act, body, changed, generation) in [
        ("reload", String::new(), true, 2),
        ("reload", "{}".to_owned(), false, 2),
        ("rollback", r#"{"reason":"loses headers"}"#.to_owned(), true, 3),
        ("reload", pinned, true, 4),
    ] {
        let answer = api.post(&format!("/v1/plugins/http/{act}"), body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["changed"]), (200, &json!(changed)), "{}", answer.text);
        assert_eq!(answer.json()["plugin"]["live"]["generation"], generation, "{act}");
    }
    let list = api.get("/v1/plugins").await.json();
    assert_eq!(list["items"][1]["bad"][0]["reason"], "by local: loses headers");
    // Another one than was pinned isn't taken.
    let other = api.post("/v1/plugins/http/reload", json!({ "sha256": "ab".repeat(32) }).to_string()).await;
    assert_eq!(other.problem(), (422, "PLUGIN.DIGEST_MISMATCH".to_owned()));
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_a_defect_its_details_to_the_log() {
    let api = Api::open().await;
    api.host.plugins.build("http", &"cd".repeat(32));
    for act in ["reload", "rollback"] {
        assert_eq!(api.post(&format!("/v1/plugins/http/{act}"), "{}").await.status, 200);
    }
    api.host.plugins.refuse("bus", Code::PLUGIN_ENGINE, "secret: the engine at 0x1234 is gone");
    for (path, status, code) in [
        ("/v1/plugins/gone/reload", 404, "TRANSPORT.NOT_FOUND"),
        ("/v1/plugins/http/reload", 409, "PLUGIN.REMEMBERED_BAD"),
        ("/v1/plugins/bus/rollback", 500, "UNKNOWN.INTERNAL"),
    ] {
        let answer = api.post(path, "{}").await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{path}");
        assert!(!answer.text.contains("0x1234"), "{}", answer.text);
    }
    let wrong = api.post("/v1/plugins/http/reload", r#"{"sha256":"abc"}"#).await;
    assert_eq!((wrong.problem().0, &wrong.json()["path"]), (400, &json!("sha256")));
    assert_eq!(api.post("/v1/plugins/http/reload", r#"{"forced":true}"#).await.problem().0, 400);
}

#[tokio::test]
async fn a_component_is_handed_over_as_bytes_with_its_signature() {
    let api = Api::open().await;
    let put = |kind: &str, body: &'static str| {
        let request = Request::put("/v1/plugins/http/component?force=true").header("host", "localhost:7070");
        request.header("content-type", kind).body(body.into()).unwrap()
    };
    let answer = api.send(with(put("application/wasm", "\0asm"), "waybill-signature", "ed25519 a b")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    // sha-256 of those four bytes.
    let digest = "sha256:cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f";
    let live = answer.json()["plugin"]["live"].clone();
    assert_eq!((&live["generation"], &live["digest"]), (&json!(2), &json!(digest)));
    assert_eq!(live["signature"], "signed: ed25519 a b");
    assert_eq!(api.send(put("application/json", "{}")).await.problem(), (415, "HTTP.MEDIA_TYPE".to_owned()));
    let huge = with(put("application/wasm", ""), "content-length", "99999999999");
    assert_eq!(api.send(huge).await.problem(), (413, "HTTP.TOO_LARGE".to_owned()));
    let text = api.send(put("application/wasm", "hello")).await;
    assert_eq!(text.problem(), (422, "PLUGIN.NOT_A_COMPONENT".to_owned()));
    assert_eq!(api.get("/v1/plugins").await.json()["items"][1]["live"]["generation"], 2);
}

#[tokio::test]
async fn only_an_admin_changes_plugins() {
    let tokens = vec![token("viewer", &["*"], &[Role::Viewer]), token("admin", &["*"], &[Role::Admin])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let ask = |who: &str| with(post("/v1/plugins/http/reload", "{}"), "authorization", &format!("Bearer {who}"));
    assert_eq!(api.send(ask("viewer")).await.problem(), (403, "AUTH.ROLE".to_owned()));
    assert_eq!(api.send(ask("admin")).await.status, 200);
}

#[tokio::test]
async fn a_log_is_read_in_pieces_by_who_may_manage() {
    let tokens = vec![
        token("viewer", &["*"], &[Role::Viewer]),
        token("acme", &["acme"], &[Role::Admin]),
        token("admin", &["*"], &[Role::Admin]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for (message, fields) in [("connected", &[("peer", "10.0.0.7:1883")] as &[_]), ("lost the peer", &[])] {
        api.host.plugins.writes("http", "info", message, fields);
    }
    let ask =
        |who: &str, query: &str| with(get(&format!("/v1/plugins/{query}")), "authorization", &format!("Bearer {who}"));
    for who in ["viewer", "acme"] {
        assert_eq!(api.send(ask(who, "http/log")).await.problem(), (403, "AUTH.ROLE".to_owned()), "{who}");
    }
    let first = api.send(ask("admin", "http/log?limit=1")).await.json();
    assert_eq!(
        (&first["items"][0]["message"], &first["items"][0]["fields"]["peer"]),
        (&json!("connected"), &json!("10.0.0.7:1883"))
    );
    let next = first["next"].as_u64().unwrap();
    let second = api.send(ask("admin", &format!("http/log?after={next}"))).await.json();
    assert_eq!(
        (&second["items"][0]["message"], second["items"].as_array().unwrap().len()),
        (&json!("lost the peer"), 1)
    );
    for (query, status) in [("gone/log", 404), ("http/log?limit=0", 400), ("http/log?wait_ms=20001", 400)] {
        assert_eq!(api.send(ask("admin", query)).await.problem().0, status, "{query}");
    }
}
