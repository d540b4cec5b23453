//! A saga's history, read as a stream.

use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::process::binary;

use super::support::*;

const STREAM: &str = "saga.order-7";
const SELECTOR: &str = "stream:saga.order-7";

/// Posts as soon as whoever writes the sagas is known.
async fn post(door: &Door, path: &str, body: Value) {
    until(path, async || {
        let reply = door.api().post(path, &body).await.unwrap();
        assert!(reply.is_ok() || reply.status == 503, "{path}: {reply:?}");
        reply.is_ok()
    })
    .await;
}

/// Subscribes as soon as whoever writes the saga is known.
async fn follow(door: &Door, cursor: Option<&str>) -> Reader {
    let mut reader = None;
    until("it is followed", async || {
        match door.try_subscribe(SELECTOR, cursor).await {
            Ok(opened) => reader = Some(opened),
            Err(refused) => assert!(refused.as_ref().is_some_and(|reply| reply.status == 503), "{refused:?}"),
        }
        reader.is_some()
    })
    .await;
    reader.unwrap()
}

async fn saga(door: &Door) -> Value {
    door.api().get("/v1/sagas/order-7", &[]).await.unwrap().body
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_saga_is_replayed_followed_and_resumed_over_a_kill() {
    let mut site = Site::start("").await;
    let door = site.door.clone();
    let mut reader = follow(&door, None).await;
    let steps = json!([{ "name": "paid", "action": "wait:paid" }, { "name": "sent", "action": "wait:sent" }]);
    post(&door, "/v1/saga-definitions", json!({ "name": "order", "version": 1, "steps": steps })).await;
    post(&door, "/v1/sagas", json!({ "definition": "order", "id": "order-7", "input": {} })).await;
    post(&door, "/v1/sagas/order-7/signals/paid", json!({ "amount": 3 })).await;
    // Its start and its first step, and the last of that may come later.
    let mut seen = reader.events(3).await;
    let cursor = reader.cursor.clone();
    drop(reader);

    site.kill_and_revive().await;
    let mut reader = follow(&door, cursor.as_deref()).await;
    post(&door, "/v1/sagas/order-7/signals/sent", json!({})).await;
    until("it has ended", async || saga(&door).await["state"] == "completed").await;
    let all = saga(&door).await["history"].as_array().unwrap().len();
    seen.extend(reader.events(all - seen.len()).await);

    let mut order = Order::default();
    seen.iter().for_each(|event| order.take(event));
    assert_eq!(order.of(STREAM), all as u64);
    assert!(seen.iter().all(|event| event["resource_type"] == "SAGA" && event["resource_id"] == "order-7"));
    let ids = seen.iter().map(|event| event["event_id"].as_str().unwrap().to_owned());
    assert_eq!(door.stored(STREAM).await, (1..).zip(ids).collect::<Vec<_>>());
    let mut read = Command::new(binary().unwrap());
    read.args(["stream", "read", STREAM, "-o", "json", "--url", door.api().base()]);
    let read = read.output().await.unwrap();
    assert!(read.status.success(), "{read:?}");
    let read: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(read, Value::from(seen), "the command line shows the same");

    let refused = door.post(STREAM, &json!({ "events": events("e", 1, "r") })).await.unwrap();
    assert_eq!((refused.status, refused.code()), (403, Some("STREAM.READ_ONLY")));
    site.end().await;
}
