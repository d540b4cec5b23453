//! Sources: paused, opened again, overtaken, revoked, provisioned.

use waybill_core::audit::AuditQuery;
use waybill_core::code::Code;
use waybill_core::inbox::limits::UNSETTLED_FOLLOWED_MAX;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::source::{Notices, OpenSource, SourceDelivery};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health};
use waybill_engine::SourceConfig;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::{FakeSource, Standing};
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

fn failing(kind: ErrorKind, code: &str) -> CallError {
    CallError { kind, fault: Fault::new(code, "no") }
}

#[tokio::test(start_paused = true)]
async fn a_paused_source_is_not_pulled_also_after_a_restart() {
    let world = World::new();
    let host = world.start().await;
    assert!(host.inbound.pause_source("shop", "broker moves", "ann").await.unwrap().paused);
    pass(seconds(3)).await;
    world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(30)).await;
    assert_eq!(world.shop.standings(), [Standing::Waits]);
    host.drain().await;
    let host = world.start().await;
    pass(seconds(30)).await;
    assert_eq!(world.shop.standings(), [Standing::Waits]);
    assert!(host.shop().await.paused);
    assert!(!host.inbound.resume_source("shop", "", "ann").await.unwrap().paused);
    world.until_acknowledged(1).await;
    let events = host.outbox.audit(&AuditQuery::default(), None, 100).await.unwrap().items;
    let detail = |kind: &str| events.iter().find(|event| event.kind == kind).map(|event| event.detail.clone());
    assert_eq!(detail("SourcePaused"), Some(serde_json::json!({ "reason": "broker moves" })), "{events:?}");
    assert_eq!(detail("SourceResumed"), Some(serde_json::Value::Null), "none was given");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_can_not_be_opened_is_tried_again_and_told_of() {
    let world = World::new();
    world.shop.refuse(Some(failing(ErrorKind::Unavailable, "NATS.CONNECT")));
    let host = world.start().await;
    world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(5)).await;
    let view = host.shop().await;
    assert_eq!((view.health, view.health_detail.as_deref()), (Health::Down, Some("NATS.CONNECT: no")));
    let checks = host.outbox.ready().await;
    assert!(checks.iter().any(|check| check.name == "source shop" && check.detail.contains("NATS.CONNECT")));
    world.shop.refuse(None);
    world.until_acknowledged(1).await;
    assert_eq!(host.shop().await.health, Health::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_a_source_can_counts_also_when_its_peer_is_found_later() {
    let world = World::new();
    world.shop.set_features(&[]);
    let mut consumer = world.consumer();
    consumer.handler_timeout = seconds(300);
    let _host = world.start_consumer(consumer).await;
    pass(seconds(5)).await;
    world.shop.set_features(&["extend"]);
    world.shop.break_connections();
    world.http.answer(|_| Reply::status(200).delayed(seconds(200)));
    let number = world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let kept = world.shop.kept(number);
    assert!(kept.extended >= 6 && kept.deliveries == 1, "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_source_stands_still_until_somebody_resumes_it() {
    let world = World::new();
    let host = world.start().await;
    world.shop.fail_pulls(Some(failing(ErrorKind::InvalidConfig, Code::SOURCE_OVERTAKEN.as_str())));
    pass(seconds(30)).await;
    let view = host.shop().await;
    assert_eq!((view.health, view.health_detail.as_deref()), (Health::Down, Some("SOURCE.OVERTAKEN: no")));
    world.shop.fail_pulls(None);
    host.inbound.resume_source("shop", "", "ann").await.unwrap();
    eventually("it was opened at the earliest that is kept", async || {
        world.shop.opened().last() == Some(&OpenSource { go_on: true })
    })
    .await;
    pass(seconds(30)).await;
    assert_eq!(world.shop.opened().last(), Some(&OpenSource { go_on: true }), "it has brought nothing yet");
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    eventually("the next time it is overtaken somebody decides again", async || {
        world.shop.opened().last() == Some(&OpenSource { go_on: false })
    })
    .await;
    let opened = world.shop.opened().len();
    world.shop.send("m-2", "orders.paid", "1");
    world.until_acknowledged(2).await;
    pass(seconds(30)).await;
    assert_eq!((world.shop.opened().len(), world.http.ids().len()), (opened, 2));
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_plugin_is_replaced_settles_what_is_out_before_it_closes() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    let open = async {
        pass(seconds(1)).await;
        assert_eq!(world.shop.closed(), 0, "something is out");
        gate.open();
    };
    let (reopened, ()) = tokio::join!(host.engine.reopen_source("shop"), open);
    assert_eq!(reopened, Some(Ok(())));
    assert_eq!((world.shop.closed(), world.shop.opened().len()), (1, 2));
    world.shop.send("m-2", "orders.paid", "1");
    world.until_acknowledged(2).await;
    assert_eq!(world.http.ids(), ["m-1", "m-2"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_revoked_is_dropped_unless_it_is_in_a_call() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.concurrency = 1;
    world.shop.set_features(&["replays-in-order", "ordered-groups"]);
    let _host = world.start_consumer(consumer).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    for number in 0..3 {
        let mut delivery = SourceDelivery::new("", "orders.paid", "1");
        (delivery.id, delivery.group) = (Some(format!("m-{number}")), Some("p-0".to_owned()));
        world.shop.push(delivery);
    }
    world.until_called(1).await;
    world.shop.tell(0, Notices { revoked: vec!["p-0".to_owned()], ..Notices::default() });
    pass(seconds(2)).await;
    gate.open();
    eventually("what was in a call is committed", async || world.seen() == 1).await;
    pass(seconds(2)).await;
    assert_eq!(world.http.posted().len(), 1, "the rest of the group is somebody else's");
}

#[tokio::test(start_paused = true)]
async fn two_sources_of_one_home_feed_one_consumer_and_an_id_meets_itself() {
    let world = World::new();
    let mail = FakeSource::new("mail");
    let (mut shop, mut second) = (world.source(), world.source_on("mail", &mail));
    (shop.home, second.home) = ("orders".into(), "orders".into());
    let mut consumer = world.consumer();
    consumer.sources.push(second.name.clone());
    let _host = world.start_with(world.inbound(vec![shop, second], vec![consumer])).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    mail.send("m-1", "orders.paid", "1");
    eventually("the other copy is acknowledged", async || mail.standings() == [Standing::Acknowledged]).await;
    assert_eq!(world.http.posted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_is_not_fed_under_another_home_than_it_is_remembered_under() {
    let world = World::new();
    let host = world.start().await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    host.drain().await;
    let mut source = world.source();
    source.home = "elsewhere".to_owned();
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(30)).await;
    assert_eq!((world.http.posted().len(), world.shop.opened().len()), (1, 1));
    assert!(host.shop().await.health_detail.unwrap().starts_with("INBOX.OTHER_HOME"));
    let reopened = tokio::time::timeout(seconds(30), host.engine.reopen_source("shop")).await;
    assert_eq!(reopened, Ok(None), "nobody waits for what is never opened");
}

#[tokio::test(start_paused = true)]
async fn each_instance_has_its_part_of_the_window() {
    let world = World::new();
    let broker = FakeSource::with_lanes("shop", 4);
    let mut source = world.source_on("shop", &broker);
    (source.instances, source.window) = (4, 8);
    let _host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    world.http.answer(|_| Reply::status(200).delayed(millis(20)));
    for number in 0..40 {
        broker.send(&format!("m-{number}"), "orders.paid", "1");
    }
    eventually("all are acknowledged", async || {
        broker.standings().iter().all(|standing| *standing == Standing::Acknowledged)
    })
    .await;
    assert!(broker.most_unsettled() <= 8, "{} were out", broker.most_unsettled());
    assert_eq!(world.http.posted().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn provisioning_is_planned_and_done_and_audited() {
    let world = World::new();
    let host = world.start().await;
    let change = ProvisionChange {
        target: "stream ORDERS".to_owned(),
        action: ProvisionAction::Create,
        detail: "it is missing".to_owned(),
    };
    world.shop.set_provisioned(Ok(vec![change.clone()]));
    assert_eq!(host.inbound.provision_source("shop", false, "ann").await.unwrap(), std::slice::from_ref(&change));
    assert_eq!(host.inbound.provision_source("shop", true, "ann").await.unwrap(), [change]);
    let audit = host.outbox.audit(&AuditQuery::default(), None, 10).await.unwrap().items;
    assert_eq!(audit.iter().filter(|event| event.kind == "SourceProvisioned").count(), 1);
    let missing = host.inbound.provision_source("nobody", false, "ann").await.unwrap_err();
    assert_eq!(missing.code(), Code::SOURCE_NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_source_without_a_place_of_its_own_begins_behind_what_was_settled_without_a_gap() {
    let world = World::new();
    world.shop.set_features(&["extend", "resumes"]);
    let host = world.start().await;
    let gate = Gate::default();
    let never = gate.clone();
    world.http.answer(move |posted| match posted.id.as_str() {
        "m-2" => Reply::status(200).behind(&never),
        _ => Reply::status(200),
    });
    for number in 0..4 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    world.until_acknowledged(3).await;
    // The place goes with the next commit.
    world.shop.send("m-4", "orders.paid", "1");
    world.until_acknowledged(4).await;
    host.crash().await;
    let _host = world.start().await;
    eventually("it is opened again", async || world.shop.resumed().len() == 2).await;
    assert_eq!(world.shop.resumed(), [None, Some("queue/1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_made_anew_is_counted_and_shown() {
    let world = World::new();
    let host = world.start().await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!(host.shop().await.made_anew, 0);
    for _ in 0..2 {
        let anew = Notices { attributes: vec![("made-anew".to_owned(), "1".to_owned())], ..Notices::default() };
        world.shop.tell(0, anew);
    }
    eventually("it is counted each time", async || host.shop().await.made_anew == 2).await;
    assert_eq!(host.shop().await.health, Health::Ready, "it goes on in the new one");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_made_anew_is_counted_once_for_all_instances() {
    let world = World::new();
    let broker = FakeSource::with_lanes("shop", 2);
    let mut source = world.source_on("shop", &broker);
    source.instances = 2;
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    // Each has been asked for messages by then.
    pass(seconds(30)).await;
    for lane in 0..2 {
        let anew = Notices { attributes: vec![("made-anew".to_owned(), "1".to_owned())], ..Notices::default() };
        broker.tell(lane, anew);
    }
    eventually("it is counted", async || host.shop().await.made_anew > 0).await;
    pass(seconds(5)).await;
    assert_eq!(host.shop().await.made_anew, 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_place_is_not_followed_any_more_says_so() {
    let world = World::new();
    world.shop.set_features(&["resumes"]);
    world.shop.set_settle_within(seconds(3_600));
    let window = 4_096;
    let source = SourceConfig { window, ..world.source() };
    let host = world.launch("host-a", world.inbound(vec![source], vec![world.consumer()]), |_| {});
    host.until_written().await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    // The broker forgets what it delivered: no position of it is ever settled.
    world.shop.lose_settlements(true);
    for _ in 0..UNSETTLED_FOLLOWED_MAX {
        world.shop.send("m-1", "orders.paid", "1");
    }
    let all = UNSETTLED_FOLLOWED_MAX + 1;
    eventually("all of it came", async || {
        world.shop.standings().iter().filter(|standing| **standing != Standing::Waits).count() == all
    })
    .await;
    assert_eq!(host.shop().await.health, Health::Ready, "it is followed to the last one");
    world.shop.send("m-1", "orders.paid", "1");
    eventually("it says so", async || host.shop().await.health == Health::Degraded).await;
    let told = host.outbox.ready().await.into_iter().find(|check| check.name == "source shop").unwrap();
    assert!(told.detail.contains("more of it is unsettled than is followed"), "{}", told.detail);
    world.shop.lose_settlements(false);
    world.shop.break_connections();
    eventually("a new session is followed again", async || host.shop().await.health == Health::Ready).await;
}
