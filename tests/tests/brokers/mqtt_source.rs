//! The bundled `mqtt-source` in the real sandbox against a real Mosquitto.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::kv::KvQuota;
use waybill_core::port::source::{Disposition, Pulled, Settled, Source, SourceDelivery, SourceWants};
use waybill_core::port::transport::{ErrorKind, Fault, Transport};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{EndpointSpec, MemoryKv, WasmSource};
use waybill_testkit::mqtt::{Durable, Options, Server};
use waybill_testkit::outage::Broker as _;
use waybill_tests::source::{self, WANTS, attribute, ids, pull, pull_all, settle, try_settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "mqtt-source";
const TOPIC: &str = "orders.created";
/// Pulls until what was sent has come, or never does.
const PULLS_MAX: usize = 600;

/// Settings for the topic at this server, with more configuration.
fn settings(server: &Server, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()], "topics": [TOPIC] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    transport::settings("orders", config)
}

async fn open(server: &Server, more: Value) -> Arc<WasmSource> {
    source::open(PLUGIN, settings(server, &more), WANTS).await.expect("opens")
}

/// What a source brings that may be opening again; none behind a pause.
async fn try_pull(source: &WasmSource) -> Option<Pulled> {
    let pulled = source.pull(0, 50, 1 << 20, Duration::from_millis(200)).await.ok();
    if pulled.is_none() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    pulled
}

/// Sends messages by the bundled transport.
async fn send_orders(server: &Server, from: u64, to: u64, more: Value) {
    send_to(&server.url(), from, to, more).await;
}

async fn send_to(url: &str, from: u64, to: u64, more: Value) {
    let mut config = json!({ "servers": [url] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let transport = transport::open("mqtt", transport::settings("orders-mqtt", config)).await.expect("opens");
    let outcomes = send(&transport, batch(from, to, TOPIC)).await;
    assert_eq!(acknowledged(&outcomes) as u64, to - from);
    transport.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_by_either_version() {
    for version in ["5", "3.1.1"] {
        let server = Server::start().await.unwrap();
        let source = open(&server, json!({ "version": version })).await;
        assert_eq!(source.facts().features, ["replays-in-order", "ordered-groups", "ordered-acks"]);
        send_orders(&server, 7, 8, json!({ "version": version })).await;
        let (session, all) = pull_all(&source, 1).await;
        let [delivery] = all.as_slice() else { panic!("{all:#?}") };
        assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), TOPIC));
        assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
        assert_eq!((delivery.event_type.as_deref(), delivery.event_version), (Some("order.created"), Some(3)));
        let chain = (delivery.correlation_id.as_deref(), delivery.causation_id.as_deref());
        assert_eq!(chain, (Some("cor-1"), Some("cau-1")));
        assert_eq!(
            (delivery.content_type.as_deref(), &delivery.payload[..]),
            (Some("application/json"), &b"{\"order\":7}"[..])
        );
        assert_eq!(delivery.occurred_at, Some(UnixMillis(1_700_000_000_000)));
        assert!(delivery.headers.contains(&("X-Shop".to_owned(), "berlin".to_owned())));
        assert_eq!((delivery.redelivered, &delivery.position), (false, &None));
        assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
        assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Lost]);
        assert!(pull(&source, 50).await.caught_up);
        let refused = settle(&source, session, &all, &Disposition::Reject(Fault::new("TEST.POISON", "poison"))).await;
        assert_eq!(refused, [Settled::Lost]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledgements_go_in_order_and_what_was_left_comes_again_after_a_restart() {
    let server = Server::start().await.unwrap();
    let source = open(&server, json!({})).await;
    send_orders(&server, 0, 4, json!({})).await;
    let (session, all) = pull_all(&source, 4).await;
    assert_eq!(ids(&all), ["m0", "m1", "m2", "m3"]);
    settle(&source, session, &all[..1], &Disposition::Ack).await;
    settle(&source, session, &all[2..3], &Disposition::Ack).await;
    source.close(AMPLE).await;
    send_orders(&server, 4, 5, json!({})).await;
    // m2 was settled behind m1, which wasn't.
    let again = open(&server, json!({})).await;
    let (session, rest) = pull_all(&again, 4).await;
    assert_eq!(ids(&rest), ["m1", "m2", "m3", "m4"]);
    assert!(rest[0].redelivered && !rest[3].redelivered);
    settle(&again, session, &rest, &Disposition::Ack).await;
    again.close(AMPLE).await;
    let empty = open(&server, json!({})).await;
    assert!(pull(&empty, 50).await.deliveries.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_is_handed_over_again() {
    let server = Server::start().await.unwrap();
    let source = open(&server, json!({})).await;
    send_orders(&server, 0, 3, json!({})).await;
    let (session, all) = pull_all(&source, 3).await;
    settle(&source, session, &all[1..2], &Disposition::Release).await;
    let (session, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), again[0].redelivered), (vec!["m1"], true));
    settle(&source, session, &all[..1], &Disposition::Ack).await;
    settle(&source, session, &again, &Disposition::Ack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_on_its_way_than_the_window() {
    for version in ["5", "3.1.1"] {
        let server = Server::start().await.unwrap();
        let wants = SourceWants { window: 3, ..WANTS };
        let spec = settings(&server, &json!({ "version": version }));
        let source = source::open(PLUGIN, spec, wants).await.unwrap();
        send_orders(&server, 0, 10, json!({})).await;
        let (session, all) = pull_all(&source, 3).await;
        // By 3.1.1 a message has no properties, so no id.
        let payloads = |all: &[SourceDelivery]| -> Vec<String> {
            all.iter().map(|delivery| String::from_utf8_lossy(&delivery.payload).into_owned()).collect()
        };
        assert_eq!(payloads(&all), ["{\"order\":0}", "{\"order\":1}", "{\"order\":2}"]);
        assert!(pull(&source, 50).await.deliveries.is_empty(), "the window is full");
        settle(&source, session, &all[..1], &Disposition::Ack).await;
        assert_eq!(payloads(&pull_all(&source, 1).await.1), ["{\"order\":3}"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_messages_come_as_the_operator_says() {
    for (retained, version, first, second) in [
        ("skip", "5", 0, 0),
        ("new", "5", 1, 0),
        ("each", "5", 1, 1),
        ("skip", "3.1.1", 0, 0),
        // All of them come at a subscription, and the source asks for it when it is opened.
        ("new", "3.1.1", 1, 1),
        ("each", "3.1.1", 1, 1),
    ] {
        let server = Server::start().await.unwrap();
        let mut other = server.client().await.unwrap();
        other.retain(TOPIC, b"21.5", &[("id", "r1")]).await.unwrap();
        for expected in [first, second] {
            let source = open(&server, json!({ "retained": retained, "version": version })).await;
            // Behind what was retained: all of that has come, or none of it does.
            other.publish(TOPIC, b"marker", &[]).await.unwrap();
            let (session, all) = pull_all(&source, expected + 1).await;
            let (marker, kept) = all.split_last().unwrap();
            assert_eq!((&marker.payload[..], kept.len()), (&b"marker"[..], expected), "{retained} {version}");
            for delivery in kept {
                assert!(delivery.headers.contains(&("mqtt-retain".to_owned(), "true".to_owned())));
            }
            settle(&source, session, &all, &Disposition::Ack).await;
            source.close(AMPLE).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shares_and_each_message_comes_to_one() {
    let server = Server::start().await.unwrap();
    let member = |name: &str| json!({ "share": "billing", "client_id": name });
    let (first, second) = (open(&server, member("a")).await, open(&server, member("b")).await);
    assert_eq!(first.facts().features, ["extend", "ordered-acks"]);
    send_orders(&server, 0, 20, json!({})).await;
    let mut all = Vec::new();
    for _ in 0..PULLS_MAX {
        for source in [&first, &second] {
            let pulled = pull(source, 50).await;
            settle(source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
            all.extend(pulled.deliveries);
        }
        if all.len() >= 20 {
            break;
        }
    }
    let mut ids = ids(&all);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20);
    let mut spec = settings(&server, &json!({}));
    spec.settings.instances = 2;
    let error = source::open(PLUGIN, spec, WANTS).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidConfig, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_others_without_an_id_has_none() {
    let server = Server::start().await.unwrap();
    let source = open(&server, json!({})).await;
    let mut other = server.client().await.unwrap();
    other.publish(TOPIC, b"21.5", &[("unit", "celsius")]).await.unwrap();
    let (_, all) = pull_all(&source, 1).await;
    assert_eq!((all[0].id.as_deref(), &all[0].payload[..]), (None, &b"21.5"[..]));
    assert!(all[0].headers.contains(&("unit".to_owned(), "celsius".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_too_large_is_told_by_its_size_and_the_rest_comes() {
    let server = Server::start().await.unwrap();
    let source = open(&server, json!({})).await;
    let mut other = server.client().await.unwrap();
    for payload in [vec![b'x'; 200_000], b"small".to_vec(), vec![b'y'; 17 * 1024 * 1024], b"last".to_vec()] {
        other.publish(TOPIC, &payload, &[]).await.unwrap();
    }
    let mut all = Vec::new();
    for _ in 0..PULLS_MAX {
        let pulled = source.pull(0, 50, 100_000, Duration::from_millis(200)).await.unwrap();
        settle(&source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
        all.extend(pulled.deliveries);
        if all.len() >= 4 {
            break;
        }
    }
    let sizes: Vec<_> = all.iter().map(|delivery| (delivery.omitted, delivery.payload.len())).collect();
    assert_eq!(sizes, [(Some(200_000), 0), (None, 5), (Some(17 * 1024 * 1024), 0), (None, 4)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_told_and_what_was_in_hand_comes_again() {
    let mut server = Server::start_with(Options { durable: true, ..Options::default() }).await.unwrap();
    let source = open(&server, json!({})).await;
    send_orders(&server, 0, 3, json!({})).await;
    let (_, all) = pull_all(&source, 3).await;
    server.stop().await.unwrap();
    server.restart().await.unwrap();
    let mut revoked = Vec::new();
    let mut again = Vec::new();
    let mut session = 0;
    for _ in 0..PULLS_MAX {
        let Some(pulled) = try_pull(&source).await else { continue };
        revoked.extend(pulled.notices.revoked);
        again.extend(pulled.deliveries);
        session = pulled.session;
        if again.len() >= 3 {
            break;
        }
    }
    assert_eq!((revoked, ids(&again)), (vec!["waybill-orders".to_owned()], vec!["m0", "m1", "m2"]));
    assert!(again.iter().all(|delivery| delivery.redelivered));
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, vec![Settled::Lost; 3]);
    assert_eq!(settle(&source, session, &again, &Disposition::Ack).await, vec![Settled::Done; 3]);
}

/// Those that the server had not sent yet come behind the cut as retained ones, and nothing tells them from those of a subscription.
#[tokio::test(flavor = "multi_thread")]
async fn retained_messages_that_waited_at_the_server_come_after_a_cut() {
    for version in ["5", "3.1.1"] {
        let mut server = Server::start_with(Options { durable: true, ..Options::default() }).await.unwrap();
        let mut other = server.client().await.unwrap();
        for number in 0..50 {
            let id = format!("r{number}");
            other.retain(&format!("orders/{number}"), b"21.5", &[("id", id.as_str())]).await.unwrap();
        }
        let wants = SourceWants { window: 5, ..WANTS };
        let spec = settings(&server, &json!({ "topics": ["orders/#"], "version": version }));
        let source = source::open(PLUGIN, spec, wants).await.unwrap();
        let (_, in_hand) = pull_all(&source, 5).await;
        assert_eq!(in_hand.len(), 5);
        server.stop().await.unwrap();
        server.restart().await.unwrap();
        // By 3.1.1 a message has no properties, so they are told apart by their topics.
        let mut topics = std::collections::BTreeSet::new();
        for _ in 0..PULLS_MAX {
            let Some(pulled) = try_pull(&source).await else { continue };
            settle(&source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
            topics.extend(pulled.deliveries.into_iter().map(|delivery| delivery.topic));
            if topics.len() == 50 {
                break;
            }
        }
        assert_eq!(topics.len(), 50, "{version}: {topics:?}");
    }
}

/// Two clients of one name would take the session from each other for ever, and nobody would hear of it. A server that says so is
/// believed at once. Mosquitto 2.0.11 only ends the connection: that is told when it has happened several times in a row.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_same_name_is_told_also_while_messages_are_in_hand() {
    let server = Server::start().await.unwrap();
    let first = open(&server, json!({})).await;
    send_orders(&server, 0, 1, json!({})).await;
    assert_eq!(ids(&pull_all(&first, 1).await.1), ["m0"]);
    let second = open(&server, json!({})).await;
    let mut told = None;
    for turn in 0..PULLS_MAX {
        let source = if turn % 2 == 0 { &first } else { &second };
        // What comes stays in hand.
        let failed = source.pull(0, 50, 1 << 20, Duration::from_millis(200)).await.err();
        told = failed.filter(|error| error.kind == ErrorKind::Fenced);
        if told.is_some() {
            break;
        }
    }
    let error = told.expect("one of them is told");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Fenced, "MQTT.TAKEN_OVER"), "{error:?}");
}

/// Also behind an outage of which the instance that knew the session has ended: what it knew is in the host's durable state.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_has_forgotten_is_told() {
    for fails in [0, 5] {
        let mut server = Server::start().await.unwrap();
        let mut spec = settings(&server, &json!({}));
        spec.kv = Some(Arc::new(MemoryKv::default()));
        spec.settings.grants.kv = Some(KvQuota::default());
        let source = source::open(PLUGIN, spec, WANTS).await.unwrap();
        server.kill().await.unwrap();
        for _ in 0..fails {
            assert!(source.pull(0, 50, 1 << 20, Duration::from_millis(100)).await.is_err());
        }
        server.restart().await.unwrap();
        let mut times = None;
        for _ in 0..PULLS_MAX {
            let Some(pulled) = try_pull(&source).await else { continue };
            times = attribute(&pulled.notices.attributes, "made-anew").map(str::to_owned);
            if times.is_some() {
                break;
            }
        }
        assert_eq!(times.as_deref(), Some("1"), "behind {fails} pulls that failed");
        send_orders(&server, 0, 1, json!({})).await;
        assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_is_told_so() {
    let user = Some(("shop".to_owned(), "s3cret".to_owned()));
    let server = Server::start_with(Options { user, ..Options::default() }).await.unwrap();
    let secrets = [("user", "shop"), ("password", "another-one")];
    let spec = transport::grant(settings(&server, &json!({})), &secrets);
    let error = source::open(PLUGIN, spec.clone(), WANTS).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "MQTT.AUTH"), "{error:?}");
    let said = source::said(PLUGIN, spec).await;
    assert!(said.contains("MQTT.AUTH") && !said.contains("another-one"), "{said}");
}

/// A probe beside it takes nothing over: the session that serves keeps its connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_leaves_the_session_alone() {
    let server = Server::start().await.unwrap();
    let source = open(&server, json!({})).await;
    source::probe(PLUGIN, settings(&server, &json!({}))).await.unwrap();
    send_orders(&server, 0, 1, json!({})).await;
    let (session, all) = pull_all(&source, 1).await;
    assert_eq!((ids(&all), all[0].redelivered), (vec!["m0"], false));
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
}

/// Mosquitto keeps a thousand messages for a client that is away unless `max_queued_messages` says otherwise, and acknowledges the others to
/// their senders all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_drops_by_its_default_was_acknowledged_and_never_comes() {
    let options = Options { config: "max_queued_messages 1000".to_owned(), ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    open(&server, json!({})).await.close(AMPLE).await;
    let mut other = server.client().await.unwrap();
    for number in 0..1_500 {
        let id = format!("m{number}");
        assert_eq!(other.publish(TOPIC, b"21.5", &[("id", id.as_str())]).await.unwrap(), 0);
    }
    let source = open(&server, json!({})).await;
    let (mut come, mut quiet) = (0, 0);
    for _ in 0..PULLS_MAX {
        let pulled = pull(&source, 50).await;
        settle(&source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
        come += pulled.deliveries.len();
        quiet = if pulled.deliveries.is_empty() { quiet + 1 } else { 0 };
        if quiet == 5 {
            break;
        }
    }
    assert!((900..=1_100).contains(&come), "{come} of 1500 came");
}

/// RabbitMQ's MQTT, with a durable queue behind the session: what it has acknowledged is there behind a `kill -9`, and comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_loses_nothing_of_a_durable_session() {
    let mut server = Durable::start().await.unwrap();
    let config = json!({ "servers": [server.url()], "topics": [TOPIC] });
    let source = source::open(PLUGIN, transport::settings("orders", config), WANTS).await.unwrap();
    send_to(&server.url(), 0, 100, json!({})).await;
    // It has no more than ten on their way by its default (`mqtt.prefetch`), whatever window we have.
    let (session, first) = pull_all(&source, 10).await;
    settle(&source, session, &first[..5], &Disposition::Ack).await;
    server.kill().await.unwrap();
    server.restart().await.unwrap();
    let mut come: std::collections::BTreeSet<_> = ids(&first[..5]).into_iter().map(str::to_owned).collect();
    for _ in 0..PULLS_MAX {
        let Some(pulled) = try_pull(&source).await else { continue };
        // Of a session that is over they come again.
        let _ = try_settle(&source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
        come.extend(ids(&pulled.deliveries).into_iter().map(str::to_owned));
        if come.len() == 100 {
            break;
        }
    }
    assert_eq!(come.len(), 100, "{come:?}");
}
