//! The bundled `redis-source` in the real sandbox against a real Redis.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::source::{Disposition, Overtaken, Settled, Source, SourceWants};
use waybill_core::port::transport::{ErrorKind, Fault, Transport};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, WasmSource};
use waybill_testkit::redis::{Options, Server};
use waybill_tests::source::{self, WANTS, attribute, ids, pull, pull_all, settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "redis-source";
const STREAM: &str = "orders.created";

/// Settings for the group `billing` of this server's stream, with more configuration.
fn settings(server: &Server, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()], "stream": STREAM, "group": "billing" });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("orders", config)
}

async fn open(server: &Server, more: Value) -> Arc<WasmSource> {
    source::open(PLUGIN, settings(server, &more), WANTS).await.expect("opens")
}

async fn command(server: &Server, words: &[&str]) -> String {
    server.client().await.unwrap().ask(words).await.unwrap().text()
}

/// A server with the stream and its group.
async fn server() -> Server {
    server_with(Options::default()).await
}

async fn server_with(options: Options) -> Server {
    let server = Server::start_with(options).await.unwrap();
    command(&server, &["XGROUP", "CREATE", STREAM, "billing", "0", "MKSTREAM"]).await;
    server
}

/// Sends messages by the bundled transport.
async fn send_orders(server: &Server, from: u64, to: u64) {
    let config = json!({ "servers": [server.url()] });
    let transport = transport::open("redis", transport::settings("orders-redis", config)).await.expect("opens");
    let outcomes = send(&transport, batch(from, to, STREAM)).await;
    assert_eq!(acknowledged(&outcomes) as u64, to - from);
    transport.close(AMPLE).await;
}

/// How many entries are delivered and not acknowledged.
async fn pending(server: &Server) -> i64 {
    let told = server.client().await.unwrap().ask(&["XPENDING", STREAM, "billing"]).await.unwrap();
    told.list()[0].text().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_and_is_acknowledged() {
    let server = server().await;
    send_orders(&server, 7, 8).await;
    let source = open(&server, json!({ "ack_wait": "1m" })).await;
    assert_eq!(source.facts().features, ["nack", "extend", "delivery-count"]);
    let (session, all) = pull_all(&source, 1).await;
    let [delivery] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), STREAM));
    assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
    assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
    assert_eq!((delivery.correlation_id.as_deref(), delivery.causation_id.as_deref()), (Some("cor-1"), Some("cau-1")));
    assert_eq!(
        (delivery.content_type.as_deref(), &delivery.payload[..]),
        (Some("application/json"), &b"{\"order\":7}"[..])
    );
    assert_eq!(delivery.occurred_at, Some(UnixMillis(1_700_000_000_000)));
    assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin".to_owned())));
    assert_eq!((delivery.redelivered, delivery.settle_within), (false, Some(Duration::from_secs(60))));
    assert_eq!(pending(&server).await, 1);
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Lost]);
    assert_eq!(pending(&server).await, 0);
    assert!(pull(&source, 50).await.caught_up);
    let refused = settle(&source, session, &all, &Disposition::Reject(Fault::new("TEST.POISON", "poison"))).await;
    assert!(matches!(&refused[0], Settled::Failed(fault) if fault.code == "PLUGIN.UNSUPPORTED"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_without_being_counted() {
    let server = server().await;
    send_orders(&server, 0, 2).await;
    let source = open(&server, json!({ "ack_wait": "10m" })).await;
    let (session, all) = pull_all(&source, 2).await;
    assert_eq!(settle(&source, session, &all[1..], &Disposition::Release).await, [Settled::Done]);
    let (session, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), &again[0].position), (vec!["m1"], &all[1].position));
    // Giving back counts nothing; being taken again does.
    assert_eq!((again[0].delivery_count, again[0].redelivered), (Some(2), true));
    settle(&source, session, &all[..1], &Disposition::Ack).await;
    settle(&source, session, &again, &Disposition::Ack).await;
    assert_eq!(pending(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_behind_is_read_first_and_what_others_left_when_it_is_old() {
    let server = server().await;
    send_orders(&server, 0, 3).await;
    command(&server, &["XREADGROUP", "GROUP", "billing", "somebody", "COUNT", "1", "STREAMS", STREAM, ">"]).await;
    command(&server, &["XREADGROUP", "GROUP", "billing", "waybill-orders", "COUNT", "1", "STREAMS", STREAM, ">"]).await;
    let source = open(&server, json!({ "ack_wait": "2s" })).await;
    let first = pull(&source, 50).await;
    assert_eq!((ids(&first.deliveries), first.deliveries[0].redelivered), (vec!["m1"], true));
    let (_, mut rest) = pull_all(&source, 2).await;
    rest.sort_by_key(|delivery| delivery.id.clone());
    assert_eq!(ids(&rest), ["m0", "m2"]);
    assert_eq!((rest[0].delivery_count, rest[1].delivery_count), (Some(2), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_extended_nobody_else_gets_it_and_what_another_has_is_lost() {
    let server = server().await;
    send_orders(&server, 0, 1).await;
    let ours = open(&server, json!({ "ack_wait": "2s", "consumer": "a" })).await;
    let other = open(&server, json!({ "ack_wait": "2s", "consumer": "b" })).await;
    let (session, all) = pull_all(&ours, 1).await;
    for _ in 0..20 {
        assert_eq!(settle(&ours, session, &all, &Disposition::Extend).await, [Settled::Done]);
        assert!(pull(&other, 50).await.deliveries.is_empty(), "another has it");
    }
    let (theirs, taken) = pull_all(&other, 1).await;
    assert_eq!((ids(&taken), taken[0].delivery_count), (vec!["m0"], Some(2)));
    for disposition in [Disposition::Extend, Disposition::Release] {
        assert_eq!(settle(&ours, session, &all, &disposition).await, [Settled::Lost]);
    }
    assert_eq!(settle(&other, theirs, &taken, &Disposition::Ack).await, [Settled::Done]);
    assert_eq!(pending(&server).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_others_comes_as_a_json_object_of_its_fields() {
    let server = server().await;
    let id = command(&server, &["XADD", STREAM, "*", "order", "7", "amount", "3.50"]).await;
    let source = open(&server, json!({})).await;
    let (_, all) = pull_all(&source, 1).await;
    let payload: Value = serde_json::from_slice(&all[0].payload).unwrap();
    assert_eq!((payload, all[0].id.as_deref()), (json!({ "order": "7", "amount": "3.50" }), None));
    assert_eq!(
        (all[0].position.as_deref(), all[0].content_type.as_deref()),
        (Some(format!("{STREAM}/{id}").as_str()), Some("application/json"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_too_large_is_told_by_its_size_and_the_rest_waits_for_its_turn() {
    let server = server().await;
    let large = "x".repeat(200_000);
    for payload in [large.as_str(), "small", "last"] {
        command(&server, &["XADD", STREAM, "*", "payload", payload]).await;
    }
    let source = open(&server, json!({})).await;
    let mut all = Vec::new();
    while all.len() < 3 {
        all.extend(source.pull(0, 50, 100_000, Duration::from_millis(200)).await.unwrap().deliveries);
    }
    assert_eq!((all[0].omitted, all[0].payload.len()), (Some(200_000), 0));
    assert_eq!((&all[1].payload[..], &all[2].payload[..]), (&b"small"[..], &b"last"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_group_is_provisioned_once_and_a_source_without_it_waits() {
    let server = Server::start().await.unwrap();
    let (source, refused) = source::supervise(PLUGIN, settings(&server, &json!({}))).await;
    let refused = refused.expect("no group");
    assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Unavailable, "REDIS.NO_GROUP"));
    for (apply, action) in
        [(false, ProvisionAction::Create), (true, ProvisionAction::Create), (true, ProvisionAction::Keep)]
    {
        let changes = source.provision(apply).await.unwrap();
        assert_eq!((changes[0].target.as_str(), changes[0].action), ("group billing of stream orders.created", action));
    }
    send_orders(&server, 0, 1).await;
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_trimmed_unread_stops_the_source_or_is_counted() {
    let server = server().await;
    send_orders(&server, 0, 1).await;
    let source = open(&server, json!({})).await;
    let (session, all) = pull_all(&source, 1).await;
    settle(&source, session, &all, &Disposition::Ack).await;
    source.close(AMPLE).await;
    send_orders(&server, 1, 10).await;
    command(&server, &["XTRIM", STREAM, "MAXLEN", "=", "3"]).await;
    let error = source::open(PLUGIN, settings(&server, &json!({})), WANTS).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "SOURCE.OVERTAKEN"));
    let wants = SourceWants { on_overtaken: Overtaken::GoOn, ..WANTS };
    let source = source::open(PLUGIN, settings(&server, &json!({})), wants).await.unwrap();
    let pulled = pull(&source, 50).await;
    assert_eq!(attribute(&pulled.notices.attributes, "overtaken"), Some("6"));
    assert_eq!(ids(&pulled.deliveries), ["m7", "m8", "m9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let options = Options { password: Some("s3cret".to_owned()), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    for (password, kind, code) in [
        ("another-one", ErrorKind::Denied, "REDIS.AUTH"),
        // That one is in, and looks for the group.
        ("s3cret", ErrorKind::Unavailable, "REDIS.NO_GROUP"),
    ] {
        let spec = transport::grant(settings(&server, &json!({})), &[("password", password)]);
        let error = source::open(PLUGIN, spec.clone(), WANTS).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (kind, code), "{error:?}");
        let said = source::said(PLUGIN, spec).await;
        assert!(said.contains(code) && !said.contains(password), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_costs_nothing() {
    let mut server = server_with(Options { durable: true, ..Options::default() }).await;
    send_orders(&server, 0, 20).await;
    let source = open(&server, json!({ "ack_wait": "1s" })).await;
    let (session, all) = pull_all(&source, 20).await;
    let before = settle(&source, session, &all[..10], &Disposition::Ack).await;
    assert!(before.iter().all(|settled| *settled == Settled::Done), "{before:?}");
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    // What is in hand stays so: the group remembers whose it is.
    let mut left = all[10..].to_vec();
    let mut settled = Vec::new();
    while !left.is_empty() {
        let items = left.iter().map(|delivery| waybill_core::port::source::SourceSettlement {
            token: delivery.token.clone(),
            disposition: Disposition::Ack,
        });
        match source.settle(0, session, items.collect(), AMPLE).await {
            Ok(answers) => {
                settled = answers;
                left.clear();
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    assert!(settled.iter().all(|settled| *settled == Settled::Done), "{settled:?}");
    assert_eq!(pending(&server).await, 0);
}
