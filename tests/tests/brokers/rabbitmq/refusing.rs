//! What the server refuses, and what follows for each message.

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Health, Outcome, Transport};
use waybill_testkit::rabbitmq::{Options, Server};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_sent_is_dead_at_once_and_its_neighbours_go_on() {
    let server = Server::shared().await.unwrap();
    let (transport, mut client) = to(server, "never").await;
    let mut all = batch(0, 5, "orders.created");
    all[1].destination = "a".repeat(256);
    let headers = |delivery: &mut waybill_core::message::Delivery, name: &str, value: &str| {
        let message = std::sync::Arc::get_mut(&mut delivery.message).unwrap();
        message.headers.push((name.to_owned(), value.to_owned()));
    };
    headers(&mut all[2], &"n".repeat(256), "x");
    headers(&mut all[3], "large", &"x".repeat(200_000));
    let outcomes = send(&transport, all).await;
    assert_eq!(fates(&outcomes), "addda", "{outcomes:#?}");
    assert_eq!(codes(&outcomes), ["RABBITMQ.ROUTING_KEY", "RABBITMQ.HEADER", "RABBITMQ.HEADERS_TOO_LARGE"]);
    assert_eq!(client.read_all("never").await.unwrap().len(), 2);
}

/// It costs the others nothing, is seen in the health, and mends itself.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_is_not_there_blocks_its_messages_until_it_is() {
    let server = Server::shared().await.unwrap();
    let mut client = topology(server, "there").await;
    let mut config = config(server, "not-there");
    config["rules"] = json!([{ "match": "orders.**", "exchange": "there" }]);
    let transport = open(settings(config)).await.unwrap();
    let all = || vec![elsewhere(1, "orders.a"), elsewhere(2, "other"), elsewhere(3, "orders.b")];
    let outcomes = send(&transport, all()).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("aba", vec!["RABBITMQ.NO_EXCHANGE"]));
    let report = transport.health().await;
    assert_eq!(report.health, Health::Degraded, "{report:?}");
    assert!(report.detail.unwrap().contains("not-there"));
    client.declare_exchange("not-there", "fanout").await.unwrap();
    client.bind("there", "not-there", "").await.unwrap();
    assert_eq!(fates(&send(&transport, all()).await), "aaa");
    // Gone under way: nobody knows how far it came, and the next attempt finds out.
    client.delete_exchange("not-there").await.unwrap();
    let outcomes = send(&transport, vec![elsewhere(4, "orders.a"), elsewhere(5, "other")]).await;
    assert_eq!(codes(&outcomes).last(), Some(&"RABBITMQ.NO_EXCHANGE"), "{outcomes:#?}");
    assert_eq!(fates(&send(&transport, all()).await), "aba");
}

/// A full queue refuses; the rest of the batch isn't touched by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_tried_again() {
    let server = Server::shared().await.unwrap();
    let (transport, mut client) = to(server, "open-end").await;
    client.declare_queue("full", &[("x-max-length", "2"), ("x-overflow", "reject-publish")]).await.unwrap();
    client.bind("full", "open-end", "narrow").await.unwrap();
    let narrow = |from: u64| (from..from + 1).map(|number| elsewhere(number, "narrow"));
    for number in 0..2 {
        assert_eq!(fates(&send(&transport, narrow(number).collect()).await), "a");
    }
    let outcomes = send(&transport, batch(10, 12, "orders.created").into_iter().chain(narrow(2)).collect()).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("aaR", vec!["RABBITMQ.NACK"]));
    assert_eq!(client.read_all("full").await.unwrap().len(), 2);
    assert_eq!(fates(&send(&transport, narrow(2).collect()).await), "a");
}

/// A server of its own: users, rights, its bound on messages.
#[tokio::test(flavor = "multi_thread")]
async fn rights_and_bounds_of_the_server() {
    let options = Options { config: "max_message_size = 100000\n".to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let mut client = topology(&server, "orders").await;
    for words in [
        &["add_user", "shop", "secret-shop"][..],
        &["set_permissions", "shop", "", "orders|amq.topic", ""],
        &["set_topic_permissions", "shop", "orders", "^orders\\.", ""],
        &["add_user", "stranger", "secret-stranger"],
        &["add_vhost", "elsewhere"],
    ] {
        server.ctl(words).await.unwrap();
    }
    let shop = [("user", "shop"), ("password", "secret-shop")];

    let wrong = open(with_secrets(config(&server, "orders"), &[("user", "shop"), ("password", "wrong-word")])).await;
    let unknown =
        open(with_secrets(config(&server, "orders"), &[("user", "stranger"), ("password", "secret-stranger")])).await;
    let mut vhost = config(&server, "orders");
    vhost["vhost"] = json!("nowhere");
    let no_vhost = open(with_secrets(vhost, &shop)).await;
    let mut vhost = config(&server, "orders");
    vhost["vhost"] = json!("elsewhere");
    let other_vhost = open(with_secrets(vhost, &shop)).await;
    for (refused, code) in [
        (wrong, "RABBITMQ.AUTH"),
        (unknown, "RABBITMQ.VHOST"),
        (no_vhost, "RABBITMQ.VHOST"),
        (other_vhost, "RABBITMQ.VHOST"),
    ] {
        let error = refused.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, code), "{error:?}");
        assert!(!error.fault.reason.contains("wrong-word") && !error.fault.reason.contains("secret-"));
    }

    let transport = open(with_secrets(config(&server, "orders"), &shop)).await.unwrap();
    // One topic that we may not write to: what was behind it wasn't looked at.
    let mut all = batch(0, 5, "orders.created");
    all[2].destination = "payroll.paid".to_owned();
    let outcomes = send(&transport, batch(100, 101, "orders.created")).await;
    assert_eq!(fates(&outcomes), "a");
    let outcomes = send(&transport, all).await;
    assert_eq!(
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Blocked { .. })).count(),
        1,
        "{outcomes:#?}"
    );
    let Outcome::Blocked { fault, .. } = &outcomes[2] else { panic!("{outcomes:#?}") };
    assert_eq!(fault.code, "RABBITMQ.PERMISSIONS");
    assert_eq!(fates(&outcomes[3..]), "--");
    assert!(["aa", "aR", "RR"].contains(&fates(&outcomes[..2]).as_str()), "{outcomes:#?}");

    // An exchange that we may not write to at all.
    let mut rules = config(&server, "orders");
    rules["rules"] = json!([{ "match": "direct.*", "exchange": "amq.direct" }]);
    let ruled = open(with_secrets(rules, &shop)).await.unwrap();
    let outcomes = send(&ruled, vec![elsewhere(1, "direct.a")]).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("b", vec!["RABBITMQ.PERMISSIONS"]));

    // Too large: among others it has to be found first, alone it is known at once.
    client.read_all("orders").await.unwrap();
    let large = |from: u64| {
        let mut all = batch(from, from + 4, "orders.created");
        all[2].payload = vec![b'x'; 100_001].into();
        all
    };
    let first = send(&transport, large(200)).await;
    assert_eq!(acknowledged(&first[3..]), 0, "{first:#?}");
    let second = send(&transport, large(200)).await;
    assert!(second.iter().any(|outcome| matches!(outcome, Outcome::Permanent(_))), "{second:#?}");
    let Outcome::Permanent(fault) = &second[2] else { panic!("{second:#?}") };
    assert_eq!(fault.code, "RABBITMQ.MESSAGE_SIZE");
    assert_eq!(fates(&second), "aad-");
    assert_eq!(fates(&send(&transport, batch(203, 204, "orders.created")).await), "a");

    // Told beforehand, it isn't sent.
    let mut bounded = config(&server, "orders");
    bounded["max_message_bytes"] = json!(100_000);
    let bounded = open(with_secrets(bounded, &shop)).await.unwrap();
    assert_eq!(bounded.limits().max_payload_bytes, Some(100_000));
}
