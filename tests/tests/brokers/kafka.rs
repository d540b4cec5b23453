//! The bundled `kafka` in the real sandbox against a real Apache Kafka.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use waybill_core::ids::Key;
use waybill_core::message::Delivery;
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::transport::{CallError, ErrorKind, Outcome, Transport};
use waybill_sandbox::{EndpointSpec, WasmTransport};
use waybill_testkit::kafka::{Durable, Server};
use waybill_testkit::outage::{Plan, Progress, run};
use waybill_testkit::process::binary;
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const TOPIC: &str = "orders.created";
/// Calls after which what isn't acknowledged never will be: each that reaches a server waits for 15 s.
const CALLS_MAX: usize = 30;
/// Logins after which a user who isn't let in never will be.
const LOGINS_MAX: usize = 300;
/// Reads after which what isn't shown never will be; each takes some seconds.
const READS_MAX: usize = 10;

fn settings(config: Value) -> EndpointSpec {
    transport::settings("orders-kafka", config)
}

async fn open(settings: EndpointSpec) -> Result<Arc<WasmTransport>, CallError> {
    transport::open("kafka", settings).await
}

/// As [`open`], for a user who was made just now: a broker lets him in when it has heard of him.
async fn open_when_known(settings: impl Fn() -> EndpointSpec) -> Arc<WasmTransport> {
    for _ in 0..LOGINS_MAX {
        match open(settings()).await {
            Ok(transport) => return transport,
            Err(error) => assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "KAFKA.AUTH")),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not let in by {LOGINS_MAX} logins");
}

/// A transport to this server, with more configuration.
pub(super) async fn to(server: &Server, more: Value) -> Arc<WasmTransport> {
    let mut config = json!({ "servers": [server.url()] });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    open(settings(config)).await.expect("opens")
}

/// Sends a batch until all of it is acknowledged, as a host does.
pub(super) async fn send_until_acknowledged(transport: &WasmTransport, batch: impl Fn() -> Vec<Delivery>) {
    for _ in 0..CALLS_MAX {
        let all = batch();
        let count = all.len();
        match transport::try_send(transport, all).await {
            Ok(outcomes) if acknowledged(&outcomes) == count => return,
            Ok(outcomes) => {
                assert!(outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Permanent(_))), "{outcomes:?}");
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    panic!("not acknowledged in {CALLS_MAX} calls");
}

/// A batch with twenty keys, so that each comes several times.
pub(super) fn of_few_keys(mut all: Vec<Delivery>) -> Vec<Delivery> {
    for (place, delivery) in all.iter_mut().enumerate() {
        Arc::make_mut(&mut delivery.message).key = Some(Key::new(format!("order-{}", place % 20)).unwrap());
    }
    all
}

/// Codes of what became of a batch; `+` for delivered.
pub(super) fn codes(outcomes: &[Outcome]) -> Vec<String> {
    let code = |outcome: &Outcome| match outcome {
        Outcome::Ack(_) => "+".to_owned(),
        Outcome::Retryable(fault) => format!("retry {}", fault.code),
        Outcome::Permanent(fault) => format!("dead {}", fault.code),
        Outcome::Blocked { fault, .. } => format!("blocked {}", fault.code),
        Outcome::Release(fault) => format!("back {}", fault.code),
    };
    outcomes.iter().map(code).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_arrives_with_its_whole_envelope_where_the_java_client_puts_its_key() {
    let server = Server::shared().await.unwrap();
    let client = server.client().await.unwrap();
    client.create("envelope", 12).await.unwrap();
    let transport = to(server, json!({})).await;
    let outcomes = send(&transport, batch(0, 100, "envelope")).await;
    assert_eq!(acknowledged(&outcomes), 100);
    let all = client.read("envelope", 100).await.unwrap();
    let theirs: HashMap<String, String> = client
        .run("partitions", &["envelope"])
        .await
        .unwrap()
        .into_iter()
        .map(|parts| (parts[0].clone(), parts[1].clone()))
        .collect();
    for record in &all {
        assert_eq!(theirs[&record.key], record.partition.to_string(), "{record:?}");
    }
    let record = all.iter().find(|record| record.header("id") == Some("m7")).unwrap();
    assert_eq!((record.key.as_str(), record.value.as_str()), ("order-7", "{\"order\":7}"));
    for (name, value) in [
        ("x-tenant", "acme"),
        ("x-topic", "bus:orders.created"),
        ("x-key", "order-7"),
        ("x-event-type", "order.created"),
        ("x-seq", "42"),
        ("content-type", "application/json"),
        ("x-occurred-at", "2023-11-14T22:13:20.000Z"),
        ("X-Shop", "berlin"),
    ] {
        assert_eq!(record.header(name), Some(value), "{name}");
    }
    let Outcome::Ack(receipt) = &outcomes[7] else { panic!("{:?}", outcomes[7]) };
    assert_eq!(receipt.broker_ref.as_deref(), Some(record.offset.to_string().as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_compression_is_read_by_the_java_client() {
    let server = Server::shared().await.unwrap();
    let client = server.client().await.unwrap();
    for compression in ["gzip", "snappy", "lz4", "zstd"] {
        let topic = format!("orders.{compression}");
        let transport = to(server, json!({ "compression": compression })).await;
        assert_eq!(acknowledged(&send(&transport, batch(0, 500, &topic)).await), 500, "{compression}");
        transport.close(AMPLE).await;
        let ids: HashSet<String> = client
            .read(&topic, 500)
            .await
            .unwrap()
            .iter()
            .filter_map(|record| record.header("id").map(str::to_owned))
            .collect();
        assert_eq!(ids.len(), 500, "{compression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_the_fate_of_their_messages_alone() {
    let server = Server::shared().await.unwrap();
    let client = server.client().await.unwrap();
    client.run("create", &["small", "1", "1", "topic.max.message.bytes=2000"]).await.unwrap();
    client.run("create", &["compacted", "1", "1", "topic.cleanup.policy=compact"]).await.unwrap();
    let transport = to(server, json!({ "create_topics": "never" })).await;
    let mut all = batch(0, 5, "small");
    all[2].payload = vec![b'x'; 10_000].into();
    assert_eq!(codes(&send(&transport, all).await), ["+", "+", "dead KAFKA.MAX_MESSAGE", "+", "+"]);
    let mut keyless = batch(5, 6, "compacted");
    Arc::make_mut(&mut keyless[0].message).key = None;
    assert_eq!(codes(&send(&transport, keyless).await), ["dead KAFKA.INVALID_RECORD"]);
    assert_eq!(codes(&send(&transport, batch(6, 7, "missing")).await), ["blocked KAFKA.NO_TOPIC"]);
    assert_eq!(codes(&send(&transport, batch(7, 8, "no topic")).await), ["dead KAFKA.TOPIC"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_logs_in_by_each_mechanism_and_a_wrong_password_is_denied() {
    let server = Server::shared().await.unwrap();
    let url = format!("127.0.0.1:{}", server.sasl_port());
    let with = |sasl: &str, password: &str| {
        let config = json!({ "servers": [url], "sasl": sasl });
        transport::grant(settings(config), &[("user", "waybill"), ("password", password)])
    };
    for sasl in ["plain", "scram-sha-256", "scram-sha-512", "auto"] {
        let transport = open(with(sasl, "secret")).await.expect(sasl);
        assert_eq!(acknowledged(&send(&transport, batch(0, 3, "logged-in")).await), 3, "{sasl}");
        let error = open(with(sasl, "wrong")).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "KAFKA.AUTH"), "{sasl}");
    }
    let error = open(settings(json!({ "servers": [url] }))).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Unavailable, "KAFKA.LOST"), "{error:?}");
}

/// The administrator gives the user another password while the transport serves. Some ten seconds, mostly of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_was_changed_holds_the_transport_until_it_has_the_new_one() {
    let server = Server::shared().await.unwrap();
    let client = server.client().await.unwrap();
    let url = format!("127.0.0.1:{}", server.sasl_port());
    let with = |password: &str| {
        let config = json!({ "servers": [url], "sasl": "scram-sha-512" });
        transport::grant(settings(config), &[("user", "rotated"), ("password", password)])
    };
    client.run("password", &["rotated", "the-first"]).await.unwrap();
    let serves = open_when_known(|| with("the-first")).await;
    assert_eq!(acknowledged(&send(&serves, batch(0, 3, "rotated")).await), 3);
    client.run("password", &["rotated", "the-second"]).await.unwrap();
    let (mut sent, mut denied) = (3, None);
    for _ in 0..200 {
        match transport::try_send(&serves, batch(sent, sent + 1, "rotated")).await {
            // The login is good until it ends.
            Ok(outcomes) => {
                assert_eq!(acknowledged(&outcomes), 1, "nothing is burned: {outcomes:?}");
                sent += 1;
            }
            Err(error) if error.kind == ErrorKind::Unavailable => assert!(!error.fault.maybe_delivered, "{error:?}"),
            Err(error) => {
                denied = Some(error);
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let denied = denied.expect("the password isn't good any more");
    let fault = &denied.fault;
    assert_eq!((denied.kind, fault.code.as_str(), fault.maybe_delivered), (ErrorKind::Denied, "KAFKA.AUTH", false));
    let goes_on = open(with("the-second")).await.unwrap();
    assert_eq!(acknowledged(&send(&goes_on, batch(sent, sent + 3, "rotated")).await), 3);
    let all = client.read("rotated", i32::MAX as usize).await.unwrap();
    let ids: Vec<&str> = all.iter().filter_map(|record| record.header("id")).collect();
    let distinct: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!((distinct.len() as u64, ids.len() as u64), (sent + 3, sent + 3), "each is there, once");
}

/// What a quota doesn't let through now waits as long as the server asks, and goes then.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_makes_sends_slower_and_nothing_fails() {
    let server = Server::shared().await.unwrap();
    let client = server.client().await.unwrap();
    client.run("password", &["slow", "secret"]).await.unwrap();
    client.run("quota", &["slow", "10000"]).await.unwrap();
    let config = json!({ "servers": [format!("127.0.0.1:{}", server.sasl_port())], "sasl": "scram-sha-512" });
    let of_slow = || transport::grant(settings(config.clone()), &[("user", "slow"), ("password", "secret")]);
    let transport = open_when_known(of_slow).await;
    // More than a second's share over all of the server's eleven samples.
    let mut large = batch(0, 12, "slow");
    large.iter_mut().for_each(|delivery| delivery.payload = vec![b'x'; 10_000].into());
    assert_eq!(acknowledged(&send(&transport, large).await), 12, "the answer says to wait, and takes them");
    let (mut throttled, mut taken) = (0, 0);
    for _ in 0..100 {
        match transport::try_send(&transport, batch(12, 15, "slow")).await {
            Ok(outcomes) => {
                taken = acknowledged(&outcomes);
                break;
            }
            Err(error) => {
                let fault = &error.fault;
                assert_eq!((error.kind, fault.code.as_str()), (ErrorKind::Throttled, "KAFKA.THROTTLED"), "{error:?}");
                assert!(!fault.maybe_delivered, "{error:?}");
                throttled += 1;
                tokio::time::sleep(fault.after.expect("it says how long")).await;
            }
        }
    }
    assert!(taken == 3 && throttled > 0, "{taken} were taken, {throttled} calls had to wait");
    let all = client.read("slow", i32::MAX as usize).await.unwrap();
    assert_eq!(all.iter().filter_map(|record| record.header("id")).collect::<HashSet<_>>().len(), 15, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_provisioned_and_a_different_one_is_a_conflict() {
    let server = Server::shared().await.unwrap();
    let provision = async |partitions: u32, apply: bool| {
        let wanted = json!({ "topics": [{ "name": "provisioned", "partitions": partitions }] });
        let transport = to(server, json!({ "provision": wanted })).await;
        let changes = transport.provision(apply).await.unwrap();
        changes.into_iter().map(|change| change.action).collect::<Vec<_>>()
    };
    assert_eq!(provision(3, false).await, [ProvisionAction::Create]);
    assert_eq!(provision(3, true).await, [ProvisionAction::Create]);
    assert_eq!(provision(3, true).await, [ProvisionAction::Keep]);
    assert_eq!(provision(5, true).await, [ProvisionAction::Conflict]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_goes_on_by_itself() {
    let mut server = Server::start().await.unwrap();
    let transport = to(&server, json!({})).await;
    assert_eq!(acknowledged(&send(&transport, batch(0, 10, TOPIC)).await), 10);
    server.kill().await.unwrap();
    let sending = send_until_acknowledged(&transport, || batch(10, 20, TOPIC));
    let restarting = async {
        server.restart().await.unwrap();
    };
    tokio::join!(sending, restarting);
    let all = server.client().await.unwrap().read(TOPIC, i32::MAX as usize).await.unwrap();
    let ids: HashSet<&str> = all.iter().filter_map(|record| record.header("id")).collect();
    assert_eq!(ids.len(), 20, "{ids:?}");
}

/// The release binary delivers to a server that is killed with `kill -9` again and again under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_kafka_server_killed_under_load_costs_neither_messages_nor_order() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { messages: 20_000, keys: 200, kills: 3 };
    let (progress, _keep) = watch::channel(Progress::default());
    let mut broker = Durable { server: Server::start().await.unwrap() };
    let report = run(plan, &mut broker, &binary().unwrap(), dir.path(), &progress).await.unwrap();
    let _ = write!(std::io::stderr(), "{report}");
    assert!(report.passed(), "{report}");
    assert_eq!(progress.borrow().kills, plan.kills);
}

/// The server that leads a topic dies under load, and the one that has its copy goes on with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_whose_leader_dies_moves_with_all_that_was_acknowledged() {
    let server = Server::start().await.unwrap();
    let mut leader = server.joined().await.unwrap();
    let client = server.client().await.unwrap();
    client.run("create-led-by", &[TOPIC, "3", "2", "1"]).await.unwrap();
    let transport = to(&server, json!({})).await;
    let (calls, each) = (40, 50);
    let (loaded, is_loaded) = oneshot::channel::<()>();
    let mut loaded = Some(loaded);
    let sending = async {
        let mut delivered = Vec::new();
        for call in 0..calls {
            // What is given back goes again; the next call waits for it, as a host lets keys wait.
            send_until_acknowledged(&transport, || of_few_keys(batch(call * each, (call + 1) * each, TOPIC))).await;
            delivered.push(call);
            if let Some(loaded) = loaded.take_if(|_| call == 10) {
                let _ = loaded.send(());
            }
        }
        delivered.len() as u64
    };
    let killing = async {
        is_loaded.await.unwrap();
        leader.kill().await.unwrap();
    };
    let (delivered, ()) = tokio::join!(sending, killing);
    assert_eq!(delivered, calls);
    // The new leader shows what it has when it knows that all of it is acknowledged.
    let mut all = Vec::new();
    for _ in 0..READS_MAX {
        all = client.read(TOPIC, i32::MAX as usize).await.unwrap();
        let ids: HashSet<&str> = all.iter().filter_map(|record| record.header("id")).collect();
        if ids.len() as u64 >= calls * each {
            break;
        }
    }
    let mut last: HashMap<&str, u64> = HashMap::new();
    let mut ids: HashSet<&str> = HashSet::new();
    for record in &all {
        let id = record.header("id").unwrap();
        let number: u64 = id[1..].parse().unwrap();
        if ids.insert(id) {
            let before = last.insert(record.key.as_str(), number);
            assert!(before.is_none_or(|before| before < number), "{id} of {} comes after {before:?}", record.key);
        }
    }
    assert_eq!(ids.len() as u64, calls * each, "{:?}", client.run("ends", &[TOPIC]).await);
}
