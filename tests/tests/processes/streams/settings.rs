//! The five settings of document 3: by their names in the file and in the environment, and changed while the host runs.

use std::time::Duration;
use waybill_core::seq_json::SeqJson;

use serde_json::{Value, json};
use tokio::process::Command;
use waybill_testkit::process::binary;
use waybill_testkit::receiver::{Answer, Delivered, Receiver};

use super::support::*;

/// How long a receiver thinks about each event: what is under way can be counted meanwhile.
const THINKS: Duration = Duration::from_millis(500);

/// Values of the settings; of what is held for live readers see `lagging`.
#[derive(Clone, Copy)]
struct Settings {
    payload: usize,
    page: usize,
    keep: u64,
    in_flight: usize,
}

const FIRST: Settings = Settings { payload: 3_000, page: 7, keep: 5_000, in_flight: 2 };
const SECOND: Settings = Settings { payload: 4_000, page: 9, keep: 50, in_flight: 5 };

fn relay(receiver: &Receiver) -> String {
    format!(
        "[transport.hooks]\nplugin = \"http\"\nallow = {{ net = [\"http://127.0.0.1:*\"] }}\n\
         [relay.out]\nmatch = \"relayed.**\"\ntransport = \"hooks\"\ntopic = \"{}\"\n",
        receiver.url("in")
    )
}

/// As they stand in a file.
fn file(settings: Settings, receiver: &Receiver) -> String {
    let Settings { payload, page, keep, in_flight } = settings;
    format!(
        "[events]\nlive_buffer_size = 64\nreplay_max_batch = {page}\nretention_per_stream = {keep}\n\
         max_payload_bytes = {payload}\n[relay]\nmax_inflight = {in_flight}\n{}",
        relay(receiver)
    )
}

/// Each bound holds at its value, on streams whose names begin so.
async fn holds(door: &Door, receiver: &Receiver, settings: Settings, beginning: &str) {
    let sized = |bytes: usize| {
        let mut event = event(&format!("{beginning}-of-{bytes}"), "r");
        event["payload_bytes"] = payload(bytes);
        json!({ "events": [event] })
    };
    let stream = format!("{beginning}.payloads");
    assert_eq!(door.persist(&stream, &sized(settings.payload)).await.status, 201);
    let refused = door.persist(&stream, &sized(settings.payload + 1)).await;
    assert_eq!((refused.status, refused.code()), (413, Some("EVENT.PAYLOAD_TOO_LARGE")), "{refused:?}");
    let limit = format!("max_payload_bytes allows {}", settings.payload);
    assert!(refused.body["detail"].as_str().unwrap().contains(&limit), "{refused:?}");

    let stream = format!("{beginning}.pages");
    door.append(&stream, &events(beginning, 30, "r")).await;
    let page = door.page(&stream, &[("limit", "1000")]).await;
    assert_eq!(page.body["items"].as_array().unwrap().len(), settings.page, "{page:?}");

    let stream = format!("{beginning}.kept");
    for append in 0..40 {
        door.append(&stream, &events(&format!("{beginning}-{append}"), 20, "r")).await;
    }
    let first = async || SeqJson::in_value(&door.stream(&stream).await["first_seq"]).unwrap();
    if settings.keep < 800 {
        until("what is over the limit is gone", async || first().await > 1).await;
    }
    let first = first().await;
    assert!(801 - first >= settings.keep.min(800), "what has to be kept is: {first}..800");

    let stream = format!("relayed.{beginning}");
    let before = receiver.gauges().arrived;
    let count = settings.in_flight * 4;
    let relayed: Vec<_> =
        (0..count).map(|number| event(&format!("{beginning}-relayed-{number}"), &format!("r{number}"))).collect();
    door.append(&stream, &relayed).await;
    let (mut gauges, mut most) = (receiver.watch(), 0);
    in_time("the relay", async {
        loop {
            let now = *gauges.borrow_and_update();
            most = most.max(now.in_flight);
            if now.arrived >= before + count && now.in_flight == 0 {
                return;
            }
            gauges.changed().await.unwrap();
        }
    })
    .await;
    assert_eq!(most, settings.in_flight, "events under way");
}

/// Acceptance 10, and 7 for payloads: limit + 1 is refused with the limit.
#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_set_by_name_in_the_file_and_changed_while_the_host_runs() {
    let receiver = Receiver::start(|_: &Delivered| Answer::status(204).after(THINKS)).await.unwrap();
    let site = Site::start(&file(FIRST, &receiver)).await;
    holds(&site.door, &receiver, FIRST, "first").await;
    site.reconfigure(&file(SECOND, &receiver)).await;
    holds(&site.door, &receiver, SECOND, "second").await;
    // What was there before goes by the new bound, too, at its next append.
    site.door.append("first.kept", &events("more", 20, "r")).await;
    until("it is cut", async || SeqJson::in_value(&site.door.stream("first.kept").await["first_seq"]) > Some(1)).await;
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_set_by_name_in_the_environment_which_goes_before_the_file() {
    let variables = [
        ("WAYBILL_EVENTS_LIVE_BUFFER_SIZE", "65"),
        ("WAYBILL_EVENTS_REPLAY_MAX_BATCH", "9"),
        ("WAYBILL_EVENTS_RETENTION_PER_STREAM", "50"),
        ("WAYBILL_EVENTS_MAX_PAYLOAD_BYTES", "4000"),
        ("WAYBILL_RELAY_MAX_INFLIGHT", "5"),
    ];
    let receiver = Receiver::start(|_: &Delivered| Answer::status(204).after(THINKS)).await.unwrap();
    let site = Site::start_in(&file(FIRST, &receiver), &variables).await;
    holds(&site.door, &receiver, SECOND, "environment").await;
    let mut command = Command::new(binary().unwrap());
    // Settings of whoever runs the tests aren't part of it.
    command.args(["config", "show", "-o", "json", "--config"]).arg(site.config()).env_clear().envs(variables);
    let shown = command.output().await.unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    for (key, value) in [
        ("events.live_buffer_size", 65),
        ("events.replay_max_batch", 9),
        ("events.retention_per_stream", 50),
        ("relay.max_inflight", 5),
    ] {
        let found = shown.as_array().unwrap().iter().find(|shown| shown["key"] == key).unwrap();
        assert_eq!(found["value"], value, "{key}");
        assert!(found["origin"].as_str().unwrap().contains("WAYBILL_"), "{found}");
    }
    site.end().await;
}
