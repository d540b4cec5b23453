//! A real host with an inbox and with tables, real brokers, and kills of all of them. What is asserted is read from outside: from streams, from
//! tables, and from what handlers remember.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use waybill_testkit::inbound::{
    Answer, Called, HandlerServer, Kafka, Mqtt, Nats, Pulsar, Shape, Upstream, handled, published,
};
use waybill_testkit::nats;
use waybill_testkit::process::{Host, Launch, binary, free_port};
use waybill_tests::guests;

const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// A folder that stays when a test fails.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // What an earlier run left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "it never came true that {what}");
        sleep(POLL).await;
    }
}

/// Runs it, and says what it cost in the log of the suite.
async fn is_handled_once(name: &str, upstream: &mut dyn Upstream) {
    let load = upstream.load();
    let found = handled(&binary().unwrap(), &folder(name), upstream).await.unwrap();
    // To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{name}: {found}");
    assert!(found.breaches.is_empty(), "{found}");
    let (sent, disturbed) = (load.senders * load.messages, load.disturbances.len());
    assert_eq!((found.sent, found.disturbed, found.met), (sent, disturbed, disturbed), "each meets a call: {found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sixty_four_senders_send_is_processed_once_whoever_is_killed() {
    is_handled_once("inbox-kill", &mut Nats::start().await.unwrap()).await;
}

/// The Java client writes, two instances of one source are the group's members; both die by traps, as large messages take more memory than they
/// may have. Some 30 seconds, most of it the broker's restart.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_by_kafka_is_processed_once_whoever_is_killed() {
    is_handled_once("inbox-kafka", &mut Kafka::start().await.unwrap()).await;
}

/// Pulsar's own client writes, two instances of one source share the keys, and die by traps as those of Kafka. Some 55 seconds, most of it the
/// broker's two starts.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_by_pulsar_is_processed_once_whoever_is_killed() {
    is_handled_once("inbox-pulsar", &mut Pulsar::start().await.unwrap()).await;
}

/// Of a session that Mosquitto keeps, in the order of arrival. Some 15 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_by_mqtt_is_processed_once_whoever_is_killed() {
    is_handled_once("inbox-mqtt", &mut Mqtt::start().await.unwrap()).await;
}

/// Two instances share the messages, and die by traps. Some 20 seconds.
#[tokio::test(flavor = "multi_thread")]
async fn what_two_instances_share_by_mqtt_is_processed_once_whoever_dies() {
    is_handled_once("inbox-mqtt-shared", &mut Mqtt::shared().await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_publish_a_table_whole_and_in_order_whoever_is_killed() {
    let found = published(&binary().unwrap(), &folder("table-kill"), Shape::ByStatus).await.unwrap();
    assert!(found.breaches.is_empty(), "{found}");
    assert_eq!(found.kills, 6, "{found}");
}

/// Document 5's table as it is: rows of one transaction have one stamp, and go in the order of their ids.
#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_publish_rows_in_order_of_their_stamps_and_ids_whoever_is_killed() {
    let found = published(&binary().unwrap(), &folder("stamped-table-kill"), Shape::ByPublication).await.unwrap();
    assert!(found.breaches.is_empty(), "{found}");
    assert_eq!(found.kills, 6, "{found}");
}

/// A stream of orders with two durable consumers, and another stream for what died.
fn config(server: &nats::Server, handler: &HandlerServer, away: SocketAddr) -> String {
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    let source = |name: &str, durable: &str| {
        format!(
            "[source.{name}]\nplugin = \"nats\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\nmap = {{ id = \"order-id\" }}\n\
             config = {{ servers = [\"{url}\"], stream = \"ORDERS\", durable = \"{durable}\", filter_subject = \"orders.in.{durable}\", \
             ack_wait = \"6s\" }}\n"
        )
    };
    format!(
        "[store]\nurl = \"surrealkv://./data\"\n{}{}\
         [consumer.ship]\nsource = \"orders\"\nhandler = \"{}\"\nhandler_timeout = \"12s\"\nmax_attempts = 2\ndlq = true\n\
         backoff = {{ base_ms = 100, factor = 1.0, cap_ms = 100 }}\n\
         [consumer.away]\nsource = \"others\"\nhandler = \"http://{away}/handle\"\n\
         [transport.dead]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"DEAD\" }}\nallow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:orders.dlq.**\"\ntransport = \"dead\"\n",
        source("orders", "ship"),
        source("others", "away"),
        handler.url()
    )
}

fn answer(called: &Called) -> Answer {
    match called.id.as_str() {
        "before" => Answer::status(409),
        "never" => Answer::status(422),
        "failing" => Answer::status(500),
        // Behind `handler_timeout`.
        "late" => Answer::status(200).delayed(Duration::from_secs(60)),
        // Within it, and behind `ack_wait`.
        "slow" => Answer::status(200).delayed(Duration::from_secs(10)),
        _ => Answer::status(200),
    }
}

async fn consumer(server: &nats::Server, name: &str) -> Value {
    server.client().await.unwrap().api(&format!("CONSUMER.INFO.ORDERS.{name}"), &json!({})).await.unwrap()
}

/// Everything was delivered, and nothing is unsettled.
async fn is_settled(server: &nats::Server, name: &str) -> bool {
    let info = consumer(server, name).await;
    info["num_pending"] == 0 && info["num_ack_pending"] == 0
}

async fn send(server: &nats::Server, subject: &str, ids: &[&str]) -> u64 {
    let mut client = server.client().await.unwrap();
    let mut last = 0;
    for id in ids.iter().copied() {
        last = client.publish_with(subject, &[("order-id", id)], br#"{"order":7}"#).await.unwrap();
    }
    last
}

/// Attempts, and whether a word of an earlier call came with them.
fn tries(calls: &[Called], id: &str) -> Vec<(u32, bool)> {
    calls.iter().filter(|call| call.id == id).map(|call| (call.attempt, call.maybe_handled)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_its_fate_at_the_stream_and_in_the_dlq() {
    let server = nats::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.create_stream("ORDERS", &["orders.in.>"], &json!({})).await.unwrap();
    client.create_stream("DEAD", &["orders.dlq.>"], &json!({})).await.unwrap();
    let handler = HandlerServer::start(answer).await.unwrap();
    let away = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let launch = Launch::prepare(binary().unwrap(), &folder("inbox-fates"), &config(&server, &handler, away)).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    until("both consumers are provisioned", async || {
        let names = server.client().await.unwrap().api("CONSUMER.NAMES.ORDERS", &json!({})).await.unwrap();
        names["consumers"].as_array().is_some_and(|names| names.len() == 2)
    })
    .await;

    let sent = ["fine", "before", "never", "failing", "late", "slow", "fine"];
    let last = send(&server, "orders.in.ship", &sent).await;
    until("all of them are settled", async || is_settled(&server, "ship").await).await;
    let info = consumer(&server, "ship").await;
    assert_eq!(info["ack_floor"]["stream_seq"], last);
    assert_eq!(info["delivered"]["consumer_seq"], sent.len(), "nothing was delivered a second time: {info}");
    let calls = handler.calls();
    for id in ["fine", "before", "never", "slow"] {
        assert_eq!(tries(&calls, id), [(1, false)], "{id}");
    }
    for id in ["failing", "late"] {
        assert_eq!(tries(&calls, id), [(1, false), (2, true)], "{id}");
    }

    until("three messages are in the DLQ", async || {
        server.client().await.unwrap().read_all("DEAD").await.unwrap().len() == 3
    })
    .await;
    let mut told: Vec<(String, u64, String)> = Vec::new();
    for dead in client.read_all("DEAD").await.unwrap() {
        let body: Value = serde_json::from_slice(&dead.payload).unwrap();
        assert_eq!(dead.subject, "orders.dlq.orders.in.ship");
        assert_eq!(
            (dead.header("Nats-Msg-Id"), &body["original_subject"]),
            (body["message_id"].as_str(), &json!("orders.in.ship"))
        );
        assert_eq!(body["payload"], json!({ "order": 7 }));
        let text = |name: &str| body[name].as_str().unwrap().to_owned();
        told.push((text("message_id"), body["attempts"].as_u64().unwrap(), text("code")));
    }
    told.sort();
    let dead = |id: &str, attempts: u64, code: &str| (id.to_owned(), attempts, code.to_owned());
    assert_eq!(told, [dead("failing", 2, "HTTP.500"), dead("late", 2, "HTTP.TIMEOUT"), dead("never", 1, "HTTP.422")]);

    // Nobody listens there: it costs no attempt, and the stream keeps it.
    send(&server, "orders.in.away", &["waits"]).await;
    until("its consumer is held", async || {
        let stats: Value = api.read("/v1/inbox/stats", &[]).await.unwrap();
        let consumers = stats["consumers"].as_array().cloned().unwrap_or_default();
        consumers.iter().any(|consumer| consumer["consumer"] == "away" && consumer["held"]["on"] == "destination")
    })
    .await;
    assert_eq!(consumer(&server, "away").await["num_ack_pending"], 1);
    let there = HandlerServer::start_at(away, |_| Answer::status(200)).await.unwrap();
    until("it is handled and acknowledged", async || is_settled(&server, "away").await).await;
    assert_eq!(tries(&there.calls(), "waits").iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1]);

    // Another process knows what was handled, provisions nothing anew, and calls nobody.
    let created = consumer(&server, "ship").await["created"].clone();
    assert!(host.terminate(PATIENCE).await.unwrap().success());
    let (host, api) = Host::ready(&launch).await.unwrap();
    let again = ["fine", "before", "never", "failing", "late", "slow"];
    send(&server, "orders.in.ship", &again).await;
    until("the repeats are settled", async || is_settled(&server, "ship").await).await;
    assert_eq!(handler.calls().len(), calls.len(), "{:?}", handler.calls());
    assert_eq!(consumer(&server, "ship").await["created"], created);
    let dead: Vec<Value> = api.list("/v1/dead-letters", &[]).await.unwrap();
    assert_eq!(dead.len(), 3, "{dead:?}");
    assert_eq!(client.read_all("DEAD").await.unwrap().len(), 3);
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_handles_what_a_stream_brings() {
    let server = nats::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.create_stream("ORDERS", &["orders.in.>"], &json!({})).await.unwrap();
    client.create_stream("TOLD", &["told"], &json!({})).await.unwrap();
    let (url, peer) = (server.url(), server.url().replace("nats://", "tcp://"));
    let config = format!(
        "[store]\nurl = \"surrealkv://./data\"\n[plugins]\ncache = \"./cache\"\n\
         [source.orders]\nplugin = \"nats\"\nprovision = true\nallow = {{ net = [\"{peer}\"] }}\nmap = {{ id = \"order-id\" }}\n\
         config = {{ servers = [\"{url}\"], stream = \"ORDERS\", durable = \"ship\" }}\n\
         [consumer.ship]\nsource = \"orders\"\nhandler = \"fn:handles-as-told\"\nplugin = {:?}\nmax_attempts = 2\n\
         backoff = {{ base_ms = 100, factor = 1.0, cap_ms = 100 }}\n\
         [transport.told]\nplugin = \"nats\"\nconfig = {{ servers = [\"{url}\"], stream = \"TOLD\" }}\nallow = {{ net = [\"{peer}\"] }}\n\
         [[route]]\nmatch = \"bus:told\"\ntransport = \"told\"\n",
        guests::HANDLES_AS_TOLD
    );
    let launch = Launch::prepare(binary().unwrap(), &folder("inbox-component"), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    let words = ["fine", "duplicate", "poison", "panic", "tell"];
    for word in words {
        let payload = json!(word).to_string();
        client.publish_with("orders.in.ship", &[("order-id", word)], payload.as_bytes()).await.unwrap();
    }
    until("two of them are dead letters", async || {
        api.list::<Value>("/v1/dead-letters", &[]).await.unwrap().len() == 2
    })
    .await;
    until("all of them are settled", async || is_settled(&server, "ship").await).await;
    let mut dead: Vec<(String, u64, String)> = Vec::new();
    for letter in api.list::<Value>("/v1/dead-letters", &[]).await.unwrap() {
        let text = |name: &str| letter[name].as_str().unwrap().to_owned();
        dead.push((text("message_id"), letter["attempts"].as_u64().unwrap(), text("code")));
    }
    dead.sort();
    let expected = |id: &str, attempts: u64, code: &str| (id.to_owned(), attempts, code.to_owned());
    assert_eq!(dead, [expected("panic", 2, "PLUGIN.TRAPPED"), expected("poison", 1, "FIXTURE.NEVER")]);
    until("what it left behind went on", async || {
        server.client().await.unwrap().read_all("TOLD").await.unwrap().len() == 1
    })
    .await;
    for word in words {
        let status: Value = api.read(&format!("/v1/inbox/ship/{word}"), &[]).await.unwrap();
        assert_eq!(status["seen"], true, "{status}");
    }
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
