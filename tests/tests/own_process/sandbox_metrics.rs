//! What the host measures of a plugin. A process of its own, because a recorder is installed once a process.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use waybill_core::port::transport::Transport;
use waybill_sandbox::EndpointSpec;
use waybill_tests::guests;

use crate::is_alone;
use crate::support::*;

/// Value of the series whose line begins with `name{` and holds all of `labels`; 0 if there is none.
fn value(handle: &PrometheusHandle, name: &str, labels: &[&str]) -> f64 {
    let text = handle.render();
    text.lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && labels.iter().all(|label| line.contains(label)))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_traps_memory_and_refusals_are_measured() {
    if !is_alone("sandbox_metrics::calls_traps_memory_and_refusals_are_measured").await {
        return;
    }
    let handle = PrometheusBuilder::new().install_recorder().expect("the only recorder");
    let labels = ["transport=\"measured\"", "plugin=\"guest\"", "generation=\"3\""];
    let named = |mut spec: EndpointSpec| {
        spec.settings.name = "measured".to_owned();
        EndpointSpec { generation: 3, ..spec }
    };

    let transport = start(guests::SEND_PANICS_ON_POISON, named(settings(json!({})))).await;
    let read = |name: &str, label: &str| value(&handle, name, &[&labels[..], &[label]].concat());
    assert_eq!(read("waybill_plugin_instances_open", ""), 1.0);
    assert!(read("waybill_plugin_memory_bytes", "") >= 65_536.0);
    assert!(read("waybill_plugin_cpu_microseconds_total", "") > 0.0, "opening took some");
    for payload in ["fine", "poison", "fine", "fine"] {
        let _ = send(&transport, vec![delivery(1, payload)]).await;
    }
    assert_eq!(read("waybill_plugin_calls_total", "result=\"ok\""), 3.0);
    assert_eq!(read("waybill_plugin_calls_total", "result=\"trapped\""), 1.0);
    assert_eq!(read("waybill_plugin_traps_total", "kind=\"trapped\""), 1.0);
    assert_eq!(read("waybill_plugin_restarts_total", ""), 1.0);
    assert_eq!(read("waybill_plugin_call_seconds_count", ""), 4.0);
    assert_eq!(read("waybill_plugin_breaker_state", ""), 0.0);

    // Spent: the breaker's gauge says so. On a slow machine it may be half-open before anybody looks: then it is spent again.
    let spent = async {
        while read("waybill_plugin_breaker_state", "") != 1.0 {
            let _ = send(&transport, vec![delivery(1, "poison")]).await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(AMPLE, spent).await.expect("the gauge follows");

    // Ended: nothing is held any more.
    transport.close(AMPLE).await;
    for name in ["waybill_plugin_instances_open", "waybill_plugin_memory_bytes", "waybill_plugin_breaker_state"] {
        assert_eq!(read(name, ""), 0.0, "{name}");
    }

    let transport = start(guests::REACHES_BY_NET, named(settings(json!({ "address": "127.0.0.1:9" })))).await;
    assert!(seen(&transport).await.contains("Denied"));
    assert_eq!(read("waybill_plugin_denied_total", ""), 1.0);

    // Numbers that aren't and names that can't be don't become series.
    let transport = start(guests::FLOODS_METRICS, named(settings(json!({ "amount": 100 })))).await;
    assert_eq!(send(&transport, batch(1)).await.expect("serves").len(), 1);
    assert_eq!(read("waybill_plugin_metrics_dropped_total", ""), 300.0);
    assert!(!handle.render().contains("flood"));
}
