//! Messages looked up by what they hold, through the real binary: an index that comes and goes by a reload.

use serde_json::{Value, json};

use crate::config_reload::Running;

const CONFIG: &str = "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\nrequest_timeout = \"50s\"\n\
                      [plugins]\ncache = \"./cache\"\n[[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\n";
const INDEXES: &str = "[[index]]\ntenant = \"acme\"\npath = \"payload.order.id\"\n\
                       [[index]]\ntenant = \"*\"\npath = \"header.x-shop\"\n";

/// Orders of two tenants, each message with an id that names both.
async fn send(running: &Running, numbers: std::ops::Range<u32>) {
    for number in numbers {
        for tenant in ["acme", "zeta"] {
            let body = json!({
                "id": format!("{tenant}-{number}"), "tenant": tenant, "topic": "bus:orders", "headers": { "X-Shop": format!("shop-{number}") },
                "payload": { "order": { "id": number } },
            });
            let reply = running.api.post("/v1/messages", &body).await.unwrap();
            assert!(reply.is_ok(), "{reply:?}");
        }
    }
}

/// Ids of all that a filter takes.
async fn found(running: &Running, filter: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let mut query = vec![("filter", filter)];
        if !cursor.is_empty() {
            query.push(("cursor", cursor.as_str()));
        }
        let page: Value = running.api.read("/v1/messages", &query).await.unwrap();
        ids.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    ids.sort();
    ids
}

async fn all_are_found(running: &Running, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let of_acme = found(running, &format!("tenant=acme payload.order.id={number}")).await;
        assert_eq!(of_acme, [format!("acme-{number}")]);
        let of_both = found(running, &format!("header.x-shop=shop-{number}")).await;
        assert_eq!(of_both, [format!("acme-{number}"), format!("zeta-{number}")]);
    }
    assert_eq!(found(running, "tenant=acme payload.order.id=nothing").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_filter_finds_is_the_same_before_with_and_after_an_index() {
    let running = Running::start(CONFIG).await;
    send(&running, 0..3).await;
    all_are_found(&running, 0..3).await;

    running.write(&format!("{CONFIG}{INDEXES}"));
    let reloaded = running.reload().await;
    assert!(reloaded.is_ok(), "{reloaded:?}");
    let changes = reloaded.body["changes"].as_array().unwrap();
    let effects: Vec<(&str, &str)> =
        changes.iter().map(|change| (change["key"].as_str().unwrap(), change["effect"].as_str().unwrap())).collect();
    let expected = ["index[0].path", "index[0].tenant", "index[1].path", "index[1].tenant"];
    assert_eq!(effects, expected.map(|key| (key, "now")));
    send(&running, 3..6).await;
    all_are_found(&running, 0..6).await;

    running.write(CONFIG);
    assert!(running.reload().await.is_ok());
    send(&running, 6..8).await;
    all_are_found(&running, 0..8).await;
    running.end().await;
}
