//! Each bound of the inbox (`docs/inbox.md`, Limits), met: a metric tells it, or a figure that the scrape writes as one.

use std::ops::Range;

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use waybill_core::inbox::limits::CONTEXTS_MAX;
use waybill_core::inbox::settings::AcknowledgeRows;
use waybill_core::port::source::Notices;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

/// What is recorded in the thread of one test, in which all of its tasks run.
struct Recorder(PrometheusRecorder);

/// What was recorded so far.
struct Recorded<'r> {
    handle: PrometheusHandle,
    _here: LocalRecorderGuard<'r>,
}

impl Recorder {
    fn new() -> Self {
        Self(PrometheusBuilder::new().build_recorder())
    }

    fn begin(&self) -> Recorded<'_> {
        Recorded { handle: self.0.handle(), _here: metrics::set_default_local_recorder(&self.0) }
    }
}

impl Recorded<'_> {
    /// The value of a metric, summed over the labels that aren't given; none = it was never recorded.
    fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = self.handle.render();
        let is_meant = |line: &&str| {
            line.split(['{', ' ']).next() == Some(name)
                && labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
        };
        let values = text.lines().filter(is_meant).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        values.fold(None, |sum: Option<f64>, value| Some(sum.unwrap_or(0.0) + value))
    }

    async fn until(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let what = format!("{name}{labels:?} is {value}");
        eventually(&what, async || self.find(name, labels) == Some(value)).await;
    }
}

/// Answers nothing until the gate is opened.
fn behind(world: &World, gate: &Gate) {
    let gate = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&gate));
}

fn send(world: &World, numbers: Range<usize>, payload: &str) {
    for number in numbers {
        world.shop.send(&format!("m-{number}"), "orders.paid", payload);
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_full_shows_beside_its_bound() {
    let world = World::new();
    let mut source = world.source();
    source.window = 4;
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let gate = Gate::default();
    behind(&world, &gate);
    send(&world, 0..10, "1");
    // `waybill_source_unsettled` and `waybill_source_window`.
    eventually("the window is full", async || host.shop().await.unsettled == 4).await;
    assert_eq!(host.shop().await.window, 4);
    gate.open();
    world.until_acknowledged(10).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_past_their_bound_are_recorded_and_nothing_more_is_pulled() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let mut source = world.source();
    source.window_bytes = 100;
    let _host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let gate = Gate::default();
    behind(&world, &gate);
    let payload = "7".repeat(60);
    send(&world, 0..2, &payload);
    world.until_called(2).await;
    send(&world, 2..5, &payload);
    recorded.until("waybill_source_unsettled_bytes", &[("source", "shop")], 120.0).await;
    pass(seconds(5)).await;
    assert_eq!(world.http.posted().len(), 2, "the others wait at the source");
    gate.open();
    world.until_acknowledged(5).await;
    recorded.until("waybill_source_unsettled_bytes", &[("source", "shop")], 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_source_that_is_taken_out_go_with_it() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(600);
    let host = world.start_consumer(consumer).await;
    let gate = Gate::default();
    behind(&world, &gate);
    send(&world, 0..1, "12345");
    recorded.until("waybill_source_unsettled_bytes", &[("source", "shop")], 5.0).await;
    host.engine.reconfigure(world.config("host-a", world.inbound(Vec::new(), Vec::new()))).await;
    recorded.until("waybill_source_unsettled_bytes", &[("source", "shop")], 0.0).await;
}

#[tokio::test(start_paused = true)]
async fn calls_at_their_bound_show_beside_it() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.concurrency = 3;
    let host = world.start_consumer(consumer).await;
    let gate = Gate::default();
    behind(&world, &gate);
    send(&world, 0..10, "1");
    world.until_called(3).await;
    pass(seconds(1)).await;
    // `waybill_inbox_in_calls` and `waybill_inbox_concurrency`.
    let ship = host.ship().await;
    assert_eq!((ship.in_calls, ship.concurrency), (3, 3));
    assert_eq!(world.http.posted().len(), 3);
    gate.open();
    world.until_acknowledged(10).await;
}

#[tokio::test(start_paused = true)]
async fn rows_at_their_bound_show_beside_it() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let mut consumer = world.consumer();
    (consumer.stored_max, consumer.retry.max_attempts, consumer.retry.base_ms) = (5, 1_000, 600_000);
    consumer.acknowledge_rows = AcknowledgeRows::AtOnce;
    let mut source = world.source();
    source.window = 1;
    let host = world.start_with(world.inbound(vec![source], vec![consumer])).await;
    world.http.answer(|_| Reply::status(500));
    send(&world, 0..10, "1");
    pass(seconds(30)).await;
    // `waybill_inbox_depth` and `waybill_inbox_stored_max`.
    let ship = host.ship().await;
    assert_eq!((ship.stored, ship.stored_max), (5, 5));
    let failed = [("consumer", "ship"), ("cause", "failed")];
    assert_eq!(recorded.find("tx_inbox_stored_total", &failed), Some(5.0));
}

#[tokio::test(start_paused = true)]
async fn each_failure_is_recorded_with_its_code_and_the_last_one_as_a_dead_letter() {
    let truncated: fn() -> Reply = || Reply::handled("{}").with(|answer| answer.truncated = true);
    let late: fn() -> Reply = || Reply::status(200).delayed(seconds(5));
    let broken: fn() -> Reply = || Reply::status(500);
    for (code, answer) in [("HTTP.TIMEOUT", late), ("HANDLER.BAD_OUTPUT", truncated), ("HTTP.500", broken)] {
        let recorder = Recorder::new();
        let recorded = recorder.begin();
        let world = World::new();
        let mut consumer = world.consumer();
        consumer.handler_timeout = seconds(2);
        let _host = world.start_consumer(consumer).await;
        world.http.answer(move |_| answer());
        world.shop.send("m-1", "orders.paid", "1");
        world.until_dead(1).await;
        world.until_acknowledged(1).await;
        let of = [("consumer", "ship"), ("code", code)];
        let counts = ["tx_inbox_retry_total", "tx_inbox_dead_total"].map(|name| recorded.find(name, &of));
        assert_eq!(counts, [Some(2.0), Some(1.0)], "{code}: two of three attempts were tried again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_or_an_id_that_is_too_long_is_recorded_with_its_code() {
    for (features, refused) in [(vec!["extend"], false), (vec!["extend", "reject"], true)] {
        let recorder = Recorder::new();
        let recorded = recorder.begin();
        let world = World::new();
        world.shop.set_features(&features);
        let mut inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
        inbound.payload_bytes_max = 4;
        let _host = world.start_with(inbound).await;
        world.shop.send("m-1", "orders.paid", "12345");
        match refused {
            true => {
                let of = [("source", "shop"), ("disposition", "reject")];
                recorded.until("waybill_source_settlements_total", &of, 1.0).await;
            }
            false => recorded.until("tx_inbox_dead_total", &[("code", "INBOX.PAYLOAD_TOO_LARGE")], 1.0).await,
        }
        world.shop.send(&"x".repeat(513), "orders.paid", "1");
        recorded.until("tx_inbox_dead_total", &[("code", "INBOX.MISSING_ID")], 1.0).await;
        assert_eq!(world.http.posted().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_up_after_its_wait_is_recorded() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let mut source = world.source();
    source.orphan_wait = Some(seconds(60));
    let inbound = world.inbound(vec![source], vec![world.consumer()]);
    let host = world.start_with(inbound.clone()).await;
    let gate = Gate::default();
    behind(&world, &gate);
    let first = world.shop.send_keyed("m-1", "key", "1");
    world.until_called(1).await;
    host.crash().await;
    // It never comes again.
    world.shop.give_up(first);
    world.http.answer(|_| Reply::status(200));
    let _next = world.start_with(inbound).await;
    world.shop.send_keyed("m-2", "key", "1");
    pass(seconds(30)).await;
    assert_eq!(world.http.calls_with("m-2").len(), 0, "its place is kept");
    world.until_acknowledged(1).await;
    recorded.until("tx_inbox_orphans_expired_total", &[], 1.0).await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_ran_out_are_counted_as_the_source_tells_them() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let _host = world.start().await;
    send(&world, 0..1, "1");
    world.until_acknowledged(1).await;
    for count in ["2", "1"] {
        let attributes = vec![("claims-expired".to_owned(), count.to_owned())];
        world.shop.tell(0, Notices { attributes, ..Notices::default() });
    }
    recorded.until("waybill_source_claims_expired_total", &[("source", "shop")], 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn ids_out_of_the_window_and_history_out_of_its_time_are_recorded_when_they_go() {
    let recorder = Recorder::new();
    let recorded = recorder.begin();
    let world = World::new();
    let mut inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
    (inbound.dedup_window, inbound.keep_done) = (seconds(600), seconds(1_800));
    let _host = world.start_with(inbound).await;
    send(&world, 0..3, "1");
    world.until_acknowledged(3).await;
    assert!(recorded.find("tx_inbox_seen_reads_total", &[("consumer", "ship")]).is_some(), "ids were looked up");
    pass(seconds(300)).await;
    assert_eq!(recorded.find("tx_inbox_seen_forgotten_total", &[]).unwrap_or(0.0), 0.0);
    recorded.until("tx_inbox_seen_forgotten_total", &[], 3.0).await;
    assert_eq!((world.seen(), recorded.find("tx_inbox_history_purged_total", &[])), (0, Some(0.0)));
    // The store writes by its own clock when a message was finished.
    world.stepped.step(100 * 365 * 24 * 3_600);
    recorded.until("tx_inbox_history_purged_total", &[], 3.0).await;
}

#[tokio::test(start_paused = true)]
async fn contexts_beyond_their_bound_count_together() {
    let world = World::new();
    let mut source = world.source();
    source.window = 200;
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let gate = Gate::default();
    behind(&world, &gate);
    let sent = CONTEXTS_MAX + 3;
    for number in 0..sent {
        world.shop.send(&format!("m-{number}"), &format!("context{number}.paid"), "1");
    }
    // `waybill_inbox_unprocessed`.
    eventually("three are counted together", async || {
        let stats = host.inbound.inbox_stats(None).await.unwrap();
        stats.contexts.iter().any(|row| row.context == "(other)" && row.unprocessed.count == 3)
    })
    .await;
    assert_eq!(host.inbound.inbox_stats(None).await.unwrap().contexts.len(), CONTEXTS_MAX + 1);
    gate.open();
    world.until_acknowledged(sent).await;
}
