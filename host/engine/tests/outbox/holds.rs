//! Destinations and transports at fault: no attempt is burned, only they are held, and a probe lifts the hold.

use waybill_api::history::ChangesAsked;
use waybill_api::transports::Breaker;
use waybill_core::changes::ChangeKind;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::query::ListOrder;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Outcome};
use waybill_testkit::fake_transport::{Answer, End, ack, blocked, retryable};

use crate::support::*;

fn hook(text: &str, url: &str, tenant: &str) -> NewMessage {
    NewMessage { topic: format!("http:{url}"), ..of_tenant(text, tenant) }
}

#[tokio::test(start_paused = true)]
async fn a_blocked_destination_is_held_for_its_tenant_and_all_else_flows() {
    let world = World::new();
    world.main.tell(|delivery| {
        let bad = delivery.message.tenant.as_str() == "acme" && delivery.destination.starts_with("http://bad.example");
        if bad { blocked("http://bad.example", "HTTP.401") } else { ack() }
    });
    let host = world.start().await;
    let held = host.send((0..20).map(|index| hook(&format!("held-{index}"), "http://bad.example/x", "acme"))).await;
    world.main.until_sent(1).await;
    pass(millis(100)).await;
    host.send([
        hook("other scope", "http://good.example/x", "acme"),
        hook("other tenant", "http://bad.example/x", "beta"),
    ])
    .await;
    world.main.until(|log| log.count("other scope") == 1 && log.count("other tenant") == 1).await;
    pass(seconds(600)).await;
    let log = world.main.log();
    assert!(
        log.of_tenant("acme").iter().filter(|text| text.starts_with("held")).count() < 60,
        "it is probed, not hammered"
    );
    assert!(log.sent.iter().all(|sent| sent.attempt == 1), "no attempt is burned");
    let views = host.outbox.blocked(None).await.unwrap();
    assert_eq!(views.len(), 1);
    let view = &views[0];
    assert_eq!(
        (view.kind, view.tenant.as_deref(), view.subject.as_str()),
        (WaitKind::Destination, Some("acme"), "http://bad.example")
    );
    assert_eq!((view.code.as_deref(), view.waiting), (Some("HTTP.401"), 20));
    assert!(view.until.is_some());
    let message = host.outbox.message(&tenant("acme"), &held[0]).await.unwrap();
    assert_eq!(message.waiting.unwrap().on, WaitKind::Destination);
    assert_eq!(message.attempts, 0);

    let before = log.sent.len();
    world.main.tell(|_| ack());
    eventually("the probe lifts the hold", async || host.outbox.blocked(None).await.unwrap().is_empty()).await;
    let log = world.main.until(|log| (0..20).all(|index| log.count(&format!("held-{index}")) >= 1)).await;
    assert_eq!(log.sent[before].batch, 1, "one message is tried first");
    for id in held {
        eventually("delivered", async || {
            host.outbox.message(&tenant("acme"), &id).await.unwrap().state == MessageState::Done
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_blocks_something_else_holds_the_messages_own_destination() {
    let world = World::new();
    world.main.tell(|_| blocked("elsewhere.example", "HTTP.401"));
    let host = world.start().await;
    host.send_one(hook("x", "http://bad.example/x", "acme")).await;
    pass(seconds(600)).await;
    let sent = world.main.log().sent.len();
    assert!((2..60).contains(&sent), "it is probed, not hammered: {sent}");
    let views = host.outbox.blocked(None).await.unwrap();
    assert_eq!(views.iter().map(|view| view.subject.as_str()).collect::<Vec<_>>(), ["http://bad.example/x"]);
}

#[tokio::test(start_paused = true)]
async fn the_pause_between_probes_grows_up_to_a_minute_and_honours_the_peers_wish() {
    let world = World::new();
    world.main.tell(|_| blocked("", "HTTP.404"));
    let host = world.start().await;
    host.send_one(hook("x", "http://a.example/x", "default")).await;
    pass(seconds(600)).await;
    let sent = world.main.log().sent;
    let pauses: Vec<u64> = sent.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 60]);
    world.main.tell(|_| Outcome::Blocked {
        scope: String::new(),
        fault: Fault { after: Some(seconds(500)), ..Fault::new("HTTP.404", "gone for a while") },
    });
    let before = world.main.until_sent(sent.len() + 1).await.sent.len();
    let log = world.main.until_sent(before + 1).await;
    assert_eq!((log.sent[before].at - log.sent[before - 1].at).as_secs(), 500);
}

#[tokio::test(start_paused = true)]
async fn an_operators_probe_tries_a_held_destination_at_once() {
    let world = World::new();
    world.main.tell(|_| Outcome::Blocked {
        scope: String::new(),
        fault: Fault { after: Some(seconds(5_000)), ..Fault::new("HTTP.404", "gone for a while") },
    });
    let host = world.start().await;
    let id = host.send_one(message("x")).await;
    world.main.until_sent(1).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 1);
    world.main.tell(|_| ack());
    host.outbox.probe("main", "ops").await.unwrap();
    let before = world.clock.wall();
    host.until_state(&id, MessageState::Done).await;
    assert!(world.clock.wall().since(before) < seconds(2));
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_is_away_is_held_as_a_whole_and_burns_no_attempt() {
    let world = World::new();
    world.main.answer(|_| Answer::failing(ErrorKind::Unavailable, "NET.REFUSED"));
    let host = world.start().await;
    let ids = host.send((0..300).map(|index| message(&index.to_string()))).await;
    let custom = host.send_one(NewMessage { topic: "custom:mail".into(), ..message("elsewhere") }).await;
    host.until_state(&custom, MessageState::Done).await;
    pass(seconds(300)).await;
    assert!(world.main.calls() < 15, "it is probed, not hammered: {} calls", world.main.calls());
    let view = host.view(&ids[0]).await;
    assert_eq!((view.state, view.attempts), (MessageState::Pending, 0));
    assert_eq!(view.waiting.unwrap().on, WaitKind::Transport);
    let transport = &host.outbox.transports().await[0];
    assert_eq!((transport.name.as_str(), transport.breaker), ("main", Breaker::Open));
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!((blocked[0].kind, blocked[0].waiting), (WaitKind::Transport, 300));
    let told = async || {
        let asked = ChangesAsked { since: None, limit: 10, tenants: None };
        let changes = host.outbox.changes(&asked).await.unwrap().items.into_iter();
        changes.map(|change| (change.kind, change.object, change.code)).collect::<Vec<_>>()
    };
    let is_blocked = (ChangeKind::TransportBlocked, "main".to_owned(), Some("NET.REFUSED".to_owned()));
    assert_eq!(told().await, std::slice::from_ref(&is_blocked), "it is told once, however often it is tried");

    world.main.tell(|_| ack());
    host.until_done(&ids).await;
    assert_eq!(host.outbox.transports().await[0].breaker, Breaker::Closed);
    pass(seconds(2)).await;
    assert_eq!(told().await, [(ChangeKind::TransportFlowing, "main".to_owned(), None), is_blocked]);
    assert!(world.main.log().sent.iter().all(|sent| sent.attempt == 1));
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_has_opened_is_waited_for_no_longer() {
    let world = World::new();
    world.main.answer(|_| Answer::failing(ErrorKind::Unavailable, "NET.REFUSED"));
    let host = world.start().await;
    let ids = host.send((0..20).map(|index| message(&index.to_string()))).await;
    // By now it is tried once a minute.
    pass(seconds(300)).await;
    world.main.tell(|_| ack());
    let before = world.clock.wall();
    world.main.open();
    host.until_done(&ids).await;
    assert!(world.clock.wall().since(before) < seconds(2), "it took until {}", world.clock.wall());
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_asked_for_time_gets_it_though_it_opens() {
    let world = World::new();
    world.main.answer(|_| {
        let fault = Fault { after: Some(seconds(120)), ..Fault::new("PEER.BUSY", "come back later") };
        Answer::ending(End::Failed(CallError { kind: ErrorKind::Throttled, fault }))
    });
    let host = world.start().await;
    host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    pass(seconds(1)).await;
    world.main.open();
    pass(seconds(60)).await;
    assert_eq!(world.main.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_transport_sends_nothing_until_it_is_resumed() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let id = host.send_one(message("a")).await;
    pass(seconds(3_600)).await;
    assert!(world.main.log().sent.is_empty());
    assert_eq!(host.view(&id).await.waiting.unwrap().on, WaitKind::Paused);
    let view = host.outbox.transports().await.remove(0);
    assert!(view.paused);
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
    assert_eq!(host.audit_of("TransportPaused").await[0].actor, "ops");
    assert_eq!(host.audit_of("TransportResumed").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_outlives_the_process_and_ends_when_it_is_lifted() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let id = host.send_one(message("a")).await;
    drop(host);
    let host = world.start().await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 0);
    let listed = host.outbox.messages(None, "", ListOrder::State, None, 10).await.unwrap();
    assert_eq!(listed.items[0].waiting.as_ref().unwrap().on, WaitKind::Paused, "lists say what a message waits for");
    assert!(host.outbox.transports().await[0].paused);
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
    drop(host);
    assert!(!world.start().await.outbox.transports().await[0].paused);
}

#[tokio::test(start_paused = true)]
async fn messages_whose_route_is_gone_wait_and_are_shown_until_it_is_back() {
    let world = World::new();
    world.main.tell(|_| retryable("LATER"));
    let host = world.start().await;
    let parked = host.send_one(message("parked")).await;
    world.main.until_sent(1).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let flowing = host.send_one(message("flowing")).await;
    host.drain().await;

    let host = world.start_with(|config| config.routes.0.remove(0).transport.clear()).await;
    pass(seconds(60)).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!((blocked[0].kind, blocked[0].waiting), (WaitKind::NoRoute, 2));
    assert_eq!(host.view(&flowing).await.waiting.unwrap().on, WaitKind::NoRoute);
    assert!(host.try_send([message("x")]).await.is_err(), "without a route nothing new is taken");
    host.drain().await;

    world.main.tell(|_| ack());
    let host = world.start().await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_done(&[parked, flowing]).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_blocked_elsewhere_frees_the_destination_it_was_sent_for() {
    let world = World::new();
    world.main.answer(|batch| match batch.call {
        1 => Answer::each(batch, |_| blocked("http://a.example", "HTTP.401")),
        _ => Answer::each(batch, |delivery| {
            if delivery.destination.ends_with("/gone") { blocked("http://a.example/gone", "HTTP.404") } else { ack() }
        }),
    });
    let host = world.start().await;
    host.send_one(hook("gone", "http://a.example/gone", "default")).await;
    world.main.until_sent(1).await;
    let fine = host.send_one(hook("fine", "http://a.example/fine", "default")).await;
    host.until_state(&fine, MessageState::Done).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!(blocked.iter().map(|view| view.subject.as_str()).collect::<Vec<_>>(), ["http://a.example/gone"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_cancelled_makes_room_for_the_next() {
    let world = World::new();
    world.main.tell(|_| blocked("http://a.example", "HTTP.401"));
    let host = world.start().await;
    let first = host.send_one(hook("first", "http://a.example/x", "default")).await;
    let second = host.send_one(hook("second", "http://a.example/x", "default")).await;
    world.main.until_sent(1).await;
    pass(millis(200)).await;
    // No lane is free when the pause is over, so the probe waits for its turn and can be cancelled.
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(10)));
    for index in 0..4 {
        host.send_one(hook(&format!("busy-{index}"), "http://b.example/x", "default")).await;
    }
    pass(seconds(2)).await;
    host.outbox.cancel(&tenant("default"), &first, "", "ops").await.unwrap();
    host.until_state(&second, MessageState::Done).await;
    assert_eq!(host.view(&first).await.state, MessageState::Cancelled);
    assert!(host.outbox.blocked(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_time_is_over_makes_room_for_the_next() {
    let world = World::new();
    world.main.tell(|_| blocked("http://a.example", "HTTP.401"));
    let host = world.start().await;
    let dated = NewMessage { expires_at: Some(at(seconds(1))), ..hook("dated", "http://a.example/x", "default") };
    let first = host.send_one(dated).await;
    let second = host.send_one(hook("second", "http://a.example/x", "default")).await;
    world.main.until_sent(1).await;
    pass(millis(200)).await;
    world.main.tell(|_| ack());
    host.until_state(&second, MessageState::Done).await;
    assert_eq!(host.view(&first).await.state, MessageState::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_held_backlog_larger_than_memory_leaves_room_for_the_rest_of_its_tenant() {
    let world = World::new();
    world.main.tell(|delivery| {
        if delivery.destination.starts_with("http://bad.example") {
            blocked("http://bad.example", "HTTP.401")
        } else {
            ack()
        }
    });
    let host = world.start_with(|config| config.limits.window_messages = 200).await;
    let mut held = Vec::new();
    for page in 0..20 {
        held.extend(
            host.send((0..50).map(|index| {
                let mut message = hook(&format!("held-{}", page * 50 + index), "http://bad.example/x", "default");
                if index % 2 == 0 {
                    message.key = Some(format!("k-{}", index % 7));
                }
                message
            }))
            .await,
        );
    }
    let fine = host.send((0..50).map(|index| hook(&format!("fine-{index}"), "http://good.example/x", "default"))).await;
    host.until_done(&fine).await;
    world.main.tell(|_| ack());
    host.until_done(&held).await;
    let log = world.main.log();
    for key in 0..7 {
        let mut numbers: Vec<u32> = log
            .of_key(&format!("k-{key}"))
            .iter()
            .map(|text| text.trim_start_matches("held-").parse().unwrap())
            .collect();
        numbers.dedup();
        // Blocked tries repeat a message; the order of first deliveries is what counts.
        let mut seen = std::collections::BTreeSet::new();
        numbers.retain(|number| seen.insert(*number));
        assert!(numbers.is_sorted(), "key {key}: {numbers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_is_back_serves_everybody_though_its_probe_meets_a_blocked_destination() {
    let world = World::new();
    world.main.answer(|_| Answer::failing(ErrorKind::Unavailable, "NET.REFUSED"));
    let host = world.start().await;
    let held = host.send_one(hook("held", "http://bad.example/x", "default")).await;
    world.main.until_sent(1).await;
    let fine = host.send((0..50).map(|index| hook(&format!("fine-{index}"), "http://good.example/x", "default"))).await;
    world
        .main
        .tell(|delivery| if delivery.payload == "held" { blocked("http://bad.example", "HTTP.401") } else { ack() });
    host.until_done(&fine).await;
    assert_eq!(host.outbox.transports().await[0].breaker, Breaker::Closed);
    assert_eq!(host.view(&held).await.waiting.unwrap().on, WaitKind::Destination);
}

#[tokio::test(start_paused = true)]
async fn many_held_destinations_are_each_probed_in_their_own_time_and_cost_the_others_nothing() {
    let world = World::new();
    world.main.set_limits(|limits| limits.max_batch = 20);
    world.main.tell(|delivery| {
        if delivery.destination.starts_with("http://held.example") { blocked("", "HTTP.404") } else { ack() }
    });
    let host = world.start().await;
    let held =
        host.send((0..300).map(|number| hook("held", &format!("http://held.example/{number}"), "default"))).await;
    eventually("all are held", async || host.outbox.blocked(None).await.unwrap().len() == 300).await;
    assert!(world.clock.wall() < at(seconds(10)), "it took until {}", world.clock.wall());
    pass(seconds(600)).await;
    let log = world.main.log();
    for number in 0..300 {
        let tries = log.sent.iter().filter(|sent| sent.destination == format!("http://held.example/{number}")).count();
        assert!((8..20).contains(&tries), "destination {number} was tried {tries} times");
    }
    let fine = host.send((0..500).map(|index| message(&index.to_string()))).await;
    let before = world.clock.wall();
    host.until_done(&fine).await;
    assert!(world.clock.wall().since(before) < seconds(8));
    world.main.tell(|_| ack());
    host.until_done(&held).await;
}
