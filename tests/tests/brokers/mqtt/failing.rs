//! Servers that go away, stand still or come back, and what becomes of the messages under way.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Outcome, Transport};
use waybill_testkit::mqtt::Server;
use waybill_testkit::process::free_port;

use super::fake::{Fake, LEVEL_5, LEVEL_311};
use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_leaves_what_was_written_unknown_and_the_rest_untried() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "window": 2, "connections": 1, "ack_timeout": "500ms" })).await;
    server.freeze().unwrap();
    let mut all = batch(0, 4, TOPIC);
    all.iter_mut().for_each(|delivery| delivery.attempt = 1);
    let outcomes = send(&transport, all).await;
    let (unknown, back) = ("retry MQTT.ACK_TIMEOUT", "back MQTT.ACK_TIMEOUT");
    assert_eq!(codes(&outcomes), [unknown, unknown, back, back]);
    let maybe = |outcome: &Outcome| matches!(outcome, Outcome::Retryable(fault) if fault.maybe_delivered);
    assert!(outcomes.iter().take(2).all(maybe), "{outcomes:?}");
    server.thaw().unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 4, TOPIC)).await), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_listens_nothing_is_burnt_and_the_next_server_takes_over() {
    let (mut first, second) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    let servers = json!({ "servers": [first.url(), second.url()], "connect_timeout": "2s" });
    let transport = open(settings(servers)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 2, TOPIC)).await), 2);
    let mut subscriber = second.client().await.unwrap();
    subscriber.subscribe(TOPIC).await.unwrap();
    first.kill().await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(2, 4, TOPIC)).await), 2);
    assert_eq!(ids(&subscriber.receive_all(2).await.unwrap()), ["m2", "m3"]);
    let nobody = json!({ "servers": [format!("mqtt://127.0.0.1:{}", free_port().unwrap())] });
    let error = open(settings(nobody)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "MQTT.REFUSED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_mqtt_server_is_told_so() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let config = json!({ "servers": [format!("mqtt://127.0.0.1:{port}")], "connect_timeout": "2s" });
    let error = open(settings(config)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "MQTT.PROTOCOL"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_gives_signs_of_life() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "keep_alive": "2s", "connections": 1 })).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, TOPIC)).await), 1);
    assert!(!server.log().contains("exceeded timeout"), "{}", server.log());
    transport.close(AMPLE).await;
}

/// Signs of life are no acknowledgements: the batch doesn't wait for as long as the server answers them.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lives_and_acknowledges_nothing_is_given_up_in_time() {
    let server = Fake::start(|_, _| true).await;
    let config = json!({ "servers": [server.url()], "ack_timeout": "500ms", "keep_alive": "1s" });
    let transport = open(settings(config)).await.unwrap();
    let mut all = batch(0, 2, TOPIC);
    all.iter_mut().for_each(|delivery| delivery.attempt = 1);
    let outcomes = send(&transport, all).await;
    assert_eq!(codes(&outcomes), ["retry MQTT.ACK_TIMEOUT"; 2]);
}

/// Nothing says that it knows no other version: it may have been about to end.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cuts_logins_for_a_while_is_spoken_to_by_the_newer_version() {
    let server = Fake::start(|number, _| number >= 2).await;
    open(settings(json!({ "servers": [server.url()] }))).await.unwrap();
    assert_eq!(server.levels(), [LEVEL_5; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cuts_every_login_by_the_newer_version_is_asked_anew_at_each_connection() {
    let server = Fake::start(|_, level| level == LEVEL_311).await;
    let config = json!({ "servers": [server.url()], "ack_timeout": "500ms", "connections": 1 });
    let transport = open(settings(config)).await.unwrap();
    // It acknowledges nothing, so each call costs a connection.
    for number in 0..2 {
        send(&transport, batch(number, number + 1, TOPIC)).await;
    }
    let asked = [LEVEL_5, LEVEL_5, LEVEL_5, LEVEL_311];
    assert_eq!(server.levels()[..8], [asked, asked].concat());
}
