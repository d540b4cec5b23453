//! The bundled plugins keep the contract: they pass the suites that authors run.

use std::sync::LazyLock;

use waybill_conformance::{Case, Options, Report, run};
use waybill_sandbox::{PluginSource, Sandbox, SandboxOptions, World};
use waybill_testkit::nats;

pub fn sandbox() -> &'static Sandbox {
    static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
        let cache_dir = Some(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors-cache"));
        Sandbox::new(SandboxOptions { cache_dir, ..SandboxOptions::default() }).unwrap()
    });
    &SANDBOX
}

/// Runs a suite; every check has to pass but those that are named here as not applicable.
async fn passes(name: &str, world: World, cases: &[&str], beside: &[&str]) -> Report {
    let component = waybill_bundled::find(name).unwrap().component;
    let cases = cases.iter().map(|text| Case::parse(name, text).unwrap()).collect();
    let options = Options { cases, ..Options::default() };
    let report = run(sandbox(), &PluginSource::Embedded(component), world, &options).await.unwrap();
    for check in &report.checks {
        let verdict = match &check.verdict {
            waybill_conformance::Verdict::Passed { .. } => "passed",
            waybill_conformance::Verdict::Failed { .. } => "failed",
            waybill_conformance::Verdict::NotApplicable { .. } => "not applicable",
        };
        let expected = if beside.contains(&check.name.as_str()) { "not applicable" } else { "passed" };
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

#[tokio::test(flavor = "multi_thread")]
async fn nats_passes_against_a_real_server() {
    let server = nats::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.create_stream("SUITE", &["suite.>"], &serde_json::json!({})).await.unwrap();
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

/// Through a consumer of the source's own, so that each check finds everything again.
#[tokio::test(flavor = "multi_thread")]
async fn nats_source_passes_against_a_real_server() {
    let server = nats::Server::start().await.unwrap();
    let mut client = server.client().await.unwrap();
    client.create_stream("SUITE", &["suite.>"], &serde_json::json!({})).await.unwrap();
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
