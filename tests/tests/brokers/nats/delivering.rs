//! What arrives, and how a consumer sees it.

use std::sync::Arc;

use waybill_core::port::transport::{Outcome, Transport};
use waybill_testkit::nats::Server;

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope() {
    let server = Server::start().await.unwrap();
    let transport = to(&server).await;
    let outcomes = send(&transport, batch(7, 8, "orders.created")).await;
    let [Outcome::Ack(receipt)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("1"), false));
    assert_eq!(receipt.attributes, [("stream".to_owned(), "ORDERS".to_owned())]);
    let all = server.client().await.unwrap().read_all("ORDERS").await.unwrap();
    let [stored] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((stored.subject.as_str(), stored.payload.as_slice()), ("orders.created", &b"{\"order\":7}"[..]));
    for (name, value) in [
        ("Nats-Msg-Id", "m7"),
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-7"),
        ("x-event-type", "order.created"),
        ("x-event-version", "3"),
        ("x-aggregate-type", "order"),
        ("x-aggregate-id", "7"),
        ("x-envelope-id", "env-1"),
        ("x-correlation-id", "cor-1"),
        ("x-causation-id", "cau-1"),
        ("x-reply-to", "replies.orders"),
        ("x-occurred-at", "2023-11-14T22:13:20.000Z"),
        ("x-created-at", "2023-11-14T22:13:20.500Z"),
        ("x-expires-at", "2100-01-01T00:00:00.000Z"),
        ("x-attempt", "2"),
        ("x-lease-epoch", "7"),
        ("x-seq", "42"),
        ("content-type", "application/json"),
        ("X-Shop", "berlin"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        assert_eq!(stored.header(name), Some(value), "{name}");
    }
    // A command to JetStream from whoever wrote the message.
    assert_eq!(stored.header("Nats-Rollup"), None);
}

/// Several calls at once, each larger than the window, over the connections of one instance.
#[tokio::test(flavor = "multi_thread")]
async fn many_messages_arrive_once_each() {
    let server = Server::start().await.unwrap();
    let transport = to(&server).await;
    let calls = (0..8_u64).map(|call| {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move { send(&transport, batch(call * 1_000, call * 1_000 + 1_000, "orders.created")).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(acknowledged(&call.await.unwrap()), 1_000);
    }
    let all = server.client().await.unwrap().read_all("ORDERS").await.unwrap();
    let mut ids: Vec<&str> = all.iter().map(|stored| stored.header("Nats-Msg-Id").unwrap()).collect();
    assert_eq!(ids.len(), 8_000);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_stream_has_already_is_a_success_and_says_so() {
    let server = Server::start().await.unwrap();
    let transport = to(&server).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, "orders.created")).await), 3);
    let again = send(&transport, batch(2, 4, "orders.created")).await;
    let [Outcome::Ack(known), Outcome::Ack(fresh)] = again.as_slice() else { panic!("{again:#?}") };
    assert!(known.duplicate && !fresh.duplicate);
    assert_eq!(server.client().await.unwrap().read_all("ORDERS").await.unwrap().len(), 4);
    transport.close(AMPLE).await;
}
