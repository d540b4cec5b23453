//! Payload dedup through the real binary and the http transport.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

async fn send(api: &Api, id: &str, topic: &str, payload: &str) {
    let body = json!({ "topic": topic, "id": id, "payload": { "order": payload } });
    let reply = api.post("/v1/messages", &body).await.unwrap();
    assert!(reply.is_ok(), "{reply:?}");
}

async fn until_done(api: &Api, id: &str) -> Value {
    let waiting = async {
        loop {
            let view = api.get(&format!("/v1/messages/{id}"), &[]).await.unwrap().body;
            if view["state"] == "done" {
                return view;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{id} was never done"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_is_delivered_to_a_destination_once_also_over_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    // The first answer to `flaky` is a failure: that one may go again.
    let judge = |delivered: &Delivered| {
        let fails = delivered.path.ends_with("flaky") && delivered.attempt == 1;
        Answer::status(if fails { 503 } else { 200 })
    };
    let receiver = Receiver::start(judge).await.unwrap();
    let config = format!(
        "[store]\nurl = \"surrealkv://{}\"\n\
         [transport.web]\nplugin = \"http\"\nallow = {{ net = [\"http://127.0.0.1:*\"] }}\n\
         [[route]]\nmatch = \"http:**\"\ntransport = \"web\"\ndedup = \"payload\"\ndedup_window = \"1h\"\n",
        dir.path().join("data").display()
    );
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    let (orders, flaky) = (receiver.url("orders"), receiver.url("flaky"));

    send(&api, "first", &orders, "17").await;
    until_done(&api, "first").await;
    send(&api, "again", &orders, "17").await;
    let again = until_done(&api, "again").await;
    assert_eq!(again["receipt"]["attributes"]["dedup-of"], "first");
    assert_eq!((&again["receipt"]["duplicate"], again["attempts"].as_u64()), (&json!(true), Some(1)));
    send(&api, "other", &orders, "18").await;
    send(&api, "elsewhere", &flaky, "17").await;
    until_done(&api, "other").await;
    assert_eq!(until_done(&api, "elsewhere").await["attempts"], 2);

    assert!(host.kill().await.unwrap());
    let (host, api) = Host::ready(&launch).await.unwrap();
    send(&api, "after-the-crash", &orders, "17").await;
    let view = until_done(&api, "after-the-crash").await;
    assert_eq!(view["receipt"]["attributes"]["dedup-of"], "first");

    let arrived: Vec<String> = receiver.arrivals().into_iter().map(|arrival| arrival.delivered.id).collect();
    assert_eq!(arrived.iter().filter(|id| *id == "first").count(), 1);
    assert!(arrived.iter().all(|id| ["first", "other", "elsewhere"].contains(&id.as_str())), "{arrived:?}");
    let metrics = api.get("/metrics", &[]).await.unwrap().body;
    assert!(metrics.as_str().unwrap().contains("outbox_flush_dedup_hit\"} 1"), "{metrics}");
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
