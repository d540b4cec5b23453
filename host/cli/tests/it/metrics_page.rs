//! `docs/operations.md` and `examples/monitoring` know the metrics that the code has, and no other. What a running host shows is held
//! against them in the workspace's `tests/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use waybill_server::metrics::{INBOX_METRICS, METRICS, OTHER_UNITS, PLUGIN_METRICS, SAGA_METRICS, SCRAPED};
use waybill_testkit::metrics_page::documented;

use crate::documents::host_and_plugins;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every metric with its help, as the code lists them.
fn listed() -> BTreeMap<&'static str, &'static str> {
    let tables = [METRICS, SCRAPED, SAGA_METRICS, INBOX_METRICS, PLUGIN_METRICS, OTHER_UNITS, waybill_engine::METRICS];
    tables.into_iter().flatten().copied().collect()
}

/// Words that are names of metrics.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("tx_") || word.starts_with("waybill_")).collect()
}

/// The metric that a series is of: those of a histogram end in `_bucket`, `_sum` and `_count`.
fn metric_of<'a>(series: &'a str, known: &BTreeMap<&str, &str>) -> &'a str {
    let of_histogram = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| series.strip_suffix(end));
    of_histogram.filter(|metric| known.contains_key(metric)).unwrap_or(series)
}

#[test]
fn the_page_has_every_metric_of_the_code_and_no_other() {
    let (page, code) = (documented().unwrap(), listed());
    let documented: BTreeSet<&str> = page.keys().map(String::as_str).collect();
    assert_eq!(documented, code.keys().copied().collect());
    for (name, row) in &page {
        let by_name = match name.rsplit('_').next().unwrap() {
            "seconds" => "s",
            "ms" => "ms",
            "bytes" => "bytes",
            _ if name.ends_with("_seconds_total") => "s",
            _ => "",
        };
        assert_eq!(row.unit, by_name, "{name}: its unit");
        assert_eq!(row.kind == "counter", name.ends_with("_total"), "{name}: what it is");
        assert!(row.meaning.len() > 10 && !row.what_to_do.is_empty(), "{name}: what it means, what to do");
    }
}

/// The labels that are written beside a metric's name, by metric; a metric whose labels come from elsewhere isn't there.
fn labels_in(source: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for call in ["counter!(", "gauge!(", "histogram!("].iter().flat_map(|kind| source.split(kind).skip(1)) {
        let Some((name, rest)) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
            continue;
        };
        let mut depth = 1;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let labels = &rest[..end.unwrap()];
        if !labels.trim().is_empty() && !labels.contains("=>") {
            continue;
        }
        // What stands behind the last arrow is a value.
        let named = labels.rsplit_once("=>").map_or("", |(named, _)| named);
        let names = named.split("=>").filter_map(|before| before.trim_end().strip_suffix('"')?.rsplit('"').next());
        found.entry(name.to_owned()).or_default().extend(names.map(str::to_owned));
    }
}

#[test]
fn the_page_has_the_labels_that_are_written_in_the_code() {
    let page = documented().unwrap();
    let mut found = BTreeMap::new();
    for file in host_and_plugins() {
        let source = std::fs::read_to_string(&file).unwrap();
        labels_in(source.split("#[cfg(test)]").next().unwrap(), &mut found);
    }
    assert!(found.len() > 80, "only {} metrics were found", found.len());
    for (name, labels) in found {
        assert_eq!(page[&name].labels, labels, "{name}");
    }
}

#[test]
fn what_documents_call_a_metric_leads_to_one() {
    let code = listed();
    let page = text("docs/aliases.md");
    let table = page.split_once("\n## Metrics\n").unwrap().1.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| 1 |"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    assert_eq!(rows.len(), 13);
    for row in rows {
        assert!(code.contains_key(row[1]), "{} isn't kept", row[1]);
        assert!(code.contains_key(row[2]), "{} isn't there", row[2]);
    }
}

#[test]
fn board_alerts_and_pages_ask_for_metrics_that_there_are() {
    let code = listed();
    let board: Value = serde_json::from_str(&text("examples/monitoring/grafana.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let queries: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
        .map(|target| target["expr"].as_str().unwrap())
        .collect();
    assert!(queries.len() > 40);
    for query in queries {
        let metrics = named(query);
        assert!(!metrics.is_empty(), "{query}");
        for series in metrics {
            assert!(code.contains_key(metric_of(series, &code)), "{series} in {query}");
        }
    }
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| text.len() > 10), "{}", panel["title"]);
    }
    let alerts = text("examples/monitoring/waybill.rules.yml");
    for series in named(&alerts) {
        assert!(code.contains_key(metric_of(series, &code)), "{series} in waybill.rules.yml");
    }
    let tests = text("examples/monitoring/waybill.rules.test.yml");
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname=\"{alert}\"")), "nothing tests when {alert} fires");
        let rule = alerts.split(&format!("- alert: {alert}\n")).nth(1).unwrap().split("- alert: ").next().unwrap();
        for part in ["severity: ", "summary: ", "do: "] {
            assert!(rule.contains(part), "{alert} has no {part}");
        }
    }
    for page in
        ["sagas.md", "inbox.md", "streams.md", "configuration.md", "operations.md", "plugins.md", "performance.md"]
    {
        let page_text = text(&format!("docs/{page}"));
        for name in page_text.split('`').skip(1).step_by(2).flat_map(named) {
            let is_metric = ["_total", "_seconds", "_bytes", "_ms", "_depth"].iter().any(|end| name.ends_with(end));
            if is_metric && !name.starts_with("waybill_plugin_NAME") {
                assert!(code.contains_key(metric_of(name, &code)), "docs/{page}: {name}");
            }
        }
    }
}
