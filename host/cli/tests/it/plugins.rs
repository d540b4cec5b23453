//! Plugins of a host: their logs, and a candidate that failed.

use waybill_api::plugin_outcomes::GenerationOutcomes;
use waybill_api::plugins::{PluginReload, PluginService as _};
use waybill_cli::exit::Exit;

use crate::host::TestHost;
use crate::support::waybill;

fn rolled_back() -> TestHost {
    TestHost::with(async |host| {
        host.plugins.build("http", &"cd".repeat(32));
        host.plugins.reload("http", PluginReload::default(), "ann").await.unwrap();
        host.plugins.roll_back("http", "it loses headers", "ann").await.unwrap();
        host.plugins.writes("http", "info", "connected", &[("peer", "10.0.0.7:80")]);
        host.plugins.writes("http", "warn", "an instance was lost: PLUGIN.TRAPPED: no stock", &[]);
    })
}

#[test]
fn a_candidate_that_was_rolled_back_is_told_with_its_reason_until_another_serves() {
    let host = rolled_back();
    let list = waybill(&["plugin", "list", "--url", &host.url]).run();
    assert!(list.out.contains("rolled back another: PLUGIN.ROLLED_BACK"), "{}", list.out);
    let told = "http: generation 2 was rolled back at ";
    assert!(
        list.err.contains(told) && list.err.contains("PLUGIN.ROLLED_BACK: by ann: it loses headers"),
        "{}",
        list.err
    );
    let status = waybill(&["status", "--url", &host.url]).run();
    assert!(status.out.contains(told) && status.out.contains("it loses headers"), "{}", status.out);

    host.ask(async |host| {
        host.plugins.build("http", &"ef".repeat(32));
        host.plugins.reload("http", PluginReload::default(), "ann").await.unwrap();
    });
    let list = waybill(&["plugin", "list", "--url", &host.url]).run();
    assert!(!list.err.contains("rolled back") && !list.out.contains("rolled back"), "{}{}", list.out, list.err);
}

#[test]
fn a_log_is_written_line_by_line_with_what_the_plugin_names() {
    let host = rolled_back();
    let logs = waybill(&["plugin", "logs", "http", "--url", &host.url]).run();
    assert_eq!(logs.exit, Exit::Done, "{}", logs.err);
    let lines: Vec<&str> = logs.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", logs.out);
    assert!(lines[1].contains("info") && lines[1].ends_with("connected  peer=10.0.0.7:80"), "{}", logs.out);
    assert!(lines[2].contains("warn") && lines[2].ends_with("no stock"), "{}", logs.out);
    let jsonl = waybill(&["plugin", "logs", "http", "-o", "jsonl", "--url", &host.url]).run();
    let first: serde_json::Value = serde_json::from_str(jsonl.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["fields"]["peer"], "10.0.0.7:80");
    let gone = waybill(&["plugin", "logs", "gone", "--url", &host.url]).run();
    assert_eq!(gone.exit, Exit::NotFound, "{}", gone.err);
}

#[test]
fn a_generation_stands_beside_the_one_before() {
    let host = rolled_back();
    host.ask(async |host| {
        host.plugins
            .did("http", GenerationOutcomes { generation: 2, delivered: 5, refused: 1_234, ..Default::default() });
        host.plugins.did("http", GenerationOutcomes { generation: 3, delivered: 90_000, ..Default::default() });
    });
    let shown = waybill(&["plugin", "show", "http", "--url", &host.url]).run();
    assert_eq!(shown.exit, Exit::Done, "{}", shown.err);
    let cells = |name: &str| {
        let row = shown.out.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap_or_default();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("generation"), ["3", "2"], "{}", shown.out);
    assert_eq!(
        (cells("delivered"), cells("refused")),
        (vec!["90,000".into(), "5".into()], vec!["0".into(), "1,234".into()])
    );
    assert!(shown.err.contains("http: generation 2 was rolled back"), "{}", shown.err);
    let ids = waybill(&["plugin", "show", "http", "-o", "ids", "--url", &host.url]).run();
    assert_eq!(ids.out, "http\n");
    let gone = waybill(&["plugin", "show", "gone", "--url", &host.url]).run();
    assert_eq!(gone.exit, Exit::NotFound, "{}", gone.err);
}
