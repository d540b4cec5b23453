//! What the server refuses, and what follows for each message.

use serde_json::json;
use waybill_core::port::transport::{ErrorKind, Outcome, Transport};
use waybill_testkit::process::free_port;
use waybill_testkit::redis::{Options, Server};

use super::support::*;

const MIB: usize = 1024 * 1024;

async fn server(config: &str) -> Server {
    Server::start_with(Options { config: config.to_owned(), ..Options::default() }).await.unwrap()
}

/// A node of a cluster. Without a port of its own its bus takes one 10,000 above the server's, where clients have theirs.
async fn node(config: &str) -> Server {
    let bus = free_port().unwrap();
    server(&format!("cluster-enabled yes\ncluster-port {bus}\n{config}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_stream_is_blocked_alone() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    command(&server, &["SET", "invoices.created", "a text"]).await;
    let mut all = batch(0, 3, STREAM);
    all[1].destination = "invoices.created".to_owned();
    let outcomes = send(&transport, all).await;
    let [Outcome::Ack(_), Outcome::Blocked { scope, fault }, Outcome::Ack(_)] = outcomes.as_slice() else {
        panic!("{outcomes:#?}")
    };
    assert_eq!((scope.as_str(), fault.code.as_str(), fault.maybe_delivered), ("", "REDIS.WRONG_TYPE", false));
    assert_eq!(fault.attributes, [("broker-code".to_owned(), "WRONGTYPE".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_the_server_does_not_take_is_dead_at_once() {
    let server = server("proto-max-bulk-len 1mb").await;
    let mut settings = settings(json!({ "servers": [server.url()] }));
    settings.limits.max_batch_bytes = 16 * 1024 * 1024;
    let transport = open(settings).await.unwrap();
    assert_eq!(transport.limits().max_payload_bytes, Some(MIB as u32));
    let mut all = batch(0, 3, STREAM);
    all[1].payload = vec![b'x'; MIB + 1].into();
    assert_eq!(codes(&send(&transport, all).await), ["+", "dead REDIS.MAX_PAYLOAD", "+"]);
}

/// Who may not ask how much the server takes learns it when the server closes the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_ends_the_connection_costs_its_neighbours_nothing() {
    let server = server("proto-max-bulk-len 1mb\nuser shop on >s3cret ~* +hello +ping +xadd").await;
    let config = json!({ "servers": [server.url()] });
    let mut settings = with_secrets(config, &[("user", "shop"), ("password", "s3cret")]);
    settings.limits.max_batch_bytes = 16 * 1024 * 1024;
    let transport = open(settings).await.unwrap();
    let mut all = batch(0, 4, STREAM);
    all[1].payload = vec![b'x'; 3 * MIB].into();
    let outcomes = send(&transport, all).await;
    assert_eq!(codes(&outcomes), ["+", "dead REDIS.MAX_PAYLOAD", "back REDIS.LOST", "back REDIS.LOST"]);
    assert_eq!(codes(&send(&transport, batch(2, 4, STREAM)).await), ["+", "+"]);
    assert_eq!(ids(&stored(&server).await), ["m0", "m2", "m3"]);
}

/// Nothing is burned while the server takes nothing, and it goes on when it does again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_memory_or_replicas_holds_everything() {
    let server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    for (on, off, code) in [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"], "REDIS.OOM"),
        (
            ["CONFIG", "SET", "min-replicas-to-write", "1"],
            ["CONFIG", "SET", "min-replicas-to-write", "0"],
            "REDIS.NO_REPLICAS",
        ),
    ] {
        command(&server, &on).await;
        assert_eq!(refused(&transport, batch(0, 4, STREAM)).await, (ErrorKind::Unavailable, code.to_owned()));
        command(&server, &off).await;
        assert_eq!(acknowledged(&send(&transport, batch(0, 4, STREAM)).await), 4, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_with_a_script_is_waited_for() {
    let server = server("lua-time-limit 20").await;
    let transport = to(&server, json!({})).await;
    let mut other = server.client().await.unwrap();
    let script = tokio::spawn(async move { other.ask(&["EVAL", "while true do end", "0"]).await });
    let busy = async {
        for number in 0..10_000 {
            match try_send(&transport, batch(number, number + 1, STREAM)).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => return error,
            }
        }
        panic!("it never was busy")
    };
    let error = busy.await;
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "REDIS.BUSY"));
    let killed = server.client().await;
    // Its greeting is refused meanwhile, SCRIPT KILL is not.
    killed.unwrap().ask(&["SCRIPT", "KILL"]).await.unwrap();
    assert!(script.await.unwrap().unwrap_err().to_string().contains("killed"));
    assert_eq!(acknowledged(&send(&transport, batch(0, 1, STREAM)).await), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_we_may_not_write_to_is_blocked_and_the_rest_goes_on() {
    let server = server("user shop on >s3cret ~orders.* +hello +ping +xadd").await;
    let config = json!({ "servers": [server.url()] });
    let transport = open(with_secrets(config.clone(), &[("user", "shop"), ("password", "s3cret")])).await.unwrap();
    let mut all = batch(0, 3, STREAM);
    all[1].destination = "invoices.created".to_owned();
    assert_eq!(codes(&send(&transport, all).await), ["+", "blocked REDIS.PERMISSIONS", "+"]);
    command(&server, &["ACL", "SETUSER", "shop", "-xadd"]).await;
    assert_eq!(refused(&transport, batch(3, 5, STREAM)).await, (ErrorKind::Denied, "REDIS.PERMISSIONS".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster_says_what_it_can_not_do() {
    let server = node("").await;
    let transport = to(&server, json!({})).await;
    assert_eq!(
        refused(&transport, batch(0, 2, STREAM)).await,
        (ErrorKind::Unavailable, "REDIS.CLUSTER_DOWN".to_owned())
    );
    let error = open(settings(json!({ "servers": [server.url()], "db": 1 }))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidConfig);
    assert_eq!(error.fault.attributes, [("path".to_owned(), "db".to_owned())]);
    // All slots but the stream's: a node alone serves what it has.
    let plain = Server::start().await.unwrap();
    let error = open(settings(json!({ "servers": [plain.url()], "db": 99 }))).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidConfig, "{error:?}");
}

/// A node that has all slots serves them, with `dedup` too: both keys of a message are on one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_all_slots_serves() {
    let server = node("cluster-require-full-coverage no").await;
    command(&server, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    let transport = to(&server, json!({ "dedup": "window" })).await;
    for _ in 0..6_000 {
        if command(&server, &["CLUSTER", "INFO"]).await.contains("cluster_state:ok") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let mut all = batch(0, 3, STREAM);
    all[1].destination = "{shop}:orders".to_owned();
    all[2].destination = "shop}:orders".to_owned();
    assert_eq!(codes(&send(&transport, all).await), ["+", "+", "blocked REDIS.CROSS_SLOT"]);
}
