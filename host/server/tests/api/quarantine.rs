//! `/v1/quarantine`.

use serde_json::json;
use waybill_core::port::service::MessageState;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::support::{Api, get, of, token, with};

#[tokio::test]
async fn rows_in_quarantine_are_listed_in_pages_and_by_table() {
    let api = Api::open().await;
    let first = api.host.readable_row([of("acme", message("a"))]).await;
    let second = api.host.unreadable_row().await;
    api.host.waiting_saga("acme", "order-1").await;
    let saga = api.host.set_aside_saga("acme", "order-1").await;
    let page = api.get("/v1/quarantine?table=outbox&limit=1").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(
        page.json()["items"],
        json!([{
            "id": first, "table": "outbox", "key": [0, 1], "tenant": "acme",
            "reason": "the checksum of its data is wrong", "since": null,
        }])
    );
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let next = api.get(&format!("/v1/quarantine?table=outbox&limit=1&cursor={cursor}")).await;
    assert_eq!((&next.json()["items"][0]["id"], &next.json()["next_cursor"]), (&json!(second), &json!(null)));
    let sagas = api.get("/v1/quarantine?table=saga").await.json();
    assert_eq!((&sagas["items"][0]["id"], sagas["items"].as_array().unwrap().len()), (&json!(saga), 1));
    // A cursor of another table's list.
    assert_eq!(api.get(&format!("/v1/quarantine?table=saga&cursor={cursor}")).await.status, 400);
    assert_eq!(api.get("/v1/quarantine?limit=0").await.status, 400);
}

#[tokio::test]
async fn one_is_shown_put_back_and_dropped() {
    let api = Api::open().await;
    let bad = api.host.unreadable_row().await;
    let good = api.host.readable_row([message("a"), message("b")]).await;
    let shown = api.get(&format!("/v1/quarantine/{bad}")).await;
    assert_eq!(shown.json()["columns"], json!({ "data": "V0JQc3BvaWx0" }));
    assert_eq!(shown.json()["unreadable"], "the checksum is wrong");
    let refused = api.post(&format!("/v1/quarantine/{bad}/restore"), "{}").await;
    assert_eq!(refused.problem(), (409, "OUTBOX.STATE".into()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("still unreadable"));
    let restored = api.post(&format!("/v1/quarantine/{good}/restore"), r#"{"reason":"a new version"}"#).await;
    assert_eq!(restored.status, 200, "{}", restored.text);
    assert_eq!((&restored.json()["went"], &restored.json()["messages"]), (&json!("queued"), &json!(2)));
    for id in ["a", "b"] {
        api.host.until_state("default", id, MessageState::Done).await;
    }
    let dropped = api.post(&format!("/v1/quarantine/{bad}/drop"), "").await;
    assert_eq!(dropped.status, 200, "{}", dropped.text);
    let audit = api.get("/v1/audit").await.json();
    let acts: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!([it["kind"], it["object"], it["detail"]["reason"]]))
        .collect();
    assert_eq!(
        acts,
        [json!(["QuarantineDropped", bad, ""]), json!(["QuarantineRestored", good, "a new version"])],
        "what was refused isn't among them"
    );
    let gone = api.get(&format!("/v1/quarantine/{bad}")).await;
    assert_eq!(gone.problem(), (404, "QUARANTINE.NOT_FOUND".into()));
}

#[tokio::test]
async fn rows_may_be_of_any_tenant_so_only_who_manages_all_of_them_sees_one() {
    let tokens = vec![
        token("acme", &["acme"], &[Role::Admin]),
        token("operator", &["*"], &[Role::Operator]),
        token("admin", &["*"], &[Role::Admin]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let row = api.host.unreadable_row().await;
    for (name, status) in [("acme", 403), ("operator", 403), ("admin", 200)] {
        let path = format!("/v1/quarantine/{row}");
        let answer = api.send(with(get(&path), "authorization", &format!("Bearer {name}"))).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.text);
    }
}
