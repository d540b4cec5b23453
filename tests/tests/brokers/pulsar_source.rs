//! The bundled `pulsar-source` in the real sandbox against a real Apache Pulsar.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::source::{Disposition, Settled, Source, SourceDelivery};
use waybill_core::port::transport::{ErrorKind, Transport};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, WasmSource};
use waybill_testkit::pulsar::Server;
use waybill_tests::source::{self, WANTS, ids, pull, pull_all, settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "pulsar-source";
const SUBSCRIPTION: &str = "billing";
/// The protocol knows no end of what it keeps: the time in which nothing came is enough.
const QUIET: Duration = Duration::from_millis(500);

/// Settings for a topic of this server, with more configuration.
fn settings(server: &Server, topic: &str, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()], "topic": topic, "subscription": SUBSCRIPTION });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("orders", config)
}

async fn open(server: &Server, topic: &str, more: Value) -> Arc<WasmSource> {
    source::open(PLUGIN, settings(server, topic, &more), WANTS).await.expect("opens")
}

/// Sends messages by the bundled transport.
async fn send_orders(server: &Server, topic: &str, from: u64, to: u64, batching: &str) {
    let config = json!({ "servers": [server.url()], "batching": batching });
    let transport = transport::open("pulsar", transport::settings("orders-pulsar", config)).await.expect("opens");
    let outcomes = send(&transport, batch(from, to, topic)).await;
    assert_eq!(acknowledged(&outcomes) as u64, to - from);
    transport.close(AMPLE).await;
}

/// How many entries the subscription hasn't acknowledged.
async fn backlog(server: &Server, topic: &str) -> i64 {
    let stats = server
        .admin("GET", &format!("persistent/public/default/{topic}/stats?getPreciseBacklog=true"), "")
        .await
        .unwrap();
    let stats: Value = serde_json::from_str(&stats).unwrap();
    stats["subscriptions"][SUBSCRIPTION]["msgBacklog"].as_i64().unwrap()
}

async fn comes_to_nothing(server: &Server, topic: &str) {
    for _ in 0..100 {
        if backlog(server, topic).await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} aren't acknowledged", backlog(server, topic).await);
}

fn keys(all: &[SourceDelivery]) -> BTreeSet<String> {
    all.iter().filter_map(|delivery| delivery.id.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_and_is_acknowledged() {
    let server = Server::shared().await.unwrap();
    send_orders(server, "whole", 7, 8, "key").await;
    let source = open(server, "whole", json!({})).await;
    let (session, all) = pull_all(&source, 1).await;
    let [delivery] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), "whole"));
    assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
    assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
    assert_eq!((delivery.correlation_id.as_deref(), delivery.causation_id.as_deref()), (Some("cor-1"), Some("cau-1")));
    assert_eq!(delivery.occurred_at, Some(UnixMillis(1_700_000_000_000)));
    assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin".to_owned())));
    assert!(delivery.position.as_deref().is_some_and(|place| place.contains(':')));
    assert_eq!(backlog(server, "whole").await, 1);
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Lost]);
    comes_to_nothing(server, "whole").await;
    assert!(pull(&source, 50).await.caught_up);
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_acknowledged_when_all_its_messages_are() {
    let server = Server::shared().await.unwrap();
    send_orders(server, "entry", 0, 10, "partition").await;
    let source = open(server, "entry", json!({})).await;
    let (session, all) = pull_all(&source, 10).await;
    assert_eq!(ids(&all), (0..10).map(|number| format!("m{number}")).collect::<Vec<_>>());
    assert!(
        all.iter().all(|delivery| delivery.position.as_deref().is_some_and(|place| place.matches(':').count() == 2))
    );
    settle(&source, session, &all[1..], &Disposition::Ack).await;
    assert!(backlog(server, "entry").await > 0);
    // What was settled isn't told apart from what wasn't by a new session: all of the entry comes again.
    source.close(AMPLE).await;
    let source = open(server, "entry", json!({})).await;
    let (session, again) = pull_all(&source, 10).await;
    assert_eq!(
        again.iter().map(|delivery| &delivery.position).collect::<Vec<_>>(),
        all.iter().map(|delivery| &delivery.position).collect::<Vec<_>>()
    );
    settle(&source, session, &again, &Disposition::Ack).await;
    comes_to_nothing(server, "entry").await;
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again() {
    let server = Server::shared().await.unwrap();
    for kind in ["failover", "shared", "key-shared", "exclusive"] {
        let topic = format!("given-back-{kind}");
        send_orders(server, &topic, 0, 3, "key").await;
        let source = open(server, &topic, json!({ "type": kind })).await;
        let (session, all) = pull_all(&source, 3).await;
        assert_eq!(settle(&source, session, &all[1..2], &Disposition::Release).await, [Settled::Done]);
        let (session, again) = pull_all(&source, 1).await;
        assert_eq!((&again[0].position, again[0].redelivered), (&all[1].position, true), "{kind}");
        settle(&source, session, &again, &Disposition::Ack).await;
        settle(&source, session, &all[..1], &Disposition::Ack).await;
        settle(&source, session, &all[2..], &Disposition::Ack).await;
        comes_to_nothing(server, &topic).await;
        source.close(AMPLE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_others_are_read_however_they_are_compressed() {
    let server = Server::shared().await.unwrap();
    server.create_topic("foreign", 3).await.unwrap();
    let mut expected = BTreeSet::new();
    for compression in ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"] {
        let messages: Vec<Value> = (0..20)
            .map(|number| {
                let id = format!("{compression}-{number}");
                expected.insert(id.clone());
                json!({ "payload": "x".repeat(200), "key": format!("k{number}"), "properties": { "id": id } })
            })
            .collect();
        server.foreign().write("persistent://public/default/foreign", json!(messages), 10, compression).await.unwrap();
    }
    let source = open(server, "foreign", json!({})).await;
    let (mut session, mut all) = (0, Vec::new());
    for _ in 0..100 {
        if all.len() >= 100 {
            break;
        }
        let pulled = source.pull(0, 50, source::BYTES, QUIET).await.unwrap();
        session = pulled.session;
        settle(&source, session, &pulled.deliveries, &Disposition::Ack).await;
        all.extend(pulled.deliveries);
    }
    assert!(session > 0);
    assert_eq!(keys(&all), expected);
    assert!(all.iter().all(|delivery| delivery.payload.len() == 200
        && delivery.group.as_deref().is_some_and(|group| group.contains("partition"))));
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_share_keys_and_what_one_had_goes_to_the_other() {
    let server = Server::shared().await.unwrap();
    server.create_topic("two", 0).await.unwrap();
    let more = json!({ "type": "key-shared" });
    let (one, other) = (open(server, "two", more.clone()).await, open(server, "two", more).await);
    // Both have subscribed before anything is there.
    pull(&one, 1).await;
    pull(&other, 1).await;
    send_orders(server, "two", 0, 40, "key").await;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..100 {
        ours.extend(pull(&one, 50).await.deliveries);
        theirs.extend(pull(&other, 50).await.deliveries);
        if ours.len() + theirs.len() >= 40 {
            break;
        }
    }
    assert!(!ours.is_empty() && !theirs.is_empty(), "{} {}", ours.len(), theirs.len());
    one.close(AMPLE).await;
    let (_, again) = pull_all(&other, ours.len()).await;
    assert_eq!(keys(&again), keys(&ours));
    other.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_moves_loses_what_is_in_hand_and_it_comes_again() {
    let server = Server::shared().await.unwrap();
    send_orders(server, "moves", 0, 5, "key").await;
    let source = open(server, "moves", json!({})).await;
    let (session, all) = pull_all(&source, 5).await;
    server.admin("PUT", "persistent/public/default/moves/unload", "").await.unwrap();
    let mut again = Vec::new();
    let (mut lost, mut newer) = (0, session);
    for _ in 0..100 {
        let pulled = match source.pull(0, 50, source::BYTES, QUIET).await {
            Ok(pulled) => pulled,
            // The topic is on its way.
            Err(error) if error.kind == ErrorKind::Unavailable => continue,
            Err(error) => panic!("{error:?}"),
        };
        (lost, newer) = (lost + pulled.notices.lost.len(), pulled.session);
        again.extend(pulled.deliveries);
        if again.len() >= 5 {
            break;
        }
    }
    assert_eq!((lost, keys(&again)), (5, keys(&all)));
    assert!(settle(&source, session, &all, &Disposition::Ack).await.iter().all(|settled| *settled == Settled::Lost));
    settle(&source, newer, &again, &Disposition::Ack).await;
    comes_to_nothing(server, "moves").await;
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_without_its_topic_waits_and_makes_none() {
    let server = Server::shared().await.unwrap();
    let (source, refused) = source::supervise(PLUGIN, settings(server, "not-there", &json!({}))).await;
    // A topic without partitions shows only when it is subscribed to.
    assert!(refused.is_none_or(|refused| refused.fault.code == "PULSAR.NO_TOPIC"));
    let error = source.pull(0, 1, source::BYTES, QUIET).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "PULSAR.NO_TOPIC"));
    send_orders(server, "not-there", 0, 1, "key").await;
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_gives_again_what_was_not_settled() {
    let mut server = Server::start().await.unwrap();
    send_orders(&server, "killed", 0, 10, "key").await;
    let source = open(&server, "killed", json!({ "connect_timeout": "1s" })).await;
    let (session, all) = pull_all(&source, 10).await;
    settle(&source, session, &all[..4], &Disposition::Ack).await;
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let (session, again) = pull_all(&source, 6).await;
    let missing: BTreeSet<String> = keys(&all[4..]).difference(&keys(&again)).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
    settle(&source, session, &again, &Disposition::Ack).await;
    comes_to_nothing(&server, "killed").await;
    source.close(AMPLE).await;
}
