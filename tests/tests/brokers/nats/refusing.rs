//! What JetStream and the server refuse, and what follows for each message.

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Outcome, Transport};
use waybill_testkit::nats::{Client, Login, Options, Server};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_sent_is_dead_at_once_and_its_neighbours_go_on() {
    let server =
        Server::start_with(Options { config: "max_payload: 2048".to_owned(), ..Options::default() }).await.unwrap();
    let transport = to(&server).await;
    assert_eq!(transport.limits().max_payload_bytes, Some(2048));
    let mut all = batch(0, 6, "orders.created");
    all[1].destination = "orders.*".to_owned();
    all[2].destination = "orders created".to_owned();
    all[3].destination = "$JS.API.STREAM.DELETE.ORDERS".to_owned();
    // Alone it would fit; with its headers it doesn't.
    all[4].payload = vec![b'x'; 2_000].into();
    let outcomes = send(&transport, all).await;
    let codes: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Permanent(fault) => fault.code.as_str(),
            Outcome::Ack(_) => "",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(codes, ["", "NATS.SUBJECT", "NATS.SUBJECT", "NATS.SUBJECT", "NATS.MAX_PAYLOAD", ""]);
    assert_eq!(server.client().await.unwrap().read_all("ORDERS").await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_no_stream_takes_is_blocked_alone() {
    let server = Server::start().await.unwrap();
    let transport = to(&server).await;
    let mut all = batch(0, 3, "orders.created");
    all[1].destination = "invoices.created".to_owned();
    let outcomes = send(&transport, all).await;
    let [Outcome::Ack(_), Outcome::Blocked { scope, fault }, Outcome::Ack(_)] = outcomes.as_slice() else {
        panic!("{outcomes:#?}")
    };
    assert_eq!((scope.as_str(), fault.code.as_str(), fault.maybe_delivered), ("", "NATS.NO_STREAM", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_stream_is_noticed() {
    let server = Server::start().await.unwrap();
    server.client().await.unwrap().create_stream("OTHER", &["orders.>"], &json!({})).await.unwrap();
    let transport = open(settings(json!({ "servers": [server.url()], "stream": "ORDERS" }))).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "orders.created")).await;
    let [Outcome::Blocked { fault, .. }] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(fault.code, "NATS.WRONG_STREAM");
    assert_eq!(fault.attributes, [("broker-code".to_owned(), "10060".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_full_is_tried_again_and_one_that_takes_less_kills_the_message() {
    let server = Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    let more = json!({ "max_msgs": 2, "discard": "new", "max_msg_size": 1024 });
    client.create_stream("ORDERS", &["orders.>"], &more).await.unwrap();
    let transport = open(settings(json!({ "servers": [server.url()] }))).await.unwrap();
    let mut all = batch(0, 4, "orders.created");
    all[0].payload = vec![b'x'; 1_024].into();
    let outcomes = send(&transport, all).await;
    let [Outcome::Permanent(large), Outcome::Ack(_), Outcome::Ack(_), Outcome::Retryable(full)] = outcomes.as_slice()
    else {
        panic!("{outcomes:#?}")
    };
    assert_eq!((large.code.as_str(), full.code.as_str()), ("NATS.MAX_MSG_SIZE", "NATS.STREAM_FULL"));
    assert!(!full.maybe_delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subject_that_we_may_not_publish_to_is_blocked_and_the_rest_goes_on() {
    let config = r#"authorization { users = [
        { user: shop, password: s3cret, permissions: { publish: { deny: ["orders.secret"] } } }
        { user: admin, password: admin } ] }"#;
    let server = Server::start_with(Options { config: config.to_owned(), ..Options::default() }).await.unwrap();
    let admin = Login { user: Some(("admin".to_owned(), "admin".to_owned())), ..Login::default() };
    let mut client = Client::connect(server.port(), &admin).await.unwrap();
    client.create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    let transport =
        open(with_secrets(json!({ "servers": [server.url()] }), &[("user", "shop"), ("password", "s3cret")]))
            .await
            .unwrap();
    let mut all = batch(0, 3, "orders.created");
    all[1].destination = "orders.secret".to_owned();
    let outcomes = send(&transport, all).await;
    let [Outcome::Ack(_), Outcome::Blocked { fault, .. }, Outcome::Ack(_)] = outcomes.as_slice() else {
        panic!("{outcomes:#?}")
    };
    assert_eq!(fault.code, "NATS.PERMISSIONS");
    assert!(fault.reason.contains("orders.secret"), "{}", fault.reason);
    // The connection stayed.
    assert_eq!(acknowledged(&send(&transport, batch(10, 11, "orders.created")).await), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_not_hear_the_answers_is_refused_when_it_connects() {
    let config = r#"authorization { users = [ { user: shop, password: s3cret,
        permissions: { publish: "orders.>", subscribe: "_SHOP.>" } } ] }"#;
    let server = Server::start_with(Options { config: config.to_owned(), ..Options::default() }).await.unwrap();
    let secrets = [("user", "shop"), ("password", "s3cret")];
    let error = probe(with_secrets(json!({ "servers": [server.url()] }), &secrets)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "NATS.PERMISSIONS"));
    let own = json!({ "servers": [server.url()], "inbox_prefix": "_SHOP" });
    probe(with_secrets(own, &secrets)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_jetstream_everything_is_blocked_and_nothing_lost() {
    let server = Server::start_with(Options { core_only: true, ..Options::default() }).await.unwrap();
    let transport = open(settings(json!({ "servers": [server.url()] }))).await.unwrap();
    let outcomes = send(&transport, batch(0, 2, "orders.created")).await;
    for outcome in outcomes {
        let Outcome::Blocked { fault, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(fault.code, "NATS.NO_STREAM");
    }
}
