//! One message of a key at a time, in commit order.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_api::dead_letters::Replay;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::ErrorKind;
use waybill_testkit::fake_transport::{Answer, Gate, ack, permanent, retryable};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_key_is_delivered_in_order_over_retries() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 3 { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let ids = host.send((0..5).map(|index| keyed(&index.to_string(), "k"))).await;
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.texts(), ["0", "0", "0", "1", "1", "1", "2", "2", "2", "3", "3", "3", "4", "4", "4"]);
    assert!(log.sent.iter().all(|sent| sent.batch == 1));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_key_blocks_only_itself() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "stuck" { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let stuck = host.send([keyed("stuck", "a"), keyed("behind", "a"), keyed("b", "b"), message("c")]).await;
    host.until_done(&stuck[2..]).await;
    let behind = host.view(&stuck[1]).await;
    assert_eq!((behind.state, behind.waiting.unwrap().on), (MessageState::Pending, WaitKind::Key));
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!(
        (blocked[0].kind, blocked[0].subject.as_str(), blocked[0].waiting),
        (WaitKind::Key, "a", 2),
        "itself and the one behind"
    );
    assert_eq!(world.main.log().count("behind"), 0);
    world.main.tell(|_| ack());
    host.until_done(&stuck).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_retry_is_due_while_its_transport_is_paused_is_counted_once() {
    let world = World::new();
    world.main.tell(|_| retryable("HTTP.503"));
    let host = world.start().await;
    host.send([keyed("first", "a"), keyed("behind", "a")]).await;
    world.main.until(|log| log.count("first") == 1).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    pass(seconds(60)).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    let counts: Vec<_> = blocked.iter().map(|block| (block.kind, block.waiting)).collect();
    assert_eq!(counts.len(), 2, "{blocked:?}");
    assert!(counts.contains(&(WaitKind::Paused, 1)) && counts.contains(&(WaitKind::Key, 1)), "{blocked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_keeps_its_order_across_topics_and_transports() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start().await;
    let first = host.send_one(keyed("one", "k")).await;
    let second = host.send_one(NewMessage { topic: "custom:mail".into(), ..keyed("two", "k") }).await;
    let free = host.send_one(NewMessage { topic: "custom:mail".into(), ..keyed("free", "other") }).await;
    host.until_state(&free, MessageState::Done).await;
    pass(seconds(5)).await;
    assert_eq!(world.other.log().texts(), ["free"]);
    gate.open();
    host.until_done(&[first, second]).await;
    assert_eq!(world.other.log().texts(), ["free", "two"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_moves_on_only_when_the_settlement_before_is_known_committed() {
    let world = World::new();
    let host = world.start().await;
    let first = host.send_one(keyed("one", "k")).await;
    host.until_state(&first, MessageState::Done).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let ids = host.send([keyed("two", "k"), keyed("three", "k")]).await;
    world.main.until(|log| log.count("two") == 1).await;
    world.shim.on(|call| if matches!(call, Call::Commit(_)) { Act::Slow(seconds(3)) } else { Act::Pass });
    gate.open();
    pass(seconds(2)).await;
    assert_eq!(world.main.log().count("three"), 0);
    host.until_done(&ids).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_frees_its_key() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "bad" { permanent("HTTP.400") } else { ack() });
    let host = world.start().await;
    let ids = host.send([keyed("bad", "k"), keyed("next", "k")]).await;
    host.until_state(&ids[1], MessageState::Done).await;
    assert_eq!(host.view(&ids[0]).await.state, MessageState::Dead);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_keeps_its_key_where_that_is_asked_for_also_over_a_restart() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "bad" { permanent("HTTP.400") } else { ack() });
    let host = world.start_with(|config| config.dead_holds_key = true).await;
    let ids = host.send([keyed("bad", "k"), keyed("next", "k")]).await;
    host.until_state(&ids[0], MessageState::Dead).await;
    pass(seconds(60)).await;
    host.drain().await;
    let host = world.start_with(|config| config.dead_holds_key = true).await;
    let late = host.send_one(keyed("late", "k")).await;
    pass(seconds(60)).await;
    let view = host.view(&ids[1]).await;
    assert_eq!((view.state, view.waiting.unwrap().on), (MessageState::Pending, WaitKind::Key));
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!((blocked[0].kind, blocked[0].subject.as_str(), blocked[0].waiting), (WaitKind::Key, "k", 2));
    world.main.tell(|_| ack());
    host.outbox.replay(&DeadId::new(&tenant("default"), &ids[0]), Replay::because("fixed"), "ops").await.unwrap();
    host.until_done(&ids).await;
    host.until_state(&late, MessageState::Done).await;
    assert_eq!(world.main.log().of_key("k"), ["bad", "bad", "next", "late"]);
}

#[tokio::test(start_paused = true)]
async fn thousands_of_messages_under_all_kinds_of_failures_keep_the_order_of_their_keys() {
    const MESSAGES: usize = 4_000;
    const KEYS: usize = 37;
    let world = World::new();
    world.main.set_limits(|limits| {
        limits.lanes = 3;
        limits.calls_per_lane = 4;
        limits.max_batch = 20;
    });
    // Every attempt as it begins, and every ack as it is given, in one list.
    let events: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let noted = Arc::clone(&events);
    let random = Mutex::new(0x9E37_79B9_7F4A_7C15_u64);
    world.main.answer(move |batch| {
        let mut random = random.lock();
        let mut roll = |sides: u64| {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            (*random >> 11) % sides
        };
        let texts: Vec<String> =
            batch.deliveries.iter().map(|delivery| String::from_utf8(delivery.payload.to_vec()).unwrap()).collect();
        let mut noted = noted.lock();
        noted.extend(texts.iter().map(|text| (text.clone(), false)));
        let took = millis(roll(5));
        match roll(40) {
            0 => return Answer::trap().after(took),
            1 => return Answer::failing(ErrorKind::Unavailable, "NET.REFUSED").after(took),
            2 => return Answer::never(),
            _ => {}
        }
        let outcomes = texts.iter().map(|text| match roll(12) {
            0 => retryable("HTTP.503"),
            _ => {
                noted.push((text.clone(), true));
                ack()
            }
        });
        Answer::ending(waybill_testkit::fake_transport::End::Outcomes(outcomes.collect())).after(took)
    });
    let host = world
        .start_with(|config| {
            config.limits.window_messages = 500;
            config.limits.key_messages = 8;
            config.limits.open_segments = 6;
            config.retries.policy.max_attempts = 1_000;
            config.retries.policy.cap_ms = 2_000;
            config.send_timeout = seconds(2);
        })
        .await;
    let mut ids = Vec::new();
    for page in 0..MESSAGES / 50 {
        ids.extend(
            host.send((0..50).map(|index| {
                let number = page * 50 + index;
                keyed(&number.to_string(), &format!("k-{}", number * number % KEYS))
            }))
            .await,
        );
        pass(millis(3)).await;
    }
    host.until_done(&ids).await;
    let mut acked: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let events = events.lock();
    for (text, is_ack) in events.iter() {
        let number: usize = text.parse().unwrap();
        let key = number * number % KEYS;
        let done = acked.entry(key).or_default();
        if *is_ack {
            done.push(number);
        } else {
            let before = (0..number).filter(|other| other * other % KEYS == key).count();
            assert_eq!(done.len(), before, "message {number} of key {key} was attempted after {done:?}");
        }
    }
    assert_eq!(acked.values().map(Vec::len).sum::<usize>(), MESSAGES, "each is acknowledged exactly once");
}
