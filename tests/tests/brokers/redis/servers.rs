//! More than one server, and one that comes back.

use std::sync::Arc;

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Health, SendCall, Transport};
use waybill_testkit::redis::{Options, Server};

use super::fake::Fake;
use super::support::*;

/// Nearly as long as a call waits for a server that is away.
const WAITS_NEARLY: std::time::Duration = std::time::Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_over_when_one_dies() {
    let (mut first, second) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    let transport = open(settings(json!({ "servers": [first.url(), second.url()] }))).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, STREAM)).await), 5);
    assert_eq!(stored(&first).await.len(), 5);
    first.kill().await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(5, 12, STREAM)).await), 7);
    assert_eq!(stored(&second).await.len(), 7);
}

/// Servers that accept and say nothing don't use up the time of the one behind them.
#[tokio::test(flavor = "multi_thread")]
async fn silent_servers_leave_time_for_the_next() {
    let silent: Vec<Fake> = (0..2).map(|_| Fake::start(|mut peer| peer.linger())).collect();
    let server = Server::start().await.unwrap();
    let servers = [silent[0].url(), silent[1].url(), server.url()];
    let mut settings = settings(json!({ "servers": servers, "connect_timeout": "1h" }));
    settings.limits.open_timeout = std::time::Duration::from_secs(24);
    open(settings).await.unwrap();
}

/// A killed server: the call waits for it for a part of its time, and the messages never learn of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_within_the_call_is_waited_for() {
    let mut server = Server::start_with(Options { durable: true, ..Options::default() }).await.unwrap();
    let transport = to(&server, json!({})).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 10, STREAM)).await), 10);
    let mut tries = 0;
    let outcomes = loop {
        server.kill().await.unwrap();
        let sending = tokio::spawn({
            let transport = Arc::clone(&transport);
            async move {
                let began = std::time::Instant::now();
                (try_send(&transport, batch(10, 20, STREAM)).await, began.elapsed())
            }
        });
        server.restart().await.unwrap();
        match sending.await.unwrap() {
            (Ok(outcomes), _) => break outcomes,
            // A call waits for five seconds: a machine that took about as long to start a server shows nothing.
            (Err(error), waited) => assert!(waited > WAITS_NEARLY, "{error:?} after {waited:?}"),
        }
        tries += 1;
        assert!(tries < 20, "no call ever met the server that was back");
    };
    assert_eq!(acknowledged(&outcomes), 10);
    assert_eq!(stored(&server).await.len(), 20);
    // The instance is the one that was there before.
    assert_eq!(transport.lanes().len(), 1);
    server.kill().await.unwrap();
    let error = transport
        .send_batch(
            SendCall::new(0, std::time::Duration::from_secs(10)),
            batch(20, 21, STREAM),
            Arc::new(RecordedOutcomes::default()),
        )
        .await
        .unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "REDIS.REFUSED"));
    assert!(!error.fault.maybe_delivered);
}

/// A connection that the server closed while nobody looked costs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_that_ended_is_made_anew() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, STREAM)).await), 1);
    command(&server, &["CLIENT", "KILL", "TYPE", "normal"]).await;
    assert_eq!(acknowledged(&send(&transport, batch(1, 3, STREAM)).await), 2);
    assert_eq!(transport.health().await.health, Health::Ready);
}
