//! What the server won't have, and who isn't let in. No value of a secret is ever in an error.

use std::sync::Arc;

use serde_json::json;
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::mqtt::{Options, Server};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_not_be_published_is_a_dead_letter_and_its_neighbours_go() {
    let options = Options { config: "max_packet_size 20000".to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let mut subscriber = server.client().await.unwrap();
    subscriber.subscribe("#").await.unwrap();
    let transport = to(&server, json!({ "topic": "{destination}" })).await;
    let mut all = batch(0, 4, TOPIC);
    all[1].payload = vec![b'x'; 30_000].into();
    all[2].destination = "orders/#".to_owned();
    Arc::make_mut(&mut all[3].message).headers = vec![("note".to_owned(), "a\u{1}b".to_owned())];
    let expected = ["+", "dead MQTT.MAX_PACKET", "dead MQTT.TOPIC", "dead MQTT.HEADER"];
    assert_eq!(codes(&send(&transport, all).await), expected);
    assert_eq!(ids(&subscriber.receive_all(1).await.unwrap()), ["m0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_allowed_is_blocked() {
    let files = tempfile::tempdir().unwrap();
    let list = files.path().join("acl");
    std::fs::write(&list, "topic write orders.created\n").unwrap();
    let options = Options { config: format!("acl_file {}", list.display()), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let transport = to(&server, json!({})).await;
    let mut all = batch(0, 2, TOPIC);
    all[1].destination = "secret.topic".to_owned();
    assert_eq!(codes(&send(&transport, all).await), ["+", "blocked MQTT.PERMISSIONS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_retains_nothing_is_told_of() {
    let options = Options { config: "retain_available false".to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let error = open(settings(json!({ "servers": [server.url()], "retain": true }))).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unsupported, "MQTT.RETAIN"));
    let transport = to(&server, json!({})).await;
    let mut all = batch(0, 1, TOPIC);
    Arc::make_mut(&mut all[0].message).headers = vec![("mqtt-retain".to_owned(), "true".to_owned())];
    assert_eq!(codes(&send(&transport, all).await), ["dead MQTT.RETAIN"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let user = Some(("shop".to_owned(), "s3cret".to_owned()));
    let server = Server::start_with(Options { user, ..Options::default() }).await.unwrap();
    for version in ["5", "3.1.1"] {
        let config = json!({ "servers": [server.url()], "version": version });
        for secrets in [&[("user", "shop"), ("password", "another-one")][..], &[]] {
            let error = open(with_secrets(config.clone(), secrets)).await.unwrap_err();
            assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "MQTT.AUTH"), "{error:?}");
            assert!(!format!("{error:?}").contains("another-one"));
        }
        let transport = open(with_secrets(config, &[("user", "shop"), ("password", "s3cret\n")])).await.unwrap();
        assert_eq!(acknowledged(&send(&transport, batch(0, 1, TOPIC)).await), 1);
    }
}
