//! What operators do is in the audit trail.

use waybill_api::status::AuditView;
use waybill_core::audit::AuditQuery;
use waybill_core::code::Code;
use waybill_core::port::service::streams::{ImportEvent, RelayState, SeekRequest, SeekTo, StreamAct};
use waybill_core::port::store::StoreError;
use waybill_testkit::fake_transport::{Answer, Gate, ack};

use crate::support::*;

fn act(stream: &str) -> StreamAct {
    StreamAct { stream: key(stream), is_plan: false, actor: "ops".into(), reason: "tidying".into() }
}

fn seek(upto: u64) -> SeekRequest {
    let (relay, stream) = (relay_name("out"), key("a"));
    SeekRequest { relay, stream, to: SeekTo::After(upto), actor: "ops".into(), reason: "lost there".into() }
}

async fn trail(host: &Host) -> Vec<AuditView> {
    let mut events = host.outbox.audit(&AuditQuery::default(), None, 100).await.unwrap().items;
    events.reverse();
    events
}

fn kinds(trail: &[AuditView]) -> Vec<&str> {
    trail.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_stands_before_what_came_of_it() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1", "x-2"]).await;
    host.append("a", &["x-3"]).await;
    host.streams.purge(&StreamAct { is_plan: true, ..act("a") }, Some(3)).await.unwrap();
    assert!(trail(&host).await.is_empty(), "a plan does nothing");
    host.streams.purge(&act("a"), Some(3)).await.unwrap();
    host.streams.delete(&act("a")).await.unwrap();
    let part = vec![ImportEvent { seq: 1, event: input("y-1") }];
    host.streams.import(&act("b"), part).await.unwrap();
    let trail = trail(&host).await;
    let expected = [
        "StreamPurgeRequested",
        "StreamPurged",
        "StreamDeleteRequested",
        "StreamDeleted",
        "StreamImportRequested",
        "StreamImported",
    ];
    assert_eq!(kinds(&trail), expected);
    for event in &trail {
        assert_eq!((event.actor.as_str(), event.tenant.as_deref()), ("ops", Some("acme")), "{event:?}");
        assert_eq!(event.detail["reason"], "tidying", "{event:?}");
    }
    assert_eq!((&trail[0].detail["before"], &trail[0].detail["events"]), (&"3".into(), &serde_json::Value::Null));
    assert_eq!((&trail[1].detail["events"], &trail[1].detail["first"]), (&2.into(), &"3".into()));
}

#[tokio::test(start_paused = true)]
async fn a_seek_is_in_the_trail_while_it_waits_and_its_end_although_nobody_hears_it() {
    let world = World::with(|settings| settings.relays = vec![plan("out")]);
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.bus.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    host.append("a", &["x-1"]).await;
    eventually("it is under way", async || host.relay("out").await.in_flight == 1).await;
    let waiting = tokio::time::timeout(seconds(5), host.streams.seek_relay(seek(0)));
    assert!(waiting.await.is_err(), "something is in flight");
    assert_eq!(kinds(&trail(&host).await), ["RelaySeekRequested"]);
    gate.open();
    eventually("it is done", async || trail(&host).await.len() == 2).await;
    let trail = trail(&host).await;
    assert_eq!((trail[1].kind.as_str(), trail[1].object.as_str()), ("RelaySought", "out"));
    assert_eq!((&trail[1].detail["stream"], &trail[1].detail["generation"]), (&"a".into(), &1.into()));
}

#[tokio::test(start_paused = true)]
async fn a_pause_and_a_resume_are_in_the_trail_before_and_after() {
    let world = World::with(|settings| settings.relays = vec![plan("out")]);
    let host = world.start().await;
    let out = relay_name("out");
    host.streams.pause_relay(&out, "ops", "maintenance").await.unwrap();
    host.streams.resume_relay(&out, "ops", "done").await.unwrap();
    let trail = trail(&host).await;
    assert_eq!(kinds(&trail), ["RelayPauseRequested", "RelayPaused", "RelayResumeRequested", "RelayResumed"]);
    for event in &trail {
        assert_eq!((event.actor.as_str(), event.object.as_str(), &event.tenant), ("ops", "out", &None), "{event:?}");
    }
    assert_eq!(
        (&trail[0].detail["reason"], &trail[0].detail["state"]),
        (&"maintenance".into(), &serde_json::Value::Null)
    );
    assert_eq!((&trail[1].detail["state"], &trail[3].detail["state"]), (&"paused".into(), &"running".into()));
    world.memory.fail_audits(Some(StoreError::DiskFull("none is left".into())));
    let refused = host.streams.pause_relay(&out, "ops", "again").await.unwrap_err();
    assert_eq!(refused.code(), Code::STORAGE_DISK_FULL);
    assert_eq!(host.relay("out").await.state, RelayState::Running, "nothing is begun that can't be written there");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_begun_that_can_not_be_written_to_the_trail() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    world.memory.fail_audits(Some(StoreError::DiskFull("none is left".into())));
    let refused = host.streams.delete(&act("a")).await.unwrap_err();
    assert_eq!(refused.code(), Code::STORAGE_DISK_FULL);
    world.memory.fail_audits(None);
    pass(seconds(5)).await;
    assert_eq!(host.streams.read_stream(&key("a"), None, 0).await.unwrap().events.len(), 1);
    assert!(trail(&host).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_came_to_nothing_is_in_the_trail_with_its_code() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    host.drain().await;
    let refused = host.streams.delete(&act("a")).await.unwrap_err();
    let trail = trail(&host).await;
    assert_eq!(kinds(&trail), ["StreamDeleteRequested", "StreamDeleteFailed"]);
    assert_eq!(trail[1].detail["code"], refused.code().as_str());
}
