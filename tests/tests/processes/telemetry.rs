//! What the real binary exports to an OpenTelemetry collector: one message's trace from the request to its receiver, metrics, logs.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waybill_testkit::collector::{Collector, Exported, ExportedPoint, ExportedSpan};
use waybill_testkit::process::{Host, Launch, binary, free_port};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for a host to end whose collector is gone: its drain has nothing to wait for, and the rest is bounded.
const END_TIME_MAX: Duration = Duration::from_secs(20);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Kinds of spans as OTLP numbers them.
const INTERNAL: i32 = 1;
const CLIENT: i32 = 3;
const PRODUCER: i32 = 4;

struct Running {
    host: Host,
    base: String,
    http: reqwest::Client,
    _dir: tempfile::TempDir,
}

impl Running {
    async fn start(otel: &str, environment: &[(&'static str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[store]\nurl = \"surrealkv://./data\"\n[server]\nlisten = \"127.0.0.1:0\"\n[plugins]\ncache = \"./cache\"\n\
             [log]\nlevel = \"debug\"\n\
             [transport.orders]\nplugin = \"http\"\nallow = {{ net = [\"http://127.0.0.1:*\"] }}\n\
             [[route]]\nmatch = \"http:**\"\ntransport = \"orders\"\n{otel}"
        );
        let mut launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
        // Batches leave soon, so that the tests don't wait for them.
        let soon = [("OTEL_BSP_SCHEDULE_DELAY", "100"), ("OTEL_BLRP_SCHEDULE_DELAY", "100")];
        let all = soon.iter().chain(environment);
        launch.environment = all.map(|(name, value)| (*name, OsString::from(value))).collect();
        let (host, api) = Host::ready(&launch).await.unwrap();
        Self { host, base: api.base().to_owned(), http: reqwest::Client::new(), _dir: dir }
    }

    /// Enqueues a message as somebody does who is part of the trace.
    async fn send(&self, id: &str, topic: &str) {
        let body = json!({ "messages": [{ "topic": topic, "id": id, "payload": id, "correlation_id": "order-17" }] });
        let request = self.http.post(format!("{}/v1/messages", self.base)).json(&body);
        let answer = request.header("traceparent", format!("00-{TRACE}-{CALLER}-01")).send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    }

    async fn state(&self, id: &str) -> String {
        let shown = self.http.get(format!("{}/v1/messages/{id}", self.base)).send().await.unwrap();
        let shown: Value = shown.json().await.unwrap();
        shown["state"].as_str().unwrap_or_default().to_owned()
    }

    async fn until_done(&self, id: &str) {
        let waiting = async {
            while self.state(id).await != "done" {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{id} was never delivered"));
    }

    async fn end(self) -> String {
        let log = self.host.log().to_owned();
        let status = self.host.terminate(END_TIME_MAX).await.unwrap();
        let text = std::fs::read_to_string(log).unwrap();
        assert!(status.success(), "{text}");
        text
    }
}

async fn collector() -> Collector {
    Collector::start().await.unwrap()
}

fn span<'e>(exported: &'e Exported, name: &str) -> &'e ExportedSpan {
    exported.span(name).unwrap_or_else(|| panic!("no span {name:?} in {:#?}", exported.spans))
}

/// Whether an export said that one message is in this state.
fn has_one(exported: &Exported, state: &str) -> bool {
    let is_it = |point: &ExportedPoint| {
        point.name == "waybill_outbox_depth" && point.attributes.get("state").is_some_and(|of| of == state)
    };
    exported.points.iter().any(|point| is_it(point) && point.value == 1.0)
}

/// What everybody can see of one message that is delivered and one that is refused.
async fn a_message_has_one_trace(protocol: &str) {
    let collector = collector().await;
    let otel = format!(
        "[otel]\nendpoint = \"{}\"\nprotocol = \"{protocol}\"\nservice_name = \"shop\"\nmetrics_interval = \"1s\"\n\
         headers = {{ authorization = \"env:COLLECTOR_TOKEN\" }}\n",
        collector.url()
    );
    let running =
        Running::start(&otel, &[("COLLECTOR_TOKEN", "s3cret"), ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]).await;
    running.send("m-1", &collector.topic(204)).await;
    running.send("m-2", &collector.topic(400)).await;
    let is_there = |exported: &Exported| {
        exported.spans.iter().filter(|span| span.name == "send orders").count() == 2
            && exported.spans.iter().filter(|span| span.name == "call orders").count() == 2
            && exported.value("tx_outbox_dispatched_total") == Some(1.0)
            && exported.value("tx_outbox_dead_total") == Some(1.0)
            && has_one(exported, "dead")
            && exported.logs.iter().any(|log| log.trace == TRACE)
    };
    let exported = collector.until(PATIENCE, is_there).await.unwrap_or_else(|it| panic!("{it:#?}"));

    let enqueue = span(&exported, "enqueue");
    assert_eq!((enqueue.trace.as_str(), enqueue.parent.as_str(), enqueue.kind), (TRACE, CALLER, PRODUCER));
    let commit = span(&exported, "commit outbox");
    assert_eq!((commit.trace.as_str(), commit.parent.as_str(), commit.kind), (TRACE, enqueue.id.as_str(), INTERNAL));
    let of =
        |id: &str| exported.spans.iter().find(|span| span.attributes.get("messaging.message.id") == Some(&id.into()));
    let (sent, refused) = (of("m-1").unwrap(), of("m-2").unwrap());
    assert_eq!((sent.name.as_str(), sent.trace.as_str(), sent.kind), ("send orders", TRACE, PRODUCER));
    assert_eq!(sent.parent, enqueue.id);
    // As it is shown everywhere: with its scheme.
    let topic = format!("http:{}", collector.topic(204));
    for (name, value) in [
        ("messaging.system", "waybill"),
        ("messaging.operation.type", "send"),
        ("messaging.operation.name", "send"),
        ("messaging.message.conversation_id", "order-17"),
        ("waybill.tenant", "default"),
        ("waybill.topic", topic.as_str()),
        ("waybill.attempt", "1"),
        ("waybill.transport", "orders"),
        ("waybill.outcome", "delivered"),
    ] {
        assert_eq!(sent.attributes.get(name).map(String::as_str), Some(value), "{name} of {sent:#?}");
    }
    assert!(!sent.failed && refused.failed, "{sent:#?} {refused:#?}");
    assert_eq!(refused.attributes.get("waybill.outcome").map(String::as_str), Some("dead"));
    let call = exported.spans.iter().find(|span| span.parent == sent.id).expect("the call of the plugin");
    assert_eq!((call.name.as_str(), call.kind), ("call orders", CLIENT));
    assert_eq!(call.attributes.get("messaging.batch.message_count").map(String::as_str), Some("1"));

    let received =
        exported.received.iter().find(|(path, _)| path == "/receive/204").map(|(_, context)| context.as_str());
    assert_eq!(received, Some(format!("00-{TRACE}-{}-01", sent.id).as_str()));
    let log = exported.logs.iter().find(|log| log.trace == TRACE).unwrap();
    assert_eq!(log.attributes.get("trace_id").map(String::as_str), Some(TRACE));
    // What `/metrics` counts when somebody asks is counted for each export.
    for name in ["waybill_build_info", "waybill_ready", "waybill_scrape_complete", "waybill_transport_breaker_state"] {
        assert!(exported.value(name).is_some(), "{name} isn't among {:#?}", exported.points);
    }
    let latency = exported.points.iter().find(|point| point.name == "tx_outbox_latency_seconds").unwrap();
    assert_eq!(latency.unit, "s");
    assert!(latency.bounds.len() > 10, "{latency:?}");
    assert_eq!(exported.resource.get("service.name").map(String::as_str), Some("shop"));
    if protocol != "grpc" {
        assert_eq!(exported.headers.get("authorization").map(String::as_str), Some("s3cret"));
        assert_eq!(exported.headers.get("content-encoding").map(String::as_str), Some("gzip"));
    }
    let log = running.end().await;
    assert!(!log.contains("s3cret"), "{log}");
    assert!(!log.contains("not everything was exported"), "{log}");
}

#[tokio::test]
async fn a_message_has_one_trace_over_http() {
    a_message_has_one_trace("http/protobuf").await;
}

#[tokio::test]
async fn a_message_has_one_trace_over_grpc() {
    a_message_has_one_trace("grpc").await;
}

#[tokio::test]
async fn the_environment_alone_switches_it_on_and_can_leave_signals_out() {
    let collector = collector().await;
    let url = collector.url();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_LOGS_EXPORTER", "none"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=b"),
    ];
    let running = Running::start("", &environment).await;
    running.send("m-1", &collector.topic(204)).await;
    let is_there = |exported: &Exported| exported.span("send orders").is_some();
    collector.until(PATIENCE, is_there).await.unwrap_or_else(|it| panic!("{it:#?}"));
    running.end().await;
    let exported = collector.exported();
    assert_eq!(exported.resource.get("service.name").map(String::as_str), Some("waybill"));
    assert_eq!(exported.resource.get("a").map(String::as_str), Some("b"));
    // The stop exports metrics that wait for their interval.
    assert_eq!(exported.value("tx_outbox_dispatched_total"), Some(1.0));
    assert!(exported.logs.is_empty(), "{:?}", exported.logs);
}

#[tokio::test]
async fn without_the_settings_nothing_is_sent_and_a_context_is_passed_on_as_it_came() {
    let collector = collector().await;
    let url = collector.url();
    let disabled = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_SDK_DISABLED", "true")];
    for environment in [&disabled[..0], &disabled[..]] {
        let running = Running::start("", environment).await;
        running.send("m-1", &collector.topic(204)).await;
        running.until_done("m-1").await;
        running.end().await;
    }
    let exported = collector.exported();
    assert!(exported.spans.is_empty() && exported.logs.is_empty() && exported.points.is_empty(), "{exported:#?}");
    let as_it_came = format!("00-{TRACE}-{CALLER}-01");
    assert_eq!(exported.received.len(), 2);
    assert!(exported.received.iter().all(|(_, context)| *context == as_it_came), "{:?}", exported.received);
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_is_passed_on_and_not_exported() {
    let collector = collector().await;
    let otel =
        format!("[otel]\nendpoint = \"{}\"\nsample_ratio = 0.0\nlogs = false\nmetrics = false\n", collector.url());
    let running = Running::start(&otel, &[]).await;
    let body = json!({ "topic": collector.topic(204), "id": "m-1", "payload": 1 });
    running.http.post(format!("{}/v1/messages", running.base)).json(&body).send().await.unwrap();
    running.until_done("m-1").await;
    running.end().await;
    let exported = collector.exported();
    assert!(exported.spans.is_empty(), "{exported:#?}");
    let [(_, context)] = exported.received.as_slice() else { panic!("{exported:#?}") };
    assert!(context.starts_with("00-") && context.ends_with("-00"), "{context}");
}

#[tokio::test]
async fn a_collector_that_is_gone_harms_nothing() {
    let receiver = collector().await;
    let nobody = format!("http://127.0.0.1:{}", free_port().unwrap());
    for protocol in ["http/protobuf", "grpc"] {
        let otel = format!("[otel]\nendpoint = \"{nobody}\"\nprotocol = \"{protocol}\"\nmetrics_interval = \"1s\"\n");
        let running = Running::start(&otel, &[]).await;
        running.send("m-1", &receiver.topic(204)).await;
        running.until_done("m-1").await;
        let began = Instant::now();
        let log = running.end().await;
        assert!(began.elapsed() < END_TIME_MAX, "{:?}", began.elapsed());
        assert!(log.contains("the collector takes no exports"), "{log}");
        assert!(log.contains("not everything was exported to the collector"), "{log}");
        let told = log.matches("the collector takes no exports").count();
        assert!(told <= 3, "once for each signal, not for each batch: {told}\n{log}");
    }
}
