//! What arrives, and how a consumer sees it.

use std::sync::Arc;

use serde_json::json;
use waybill_core::port::transport::{Outcome, Transport};
use waybill_testkit::redis::Server;

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    let outcomes = send(&transport, batch(7, 8, STREAM)).await;
    let all = stored(&server).await;
    let [entry] = all.as_slice() else { panic!("{all:#?}") };
    let [Outcome::Ack(receipt)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some(entry.id.as_str()), false));
    assert_eq!(receipt.attributes, [("stream".to_owned(), STREAM.to_owned())]);
    let expected = [
        ("id", "m7"),
        ("tenant", "acme"),
        ("topic", "bus:orders.created"),
        ("key", "order-7"),
        ("event-type", "order.created"),
        ("event-version", "3"),
        ("aggregate-type", "order"),
        ("aggregate-id", "7"),
        ("envelope-id", "env-1"),
        ("correlation-id", "cor-1"),
        ("causation-id", "cau-1"),
        ("reply-to", "replies.orders"),
        ("seq", "42"),
        ("content-type", "application/json"),
        ("occurred-at", "2023-11-14T22:13:20.000Z"),
        ("created-at", "2023-11-14T22:13:20.500Z"),
        ("expires-at", "2100-01-01T00:00:00.000Z"),
        ("attempt", "2"),
        ("lease-epoch", "7"),
        ("h:X-Shop", "berlin"),
        ("h:traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("payload", "{\"order\":7}"),
    ];
    let found: Vec<(String, String)> =
        entry.fields.iter().map(|(name, value)| (name.clone(), String::from_utf8_lossy(value).into_owned())).collect();
    let expected: Vec<(String, String)> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(found, expected);
    // Who is connected can be seen there.
    assert!(command(&server, &["CLIENT", "LIST"]).await.contains("name=waybill-orders-redis"));
}

/// Several calls at once, each larger than the window, over the connections of one instance.
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_once_each() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    let calls = (0..8_u64).map(|call| {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move { send(&transport, batch(call * 1_000, call * 1_000 + 1_000, STREAM)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(acknowledged(&call.await.unwrap()), 1_000);
    }
    let mut ids = ids(&stored(&server).await);
    assert_eq!(ids.len(), 8_000);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8_000);
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_is_named_by_the_template_in_the_database_that_is_set() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "stream": "{{shop}}:{tenant}:{destination}:{key}", "db": 3 })).await;
    let mut all = batch(0, 3, STREAM);
    Arc::make_mut(&mut all[1].message).key = None;
    assert_eq!(codes(&send(&transport, all).await), ["+", "dead REDIS.STREAM", "+"]);
    let mut client = server.client().await.unwrap();
    assert!(client.ask(&["KEYS", "*"]).await.unwrap().list().is_empty(), "database 0 has none of it");
    client.ask(&["SELECT", "3"]).await.unwrap();
    let entries = client.read_all("{shop}:acme:orders.created:order-2").await.unwrap();
    assert_eq!(ids(&entries), ["m2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_trimmed_by_length_and_by_age() {
    let server = Server::start().await.unwrap();
    let by_length = to(&server, json!({ "trim": { "max_len": 10, "exact": true } })).await;
    assert_eq!(acknowledged(&send(&by_length, batch(0, 50, STREAM)).await), 50);
    let left = ids(&stored(&server).await);
    assert_eq!(left.len(), 10);
    assert_eq!(left.last().unwrap(), "m49");
    // Entries of another age: of 1970, and of an hour ahead.
    command(&server, &["DEL", STREAM]).await;
    command(&server, &["XADD", STREAM, "1000-0", "id", "old"]).await;
    let by_age = to(&server, json!({ "trim": { "max_age": "1h", "exact": true } })).await;
    assert_eq!(acknowledged(&send(&by_age, batch(50, 52, STREAM)).await), 2);
    assert_eq!(ids(&stored(&server).await), ["m50", "m51"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_not_there_is_made_or_blocks() {
    let server = Server::start().await.unwrap();
    for dedup in ["off", "window"] {
        command(&server, &["DEL", STREAM]).await;
        let transport = to(&server, json!({ "create_streams": false, "dedup": dedup })).await;
        assert_eq!(codes(&send(&transport, batch(0, 1, STREAM)).await), ["blocked REDIS.NO_STREAM"]);
        assert_eq!(command(&server, &["EXISTS", STREAM]).await, "0");
        command(&server, &["XGROUP", "CREATE", STREAM, "billing", "0", "MKSTREAM"]).await;
        assert_eq!(codes(&send(&transport, batch(0, 1, STREAM)).await), ["+"], "{dedup}");
    }
}
