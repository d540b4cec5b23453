//! Replicas: waited for, passed over, and what becomes of a primary that turns into one.

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Outcome};
use waybill_testkit::redis::{Options, Server};

use super::support::*;

/// A replica of a server, once it follows it.
async fn replica_of(primary: &Server) -> Server {
    let config = format!("replicaof 127.0.0.1 {}\nrepl-diskless-sync-delay 0", primary.port());
    let replica = Server::start_with(Options { config, ..Options::default() }).await.unwrap();
    for _ in 0..6_000 {
        if command(primary, &["INFO", "replication"]).await.contains("state=online") {
            return replica;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the replica never followed: {}", replica.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_counts_when_replicas_have_it() {
    let primary = Server::start().await.unwrap();
    let replica = replica_of(&primary).await;
    let transport =
        to(&primary, json!({ "wait_replicas": 1, "wait_timeout": "10s", "ack_timeout": "15s", "window": 50 })).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 300, STREAM)).await), 300);
    assert_eq!(stored(&replica).await.len(), 300);
    replica.freeze().unwrap();
    let transport = to(&primary, json!({ "wait_replicas": 1, "wait_timeout": "100ms" })).await;
    let outcomes = send(&transport, batch(300, 302, STREAM)).await;
    let [Outcome::Retryable(first), Outcome::Retryable(second)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    for fault in [first, second] {
        assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("REDIS.REPLICAS", true));
        assert!(fault.reason.contains("0 of 1"), "{}", fault.reason);
    }
    assert_eq!(stored(&primary).await.len(), 302);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_passed_over() {
    let primary = Server::start().await.unwrap();
    let replica = replica_of(&primary).await;
    let transport = open(settings(json!({ "servers": [replica.url(), primary.url()] }))).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, STREAM)).await), 5);
    assert_eq!(stored(&primary).await.len(), 5);
    let error = open(settings(json!({ "servers": [replica.url()] }))).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "REDIS.READONLY"));
}

/// A failover: the connection is there, and who answers takes no writes any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_becomes_a_replica_is_left() {
    let (first, second) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    let transport = open(settings(json!({ "servers": [first.url(), second.url()] }))).await.unwrap();
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, STREAM)).await), 5);
    command(&first, &["REPLICAOF", "127.0.0.1", &second.port().to_string()]).await;
    let mut tries = 0;
    // The first call may meet the old connection, and fails without an attempt burned.
    while let Err(error) = try_send(&transport, batch(5, 12, STREAM)).await {
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "REDIS.READONLY"));
        tries += 1;
        assert!(tries < 5, "it never left");
    }
    assert_eq!(ids(&stored(&second).await).len(), 7);
}
