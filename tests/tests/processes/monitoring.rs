//! What `examples/monitoring` has, in Debian's Prometheus beside a running host, and that host's `/metrics` beside `docs/operations.md`.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use waybill_testkit::api::Api;
use waybill_testkit::metrics_page::{Family, documented, families};
use waybill_testkit::process::{Host, Launch, binary, free_port};

use crate::inbound::until;

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

/// Metrics of what this host hasn't: brokers, tables, relays, plugins that crash, callers that are refused. Whoever asks for
/// nothing else may get nothing.
const ABSENT: [&str; 7] = [
    "tx_inbox_",
    "waybill_inbox_",
    "waybill_table_",
    "waybill_source_",
    "tx_relay_",
    "waybill_plugin_traps_total",
    "waybill_http_refusals_total",
];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/monitoring").join(name)
}

/// Answers every request: with 422 under `/refuse`, with 503 once under `/flaky`, else with 200 and an empty object.
pub async fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut flaked = false;
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let (mut path, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                let line = line.trim().to_lowercase();
                if let Some(target) = line.strip_prefix("post ") {
                    target.split(' ').next().unwrap().clone_into(&mut path);
                } else if let Some(bytes) = line.strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).await.is_err() {
                continue;
            }
            let status = match path.as_str() {
                "/refuse" => "422 Unprocessable Content",
                "/flaky" if !std::mem::replace(&mut flaked, true) => "503 Service Unavailable",
                _ => "200 OK",
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
            );
            let _ = stream.get_mut().write_all(answer.as_bytes()).await;
        }
    });
    url
}

/// A host that has done some of everything that it can do without brokers.
async fn busy_host(dir: &Path) -> (Host, Api) {
    let config = "[store]\nurl = \"surrealkv://./data\"\n[outbox]\nbackoff = { base_ms = 10 }\n";
    let (host, api) = Host::ready(&Launch::prepare(binary().unwrap(), dir, config).unwrap()).await.unwrap();
    let url = receiver().await;
    let post = async |path: &str, body: Value| {
        let reply = api.post(path, &body).await.unwrap();
        assert!(reply.is_ok(), "{path}: {reply:?}");
        reply.body
    };
    let message = |path: &str, id: &str| json!({"topic": format!("{url}/{path}"), "id": id, "payload": 1});
    let messages = [message("good", "m1"), message("refuse", "m2"), message("flaky", "m3")];
    post("/v1/messages", json!({ "messages": messages })).await;
    for (id, state) in [("m1", "done"), ("m2", "dead"), ("m3", "done")] {
        let path = format!("/v1/messages/{id}");
        until("it has ended", async || api.get(&path, &[]).await.unwrap().body["state"] == state).await;
    }
    // Something waits: nobody sends it.
    post("/v1/transports/http/pause", json!({})).await;
    post("/v1/messages", json!({ "messages": [message("good", "m4")] })).await;

    let definition =
        json!({"name": "order", "version": 1, "steps": [{"name": "reserve", "action": format!("{url}/reserve")}]});
    post("/v1/saga-definitions", definition).await;
    let ended = post("/v1/sagas", json!({"definition": "order", "id": "o-1", "input": {}})).await;
    assert_eq!(ended["id"], "o-1");
    until("the saga has ended", async || api.get("/v1/sagas/o-1", &[]).await.unwrap().body["state"] == "completed")
        .await;

    let begun = post("/v1/idempotency/begin", json!({"key": "k", "hash": "h"})).await;
    post("/v1/idempotency/finish", json!({"key": "k", "token": begun["token"], "result": {}})).await;
    post("/v1/idempotency/begin", json!({"key": "k", "hash": "h"})).await;
    let refused = api.post("/v1/idempotency/begin", &json!({"key": "k", "hash": "other"})).await.unwrap();
    assert!(!refused.is_ok());
    let event = json!({"resource_type": "TASK", "resource_id": "t", "op": "CREATE", "schema_version": 1});
    post("/v1/streams/task/events", json!({ "events": [event] })).await;
    (host, api)
}

async fn metrics(api: &Api) -> String {
    api.get("/metrics", &[]).await.unwrap().body.as_str().unwrap().to_owned()
}

async fn promtool(arguments: &[&str], stdin: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(example(""));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("this test needs prometheus: `cargo xtask test` says how to get it");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).await.unwrap();
    tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("promtool ends").unwrap()
}

/// A Prometheus with the example's configuration, but for the host's address and the pace.
struct Prometheus {
    _child: Child,
    api: Api,
}

impl Prometheus {
    async fn start(dir: &Path, host: &Api) -> Self {
        let config = std::fs::read_to_string(example("prometheus.yml")).unwrap();
        let target = host.base().strip_prefix("http://").unwrap();
        let replaced = config.replace("127.0.0.1:7070", target).replace("_interval: 15s", "_interval: 3s");
        assert!(replaced.contains(target) && !replaced.contains("15s"), "the example is written in another way");
        std::fs::write(dir.join("prometheus.yml"), replaced).unwrap();
        std::fs::copy(example("waybill.rules.yml"), dir.join("waybill.rules.yml")).unwrap();
        let listen = format!("127.0.0.1:{}", free_port().unwrap());
        let log = std::fs::File::create(dir.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg(format!("--web.listen-address={listen}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("this test needs prometheus: `cargo xtask test` says how to get it");
        let prometheus = Self { _child: child, api: Api::new(format!("http://{listen}")) };
        // Rates take two scrapes.
        until("it has scraped the host three times", async || {
            let scrapes = prometheus.try_ask("count_over_time(waybill_ready[1h])").await;
            scrapes
                .is_some_and(|found| found.first().is_some_and(|one| one["value"][1] != "1" && one["value"][1] != "2"))
        })
        .await;
        prometheus
    }

    async fn try_ask(&self, query: &str) -> Option<Vec<Value>> {
        let reply = self.api.get("/api/v1/query", &[("query", query)]).await.ok()?;
        (reply.body["status"] == "success").then(|| reply.body["data"]["result"].as_array().unwrap().clone())
    }

    /// What a query finds.
    async fn ask(&self, query: &str) -> Vec<Value> {
        let reply = self.api.get("/api/v1/query", &[("query", query)]).await.unwrap();
        assert_eq!(reply.body["status"], "success", "{query}: {reply:?}");
        reply.body["data"]["result"].as_array().unwrap().clone()
    }
}

/// Whether a query asks only for what this host hasn't.
fn is_absent(query: &str) -> bool {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let mut metrics = words.filter(|word| word.starts_with("tx_") || word.starts_with("waybill_"));
    metrics.all(|metric| ABSENT.iter().any(|absent| metric.starts_with(absent)))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_a_running_host_is_in_the_page_with_its_kind_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    let (host, api) = busy_host(dir.path()).await;
    let page = metrics(&api).await;
    let (found, documented) = (families(&page), documented().unwrap());
    assert!(found.len() > 80, "{} families", found.len());
    for (name, Family { kind, help, labels, .. }) in &found {
        let row = documented.get(name).unwrap_or_else(|| panic!("docs/operations.md has no {name}"));
        assert_eq!(*kind, row.kind, "{name}");
        assert!(!help.is_empty(), "{name} has no help");
        assert!(labels.is_subset(&row.labels), "{name} has {labels:?}, the page {:?}", row.labels);
    }
    let labelled = found.iter().filter(|(name, family)| family.labels == documented[name.as_str()].labels).count();
    assert!(labelled > 60, "only {labelled} have all labels that the page says");

    // Names of documents are what it has to say; nobody may add others.
    let lint = promtool(&["check", "metrics"], &page).await;
    let complaints = String::from_utf8(lint.stderr).unwrap() + &String::from_utf8(lint.stdout).unwrap();
    for complaint in complaints.lines() {
        let name = complaint.split_whitespace().next().unwrap_or_default();
        assert!(["tx_outbox_latency_ms", "tx_saga_step_latency_ms"].contains(&name), "{complaint}");
    }
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_and_the_alerts_answer_in_prometheus_beside_a_running_host() {
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "waybill.rules.yml"],
        ["test", "rules", "waybill.rules.test.yml"],
    ] {
        let checked = promtool(&arguments, "").await;
        let words = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "promtool {arguments:?}: {words}");
    }
    let dir = tempfile::tempdir().unwrap();
    let (host, api) = busy_host(dir.path()).await;
    let prometheus = Prometheus::start(dir.path(), &api).await;

    let board: Value = serde_json::from_str(&std::fs::read_to_string(example("grafana.json")).unwrap()).unwrap();
    let mut with_data = 0;
    for target in
        board["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
    {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m").replace("$instance", ".*");
        assert!(!query.contains('$'), "{query}: a variable that Grafana would fill in");
        let mut found = prometheus.ask(&query).await;
        if !is_absent(&query) {
            // A scrape that came too late on a busy machine leaves a gap.
            until(&query, async || {
                found = prometheus.ask(&query).await;
                !found.is_empty()
            })
            .await;
        }
        // A legend that names a label which isn't there would be empty.
        for label in
            target["legendFormat"].as_str().unwrap().split("{{").skip(1).filter_map(|rest| rest.split("}}").next())
        {
            assert!(found.iter().all(|series| series["metric"].get(label).is_some()), "{query} has no label {label}");
        }
        with_data += usize::from(!found.is_empty());
    }
    assert!(with_data > 40, "{with_data} queries have data");

    // One message died, and the transport is paused; an hour of that isn't over.
    until("the rules have seen what happened", async || {
        let rules = rules(&prometheus).await;
        let are = |name: &str, state: &str| rules.iter().any(|rule| rule["name"] == name && rule["state"] == state);
        are("WaybillDeadLetters", "firing") && are("WaybillPaused", "pending")
    })
    .await;
    let rules = rules(&prometheus).await;
    assert!(rules.len() >= 17, "{} rules", rules.len());
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    until("nothing is said to be down", async || {
        let now = self::rules(&prometheus).await;
        let is_inactive = |name: &str| now.iter().any(|rule| rule["name"] == name && rule["state"] == "inactive");
        is_inactive("WaybillDown") && is_inactive("WaybillNotReady")
    })
    .await;
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}

async fn rules(prometheus: &Prometheus) -> Vec<Value> {
    let reply = prometheus.api.get("/api/v1/rules", &[]).await.unwrap();
    let groups = reply.body["data"]["groups"].as_array().cloned().unwrap_or_default();
    groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
}
