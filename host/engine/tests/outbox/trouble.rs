//! A store that conflicts, breaks off, is full or fails; a shard's owner that panics.

use std::sync::Arc;

use waybill_api::status::CheckStatus;
use waybill_core::ids::ShardId;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::store::StoreError;
use waybill_testkit::fake_transport::{Answer, ack};
use waybill_testkit::memory_store::Fate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn conflicts_are_tried_again_and_nobody_notices() {
    let world = World::new();
    let host = world.start().await;
    world
        .memory
        .plan([Fate::Refuse(StoreError::Conflict("test".into())), Fate::Refuse(StoreError::Conflict("test".into()))]);
    let ids = host.send((0..10).map(|index| keyed(&index.to_string(), "k"))).await;
    host.until_done(&ids).await;
    assert_eq!(world.main.log().sent.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_commit_with_an_unknown_outcome_is_found_out_and_its_messages_are_sent_once_if_it_went_in() {
    let world = World::new();
    let host = world.start().await;
    for (round, fate) in [Fate::ApplyUnknown, Fate::Lose, Fate::Hold].into_iter().enumerate() {
        let id = format!("order-{round}");
        world.memory.plan([fate.clone()]);
        let error = host.try_send([named(&id, &id)]).await.unwrap_err();
        assert!(matches!(error, ServiceError::OutcomeUnknown(_)), "{error}");
        assert_eq!(error.code().as_str(), "TX.TIMEOUT");
        pass(seconds(5)).await;
        if let Some(late) = world.memory.release() {
            assert!(late.is_err(), "what was given up may not go in later");
        }
        let again = host.try_send([named(&id, &id)]).await.unwrap();
        assert_eq!(again.duplicates.len(), usize::from(fate == Fate::ApplyUnknown), "{fate:?}");
        host.until_state(&id, MessageState::Done).await;
    }
    pass(seconds(60)).await;
    let log = world.main.log();
    for round in 0..3 {
        assert_eq!(log.count(&format!("order-{round}")), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lost_commits_stops_its_shard_until_the_host_starts_again() {
    let world = World::new();
    let host = world.start().await;
    let first = host.send_one(message("first")).await;
    host.until_state(&first, MessageState::Done).await;
    let kept = world.memory.read(Clone::clone);
    let lost = host.send_one(message("lost")).await;
    host.until_state(&lost, MessageState::Done).await;
    world.memory.write(|tables| *tables = kept);
    assert!(matches!(host.try_send([message("next")]).await.unwrap_err(), ServiceError::OutcomeUnknown(_)));
    let error = host.try_send([message("after")]).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE.WENT_BACK", "{error}");
    pass(seconds(600)).await;
    let failing = host.outbox.ready().await.into_iter().find(|check| check.status == CheckStatus::Fail).unwrap();
    assert!(failing.detail.starts_with("STORAGE.WENT_BACK: the store of shard 0 went back"), "{}", failing.detail);
    assert_eq!(world.main.log().sent.len(), 2);
    host.drain().await;
    let host = world.start().await;
    let after = host.send_one(message("after")).await;
    host.until_state(&after, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_data_of_a_newer_host_is_given_back_and_tried_again_now_and_then() {
    let world = World::new();
    world.main.tell(|_| ack());
    let newer = || StoreError::NewerData("outbox:[0, 7]: it is of version 9".to_owned());
    world.shim.on(move |call| match call {
        Call::Read("directory") => Act::Fail(newer()),
        _ => Act::Pass,
    });
    let stands = || world.memory.read(|tables| tables.shards.get(&ShardId(0)).cloned().unwrap_or_default());
    let host = world.launch("host-a", |_| {});
    eventually("the shard is given back", async || stands().released).await;
    pass(seconds(1)).await;
    let failing = host.outbox.ready().await.into_iter().find(|check| check.status == CheckStatus::Fail).unwrap();
    assert!(failing.detail.starts_with("STORAGE.NEWER_DATA"), "{}", failing.detail);
    // Messages go to the doorstep, as for any shard that this host doesn't own.
    host.send_one(message("kept")).await;

    // A newer host finds it free, and this one looks again every half a minute.
    let before = stands().token;
    pass(seconds(300)).await;
    let after = stands();
    assert!(after.released && (5..=11).contains(&(after.token - before)), "{before} {after:?}");
    assert_eq!(world.main.log().count("kept"), 0);
    world.shim.calm();
    host.until_ready().await;
    eventually("it is sent", async || world.main.log().count("kept") == 1).await;
    host.drain().await;
}

/// Without what the next commit needs this host writes nothing more, not even its beat.
#[tokio::test(start_paused = true)]
async fn a_shard_in_which_a_newer_host_wrote_what_a_commit_needs_is_given_back_too() {
    let world = World::new();
    world.main.tell(|_| ack());
    let stands = || world.memory.read(|tables| tables.shards.get(&ShardId(0)).cloned().unwrap_or_default());
    let host = world.start().await;
    let due = NewMessage { not_before: Some(at(seconds(100))), ..message("later") };
    host.send_one(due).await;
    let mut token = stands().token;
    for part in ["scheduled_due", "door", "ids"] {
        world.shim.on(move |call| match call {
            Call::Read(name) if name == part => Act::Fail(StoreError::NewerData("it is of version 9".to_owned())),
            _ => Act::Pass,
        });
        eventually("the shard is given back", async || stands().released && stands().token >= token).await;
        pass(seconds(1)).await;
        let failing = host.outbox.ready().await.into_iter().find(|check| check.status == CheckStatus::Fail).unwrap();
        assert!(failing.detail.starts_with("STORAGE.NEWER_DATA"), "{part}: {}", failing.detail);
        // To the doorstep: its ids are read with it.
        host.send_one(message(part)).await;
        token = stands().token + 1;
    }
    world.shim.calm();
    host.until_ready().await;
    for text in ["later", "scheduled_due", "door", "ids"] {
        eventually("it is sent", async || world.main.log().count(text) == 1).await;
    }
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 4);
    host.drain().await;
}

/// Who asks for what a newer host wrote is refused, and the shard is no worse for it.
#[tokio::test(start_paused = true)]
async fn an_id_that_a_newer_host_wrote_is_refused_and_the_shard_goes_on() {
    let world = World::new();
    world.main.tell(|_| ack());
    let host = world.start().await;
    world.shim.on(|call| match call {
        Call::Read("ids") => Act::Fail(StoreError::NewerData("it is of version 9".to_owned())),
        _ => Act::Pass,
    });
    let refused = host.try_send([named("named", "order-1")]).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "STORAGE.NEWER_DATA", "{refused}");
    host.send_one(message("unnamed")).await;
    eventually("it is sent", async || world.main.log().count("unnamed") == 1).await;
    pass(seconds(60)).await;
    let stands = world.memory.read(|tables| tables.shards.get(&ShardId(0)).cloned().unwrap_or_default());
    assert!(!stands.released, "{stands:?}");
    assert!(host.outbox.ready().await.iter().all(|check| check.status != CheckStatus::Fail));
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_at_every_commit_lose_nothing_and_send_nothing_twice() {
    let world = World::new();
    let host = world.start().await;
    let mut random = 7_u64;
    world.shim.on(move |call| {
        if !matches!(call, Call::Commit(_)) {
            return Act::Pass;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (random >> 33) % 5 {
            0 => Act::Fail(StoreError::Unavailable("before".into())),
            1 => Act::FailAfter(StoreError::Unavailable("after".into())),
            2 => Act::Fail(StoreError::Conflict("test".into())),
            _ => Act::Pass,
        }
    });
    let mut ids = Vec::new();
    for number in 0..300 {
        let id = format!("order-{number}");
        let message = || {
            let mut message = keyed(&id, &format!("k-{}", number % 5));
            message.id = Some(id.clone());
            message
        };
        while host.try_send([message()]).await.is_err() {
            pass(millis(50)).await;
        }
        ids.push(id);
    }
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), 300);
    for key in 0..5 {
        let numbers: Vec<u32> = log
            .of_key(&format!("k-{key}"))
            .iter()
            .map(|text| text.trim_start_matches("order-").parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_said_at_once_and_the_host_goes_on_by_itself() {
    let world = World::new();
    let host = world.start().await;
    let before = host.send_one(message("before")).await;
    host.until_state(&before, MessageState::Done).await;
    world.shim.on(|call| match call {
        Call::Commit(_) | Call::Transact | Call::Dedup(_) => Act::Fail(StoreError::DiskFull("test".into())),
        _ => Act::Pass,
    });
    for text in ["a", "b"] {
        let asked = world.clock.wall();
        let error = host.try_send([message(text)]).await.unwrap_err();
        assert_eq!(error.code().as_str(), "STORAGE.DISK_FULL");
        assert!(world.clock.wall().since(asked) < millis(50), "it is said at once");
    }
    let checks = host.outbox.ready().await;
    let outbox = checks.iter().find(|check| check.name == "outbox").unwrap();
    assert!(outbox.status == CheckStatus::Fail && outbox.detail.contains("STORAGE.DISK_FULL"), "{outbox:?}");
    assert_eq!(host.view(&before).await.state, MessageState::Done, "reads go on");
    pass(seconds(600)).await;
    world.shim.calm();
    pass(seconds(1)).await;
    let id = host.send_one(message("after")).await;
    host.until_state(&id, MessageState::Done).await;
    assert!(host.outbox.ready().await.iter().all(|check| check.status == CheckStatus::Ok));
    pass(seconds(60)).await;
    assert_eq!(world.main.log().texts(), ["before", "after"], "what was refused isn't sent");
}

#[tokio::test(start_paused = true)]
async fn settlements_that_a_full_disk_held_up_are_written_when_there_is_room() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(1)));
    let host = world.start().await;
    let ids = host.send((0..5).map(|index| message(&index.to_string()))).await;
    world.main.until_sent(5).await;
    world.shim.on(|call| {
        if matches!(call, Call::Commit(_)) { Act::Fail(StoreError::DiskFull("test".into())) } else { Act::Pass }
    });
    pass(seconds(5)).await;
    world.shim.calm();
    host.until_done(&ids).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn failing_reads_refuse_what_needs_them_and_pass() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|call| {
        if matches!(call, Call::Read("ids")) { Act::Fail(StoreError::Unavailable("test".into())) } else { Act::Pass }
    });
    let asked = world.clock.wall();
    let error = host.try_send([named("a", "order-1")]).await.unwrap_err();
    assert_eq!(error.code().as_str(), "PROVIDER.UNAVAILABLE");
    assert!(world.clock.wall().since(asked) < seconds(1));
    world.shim.calm();
    pass(seconds(1)).await;
    let id = host.send_one(named("a", "order-1")).await;
    host.until_state(&id, MessageState::Done).await;
    assert_eq!(world.main.log().texts(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_minutes_costs_time_and_nothing_else() {
    let world = World::new();
    let host = world.start_with(|config| config.limits.window_messages = 100).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    let mut ids = host.send((0..300).map(|index| keyed(&index.to_string(), &format!("k-{}", index % 7)))).await;
    ids.extend(
        host.outbox
            .transact(
                Vec::new(),
                (300..320).map(|index| message(&index.to_string())).collect(),
                Default::default(),
                None,
            )
            .await
            .unwrap()
            .ids,
    );
    host.outbox.resume("main", "", "ops").await.unwrap();
    world.main.until_sent(20).await;
    world.shim.on(|_| Act::Fail(StoreError::Unavailable("test".into())));
    pass(seconds(300)).await;
    let during = world.main.log().sent.len();
    pass(seconds(300)).await;
    assert_eq!(world.main.log().sent.len(), during, "nothing is sent that isn't provably ours");
    assert!(host.try_send([message("x")]).await.is_err());
    world.shim.calm();
    host.until_done(&ids).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 320, "it owned the shard all the time, so nothing was sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_starts_while_the_store_is_away_says_so_and_begins_when_it_is_back() {
    let world = World::new();
    world.shim.on(|_| Act::Fail(StoreError::Unavailable("test".into())));
    let host = world.launch("host-a", |_| {});
    pass(seconds(10)).await;
    let outbox = host.outbox.ready().await.into_iter().find(|check| check.name == "outbox").unwrap();
    assert!(outbox.status == CheckStatus::Fail && outbox.detail.contains("PROVIDER.UNAVAILABLE"));
    assert!(host.try_send([message("x")]).await.is_err());
    world.shim.calm();
    host.until_ready().await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_panics_is_taken_over_by_its_own_host_and_everything_goes_on() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(1)));
    let host = world.start().await;
    let ids = host.send((0..20).map(|index| keyed(&index.to_string(), &format!("k-{}", index % 4)))).await;
    world.main.until_sent(4).await;
    let mut panicked = false;
    world.shim.on(move |call| {
        let now = matches!(call, Call::Commit(_)) && !std::mem::replace(&mut panicked, true);
        if now { Act::Panic } else { Act::Pass }
    });
    let lost = host.try_send([message("unlucky")]).await;
    assert!(matches!(lost, Err(ServiceError::OutcomeUnknown(_))), "{lost:?}");
    host.until_done(&ids).await;
    let more = host.send_one(message("more")).await;
    host.until_state(&more, MessageState::Done).await;
    let log = world.main.log();
    assert_eq!(log.sent.last().unwrap().epoch, 2);
    for index in 0..20 {
        let sent = log.of(&index.to_string());
        assert!(sent.len() <= 2 && sent.windows(2).all(|pair| pair[0].epoch < pair[1].epoch), "{sent:?}");
    }
    assert!(!host.audit_of("outbox_flush_conflict").await.is_empty(), "the old sends' settlements came too late");
    // The end of a call of the old owner isn't taken for one of the new owner's: its lane runs one call at a time.
    let mut calls: Vec<_> = log.sent.iter().filter(|sent| sent.epoch == 2).map(|sent| (sent.call, sent.at)).collect();
    calls.dedup();
    assert!(calls.len() > 2 && calls.windows(2).all(|pair| pair[1].1 - pair[0].1 >= seconds(1)), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_has_to_be_tried_again_answers_for_every_message_in_order() {
    let world = World::new();
    let host = world.start().await;
    host.send([named("a", "order-1")]).await;
    pass(seconds(1)).await;
    world.memory.plan([
        Fate::Refuse(StoreError::Exists("test".into())),
        Fate::Apply,
        Fate::Refuse(StoreError::Conflict("test".into())),
    ]);
    let answer = host
        .try_send([named("x", "order-0"), named("a", "order-1"), message("y"), named("b", "order-2")])
        .await
        .unwrap();
    assert_eq!(answer.ids.len(), 4);
    assert_eq!(
        (answer.ids[0].as_str(), answer.ids[1].as_str(), answer.ids[3].as_str()),
        ("order-0", "order-1", "order-2")
    );
    assert_eq!(answer.duplicates, ["order-1"]);
    host.until_done(&answer.ids).await;
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_store_is_away_ends_within_its_drain_time() {
    let world = World::new();
    let host = world.start().await;
    world.shim.on(|_| Act::Fail(StoreError::DiskFull("test".into())));
    assert!(host.try_send([message("a")]).await.is_err());
    let asked = world.clock.wall();
    host.engine.drain(seconds(5)).await;
    assert!(world.clock.wall().since(asked) < seconds(15));
    drop(host);
    world.shim.calm();
    let host = world.start().await;
    let id = host.send_one(message("b")).await;
    host.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_takeover_that_went_in_unheard_and_late_is_no_second_crash() {
    let world = World::new();
    drop(world.start().await);
    pass(millis(1)).await;
    world.memory.plan([Fate::Hold]);
    let memory = Arc::clone(&world.memory);
    let mut commits = 0;
    world.shim.on(move |call| {
        if let Call::Commit(_) = call {
            commits += 1;
            if commits == 2 {
                // The first one goes in just before it.
                memory.release().unwrap().unwrap();
            }
        }
        Act::Pass
    });
    let _host = world.start().await;
    let record = world.memory.read(|tables| tables.shard(ShardId(0)));
    assert_eq!(record.suspicion.unclean, 1);
}
