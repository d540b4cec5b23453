//! No doubles within a window.

use std::sync::Arc;

use serde_json::json;
use waybill_core::ids::Tenant;
use waybill_core::port::transport::{ErrorKind, Outcome};
use waybill_testkit::redis::Server;

use super::support::*;

fn duplicates(outcomes: &[Outcome]) -> Vec<bool> {
    let duplicate = |outcome: &Outcome| match outcome {
        Outcome::Ack(receipt) => receipt.duplicate,
        other => panic!("{other:?}"),
    };
    outcomes.iter().map(duplicate).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_added_within_the_window_is_not_added_again() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "dedup": "window" })).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 500, STREAM)).await), 500);
    let again = send(&transport, batch(498, 502, STREAM)).await;
    assert_eq!(duplicates(&again), [true, true, false, false]);
    let all = stored(&server).await;
    assert_eq!(all.len(), 502);
    // The receipt of a duplicate is that of the entry that is there.
    let Outcome::Ack(receipt) = &again[0] else { panic!("{again:?}") };
    assert_eq!(receipt.broker_ref.as_ref(), Some(&all[498].id));
    // Another tenant's message with the same id is another message.
    let mut other = batch(0, 1, STREAM);
    Arc::make_mut(&mut other[0].message).tenant = Tenant::new("other").unwrap();
    assert_eq!(duplicates(&send(&transport, other).await), [false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_forgotten_after_the_window() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "dedup": "window", "dedup_window": "100ms" })).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, STREAM)).await), 1);
    let key = "waybill:sent:14:{orders.created}:4:acme:m0";
    for _ in 0..6_000 {
        if command(&server, &["EXISTS", key]).await == "0" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(duplicates(&send(&transport, batch(0, 1, STREAM)).await), [false]);
    assert_eq!(stored(&server).await.len(), 2);
}

/// A restart or an operator takes the script away: it is sent again, and each message is added once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_the_script_gets_it_again() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "dedup": "window", "connections": 1, "window": 16 })).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 5, STREAM)).await), 5);
    command(&server, &["SCRIPT", "FLUSH"]).await;
    let outcomes = send(&transport, batch(5, 205, STREAM)).await;
    assert_eq!(acknowledged(&outcomes), 200, "{:?}", codes(&outcomes));
    let mut ids = ids(&stored(&server).await);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), stored(&server).await.len()), (205, 205));
}

/// A refusal inside the script is the server's own, and nothing is remembered of the message.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_not_remembered() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({ "dedup": "window" })).await;
    command(&server, &["SET", STREAM, "no stream"]).await;
    assert_eq!(codes(&send(&transport, batch(0, 2, STREAM)).await), ["blocked REDIS.WRONG_TYPE"; 2]);
    command(&server, &["DEL", STREAM]).await;
    command(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(refused(&transport, batch(0, 2, STREAM)).await, (ErrorKind::Unavailable, "REDIS.OOM".to_owned()));
    command(&server, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(duplicates(&send(&transport, batch(0, 2, STREAM)).await), [false, false]);
    assert_eq!(stored(&server).await.len(), 2);
}

/// Rights that are missing inside the script: a message is never lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_remember_ids_still_delivers() {
    let server = Server::start().await.unwrap();
    let rights = |more: &'static str| {
        [
            "ACL", "SETUSER", "shop", "reset", "on", ">s3cret", "~*", "+hello", "+ping", "+select", "+xadd", "+eval",
            "+evalsha", more,
        ]
    };
    let secrets = [("user", "shop"), ("password", "s3cret")];
    let config = json!({ "servers": [server.url()], "dedup": "window" });
    command(&server, &rights("+get")).await;
    let transport = open(with_secrets(config.clone(), &secrets)).await.unwrap();
    assert_eq!(duplicates(&send(&transport, batch(0, 2, STREAM)).await), [false, false]);
    assert_eq!(stored(&server).await.len(), 2);
    // Without a look at what was sent nothing is added at all.
    command(&server, &rights("+set")).await;
    let transport = open(with_secrets(config, &secrets)).await.unwrap();
    assert_eq!(refused(&transport, batch(2, 4, STREAM)).await, (ErrorKind::Denied, "REDIS.PERMISSIONS".to_owned()));
    assert_eq!(stored(&server).await.len(), 2);
}
