//! What is measured.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use waybill_core::code::Code;
use waybill_core::port::service::streams::{AppendRequest, Start, StreamAct};
use waybill_core::streams::event::Body;
use waybill_testkit::fake_transport::{Answer, Gate, ack, permanent};

use crate::support::*;

/// The value of a metric, summed over the labels that aren't given; none = it was never recorded.
fn find(handle: &PrometheusHandle, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let text = handle.render();
    let is_meant = |line: &&str| {
        line.split(['{', ' ']).next() == Some(name)
            && labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
    };
    let values = text.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
}

async fn until(handle: &PrometheusHandle, name: &str, labels: &[(&str, &str)], value: f64) {
    let what = format!("{name}{labels:?} is {value}");
    eventually(&what, async || find(handle, name, labels) == Some(value)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_appended_refused_read_and_trimmed_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = World::with(|settings| settings.events.payload_bytes_max = 100);
    let host = world.start().await;
    host.append("a", &["x-0", "x-1", "x-2"]).await;
    until(&handle, "tx_stream_appended_total", &[], 3.0).await;
    until(&handle, "tx_stream_waiting", &[], 0.0).await;
    assert_eq!(find(&handle, "tx_stream_door_rows", &[("shard", "0")]), Some(0.0));
    let exact = host.try_append("a", &["x-3"], Some(7)).await.unwrap_err();
    assert_eq!(exact.code(), Code::STREAM_EXPECTED_SEQ);
    until(&handle, "tx_stream_refused_total", &[("code", "STREAM.EXPECTED_SEQ")], 1.0).await;
    let mut large = input("x-3");
    large.body = Body::Bytes(vec![b'x'; 101].into());
    let append = AppendRequest { stream: key("a"), events: vec![large], expected_seq: None, traceparent: None };
    assert_eq!(host.streams.append(append).await.unwrap_err().code(), Code::EVENT_PAYLOAD_TOO_LARGE);
    until(&handle, "tx_stream_refused_total", &[("code", "EVENT.PAYLOAD_TOO_LARGE")], 1.0).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    reader.take(3).await;
    until(&handle, "tx_stream_readers", &[], 1.0).await;
    until(&handle, "tx_stream_rings", &[], 1.0).await;
    assert!(find(&handle, "tx_stream_replay_pages_total", &[]).is_some_and(|pages| pages >= 1.0));
    assert_eq!(find(&handle, "tx_stream_replay_waits_total", &[]), Some(0.0));
    drop(reader);
    until(&handle, "tx_stream_readers", &[], 0.0).await;
    let act = StreamAct { stream: key("a"), is_plan: false, actor: "ops".into(), reason: String::new() };
    host.streams.delete(&act).await.unwrap();
    until(&handle, "tx_stream_trimmed_total", &[], 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_tells_how_far_it_is_behind_and_nothing_of_a_shard_that_it_lost() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = World::with(|settings| settings.relays = vec![plan("out")]);
    let gate = Gate::default();
    let behind = gate.clone();
    world.bus.answer(move |batch| {
        Answer::each(batch, |delivery| match delivery.message.id.as_str() {
            "y-0" => permanent("POISON"),
            _ => ack(),
        })
        .behind(&behind)
    });
    let host = world.start().await;
    host.append("a", &["x-0", "y-0"]).await;
    let of = [("relay", "out")];
    until(&handle, "tx_relay_lag_events", &of, 2.0).await;
    until(&handle, "tx_relay_in_flight", &of, 2.0).await;
    until(&handle, "tx_relay_streams_behind", &[("relay", "out"), ("shard", "0")], 1.0).await;
    let is_late = || find(&handle, "tx_relay_lag_seconds", &of).is_some_and(|lag| lag > 0.0);
    eventually("the relay is said to be late", async || is_late()).await;
    host.crash().await;
    for name in ["tx_relay_lag_events", "tx_relay_lag_seconds", "tx_relay_streams_behind"] {
        until(&handle, name, &of, 0.0).await;
    }
    gate.open();
    let _host = world.start().await;
    until(&handle, "tx_relay_events_total", &[("relay", "out"), ("result", "delivered")], 1.0).await;
    until(&handle, "tx_relay_events_total", &[("relay", "out"), ("result", "refused")], 1.0).await;
    until(&handle, "tx_relay_lag_events", &of, 0.0).await;
}
