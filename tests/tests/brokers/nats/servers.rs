//! More than one server: failover, lame ducks, servers that others tell about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use waybill_core::port::transport::Transport;
use waybill_testkit::nats::{Options, Server};

use super::fake::{Fake, INFO, Peer};
use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_over_when_one_dies() {
    let (mut first, second) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    for server in [&first, &second] {
        server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    }
    let config = json!({ "servers": [first.url(), second.url()], "order": "listed" });
    let transport = open(settings(config)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, "orders.created")).await), 5);
    assert_eq!(first.client().await.unwrap().read_all("ORDERS").await.unwrap().len(), 5);
    first.kill().await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(5, 12, "orders.created")).await), 7);
    assert_eq!(second.client().await.unwrap().read_all("ORDERS").await.unwrap().len(), 7);
}

/// Servers that accept and say nothing don't use up the time of the one behind them.
#[tokio::test(flavor = "multi_thread")]
async fn silent_servers_leave_time_for_the_next() {
    let silent: Vec<Fake> = (0..2).map(|_| Fake::start(|mut peer| peer.linger())).collect();
    let server = Server::start().await.unwrap();
    let servers = [silent[0].url(), silent[1].url(), server.url()];
    let config = json!({ "servers": servers, "order": "listed", "connect_timeout": "1h" });
    let mut settings = settings(config);
    settings.limits.open_timeout = std::time::Duration::from_secs(24);
    open(settings).await.unwrap();
}

/// The server says that it will shut down: what is under way ends there, the next goes elsewhere, nothing fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_lame_duck_is_left_in_peace() {
    let quick = Options { config: "lame_duck_grace_period: 1s".to_owned(), ..Options::default() };
    let (mut first, second) = (Server::start_with(quick).await.unwrap(), Server::start().await.unwrap());
    for server in [&first, &second] {
        server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    }
    let config = json!({ "servers": [first.url(), second.url()], "order": "listed" });
    let transport = open(settings(config)).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, "orders.created")).await), 5);
    first.lame_duck().unwrap();
    let mut sent = 5;
    // Until the word is there, messages still go to the first; none of them is lost on the way.
    while second.client().await.unwrap().read_all("ORDERS").await.unwrap().is_empty() {
        assert!(sent < 5_000, "it never left");
        assert_eq!(acknowledged(&send(&transport, batch(sent, sent + 1, "orders.created")).await), 1);
        sent += 1;
    }
    first.ended().await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(sent, sent + 5, "orders.created")).await), 5);
}

/// With nowhere else to go the connection serves until the server ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lame_duck_without_another_server_is_used_to_its_end() {
    let greeted = Arc::new(AtomicUsize::new(0));
    let (count, ldm) = (Arc::clone(&greeted), INFO.replace('}', r#","ldm":true}"#));
    let alone = Fake::start(move |peer| {
        // Only the first connection is taken, as by a server that listens no more.
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            serve(peer, INFO, &AtomicUsize::new(0), |peer| peer.say(&ldm));
        }
    });
    let transport = open(settings(json!({ "servers": [alone.url()] }))).await.unwrap();
    for number in 0..5 {
        assert_eq!(acknowledged(&send(&transport, batch(number, number + 1, "orders.created")).await), 1);
    }
    assert_eq!(greeted.load(Ordering::SeqCst), 1);
}

fn serve(mut peer: Peer, info: &str, count: &AtomicUsize, after: impl Fn(&mut Peer)) {
    peer.greet(info);
    while let Some(message) = peer.published() {
        count.fetch_add(1, Ordering::SeqCst);
        peer.acknowledge(&message, 1);
        after(&mut peer);
    }
}

/// A server tells about two others in a later INFO: the one that is granted is used when the first goes, the other isn't reached.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_others_tell_about_are_used_as_far_as_granted() {
    let arrived = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&arrived);
    let told = Fake::start(move |peer| serve(peer, INFO, &count, |_| {}));
    let others = format!(r#","connect_urls":["192.0.2.1:4222","{}"],"ldm":true}}"#, &told.url()["nats://".len()..]);
    let update = INFO.replace('}', &others);
    let first_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&first_count);
    let first = Fake::start(move |peer| serve(peer, INFO, &count, |peer| peer.say(&update)));
    let transport = open(settings(json!({ "servers": [first.url()], "connect_timeout": "15s" }))).await.unwrap();
    for number in 0..10 {
        assert_eq!(acknowledged(&send(&transport, batch(number, number + 1, "orders.created")).await), 1);
    }
    assert!(arrived.load(Ordering::SeqCst) > 0, "the one that was told about is used");
    assert_eq!(arrived.load(Ordering::SeqCst) + first_count.load(Ordering::SeqCst), 10);
    transport.close(AMPLE).await;
}
