//! The bundled `nats-source` in the real sandbox against a real nats-server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::source::{Disposition, Overtaken, Settled, Source, SourceWants};
use waybill_core::port::transport::{ErrorKind, Fault, Transport};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, WasmSource};
use waybill_testkit::nats::{Options, Server};
use waybill_tests::source::{self, BYTES, WANTS, attribute, ids, pull, pull_all, settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "nats-source";

/// Settings for the stream `ORDERS` of this server, with more configuration.
fn settings(server: &Server, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()], "stream": "ORDERS" });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("orders", config)
}

async fn open(server: &Server, more: Value) -> Arc<WasmSource> {
    source::open(PLUGIN, settings(server, &more), WANTS).await.expect("opens")
}

async fn api(server: &Server, subject: &str, request: &Value) -> Value {
    server.client().await.unwrap().api(subject, request).await.unwrap()
}

/// A stream `ORDERS` with a durable consumer `ship` and these settings of it.
async fn consumer(server: &Server, more: &Value) {
    let _ = server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await;
    let mut config =
        json!({ "durable_name": "ship", "ack_policy": "explicit", "deliver_policy": "all", "max_deliver": -1 });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api(server, "CONSUMER.DURABLE.CREATE.ORDERS.ship", &json!({ "stream_name": "ORDERS", "config": config })).await;
}

/// Sends messages by the bundled transport.
async fn send_orders(server: &Server, from: u64, to: u64) {
    let config = json!({ "servers": [server.url()] });
    let transport = transport::open("nats", transport::settings("orders-nats", config)).await.expect("opens");
    let outcomes = send(&transport, batch(from, to, "orders.created")).await;
    assert_eq!(acknowledged(&outcomes) as u64, to - from);
    transport.close(AMPLE).await;
}

async fn unsettled(server: &Server) -> Value {
    api(server, "CONSUMER.INFO.ORDERS.ship", &json!({})).await["num_ack_pending"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_and_is_acknowledged() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({ "ack_wait": 120_000_000_000_u64 })).await;
    send_orders(&server, 7, 8).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    assert_eq!(source.facts().features, ["nack", "nack-delay", "extend", "reject", "delivery-count"]);
    let (session, all) = pull_all(&source, 1).await;
    let [delivery] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), "orders.created"));
    assert!(
        delivery.position.as_ref().unwrap().starts_with("ORDERS@")
            && delivery.position.as_ref().unwrap().ends_with("/1")
    );
    assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
    assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
    assert_eq!((delivery.correlation_id.as_deref(), delivery.causation_id.as_deref()), (Some("cor-1"), Some("cau-1")));
    assert_eq!(
        (delivery.content_type.as_deref(), &delivery.payload[..]),
        (Some("application/json"), &b"{\"order\":7}"[..])
    );
    assert_eq!(delivery.occurred_at, Some(UnixMillis(1_700_000_000_000)));
    assert_eq!((delivery.delivery_count, delivery.redelivered), (Some(1), false));
    assert_eq!((delivery.deliveries_left, delivery.settle_within), (None, Some(Duration::from_secs(120))));
    assert_eq!(unsettled(&server).await, json!(1));
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
    assert_eq!(unsettled(&server).await, json!(0));
    assert!(pull(&source, 50).await.caught_up);
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again_and_what_is_refused_never_does() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({ "max_deliver": 5 })).await;
    send_orders(&server, 0, 2).await;
    let source = open(&server, json!({ "consumer": "ship" })).await;
    let (session, all) = pull_all(&source, 2).await;
    assert_eq!((ids(&all), all[0].deliveries_left), (vec!["m0", "m1"], Some(4)));
    let poison = Disposition::Reject(Fault::new("TEST.POISON", "poison"));
    assert_eq!(settle(&source, session, &all[..1], &poison).await, [Settled::Done]);
    assert_eq!(settle(&source, session, &all[1..], &Disposition::Release).await, [Settled::Done]);
    let (session, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), again[0].delivery_count, again[0].redelivered), (vec!["m1"], Some(2), true));
    assert_eq!((again[0].deliveries_left, &again[0].position), (Some(3), &all[1].position));
    settle(&source, session, &again, &Disposition::Ack).await;
    assert_eq!(unsettled(&server).await, json!(0));
    assert!(pull(&source, 50).await.deliveries.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_extended_nobody_else_gets_it() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({ "ack_wait": 2_000_000_000_u64 })).await;
    send_orders(&server, 0, 1).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    let (session, all) = pull_all(&source, 1).await;
    for _ in 0..20 {
        assert_eq!(settle(&source, session, &all, &Disposition::Extend).await, [Settled::Done]);
        assert!(pull(&source, 50).await.deliveries.is_empty(), "it came again");
    }
    let (_, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), again[0].delivery_count), (vec!["m0"], Some(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_fetched_than_there_is_room_for() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({})).await;
    send_orders(&server, 0, 30).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    let first = pull(&source, 7).await;
    assert_eq!((first.deliveries.len(), first.caught_up), (7, false));
    assert_eq!(attribute(&first.notices.attributes, "lag"), Some("23"));
    assert_eq!(unsettled(&server).await, json!(7), "nothing is on its way");
    let rest = pull(&source, 50).await;
    assert_eq!((rest.deliveries.len(), rest.caught_up), (23, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_too_large_is_told_by_its_size_and_the_next_one_comes() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({})).await;
    let mut client = server.client().await.unwrap();
    client.publish("orders.large", &vec![b'x'; 200_000]).await.unwrap();
    client.publish("orders.small", b"small").await.unwrap();
    let source = open(&server, json!({ "durable": "ship" })).await;
    let mut all = Vec::new();
    while all.len() < 2 {
        all.extend(source.pull(0, 50, 100_000, Duration::from_millis(200)).await.unwrap().deliveries);
    }
    assert_eq!((all[0].omitted, all[0].payload.len(), all[0].id.as_deref()), (Some(200_000), 0, None));
    assert_eq!((all[1].omitted, &all[1].payload[..]), (None, &b"small"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_and_consumer_are_provisioned_once_and_a_source_without_them_waits() {
    let server = Server::start().await.unwrap();
    let config = json!({ "durable": "ship", "ack_wait": "2m", "filter_subject": "orders.>",
        "provision": { "stream": { "subjects": ["orders.>"], "max_age": "7d" } } });
    let (source, refused) = source::supervise(PLUGIN, settings(&server, &config)).await;
    assert_eq!(
        refused.map(|error| (error.kind, error.fault.code)),
        Some((ErrorKind::Unavailable, "NATS.NO_STREAM".to_owned()))
    );
    let actions = |apply: bool| {
        let source = &source;
        async move {
            let changes = source.provision(apply).await.unwrap();
            changes.into_iter().map(|change| (change.target, change.action)).collect::<Vec<_>>()
        }
    };
    let both =
        |action| vec![("stream ORDERS".to_owned(), action), ("consumer ship of stream ORDERS".to_owned(), action)];
    assert_eq!(actions(false).await, both(ProvisionAction::Create));
    assert_eq!(actions(true).await, both(ProvisionAction::Create));
    assert_eq!(actions(true).await, both(ProvisionAction::Keep));
    let made = api(&server, "CONSUMER.INFO.ORDERS.ship", &json!({})).await["config"].clone();
    assert_eq!((&made["max_deliver"], &made["ack_wait"]), (&json!(-1), &json!(120_000_000_000_u64)));
    let stream = api(&server, "STREAM.INFO.ORDERS", &json!({})).await["config"].clone();
    assert_eq!((&stream["retention"], &stream["max_age"]), (&json!("limits"), &json!(604_800_000_000_000_u64)));
    assert!(stream["max_bytes"].as_i64().unwrap() > 0, "the size that document 5 gives it, or less");
    send_orders(&server, 0, 1).await;
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);

    let limited = json!({ "durable": "ship", "ack_wait": "2m", "filter_subject": "orders.>", "max_deliver": 3 });
    let source = open(&server, limited).await;
    let changes = source.provision(true).await.unwrap();
    assert_eq!(changes[0].action, ProvisionAction::Change);
    assert!(changes[0].detail.contains("gives a message up"), "{}", changes[0].detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_reads_something_else_is_refused() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({ "filter_subject": "orders.created" })).await;
    for more in [json!({ "durable": "ship", "filter_subject": "orders.>" }), json!({ "durable": "gone" })] {
        let error = source::open(PLUGIN, settings(&server, &more), WANTS).await.unwrap_err();
        let expected = if more["durable"] == "ship" { "NATS.CONSUMER" } else { "NATS.NO_CONSUMER" };
        assert_eq!(error.fault.code, expected);
    }
    assert!(source::probe(PLUGIN, settings(&server, &json!({ "durable": "ship" }))).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_made_anew_brings_new_positions_and_tells_what_is_lost() {
    let server = Server::start().await.unwrap();
    consumer(&server, &json!({})).await;
    send_orders(&server, 0, 3).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    let (session, before) = pull_all(&source, 3).await;
    settle(&source, session, &before[..2], &Disposition::Ack).await;
    api(&server, "STREAM.DELETE.ORDERS", &json!({})).await;
    consumer(&server, &json!({})).await;
    send_orders(&server, 3, 5).await;
    let mut lost = Vec::new();
    let mut after = Vec::new();
    while after.len() < 2 {
        let Ok(pulled) = source.pull(0, 50, BYTES, Duration::from_millis(200)).await else { continue };
        lost.extend(pulled.notices.lost);
        after.extend(pulled.deliveries);
    }
    assert_eq!(ids(&after), ["m3", "m4"]);
    assert!(after.iter().all(|delivery| before.iter().all(|other| other.position != delivery.position)));
    assert_eq!(lost, [before[2].token.clone()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_of_its_own_begins_at_the_earliest_or_where_it_stood_also_when_it_is_made_again() {
    let server = Server::start().await.unwrap();
    server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &json!({})).await.unwrap();
    send_orders(&server, 0, 4).await;
    let source = open(&server, json!({})).await;
    let (session, all) = pull_all(&source, 4).await;
    assert_eq!(ids(&all), ["m0", "m1", "m2", "m3"]);
    settle(&source, session, &all[..2], &Disposition::Ack).await;
    let names = api(&server, "CONSUMER.NAMES.ORDERS", &json!({})).await;
    let name = names["consumers"][0].as_str().unwrap().to_owned();
    api(&server, &format!("CONSUMER.DELETE.ORDERS.{name}"), &json!({})).await;
    let (_, again) = pull_all(&source, 2).await;
    assert_eq!(ids(&again), ["m2", "m3"]);
    source.close(AMPLE).await;
    assert_eq!(api(&server, "CONSUMER.NAMES.ORDERS", &json!({})).await["consumers"], json!([]));
    // The host remembers where it stood.
    let wants = SourceWants { resume_after: all[1].position.clone(), ..WANTS };
    let source = source::open(PLUGIN, settings(&server, &json!({})), wants).await.unwrap();
    assert!(source.facts().has("resumes"));
    assert_eq!(ids(&pull_all(&source, 2).await.1), ["m2", "m3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_stream_removed_unread_stops_the_source_or_is_counted() {
    let server = Server::start().await.unwrap();
    let limits = json!({ "max_msgs": 3 });
    server.client().await.unwrap().create_stream("ORDERS", &["orders.>"], &limits).await.unwrap();
    consumer(&server, &json!({})).await;
    send_orders(&server, 0, 1).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    let (session, all) = pull_all(&source, 1).await;
    settle(&source, session, &all, &Disposition::Ack).await;
    source.close(AMPLE).await;
    send_orders(&server, 1, 10).await;
    let error = source::open(PLUGIN, settings(&server, &json!({ "durable": "ship" })), WANTS).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "SOURCE.OVERTAKEN"));
    let wants = SourceWants { on_overtaken: Overtaken::GoOn, ..WANTS };
    let source = source::open(PLUGIN, settings(&server, &json!({ "durable": "ship" })), wants).await.unwrap();
    let pulled = pull(&source, 50).await;
    assert_eq!(
        (ids(&pulled.deliveries), attribute(&pulled.notices.attributes, "overtaken")),
        (vec!["m7", "m8", "m9"], Some("6"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_so_without_the_password() {
    let config = "authorization { user: shop, password: s3cret }".to_owned();
    let server = Server::start_with(Options { config, ..Options::default() }).await.unwrap();
    for (password, kind, code) in [
        ("another-one", ErrorKind::Denied, "NATS.AUTH"),
        // That one is in, and looks for the stream.
        ("s3cret", ErrorKind::Unavailable, "NATS.NO_STREAM"),
    ] {
        let spec = settings(&server, &json!({ "durable": "ship" }));
        let spec = transport::grant(spec, &[("user", "shop"), ("password", password)]);
        let error = source::open(PLUGIN, spec.clone(), WANTS).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (kind, code), "{error:?}");
        let said = source::said(PLUGIN, spec).await;
        assert!(said.contains(code) && !said.contains(password), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_costs_nothing() {
    let mut server = Server::start().await.unwrap();
    consumer(&server, &json!({ "ack_wait": 1_000_000_000_u64 })).await;
    send_orders(&server, 0, 20).await;
    let source = open(&server, json!({ "durable": "ship" })).await;
    let (session, first) = pull_all(&source, 20).await;
    server.kill().await.unwrap();
    let unknown = source.settle(0, session, Vec::new(), AMPLE).await;
    assert_eq!(unknown, Ok(Vec::new()));
    server.restart().await.unwrap();
    let (session, mut again) = pull_all(&source, 20).await;
    again.sort_by_key(|delivery| delivery.position.clone());
    let mut positions: Vec<_> = first.iter().map(|delivery| delivery.position.clone()).collect();
    positions.sort();
    assert_eq!(again.iter().map(|delivery| delivery.position.clone()).collect::<Vec<_>>(), positions);
    assert!(settle(&source, session, &again, &Disposition::Ack).await.iter().all(|settled| *settled == Settled::Done));
    assert_eq!(unsettled(&server).await, json!(0));
}
