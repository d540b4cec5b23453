//! Drain, crash, restart, and two hosts on one store.

use waybill_core::port::service::{MessageState, ServiceError};
use waybill_testkit::fake_transport::{Answer, Gate, ack};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_drain_ends_sends_gives_the_shard_back_and_leaves_nothing_suspect() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(3)));
    let host = world.start().await;
    let ids = host.send((0..500).map(|index| keyed(&index.to_string(), &format!("k-{}", index % 50)))).await;
    world.main.until_sent(50).await;
    host.drain().await;
    let sent = world.main.log().sent.len();
    assert!(world.main.is_closed());
    let late = host.try_send([message("late")]).await.unwrap_err();
    assert!(matches!(late, ServiceError::Unavailable(_)));
    let record = world.memory.read(|tables| tables.shard(waybill_core::ids::ShardId(0)));
    assert!(record.released && record.open.is_empty() && record.suspicion.is_empty());
    pass(seconds(100)).await;
    assert_eq!(world.main.log().sent.len(), sent);

    let host = world.start().await;
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), 500, "nothing is sent twice");
    assert!(log.sent.iter().all(|sent| sent.attempt == 1));
    for id in &ids {
        assert_eq!(host.view(id).await.suspect, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_takes_too_long_says_so_and_nothing_that_was_being_sent_is_suspect() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start_with(|config| config.send_timeout = seconds(1_000)).await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    let asked = world.clock.wall();
    assert!(!host.engine.drain(seconds(5)).await);
    assert!(world.clock.wall().since(asked) < seconds(15));
    drop(host);
    let record = world.memory.read(|tables| tables.shard(waybill_core::ids::ShardId(0)));
    assert!(record.leaving && !record.released && !record.open.is_empty());
    gate.open();
    let host = world.start().await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!((view.attempts, view.suspect), (1, 0));
    let record = world.memory.read(|tables| tables.shard(waybill_core::ids::ShardId(0)));
    assert!(record.suspicion.is_empty(), "a drain is no crash");
    let sent = world.main.log().sent;
    assert_eq!((sent.len(), sent[1].attempt), (2, 1));
    assert!(sent[1].epoch > sent[0].epoch);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_what_was_being_sent_goes_again_with_a_higher_epoch_and_the_rest_once() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.set_limits(|limits| limits.max_batch = 5);
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start().await;
    let ids = host.send((0..10).map(|index| keyed(&index.to_string(), &format!("k-{index}")))).await;
    world.main.until_sent(5).await;
    drop(host);
    gate.open();
    pass(seconds(60)).await;
    assert_eq!((world.main.log().sent.len(), world.main.under_way()), (5, 0), "a dead host sends nothing");
    let host = world.start().await;
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), 15);
    for sent in &log.sent[5..] {
        assert_eq!((sent.attempt, sent.epoch), (1, 2));
    }
    assert_eq!(host.view(&ids[0]).await.attempts, 1, "a crash is no attempt");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_kills_its_host_three_times_alone_is_a_dead_letter_and_its_neighbours_are_delivered() {
    let world = World::new();
    world
        .main
        .answer(|batch| if batch.has_payload("killer") { Answer::never() } else { Answer::each(batch, |_| ack()) });
    let host = world.start_with(|config| config.send_timeout = seconds(100_000)).await;
    let ids = host
        .send((0..10).map(|index| if index == 4 { message("killer") } else { message(&format!("n-{index}")) }))
        .await;
    world.main.until(|log| log.count("killer") == 1).await;
    let mut host = host;
    // Each host dies of it, and of nothing else: soon after it was sent.
    for deaths in 1..=9 {
        pass(seconds(1)).await;
        drop(host);
        host = world.start_with(|config| config.send_timeout = seconds(100_000)).await;
        eventually("it is sent again, or dead", async || {
            let sent = world.main.log().count("killer");
            sent > deaths || host.view(&ids[4]).await.state == MessageState::Dead
        })
        .await;
        if host.view(&ids[4]).await.state == MessageState::Dead {
            break;
        }
    }
    let dead = host.view(&ids[4]).await;
    assert_eq!(dead.state, MessageState::Dead);
    assert!(dead.last_error.unwrap().starts_with("SUSPECTED_POISON"));
    assert_eq!(host.outbox.totals().dead, 1, "the takeover that convicts it counts it");
    for (index, id) in ids.iter().enumerate().filter(|(index, _)| *index != 4) {
        let view = host.until_state(id, MessageState::Done).await;
        assert!(world.main.log().count(&format!("n-{index}")) <= 5, "{view:?}");
    }
    let log = world.main.log();
    let killer = log.of("killer");
    // Not named yet, named, ten halved to one, and three times alone.
    assert!((5..=2 + 4 + 3).contains(&killer.len()), "it was sent {} times", killer.len());
    assert!(killer[killer.len() - 3..].iter().all(|sent| sent.batch == 1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_owner_is_no_crash() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start().await;
    let ids = host.send((0..5).map(|index| message(&index.to_string()))).await;
    world.main.until_sent(5).await;
    for _ in 0..6 {
        let mut panicked = false;
        world.shim.on(move |call| {
            let now = matches!(call, Call::Commit(_)) && !std::mem::replace(&mut panicked, true);
            if now { Act::Panic } else { Act::Pass }
        });
        assert!(host.try_send([message("unlucky")]).await.is_err());
        pass(seconds(5)).await;
        world.shim.calm();
        host.until_ready().await;
    }
    let record = world.memory.read(|tables| tables.shard(waybill_core::ids::ShardId(0)));
    assert!(record.token == 7 && record.suspicion.is_empty(), "{record:?}");
    gate.open();
    host.until_done(&ids).await;
}

#[tokio::test(start_paused = true)]
async fn early_results_are_not_sent_again_after_a_crash() {
    let world = World::new();
    world.main.answer(|batch| match batch.index_of("m-1") {
        Some(index) if batch.call == 1 => Answer::never().telling(index, ack()),
        _ => Answer::each(batch, |_| ack()),
    });
    let host = world.start().await;
    host.send([named("a", "m-0"), named("b", "m-1"), named("c", "m-2")]).await;
    pass(seconds(1)).await;
    drop(host);
    let host = world.start().await;
    host.until_done(&["m-0", "m-1", "m-2"].map(str::to_owned)).await;
    assert_eq!(world.main.log().count("b"), 1);
    assert_eq!(world.main.log().count("a"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_host_takes_over_when_the_first_has_stood_still_and_not_before() {
    let world = World::new();
    let host_a = world.launch("host-a", |config| config.exclusive = false);
    host_a.until_ready().await;
    let host_b = world.launch("host-b", |config| config.exclusive = false);
    pass(seconds(100)).await;
    let ids = host_a.send((0..5).map(|index| message(&index.to_string()))).await;
    host_a.until_done(&ids).await;
    assert_eq!(world.main.log().sent[0].epoch, 1, "a living owner keeps its shard");
    drop(host_a);
    let died = world.clock.wall();
    let over_door = host_b.send((5..10).map(|index| message(&index.to_string()))).await;
    world.main.until_sent(10).await;
    let waited = world.clock.wall().since(died);
    assert!(waited >= seconds(15) && waited < seconds(30), "taken over after {waited:?}");
    host_b.until_done(&over_door).await;
    assert!(world.main.log().sent[5..].iter().all(|sent| sent.epoch == 2));
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_given_back_is_taken_at_once() {
    let world = World::new();
    let host_a = world.launch("host-a", |config| config.exclusive = false);
    host_a.until_ready().await;
    let host_b = world.launch("host-b", |config| config.exclusive = false);
    pass(seconds(5)).await;
    host_a.drain().await;
    let drained = world.clock.wall();
    let id = host_b.send_one(message("a")).await;
    host_b.until_state(&id, MessageState::Done).await;
    assert!(world.clock.wall().since(drained) < seconds(4));
}

#[tokio::test(start_paused = true)]
async fn what_is_enqueued_at_a_host_without_the_shard_arrives_in_order_and_only_once() {
    let world = World::new();
    let host_a = world.launch("host-a", |config| config.exclusive = false);
    host_a.until_ready().await;
    let host_b = world.launch("host-b", |config| config.exclusive = false);
    pass(seconds(5)).await;
    let mut wanted = Vec::new();
    for round in 0..30 {
        let host = if round % 2 == 0 { &host_a } else { &host_b };
        let mut message = keyed(&round.to_string(), "k");
        message.id = Some(format!("order-{round}"));
        assert!(host.try_send([message.clone()]).await.unwrap().duplicates.is_empty());
        wanted.push(round.to_string());
        if round % 5 == 0 {
            pass(seconds(3)).await;
            let again = host_b.try_send([message.clone()]).await.unwrap();
            assert_eq!(again.duplicates.len(), 1);
            message.payload = "other".into();
            let taken = host_b.try_send([message]).await.unwrap_err();
            assert!(matches!(taken, ServiceError::IdTaken { .. }), "{taken}");
        }
    }
    let log = world.main.until_sent(30).await;
    assert_eq!(log.texts(), wanted);
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 30);
    let view = host_b.view("order-29").await;
    assert_eq!(view.state, MessageState::Done, "every host can show every message");
}

#[tokio::test(start_paused = true)]
async fn a_host_cut_off_from_the_store_stops_sending_and_its_late_word_changes_nothing() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.main.answer(move |batch| {
        let slow =
            batch.deliveries.iter().any(|delivery| delivery.lease_epoch == 1 && delivery.payload.starts_with(b"slow"));
        let answer = Answer::each(batch, |_| ack());
        if slow { answer.behind(&behind) } else { answer }
    });
    let host_a = world.launch("host-a", |config| {
        config.exclusive = false;
        config.send_timeout = seconds(1_000);
    });
    host_a.until_ready().await;
    let ids = host_a.send((0..3).map(|index| keyed(&format!("slow-{index}"), &format!("k-{index}")))).await;
    world.main.until_sent(3).await;
    // A second host with a store of its own connection; the first one's connection breaks.
    let second = World {
        shim: Shim::new(world.memory.clone()),
        memory: world.memory.clone(),
        clock: world.clock,
        stepped: world.stepped.clone(),
        main: world.main.clone(),
        other: world.other.clone(),
    };
    let host_b = second.launch("host-b", |config| config.exclusive = false);
    world.shim.on(|call| match call {
        Call::Commit(_) | Call::Read(_) => {
            Act::Fail(waybill_core::port::store::StoreError::Unavailable("cut off".into()))
        }
        _ => Act::Pass,
    });
    world.main.until_sent(6).await;
    host_b.until_done(&ids).await;
    world.shim.calm();
    pass(seconds(5)).await;
    gate.open();
    pass(seconds(60)).await;
    let conflicts = host_b.audit_of("outbox_flush_conflict").await;
    assert_eq!(conflicts.len(), 3, "{conflicts:?}");
    assert_eq!(conflicts[0].actor, "host-a");
    let sent = world.main.log().sent;
    assert_eq!(sent.len(), 6);
    assert!(sent[3..].iter().all(|sent| sent.epoch == 2 && sent.attempt == 1));
    for id in &ids {
        assert_eq!(host_b.view(id).await.attempts, 1);
    }
    // And the host that lost it goes on as an observer.
    let id = host_a.send_one(message("over the door")).await;
    host_b.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn settlements_that_wait_for_a_commit_when_the_shard_is_lost_are_audited() {
    let world = World::new();
    let host_a = world.launch("host-a", |config| config.exclusive = false);
    host_a.until_ready().await;
    let second = World {
        shim: Shim::new(world.memory.clone()),
        memory: world.memory.clone(),
        clock: world.clock,
        stepped: world.stepped.clone(),
        main: world.main.clone(),
        other: world.other.clone(),
    };
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(2)));
    let id = host_a.send_one(message("a")).await;
    world.main.until_sent(1).await;
    world.shim.on(|call| match call {
        Call::Commit(_) | Call::Read(_) => {
            Act::Fail(waybill_core::port::store::StoreError::Unavailable("cut off".into()))
        }
        _ => Act::Pass,
    });
    let host_b = second.launch("host-b", |config| config.exclusive = false);
    host_b.until_state(&id, MessageState::Done).await;
    world.shim.calm();
    eventually("the loss is audited", async || host_b.audit_of("outbox_flush_conflict").await.len() == 1).await;
    assert_eq!(world.main.log().sent.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn hosts_that_die_and_return_at_random_lose_nothing_and_keep_every_keys_order() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(millis(batch.call % 7)));
    let mut hosts: Vec<Option<Host>> = (0..3).map(|_| None).collect();
    let mut random = 12_345_u64;
    let mut roll = |sides: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % sides
    };
    let mut ids = Vec::new();
    for number in 0..400 {
        let which = roll(3) as usize;
        if hosts[which].is_none() {
            hosts[which] = Some(world.launch(&format!("host-{which}"), |config| {
                config.exclusive = false;
                config.owner_ttl = seconds(2);
            }));
        }
        let host = hosts[which].as_ref().unwrap();
        let id = format!("order-{number}");
        let mut message = keyed(&id, &format!("k-{}", number % 6));
        message.id = Some(id.clone());
        while host.try_send([message.clone()]).await.is_err() {
            pass(millis(300)).await;
        }
        ids.push(id);
        match roll(30) {
            0 => hosts[roll(3) as usize] = None,
            1 => {
                let one = hosts[roll(3) as usize].take();
                if let Some(one) = one {
                    one.engine.drain(seconds(5)).await;
                }
            }
            _ => pass(millis(roll(200))).await,
        }
    }
    let host = world.launch("host-last", |config| {
        config.exclusive = false;
        config.owner_ttl = seconds(2);
    });
    host.until_done(&ids).await;
    let log = world.main.log();
    for key in 0..6 {
        let mut numbers: Vec<u32> = log
            .of_key(&format!("k-{key}"))
            .iter()
            .map(|text| text.trim_start_matches("order-").parse().unwrap())
            .collect();
        numbers.dedup();
        assert!(numbers.is_sorted(), "key {key}: {numbers:?}");
    }
    for id in &ids {
        let sent = log.of(id);
        assert!(sent.windows(2).all(|pair| pair[0].epoch < pair[1].epoch), "{sent:?}");
    }
}
