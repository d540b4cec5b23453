//! What arrives, and how a consumer sees it.

use std::sync::Arc;

use serde_json::json;
use waybill_core::port::transport::{Health, Outcome, Transport};
use waybill_testkit::rabbitmq::Server;

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope() {
    let server = Server::shared().await.unwrap();
    let (transport, mut client) = to(server, "envelope").await;
    let mut all = batch(7, 8, "orders.created");
    let message = Arc::get_mut(&mut all[0].message).unwrap();
    // Commands to RabbitMQ from whoever wrote the message.
    message.headers.extend([("CC".to_owned(), "lost".to_owned()), ("x-death".to_owned(), "none".to_owned())]);
    assert_eq!(fates(&send(&transport, all).await), "a");
    let all = client.read_all("envelope").await.unwrap();
    let [stored] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((stored.exchange.as_str(), stored.routing_key.as_str()), ("envelope", "orders.created"));
    assert_eq!(stored.payload, b"{\"order\":7}");
    for (name, value) in [
        ("message-id", "m7"),
        ("content-type", "application/json"),
        ("delivery-mode", "2"),
        ("correlation-id", "cor-1"),
        ("reply-to", "replies.orders"),
        ("type", "order.created"),
        ("timestamp", "1700000000"),
    ] {
        assert_eq!(stored.property(name), Some(value), "{name}");
    }
    assert!(stored.property("expiration").unwrap().parse::<u64>().unwrap() > 1_000_000_000);
    for (name, value) in [
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-7"),
        ("x-event-version", "3"),
        ("x-aggregate-type", "order"),
        ("x-aggregate-id", "7"),
        ("x-envelope-id", "env-1"),
        ("x-causation-id", "cau-1"),
        ("x-occurred-at", "2023-11-14T22:13:20.000Z"),
        ("x-created-at", "2023-11-14T22:13:20.500Z"),
        ("x-expires-at", "2100-01-01T00:00:00.000Z"),
        ("x-attempt", "2"),
        ("x-lease-epoch", "7"),
        ("x-seq", "42"),
        ("X-Shop", "berlin"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        assert_eq!(stored.header(name), Some(value), "{name}");
    }
    assert_eq!((stored.header("CC"), stored.header("x-death")), (None, None));
}

/// Several calls at once, each larger than the window, over the connections of one instance.
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_once_each() {
    let server = Server::shared().await.unwrap();
    let (transport, mut client) = to(server, "many").await;
    let calls = (0..6_u64).map(|call| {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move { send(&transport, batch(call * 1_000, call * 1_000 + 1_000, "orders.created")).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(acknowledged(&call.await.unwrap()), 1_000);
    }
    let all = client.read_all("many").await.unwrap();
    let mut ids: Vec<&str> = all.iter().map(|stored| stored.property("message-id").unwrap()).collect();
    assert_eq!(ids.len(), 6_000);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6_000);
    transport.close(AMPLE).await;
}

/// More than one frame, and a payload of nothing.
#[tokio::test(flavor = "multi_thread")]
async fn large_and_empty_payloads_arrive_as_they_are() {
    let server = Server::shared().await.unwrap();
    let (transport, mut client) = to(server, "sizes").await;
    let lengths = [0, 1, 131_064, 131_065, 500_000];
    let mut all = batch(0, lengths.len() as u64, "orders.created");
    for (delivery, length) in all.iter_mut().zip(lengths) {
        delivery.payload = (0..length).map(|byte| (byte % 251) as u8).collect::<Vec<_>>().into();
    }
    let sent: Vec<_> = all.iter().map(|delivery| delivery.payload.clone()).collect();
    assert_eq!(fates(&send(&transport, all).await), "aaaaa");
    let stored: Vec<_> = client.read_all("sizes").await.unwrap().into_iter().map(|stored| stored.payload).collect();
    assert_eq!(stored, sent.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_templates_say_where_a_message_goes() {
    let server = Server::shared().await.unwrap();
    let mut client = topology(server, "ruled").await;
    client.declare_queue("ruled-jobs", &[]).await.unwrap();
    let mut config = config(server, "ruled");
    config["routing_key"] = json!("orders.{tenant}.{key}");
    config["rules"] = json!([{ "match": "jobs.*", "exchange": "", "routing_key": "ruled-jobs" }]);
    let transport = open(settings(config)).await.unwrap();
    let outcomes = send(&transport, vec![elsewhere(1, "anything"), elsewhere(2, "jobs.urgent")]).await;
    assert_eq!(fates(&outcomes), "aa", "{outcomes:#?}");
    let keys = |all: Vec<waybill_testkit::rabbitmq::Stored>| {
        all.into_iter().map(|stored| (stored.exchange, stored.routing_key)).collect::<Vec<_>>()
    };
    assert_eq!(keys(client.read_all("ruled").await.unwrap()), [("ruled".to_owned(), "orders.acme.order-1".to_owned())]);
    assert_eq!(keys(client.read_all("ruled-jobs").await.unwrap()), [(String::new(), "ruled-jobs".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_password_mechanisms_work_and_who_answers_is_told() {
    let server = Server::shared().await.unwrap();
    topology(server, "mechanisms").await;
    for auth in ["auto", "plain", "amqplain"] {
        let mut config = config(server, "mechanisms");
        config["auth"] = json!(auth);
        let transport = open(with_secrets(config, &[("user", "guest"), ("password", "guest")])).await.unwrap();
        assert_eq!(fates(&send(&transport, batch(0, 1, "orders.created")).await), "a", "{auth}");
        assert_eq!(transport.health().await.health, Health::Ready);
    }
}

/// A message that nobody wants back is delivered wherever it goes.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_as_the_configuration_says() {
    let server = Server::shared().await.unwrap();
    let mut client = topology(server, "unroutable").await;
    for (setting, expected) in [("block", "abaaba"), ("dead-letter", "adaada"), ("accept", "aaaaaa")] {
        let mut config = config(server, "unroutable");
        config["unroutable"] = json!(setting);
        let transport = open(settings(config)).await.unwrap();
        let mut all = batch(0, 6, "orders.created");
        for place in [1, 4] {
            all[place].destination = "invoices.created".to_owned();
        }
        let outcomes = send(&transport, all).await;
        assert_eq!(fates(&outcomes), expected, "{outcomes:#?}");
        assert!(codes(&outcomes).iter().all(|code| *code == "RABBITMQ.UNROUTABLE"));
        if let Outcome::Blocked { scope, fault } = &outcomes[1] {
            assert_eq!((scope.as_str(), fault.maybe_delivered), ("", false));
            assert!(fault.reason.contains("`unroutable`") && fault.reason.contains("`invoices.created`"), "{fault:?}");
        }
        assert_eq!(client.read_all("unroutable").await.unwrap().len(), 4);
    }
}
