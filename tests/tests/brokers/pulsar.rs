//! The bundled `pulsar` transport in the real sandbox against a real Apache Pulsar, read by the client of Pulsar's own project.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rcgen::DnType;
use serde_json::{Value, json};
use tokio::sync::watch;
use waybill_core::message::Delivery;
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::transport::{CallError, ErrorKind, Health, Outcome, Transport};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::outage::{Plan, Progress, run};
use waybill_testkit::process::binary;
use waybill_testkit::pulsar::{Durable, Options, Server, Tls};
use waybill_tests::certificates::{Authority, Identity};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, delivery, send, try_send};

/// The key of a test's broker, and tokens signed by it (HS256): of the role `waybill`, which may do everything, and of `other`.
const TOKEN_KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
const TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ3YXliaWxsIn0.i0lCYDMJFkKvwSl-LhVfePIY5idgjhfuY71V-OBaGls";
/// Another key, and a token of the role `waybill` that is signed by it.
const NEXT_TOKEN_KEY: &[u8] = b"fedcba9876543210fedcba9876543210";
const NEXT_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ3YXliaWxsIn0.tGTLsv9Dz_VK65KK7VYIEztACVVsvF_jYVVV3JNvThA";
const OTHER_TOKEN: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJvdGhlciJ9.jZe1ZvGJyellkgK2lsewiwazkd03_mNoA4A2PfWlfeI";
/// Where the broker's ways to tell who one is are.
const AUTHENTICATION: &str = "org.apache.pulsar.broker.authentication";
/// Opens that are tried until a refusal is heard: a connection may break before.
const OPENS_MAX: usize = 10;

fn settings(server: &Server, more: &Value) -> EndpointSpec {
    let mut config = json!({ "servers": [server.url()] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut spec = transport::settings("orders-pulsar", config);
    spec.settings.grants = spec.settings.grants.allow(["tcp://127.0.0.1:*", "http://127.0.0.1:*"]);
    spec
}

async fn open(server: &Server, more: Value) -> Arc<WasmTransport> {
    try_open(settings(server, &more)).await.expect("opens")
}

async fn try_open(spec: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("pulsar", spec).await
}

/// One letter a message: acknowledged, retried, dead, blocked, given back; a capital may be delivered.
fn fates(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => 'a',
        Outcome::Retryable(fault) if fault.maybe_delivered => 'R',
        Outcome::Retryable(_) => 'r',
        Outcome::Permanent(_) => 'd',
        Outcome::Blocked { .. } => 'b',
        Outcome::Release(_) => '-',
    };
    outcomes.iter().map(letter).collect()
}

fn codes(outcomes: &[Outcome]) -> Vec<String> {
    let code = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => None,
        Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault) => Some(fault.code.to_string()),
        Outcome::Blocked { fault, .. } => Some(fault.code.to_string()),
    };
    outcomes.iter().filter_map(code).collect()
}

fn keyed(number: u64, destination: &str, key: Option<&str>) -> Delivery {
    let mut delivery = delivery(number, destination);
    Arc::get_mut(&mut delivery.message).unwrap().key = key.map(|key| waybill_core::ids::Key::new(key).unwrap());
    delivery
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope() {
    let server = Server::shared().await.unwrap();
    let transport = open(server, json!({})).await;
    let outcomes = send(&transport, batch(7, 8, "envelope")).await;
    let [Outcome::Ack(receipt)] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    let read = server.foreign().read("persistent://public/default/envelope", "Exclusive", 1).await.unwrap();
    let [message] = read.as_slice() else { panic!("{read:#?}") };
    let place = message.place();
    assert_eq!(receipt.broker_ref.as_deref(), Some(format!("{}:{}", place[0], place[1]).as_str()));
    assert_eq!((message.text("key"), message.text("ordering_key")), ("order-7", "order-7"));
    assert_eq!(message.text("payload"), "eyJvcmRlciI6N30=");
    assert_eq!(message.0["event_time"], json!(1_700_000_000_000_u64));
    for (name, value) in [
        ("id", "m7"),
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-7"),
        ("x-event-type", "order.created"),
        ("x-event-version", "3"),
        ("x-correlation-id", "cor-1"),
        ("x-causation-id", "cau-1"),
        ("x-reply-to", "replies.orders"),
        ("content-type", "application/json"),
        ("x-occurred-at", "2023-11-14T22:13:20.000Z"),
        ("x-attempt", "2"),
        ("x-lease-epoch", "7"),
        ("x-seq", "42"),
        ("X-Shop", "berlin"),
    ] {
        assert_eq!(message.property(name), Some(value), "{name}");
    }
    assert_eq!(transport.health().await.health, Health::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_to_the_partitions_that_the_java_client_chooses() {
    let server = Server::shared().await.unwrap();
    server.create_topic("partitioned", 5).await.unwrap();
    let transport = open(server, json!({})).await;
    // Partitions as `String.hashCode` of the key has them, without its sign.
    let chosen = [("", 0), ("a", 2), ("order-1", 3), ("größe", 2), ("\u{1F600}", 4)];
    let all = (0..)
        .zip(chosen)
        .map(|(number, (key, _))| keyed(number, "partitioned", Some(key).filter(|key| !key.is_empty())));
    let outcomes = send(&transport, all.collect()).await;
    for ((key, expected), outcome) in chosen.iter().zip(&outcomes).filter(|((key, _), _)| !key.is_empty()) {
        let Outcome::Ack(receipt) = outcome else { panic!("{outcome:?}") };
        let partition =
            receipt.attributes.iter().find(|(name, _)| name == "partition").map(|(_, value)| value.as_str());
        assert_eq!(partition, Some(expected.to_string().as_str()), "{key}");
    }
    let read = server.foreign().read("persistent://public/default/partitioned", "Exclusive", 5).await.unwrap();
    let ids: HashSet<&str> = read.iter().filter_map(|message| message.property("id")).collect();
    assert_eq!(ids.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_one_key_share_an_entry_and_others_do_not() {
    let server = Server::shared().await.unwrap();
    for (batching, entries) in [("key", 3), ("partition", 1), ("off", 6)] {
        let topic = format!("batching-{batching}");
        let transport = open(server, json!({ "batching": batching })).await;
        let keys = [Some("a"), Some("b"), Some("a"), None, None, Some("a")];
        let all = (0..).zip(keys).map(|(number, key)| keyed(number, &topic, key)).collect();
        assert_eq!(fates(&send(&transport, all).await), "aaaaaa");
        let read =
            server.foreign().read(&format!("persistent://public/default/{topic}"), "Exclusive", 6).await.unwrap();
        let places: HashSet<Vec<i64>> = read.iter().map(|message| message.place()[..2].to_vec()).collect();
        assert_eq!(places.len(), entries, "{batching}");
        let of_a: Vec<&str> = read
            .iter()
            .filter(|message| message.text("key") == "a")
            .filter_map(|message| message.property("id"))
            .collect();
        assert_eq!(of_a, ["m0", "m2", "m5"], "{batching}: in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_sent_has_a_fate_and_a_code_and_holds_nobody_up() {
    let server = Server::shared().await.unwrap();
    server.create_topic("terminated", 0).await.unwrap();
    server.admin("POST", "persistent/public/default/terminated/terminate", "").await.unwrap();
    let transport = open(server, json!({})).await;
    let mut large = delivery(2, "fates");
    large.payload = vec![b'x'; 5 * 1024 * 1024 - 100].into();
    let all =
        vec![delivery(0, "fates"), delivery(1, "a b"), delivery(3, "terminated"), delivery(4, "no/such/namespace")];
    let outcomes = send(&transport, all).await;
    assert_eq!(fates(&outcomes), "adbb", "{outcomes:#?}");
    assert_eq!(codes(&outcomes)[..2], ["PULSAR.TOPIC", "PULSAR.TERMINATED"]);
    let outcomes = send(&transport, vec![large]).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("d", vec!["PULSAR.MESSAGE_SIZE".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_entry_of_several_messages_is_told_at_once() {
    let server = Server::shared().await.unwrap();
    server.create_topic("ended", 0).await.unwrap();
    let transport = open(server, json!({})).await;
    let of_one_key = |from: u64| (from..from + 3).map(|number| keyed(number, "ended", Some("a"))).collect();
    assert_eq!(fates(&send(&transport, of_one_key(0)).await), "aaa");
    server.admin("POST", "persistent/public/default/ended/terminate", "").await.unwrap();
    let mut outcomes = send(&transport, of_one_key(3)).await;
    if codes(&outcomes).iter().any(|code| code == "PULSAR.MOVED") {
        // The broker closed the producer just when they were written, and refuses another one.
        outcomes = send(&transport, of_one_key(3)).await;
    }
    // Where the producer was refused, nothing but the first was looked at.
    let untried = codes(&outcomes).iter().filter(|code| *code == "PULSAR.BEHIND").count();
    assert!(fates(&outcomes) == "bbb" || (fates(&outcomes) == "b--" && untried == 2), "{outcomes:#?}");
    assert_eq!(codes(&outcomes)[0], "PULSAR.TERMINATED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_unloaded_or_deleted_is_looked_for_anew() {
    let server = Server::shared().await.unwrap();
    let transport = open(server, json!({})).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 3, "moved")).await), 3);
    server.admin("PUT", "persistent/public/default/moved/unload", "").await.unwrap();
    through(&transport, 3, "moved").await;
    server.admin("DELETE", "persistent/public/default/moved?force=true", "").await.unwrap();
    through(&transport, 6, "moved").await;
}

/// Sends three messages until all are delivered. None is burned on the way: nothing was under way when the topic went.
async fn through(transport: &WasmTransport, from: u64, topic: &str) {
    for _ in 0..100 {
        let outcomes = match try_send(transport, batch(from, from + 3, topic)).await {
            Ok(outcomes) if acknowledged(&outcomes) == 3 => return,
            Ok(outcomes) => outcomes,
            Err(error) => {
                // A broker that has just come back is slow to answer.
                assert!(error.kind == ErrorKind::Unavailable && !error.fault.maybe_delivered, "{error:?}");
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
        };
        // A producer may be closed just when something was written on it; nothing else is tried for nothing.
        let is_burned = |outcome: &&Outcome| match outcome {
            Outcome::Retryable(fault) => fault.code != "PULSAR.MOVED",
            Outcome::Permanent(_) => true,
            _ => false,
        };
        assert_eq!(outcomes.iter().find(is_burned), None, "{outcomes:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_burns_nothing_that_was_not_sent_and_comes_back() {
    let mut server = Server::start().await.unwrap();
    let transport = open(&server, json!({ "connect_timeout": "1s" })).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 10, "outage")).await), 10);
    server.kill().await.unwrap();
    let error = try_send(&transport, batch(10, 20, "outage")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
    assert!(!error.fault.maybe_delivered, "{error:?}");
    server.restart().await.unwrap();
    through(&transport, 10, "outage").await;
    let read = server.foreign().read("persistent://public/default/outage", "Exclusive", 13).await.unwrap();
    let ids: Vec<&str> = read.iter().filter_map(|message| message.property("id")).collect();
    assert_eq!(ids[..10].iter().collect::<HashSet<_>>().len(), 10, "nothing acknowledged is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_stands_still_is_given_up() {
    let mut server = Server::start().await.unwrap();
    // The topic is there before anybody is impatient.
    let patient = open(&server, json!({})).await;
    through(&patient, 0, "still").await;
    let transport = open(&server, json!({ "ack_timeout": "2s", "connect_timeout": "1s" })).await;
    through(&transport, 3, "still").await;
    server.freeze().unwrap();
    let outcomes = send(&transport, batch(6, 7, "still")).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("R", vec!["PULSAR.ACK_TIMEOUT".to_owned()]));
    server.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified_and_tokens_are_looked_at_until_they_are_good_for_nothing() {
    let (ours, other) = (Authority::new("ours"), Authority::new("another"));
    let identity = ours.sign(&["127.0.0.1", "localhost"], |_| {});
    let mut server = Server::start_with(Options {
        tls: Some(Tls { cert: identity.cert, key: identity.key, ca: ours.pem() }),
        token_key: Some(TOKEN_KEY.to_vec()),
        own_token: TOKEN.to_owned(),
        config: format!(
            "authenticationProviders={AUTHENTICATION}.AuthenticationProviderToken,\
             {AUTHENTICATION}.AuthenticationProviderTls\n"
        ),
    })
    .await
    .unwrap();
    let (ca, wrong_ca) = (ours.pem(), other.pem());
    let config = json!({ "servers": [server.tls_url()] });
    let with = |secrets: &[(&str, &str)]| transport::grant(settings(&server, &config), secrets);
    let transport = try_open(with(&[("tls_ca", &ca), ("token", TOKEN)])).await.unwrap();
    assert_eq!(fates(&send(&transport, batch(0, 1, "secure")).await), "a");
    for (secrets, code) in [
        (&[("tls_ca", ca.as_str()), ("token", "no.such.token")][..], "PULSAR.AUTH"),
        (&[("tls_ca", ca.as_str())], "PULSAR.AUTH"),
        (&[("tls_ca", wrong_ca.as_str()), ("token", TOKEN)], "PULSAR.TLS"),
    ] {
        let error = try_open(with(secrets)).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, code), "{error:?}");
        for shown in [TOKEN, "no.such.token"] {
            assert!(!error.fault.reason.contains(shown), "{error:?}");
        }
    }
    // It is let in, and may not write.
    let transport = try_open(with(&[("tls_ca", &ca), ("token", OTHER_TOKEN)])).await.unwrap();
    let outcomes = send(&transport, batch(0, 1, "secure")).await;
    assert_eq!((fates(&outcomes).as_str(), codes(&outcomes)), ("b", vec!["PULSAR.PERMISSIONS".to_owned()]));

    certificates_are_roles(&server, &ours, &other).await;

    // The broker takes other tokens now: the transport is held, nothing is burned, and the operator is told.
    let spec = with(&[("tls_ca", &ca), ("token", TOKEN)]);
    let serves = try_open(spec).await.unwrap();
    assert_eq!(fates(&send(&serves, batch(1, 2, "secure")).await), "a");
    server.change_token_key(NEXT_TOKEN_KEY, NEXT_TOKEN).await.unwrap();
    let denied = until_denied(&serves, || batch(2, 3, "secure")).await;
    assert_eq!((denied.fault.code.as_str(), denied.fault.maybe_delivered), ("PULSAR.AUTH", false), "{denied:?}");
    let spec = transport::grant(settings(&server, &config), &[("tls_ca", &ca), ("token", NEXT_TOKEN)]);
    through(&try_open(spec).await.unwrap(), 2, "secure").await;
}

/// Who shows a certificate and no token has the role that the certificate names.
async fn certificates_are_roles(server: &Server, ours: &Authority, another: &Authority) {
    let named = |ca: &Authority, name: &str| {
        ca.sign(&["localhost"], |params| params.distinguished_name.push(DnType::CommonName, name))
    };
    let config = json!({ "servers": [server.tls_url()] });
    let with = |ca: &Authority, identity: &Identity| {
        let secrets = [("tls_ca", ca.pem()), ("tls_cert", identity.cert.clone()), ("tls_key", identity.key.clone())];
        let secrets: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (*name, value.as_str())).collect();
        transport::grant(settings(server, &config), &secrets)
    };
    let (waybill, other) = (named(ours, "waybill"), named(ours, "other"));
    for (identity, fate) in [(&waybill, "a"), (&other, "b")] {
        let transport = try_open(with(ours, identity)).await.unwrap();
        let outcomes = send(&transport, batch(0, 1, "by-certificate")).await;
        assert_eq!(fates(&outcomes), fate, "{outcomes:?}");
        assert!(codes(&outcomes).iter().all(|code| code == "PULSAR.PERMISSIONS"), "{outcomes:?}");
    }
    let error = try_open(with(another, &waybill)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "PULSAR.TLS"), "{error:?}");
    // The broker says of another CA's certificate no more than that something is wrong.
    let stranger = with(ours, &named(another, "waybill"));
    for _ in 0..OPENS_MAX {
        let error = try_open(stranger.clone()).await.unwrap_err();
        assert!(["PULSAR.LOST", "PULSAR.TLS"].contains(&error.fault.code.as_str()), "{error:?}");
        if error.fault.reason.contains("tls_cert") {
            return;
        }
    }
    panic!("the certificate was never spoken of");
}

/// A namespace whose backlog has no room for more: its messages wait, and none of them is burned or lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_that_is_full_holds_the_destination_until_there_is_room() {
    let server = Server::shared().await.unwrap();
    let topic = "persistent/public/full/orders";
    server.admin("PUT", "namespaces/public/full", "").await.unwrap();
    let quota = r#"{"limitSize":20000,"limitTime":-1,"policy":"producer_exception"}"#;
    server.admin("POST", "namespaces/public/full/backlogQuota", quota).await.unwrap();
    server.admin("PUT", topic, "").await.unwrap();
    server.admin("PUT", &format!("{topic}/subscription/billing"), "").await.unwrap();
    let transport = open(server, json!({})).await;
    let large = |number: u64| {
        let mut all = batch(number, number + 1, "public/full/orders");
        all[0].payload = vec![b'x'; 4_000].into();
        all
    };
    let (mut taken, mut held) = (0, Vec::new());
    for _ in 0..200 {
        let outcomes = send(&transport, large(taken)).await;
        taken += acknowledged(&outcomes) as u64;
        // A producer that is closed for it may have had a message under way.
        if fates(&outcomes) == "b" {
            held = codes(&outcomes);
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(held, ["PULSAR.QUOTA"], "{taken} were taken");
    let path = "persistent://public/full/orders";
    let read = server.foreign().read_kept(path, "billing").await.unwrap();
    let ids: HashSet<&str> = read.iter().filter_map(|message| message.property("id")).collect();
    assert!((0..taken).all(|number| ids.contains(format!("m{number}").as_str())), "{taken} were taken: {ids:?}");
    for _ in 0..100 {
        if fates(&send(&transport, large(taken)).await) == "a" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nothing goes where there is room again");
}

/// The error of a transport that isn't let in any more, behind what says that its server is away.
async fn until_denied(transport: &WasmTransport, batch: impl Fn() -> Vec<Delivery>) -> CallError {
    for _ in 0..100 {
        let error = try_send(transport, batch()).await.expect_err("it is let in");
        if error.kind == ErrorKind::Denied {
            return error;
        }
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it was never said that it isn't let in");
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_namespaces_are_provisioned_once_and_another_size_is_a_conflict() {
    let server = Server::shared().await.unwrap();
    let wanted = |partitions: u32| {
        json!({ "provision": {
            "admin_url": server.admin_url(), "namespaces": ["public/shop"],
            "topics": [{ "name": "public/shop/orders", "partitions": partitions, "subscriptions": ["billing"] }],
        } })
    };
    let transport = open(server, wanted(4)).await;
    use ProvisionAction::{Conflict, Create, Keep};
    for (apply, expected) in [(false, Create), (true, Create), (true, Keep)] {
        let actions: Vec<_> = transport.provision(apply).await.unwrap().iter().map(|change| change.action).collect();
        // What lies in a namespace that isn't there can't be looked at.
        assert_eq!(actions, [expected, expected, expected], "{apply}");
    }
    let other = open(server, wanted(8)).await;
    let changes = other.provision(true).await.unwrap();
    assert_eq!((changes[1].action, changes[2].action), (Conflict, Keep), "{changes:#?}");
    other.close(AMPLE).await;
}

/// The release binary delivers to a server that is killed with `kill -9` again and again under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_pulsar_server_killed_under_load_costs_neither_messages_nor_order() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { messages: 10_000, keys: 200, kills: 2 };
    let (progress, _keep) = watch::channel(Progress::default());
    let mut broker = Durable { server: Server::start().await.unwrap() };
    let report = run(plan, &mut broker, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    let _ = write!(std::io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
}
