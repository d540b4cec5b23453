//! What arrives, and how a subscriber sees it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::transport::{Outcome, Transport};
use waybill_testkit::mqtt::{Options, Server};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope() {
    let server = Server::start().await.unwrap();
    let mut subscriber = server.client().await.unwrap();
    subscriber.subscribe("shop/#").await.unwrap();
    let transport = to(&server, json!({ "topic": "shop/{tenant}/{path}" })).await;
    let outcomes = send(&transport, batch(7, 8, TOPIC)).await;
    assert_eq!(codes(&outcomes), ["+"]);
    let all = subscriber.receive_all(1).await.unwrap();
    let [message] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!(
        (message.topic.as_str(), message.payload.as_slice()),
        ("shop/acme/orders/created", &b"{\"order\":7}"[..])
    );
    let named =
        [("content-type", "application/json"), ("correlation-data", "cor-1"), ("response-topic", "replies.orders")];
    for (name, value) in named {
        assert_eq!(message.property(name), Some(value), "{name}");
    }
    let expected = [
        ("id", "m7"),
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-7"),
        ("x-event-type", "order.created"),
        ("x-event-version", "3"),
        ("x-aggregate-type", "order"),
        ("x-aggregate-id", "7"),
        ("x-envelope-id", "env-1"),
        ("x-causation-id", "cau-1"),
        ("x-seq", "42"),
        ("x-occurred-at", "2023-11-14T22:13:20.000Z"),
        ("x-created-at", "2023-11-14T22:13:20.500Z"),
        ("x-expires-at", "2100-01-01T00:00:00.000Z"),
        ("x-attempt", "2"),
        ("x-lease-epoch", "7"),
        ("X-Shop", "berlin"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let expected: Vec<(String, String)> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(message.user, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_version_has_the_envelope_in_a_cloudevent() {
    let server = Server::start().await.unwrap();
    let mut subscriber = server.client().await.unwrap();
    subscriber.subscribe(TOPIC).await.unwrap();
    let transport = to(&server, json!({ "version": "3.1.1" })).await;
    assert_eq!(acknowledged(&send(&transport, batch(7, 8, TOPIC)).await), 1);
    let all = subscriber.receive_all(1).await.unwrap();
    let event: Value = serde_json::from_slice(&all[0].payload).unwrap();
    for (name, value) in [
        ("specversion", json!("1.0")),
        ("id", json!("m7")),
        ("source", json!("/waybill/acme")),
        ("type", json!("order.created")),
        ("partitionkey", json!("order-7")),
        ("data", json!({ "order": 7 })),
    ] {
        assert_eq!(event[name], value, "{name}");
    }
    assert!(all[0].user.is_empty());
}

/// Several calls at once, each larger than the server's receive maximum, over the connections of one instance.
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_once_each_within_the_server_s_receive_maximum() {
    let options = Options { config: "max_inflight_messages 7".to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let mut subscriber = server.client().await.unwrap();
    subscriber.subscribe(TOPIC).await.unwrap();
    let transport = to(&server, json!({})).await;
    let calls = (0..4_u64).map(|call| {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move {
            let mut all = batch(call * 500, call * 500 + 500, TOPIC);
            all.iter_mut().for_each(|delivery| delivery.attempt = 1);
            send(&transport, all).await
        })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(acknowledged(&call.await.unwrap()), 500);
    }
    let all = subscriber.receive_all(2_000).await.unwrap();
    let mut ids = ids(&all);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2_000);
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_retained_waits_for_those_who_come_later() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "retain": true })).await;
    let mut all = batch(0, 2, TOPIC);
    Arc::make_mut(&mut all[1].message).headers = vec![("mqtt-retain".to_owned(), "false".to_owned())];
    all[1].destination = "orders.passing".to_owned();
    assert_eq!(codes(&send(&transport, all).await), ["+", "+"]);
    let mut late = server.client().await.unwrap();
    late.subscribe("#").await.unwrap();
    let kept = late.receive_all(1).await.unwrap();
    assert_eq!((ids(&kept), kept[0].is_retained), (vec!["m0"], true));
    assert_eq!(late.receive(Duration::from_millis(300)).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_nobody_hears_is_told_or_held() {
    let server = Server::start().await.unwrap();
    let accepts = to(&server, json!({})).await;
    let outcomes = send(&accepts, batch(0, 1, TOPIC)).await;
    let [Outcome::Ack(receipt)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(receipt.broker_ref.as_deref(), Some("no-subscribers"));
    let holds = to(&server, json!({ "no_subscribers": "hold" })).await;
    assert_eq!(codes(&send(&holds, batch(0, 1, TOPIC)).await), ["blocked MQTT.NO_SUBSCRIBERS"]);
    let mut subscriber = server.client().await.unwrap();
    subscriber.subscribe(TOPIC).await.unwrap();
    assert_eq!(codes(&send(&holds, batch(0, 1, TOPIC)).await), ["+"]);
}
