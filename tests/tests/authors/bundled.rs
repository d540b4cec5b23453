//! The bundled plugins keep the contract: they pass the suites that authors run.

use std::io::Write as _;
use std::sync::LazyLock;

use serde_json::json;
use waybill_conformance::{Case, Options, Report, Verdict, run};
use waybill_core::port::transport::Transport as _;
use waybill_sandbox::{PluginSource, Sandbox, SandboxOptions, World};
use waybill_testkit::{kafka, mqtt, nats, postgres, pulsar, rabbitmq, redis};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let cache_dir = Some(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors-cache"));
        Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).unwrap()
    });
    &SANDBOX
}

/// Runs a suite; every check has to pass but those that are named here: they don't apply, or no case has what they need.
async fn passes(name: &str, world: World, cases: &[&str], beside: &[&str]) -> Report {
    let component = waybill_bundled::find(name).unwrap().component;
    let cases = cases.iter().map(|text| Case::parse(name, text).unwrap()).collect();
    let options = Options { cases, ..Options::default() };
    let report = run(sandbox(), &PluginSource::Embedded(component), world, &options).await.unwrap();
    for check in &report.checks {
        let verdict = match &check.verdict {
            Verdict::Passed { .. } => "passed",
            Verdict::Failed { .. } => "failed",
            Verdict::NotApplicable { .. } | Verdict::NotRun { .. } => "beside",
        };
        let expected = if beside.contains(&check.name.as_str()) { "beside" } else { "passed" };
        assert_eq!(verdict, expected, "{name}: {check:#?}");
    }
    report
}

const HTTP: &str = r#"
    [case]
    name = "posts"
    [peer]
    protocol = "http"
    answers = [{ status = 204 }]
    [[message]]
    topic = "http://suite.example/in"
    destination = "http://${peer}/in"
    expect = "ack"
"#;

const HTTP_REFUSED: &str = r#"
    [case]
    name = "each status has its outcome"
    [peer]
    protocol = "http"
    answers = [
      { when = "/busy", status = 503, headers = { retry-after = "7" } },
      { when = "/stranger", status = 401 },
      { when = "/wrong", status = 422 },
      { when = "/lost", do = "drop" },
    ]
    [[message]]
    destination = "http://${peer}/busy"
    expect = "retryable"
    code = "HTTP.503"
    [[message]]
    destination = "http://${peer}/stranger"
    expect = "blocked"
    code = "HTTP.401"
    [[message]]
    destination = "http://${peer}/wrong"
    expect = "permanent"
    code = "HTTP.422"
    [[message]]
    destination = "http://${peer}/lost"
    expect = "retryable"
    code = "HTTP.RESET"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn http_passes() {
    let report = passes("http", World::Transport, &[HTTP, HTTP_REFUSED], &[]).await;
    assert!(report.passed() >= 18, "{report:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn noop_passes() {
    // It talks to nobody, so nothing can be seen of ids and peers.
    let beside = [
        "ids-kept",
        "close-in-the-middle",
        "secrets-denied",
        "peer-refuses",
        "peer-closes",
        "peer-silent",
        "reconnects",
        "outage",
        "outcomes-in-order",
    ];
    passes("noop", World::Transport, &[], &beside).await;
}

/// The machine's server, and the one that is pinned. Where that can't be had, the run says so.
async fn nats_servers() -> Vec<nats::Server> {
    let mut all = vec![nats::Server::start().await.unwrap()];
    match nats::pinned().await {
        Ok(program) => {
            let options = nats::Options { program: Some(program), ..nats::Options::default() };
            all.push(nats::Server::start_with(options).await.unwrap());
        }
        Err(error) => say(&format!("NATS is tested in one version alone: {error}")),
    }
    for server in &all {
        say(&format!("against {}", server.version().await.unwrap()));
        let mut client = server.client().await.unwrap();
        client.create_stream("SUITE", &["suite.>"], &serde_json::json!({})).await.unwrap();
    }
    all
}

/// To stderr itself, which the test harness doesn't capture. Without a stderr there is nobody to tell.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Against each version that there is: two seconds more for the second one.
#[tokio::test(flavor = "multi_thread")]
async fn nats_passes_against_real_servers() {
    for server in nats_servers().await {
        let case = format!(
            r#"
            [case]
            name = "publishes"
            config = {{ servers = ["nats://${{peer}}"], stream = "SUITE" }}
            [peer]
            protocol = "external"
            address = "{}"
            [[message]]
            destination = "suite.messages"
            expect = "ack"
            "#,
            server.url().trim_start_matches("nats://")
        );
        passes("nats", World::Transport, &[&case], &["outcomes-in-order"]).await;
    }
}

/// A queue that keeps the newest messages only: the check on memory alone sends more than a server should have to keep.
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_passes_against_a_real_server() {
    let server = rabbitmq::Server::shared().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.declare_exchange("suite-sent", "topic").await.unwrap();
    client.declare_queue("suite-sent", &[("x-max-length", "50")]).await.unwrap();
    client.bind("suite-sent", "suite-sent", "suite.#").await.unwrap();
    let case = |name: &str, messages: &str| {
        format!(
            r#"
            [case]
            name = "{name}"
            config = {{ servers = ["amqp://${{peer}}"], exchange = "suite-sent", rules = [
              {{ match = "unbound.dead", unroutable = "dead-letter" }},
              {{ match = "elsewhere", exchange = "suite-nowhere" }},
            ] }}
            [peer]
            protocol = "external"
            address = "{}"
            {messages}
            "#,
            server.url().trim_start_matches("amqp://")
        )
    };
    let publishes = case("publishes", "[[message]]\ndestination = \"suite.messages\"\nexpect = \"ack\"");
    let each = [
        ("suite.messages", "ack", ""),
        ("unbound.held", "blocked", "RABBITMQ.UNROUTABLE"),
        ("unbound.dead", "permanent", "RABBITMQ.UNROUTABLE"),
        ("elsewhere", "blocked", "RABBITMQ.NO_EXCHANGE"),
    ];
    let each = case("each destination has its outcome", &messages(&each));
    passes("rabbitmq", World::Transport, &[&publishes, &each], &[]).await;
}

/// Messages of a case: where each goes, how it ends, and the code if there is one.
fn messages(all: &[(&str, &str, &str)]) -> String {
    let message = |(destination, expect, code): &(&str, &str, &str)| {
        let code = if code.is_empty() { String::new() } else { format!("code = \"{code}\"\n") };
        format!("[[message]]\ndestination = \"{destination}\"\nexpect = \"{expect}\"\n{code}")
    };
    all.iter().map(message).collect()
}

/// Streams that keep the newest entries only, for the same reason.
#[tokio::test(flavor = "multi_thread")]
async fn redis_passes_against_a_real_server() {
    let server = redis::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.ask(&["SET", "suite.text", "no stream"]).await.unwrap();
    let case = |name: &str, config: &str, messages: &str| {
        format!(
            r#"
            [case]
            name = "{name}"
            config = {{ servers = ["redis://${{peer}}"], trim = {{ max_len = 50 }}{config} }}
            [peer]
            protocol = "external"
            address = "{}"
            {messages}
            "#,
            server.url().trim_start_matches("redis://")
        )
    };
    let adds = case("adds", "", "[[message]]\ndestination = \"suite.messages\"\nexpect = \"ack\"");
    let each = [
        ("suite.messages", "ack", ""),
        ("suite.text", "blocked", "REDIS.WRONG_TYPE"),
        ("suite.unknown", "blocked", "REDIS.NO_STREAM"),
    ];
    let each = case("each destination has its outcome", ", create_streams = false", &messages(&each));
    let report = passes("redis", World::Transport, &[&adds, &each], &[]).await;
    for name in ["key-runs", "key-runs-cut"] {
        assert!(report.check(name).is_some(), "{name} is told: {report:#?}");
    }
}

/// A server without subscribers takes everything and keeps nothing.
#[tokio::test(flavor = "multi_thread")]
async fn mqtt_passes_against_a_real_server() {
    let server = mqtt::Server::start().await.unwrap();
    let case = |name: &str, config: &str, messages: &str| {
        format!(
            r#"
            [case]
            name = "{name}"
            config = {{ servers = ["mqtt://${{peer}}"]{config} }}
            [peer]
            protocol = "external"
            address = "{}"
            {messages}
            "#,
            server.url().trim_start_matches("mqtt://")
        )
    };
    let publishes = case("publishes", "", "[[message]]\ndestination = \"suite.messages\"\nexpect = \"ack\"");
    let each = [("suite.unheard", "blocked", "MQTT.NO_SUBSCRIBERS"), ("suite.#", "permanent", "MQTT.TOPIC")];
    let each = case("each destination has its outcome", ", no_subscribers = \"hold\"", &messages(&each));
    passes("mqtt", World::Transport, &[&publishes, &each], &[]).await;
}

/// Servers of Kafka tell their own addresses, so the suite's peer stands between for the first connection alone.
const KAFKA_BESIDE: [&str; 4] = ["close-in-the-middle", "ids-kept", "outage", "peer-silent"];
/// The same of the source.
const KAFKA_SOURCE_BESIDE: [&str; 2] = ["outage", "peer-silent"];

#[tokio::test(flavor = "multi_thread")]
async fn kafka_passes_against_a_real_server() {
    let server = kafka::Server::shared().await.unwrap();
    server.client().await.unwrap().create("suite.messages", 3).await.unwrap();
    let beside = KAFKA_BESIDE.map(|name| format!("{name} = \"it isn't on the wire\"")).join("\n");
    let case = |name: &str, config: &str, messages: &str| {
        format!(
            r#"
            [case]
            name = "{name}"
            config = {{ servers = ["${{peer}}"]{config} }}
            [case.not_applicable]
            {beside}
            [peer]
            protocol = "external"
            address = "{}"
            {messages}
            "#,
            server.url()
        )
    };
    let writes = case("writes", "", "[[message]]\ndestination = \"suite.messages\"\nexpect = \"ack\"");
    let each = [
        ("suite.messages", "ack", ""),
        ("suite unknown", "permanent", "KAFKA.TOPIC"),
        ("suite.unknown", "blocked", "KAFKA.NO_TOPIC"),
    ];
    let each = case("each destination has its outcome", ", create_topics = \"never\"", &messages(&each));
    let report = passes("kafka", World::Transport, &[&writes, &each], &KAFKA_BESIDE).await;
    for name in ["key-runs", "key-runs-cut"] {
        assert!(report.check(name).is_some(), "{name} is told: {report:#?}");
    }
}

/// Through a consumer of the source's own, so that each check finds everything again.
#[tokio::test(flavor = "multi_thread")]
async fn nats_source_passes_against_real_servers() {
    for server in nats_servers().await {
        let mut client = server.client().await.unwrap();
        for payload in ["one", "two"] {
            client.publish("suite.messages", payload.as_bytes()).await.unwrap();
        }
        let case = format!(
            r#"
            [case]
            name = "brings both"
            config = {{ servers = ["nats://${{peer}}"], stream = "SUITE" }}
            [peer]
            protocol = "external"
            address = "{}"
            [[delivery]]
            topic = "suite.messages"
            payload = "one"
            [[delivery]]
            payload = "two"
            "#,
            server.url().trim_start_matches("nats://")
        );
        passes("nats-source", World::Source, &[&case], &[]).await;
    }
}

/// Messages that wait at the peer of a source whose acknowledgements count: the suite takes some off, and the case's own check the rest.
const WAITING: u64 = 8;

/// A case of a source at a real server, at whose end so many messages are left.
fn case_of(config: &str, address: &str, left: usize) -> String {
    let delivery = "[[delivery]]\ntopic = \"orders.created\"\n".repeat(left);
    format!(
        "[case]\nname = \"brings the rest\"\nconfig = {config}\n[peer]\nprotocol = \"external\"\naddress = \"{address}\"\n{delivery}"
    )
}

async fn fill(plugin: &str, config: serde_json::Value) {
    let transport = transport::open(plugin, transport::settings("suite", config)).await.expect("opens");
    let outcomes = send(&transport, batch(0, WAITING, "orders.created")).await;
    assert_eq!(acknowledged(&outcomes) as u64, WAITING);
    transport.close(AMPLE).await;
}

/// RabbitMQ drops what is acknowledged and what is rejected: four messages of the suite's own checks.
#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_source_passes_against_a_real_server() {
    let server = rabbitmq::Server::shared().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.declare_exchange("suite", "topic").await.unwrap();
    client.declare_queue("suite", &[]).await.unwrap();
    client.bind("suite", "suite", "orders.#").await.unwrap();
    fill("rabbitmq", json!({ "servers": [server.url()], "exchange": "suite" })).await;
    let config = r#"{ servers = ["amqp://${peer}"], queue = "suite" }"#;
    let case = case_of(config, server.url().trim_start_matches("amqp://"), 4);
    passes("rabbitmq-source", World::Source, &[&case], &[]).await;
}

/// Redis has no place for what is rejected, so that stays: three messages are taken off.
#[tokio::test(flavor = "multi_thread")]
async fn redis_source_passes_against_a_real_server() {
    let server = redis::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.ask(&["XGROUP", "CREATE", "orders.created", "suite", "0", "MKSTREAM"]).await.unwrap();
    fill("redis", json!({ "servers": [server.url()] })).await;
    let config = r#"{ servers = ["redis://${peer}"], stream = "orders.created", group = "suite" }"#;
    let case = case_of(config, server.url().trim_start_matches("redis://"), 5);
    passes("redis-source", World::Source, &[&case], &[]).await;
}

/// The session is there before the messages, as an MQTT server keeps them for sessions only. It has no place for what is rejected
/// either.
#[tokio::test(flavor = "multi_thread")]
async fn mqtt_source_passes_against_a_real_server() {
    let server = mqtt::Server::start().await.unwrap();
    let mut client = server.session("suite").await.unwrap();
    client.subscribe("orders.created").await.unwrap();
    client.close().await.unwrap();
    fill("mqtt", json!({ "servers": [server.url()] })).await;
    let config = r#"{ servers = ["mqtt://${peer}"], topics = ["orders.created"], client_id = "suite" }"#;
    let case = case_of(config, server.url().trim_start_matches("mqtt://"), 5);
    passes("mqtt-source", World::Source, &[&case], &[]).await;
}

/// What is rejected stays, as in Redis.
#[tokio::test(flavor = "multi_thread")]
async fn kafka_source_passes_against_a_real_server() {
    let server = kafka::Server::shared().await.unwrap();
    // Kafka refuses a group for some moments when its server is new; its own client waits until that is over.
    server.client().await.unwrap().run("offsets", &["suite"]).await.unwrap();
    fill("kafka", json!({ "servers": [server.url()] })).await;
    let config = r#"{ servers = ["${peer}"], topics = ["orders.created"], group = "suite" }"#;
    let beside = KAFKA_SOURCE_BESIDE.map(|name| format!("{name} = \"it isn't on the wire\"")).join("\n");
    let case = case_of(config, &server.url(), 5).replace("[peer]", &format!("[case.not_applicable]\n{beside}\n[peer]"));
    passes("kafka-source", World::Source, &[&case], &KAFKA_SOURCE_BESIDE).await;
}

/// Without a subscription nothing is kept, however much the check on memory sends.
#[tokio::test(flavor = "multi_thread")]
async fn pulsar_passes_against_a_real_server() {
    let server = pulsar::Server::shared().await.unwrap();
    server.create_topic("suite-ended", 0).await.unwrap();
    server.admin("POST", "persistent/public/default/suite-ended/terminate", "").await.unwrap();
    let case = |name: &str, messages: &str| {
        format!(
            r#"
            [case]
            name = "{name}"
            config = {{ servers = ["pulsar://${{peer}}"], single_broker = true }}
            [peer]
            protocol = "external"
            address = "{}"
            {messages}
            "#,
            server.url().trim_start_matches("pulsar://")
        )
    };
    let sends = case("sends", "[[message]]\ndestination = \"suite-sent\"\nexpect = \"ack\"");
    let each = [
        ("suite-sent", "ack", ""),
        ("suite-ended", "blocked", "PULSAR.TERMINATED"),
        ("no topic", "permanent", "PULSAR.TOPIC"),
    ];
    let each = case("each destination has its outcome", &messages(&each));
    let report = passes("pulsar", World::Transport, &[&sends, &each], &[]).await;
    for name in ["key-runs", "key-runs-cut"] {
        assert!(report.check(name).is_some(), "{name} is told: {report:#?}");
    }
}

/// What was rejected stays, as with Redis: three messages are taken off.
#[tokio::test(flavor = "multi_thread")]
async fn pulsar_source_passes_against_a_real_server() {
    let server = pulsar::Server::shared().await.unwrap();
    let subscription = "persistent/public/default/orders.created/subscription/suite";
    server.create_topic("orders.created", 0).await.unwrap();
    server.admin("PUT", subscription, "").await.unwrap();
    fill("pulsar", json!({ "servers": [server.url()] })).await;
    let config =
        r#"{ servers = ["pulsar://${peer}"], topic = "orders.created", subscription = "suite", single_broker = true }"#;
    let case = case_of(config, server.url().trim_start_matches("pulsar://"), 5);
    passes("pulsar-source", World::Source, &[&case], &[]).await;
}

/// Document 4's table under another name, with so many rows that wait.
async fn table_to_bring(client: &mut postgres::Client) {
    client.query(&postgres::BY_STATUS.replace("outbox_", "brought_")).await.unwrap();
    let rows = format!(
        "INSERT INTO brought_events (routing_key, aggregate_type, aggregate_id, payload) \
         SELECT 'orders.created', 'order', n::text, json_build_object('n', n) FROM generate_series(1, {WAITING}) n"
    );
    client.query(&rows).await.unwrap();
}

/// What becomes of the rows of [`table_to_bring`]: one was rejected, all others were taken off.
async fn assert_brought(client: &mut postgres::Client) {
    let sql = "SELECT status, count(*) FROM brought_events GROUP BY status ORDER BY status";
    let all = [["failed".to_owned(), "1".to_owned()], ["published".to_owned(), (WAITING - 1).to_string()]];
    assert_eq!(client.query(sql).await.unwrap(), all);
}

/// Both of its roles, each at a table of its own. As a source it marks what is acknowledged and what is rejected: four rows of the
/// suite's own checks. As a table that is published directly it gives back whatever a claim has.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_against_a_real_server() {
    let server = postgres::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    table_to_bring(&mut client).await;
    client.query(postgres::BY_STATUS).await.unwrap();
    let rows = "INSERT INTO outbox_events (id, routing_key, aggregate_type, aggregate_id, payload) VALUES \
                (1, 'orders.created', 'order', 'a', '{\"n\":1}'), (2, 'orders.created', 'order', 'b', '{\"n\":2}')";
    client.query(rows).await.unwrap();
    let row = |number: u32, aggregate: &str| {
        format!(
            "[[row]]\nid = \"outbox-{number}\"\naggregate = \"order/{aggregate}\"\ntopic = \"bus:orders.created\"\nkey = \"{aggregate}\"\n\
             payload = '{{\"n\":{number}}}'\n"
        )
    };
    let case = format!(
        "[case]\nname = \"claims both\"\nconfig = {{ url = \"postgres://app@${{peer}}/app\" }}\n\
         [peer]\nprotocol = \"external\"\naddress = \"127.0.0.1:{}\"\n{}{}",
        server.port(),
        row(1, "a"),
        row(2, "b")
    );
    let brought = r#"{ url = "postgres://app@${peer}/app", table = "brought_events" }"#;
    let brought = case_of(brought, &format!("127.0.0.1:{}", server.port()), 4);
    let report = passes("postgres", World::Database, &[&brought, &case], &[]).await;
    for name in ["outage", "peer-silent", "window", "table: locked-once"] {
        assert!(report.check(name).is_some(), "{name} is told: {report:#?}");
    }
    assert_brought(&mut client).await;
}

/// As a source that has rows in hand by the word for it. The checks of a peer that is away end like a crash: what they had waits for `claim_ttl`.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_with_rows_that_are_claimed_by_the_word_for_it() {
    let server = postgres::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    table_to_bring(&mut client).await;
    let config =
        r#"{ url = "postgres://app@${peer}/app", table = "brought_events", claim = "row", claim_ttl = "10s" }"#;
    let case = case_of(config, &format!("127.0.0.1:{}", server.port()), 4);
    passes("postgres", World::Source, &[&case], &[]).await;
    assert_brought(&mut client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backoff_fibonacci_passes() {
    let case = r#"
        [case]
        name = "the first numbers"
        config = { base_ms = 100, cap_ms = 1000 }
        [[attempt]]
        number = 4
        expect = "delay"
        delay_ms = 300
        [[attempt]]
        kind = "permanent"
        expect = "dead"
    "#;
    passes("backoff-fibonacci", World::Backoff, &[case], &[]).await;
}
