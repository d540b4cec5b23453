//! What becomes of claims when a host drains, dies, loses its shard or its store, and of leases that end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_drain_takes_leases_back_and_the_next_start_gives_them_out_again() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("a")).await;
    let claimed = host.claim_one("w-1").await;
    let began = world.clock.wall();
    host.drain().await;
    assert!(world.clock.wall().since(began) < seconds(5), "a lease held the drain up");
    drop(host);
    let host = start(&world).await;
    let again = host.claim_one("w-2").await;
    assert_eq!((again.message.id.as_str(), again.message.suspect, again.attempt), (&*id, 0, 1));
    host.expect_conflict(&claimed, acked(), Some(MessageState::Leased)).await;
    assert!(host.settle(&again, acked()).await.applied);
}

#[tokio::test(start_paused = true)]
async fn crashes_of_the_host_never_make_a_claimed_message_suspect() {
    let world = World::new();
    let mut claims = Vec::new();
    for crash in 0..8 {
        let host = start(&world).await;
        if crash == 0 {
            host.send([out("a"), out("b"), out("c")]).await;
            // Its segment gets a claim by this.
            assert!(host.settle(&host.claim_one("w").await, acked()).await.applied);
        }
        let claimed = host.claim("w").await;
        assert_eq!(texts(&claimed), ["b", "c"], "after {crash} crashes");
        assert!(claimed.iter().all(|one| one.message.suspect == 0));
        claims.extend(claimed);
        drop(host);
    }
    let host = start(&world).await;
    let claimed = host.claim("w").await;
    for old in &claims {
        assert!(!host.settle(old, acked()).await.applied);
    }
    for one in &claimed {
        assert!(host.settle(one, acked()).await.applied);
        assert_eq!(host.view(&one.message.id).await.state, MessageState::Done);
    }
}

#[tokio::test(start_paused = true)]
async fn leases_dont_keep_a_suspect_message_of_another_transport_waiting() {
    let world = World::new();
    world.main.answer(|_| Answer::stuck());
    let mut sent = 0;
    let mut id = String::new();
    for crash in 0..2 {
        let host = start(&world).await;
        if crash == 0 {
            id = host.send_one(message("poison?")).await;
        }
        sent += 1;
        world.main.until_sent(sent).await;
        drop(host);
    }
    world.main.tell(|_| ack());
    let host = start(&world).await;
    host.send_one(out("a")).await;
    assert_eq!(host.claim("w").await.len(), 1);
    let before = world.clock.wall();
    host.until_state(&id, MessageState::Done).await;
    assert!(world.clock.wall().since(before) < seconds(30));
}

#[tokio::test(start_paused = true)]
async fn when_the_store_doesnt_say_the_worker_hears_that_and_the_message_is_settled_once() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("a")).await;
    let claimed = host.claim_one("w").await;
    world.shim.on(|call| match call {
        Call::Commit(_) => Act::FailAfter(StoreError::Unavailable("the line broke".to_owned())),
        Call::Read(_) => Act::Fail(StoreError::Unavailable("the line is down".to_owned())),
        _ => Act::Pass,
    });
    let answer = host.settle(&claimed, acked()).await;
    assert_eq!((answer.applied, answer.result), (false, FlushResult::DbTimeout));
    assert_eq!(answer.code.as_deref(), Some("TX.TIMEOUT"));
    world.shim.calm();
    host.until_state(&id, MessageState::Done).await;
    host.until_ready().await;
    host.expect_conflict(&claimed, acked(), Some(MessageState::Done)).await;
    assert_eq!(host.view(&id).await.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_paused_transport_gives_nothing_out_and_takes_settlements() {
    let world = World::new();
    let host = start(&world).await;
    host.send([out("a"), out("b")]).await;
    let claimed = host.claim_one("w").await;
    host.outbox.pause("external", "", "test").await.unwrap();
    assert!(host.claim("w").await.is_empty());
    pass(seconds(120)).await;
    assert!(host.claim("w").await.is_empty());
    assert!(host.settle(&claimed, acked()).await.applied);
    let view = host.outbox.resume("external", "", "test").await.unwrap();
    assert_eq!((view.breaker, view.plugin.plugin.as_str()), (Breaker::Closed, "external"));
    assert_eq!(texts(&host.claim("w").await), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_expired_is_given_to_nobody() {
    let world = World::new();
    let host = start(&world).await;
    let soon = Some(at(seconds(70)));
    let ids =
        host.send([NewMessage { expires_at: soon, ..out("a") }, NewMessage { expires_at: soon, ..out("b") }]).await;
    host.claim_one("w").await;
    pass(seconds(75)).await;
    assert!(host.claim("w").await.is_empty());
    for id in ids {
        host.until_state(&id, MessageState::Expired).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_lost_its_shard_promises_nothing() {
    let world = World::new();
    let shared = |config: &mut EngineConfig| {
        with_workers(config);
        config.exclusive = false;
    };
    let first = world.start_with(shared).await;
    first.send_one(out("a")).await;
    let claimed = first.claim_one("w").await;
    // Its commits don't come through any more; another host's would.
    world.shim.on(|call| match call {
        Call::Commit(commit) if commit.record.owner == "host-a" => {
            Act::Fail(StoreError::Unavailable("cut off".to_owned()))
        }
        _ => Act::Pass,
    });
    let second = world.launch("host-b", shared);
    eventually("the other host gives the message out", async || {
        second.outbox.claim(ask("w-2")).await.unwrap().len() == 1
    })
    .await;
    let renewed = first.settle(&claimed, SettleWish::Renew { lease: None }).await;
    assert!(!renewed.applied, "{renewed:?}");
    assert!(!first.settle(&claimed, acked()).await.applied);
    assert!(first.claim("w").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_over_several_shards_ends_with_its_bytes() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            (config.shards, config.batch_bytes) = (4, 100);
        })
        .await;
    host.send((0..40).map(|n| out_keyed(&"x".repeat(60), &format!("k-{n}")))).await;
    assert_eq!(host.claim("w").await.len(), 2, "one each of two shards");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_doesnt_own_the_shard_doesnt_say_that_a_lease_is_lost() {
    let world = World::new();
    let shared = |config: &mut EngineConfig| {
        with_workers(config);
        config.exclusive = false;
    };
    let owner = world.start_with(shared).await;
    let other = world.launch("host-b", shared);
    owner.send_one(out("a")).await;
    let claimed = owner.claim_one("w").await;
    let answer = other.settle(&claimed, acked()).await;
    assert_eq!((answer.applied, answer.result), (false, FlushResult::DbTimeout), "{answer:?}");
    assert_ne!(answer.code.as_deref(), Some("TX.LEASE_LOST"));
    assert!(owner.audit_of("outbox_flush_conflict").await.is_empty());
    assert!(owner.settle(&claimed, acked()).await.applied);
}

#[tokio::test(start_paused = true)]
async fn leases_that_ended_keep_nobody_elses_messages_waiting() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.limits.window_messages = 100;
        })
        .await;
    let of = |name: &str, text: String| NewMessage { tenant: Some(name.to_owned()), ..out(&text) };
    let claim = async |name: &str| {
        let tenants = Some(vec![tenant(name)]);
        host.outbox.claim(ClaimRequest { limit: 100, tenants, ..ask(name) }).await.unwrap()
    };
    host.send((0..40).map(|n| of("gone", format!("gone-{n}")))).await;
    assert_eq!(claim("gone").await.len(), 25);
    host.send([of("here", "a".to_owned())]).await;
    assert!(claim("here").await.is_empty(), "a shard lends a quarter of its window");
    pass(seconds(61)).await;
    assert_eq!(texts(&claim("here").await), ["a"]);
    // What is lent again counts again.
    assert_eq!(claim("gone").await.len(), 24);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_delivered_is_found_by_the_next_one() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.routes.0[0].dedup = Some(seconds(3_600));
        })
        .await;
    let first = host.send_one(out("a")).await;
    let claimed = host.claim_one("w").await;
    let sha = claimed.message.payload_sha256.clone().unwrap();
    let check = async |target: &str| host.outbox.check_dedup(&tenant("default"), target, &sha).await.unwrap();
    assert_eq!(check("out.memory").await, None);
    // One that failed, or that a stale token says was delivered, isn't there.
    host.settle_as(&first, &claimed.token.replace(&claimed.token[40..], "0123456789ab"), acked()).await;
    assert!(host.settle(&claimed, failed()).await.applied);
    assert_eq!(check("out.memory").await, None);
    pass(seconds(1)).await;
    assert!(host.settle(&host.claim_one("w").await, acked()).await.applied);
    let found = check("out.memory").await.unwrap();
    assert_eq!((found.id.as_str(), found.receipt.broker_ref.as_deref()), (&*first, Some("memory-1")));
    assert_eq!(check("out.mail").await, None);
    assert_eq!(host.outbox.check_dedup(&tenant("acme"), "out.memory", &sha).await.unwrap(), None);
    // The host sends and settles nothing of it by itself.
    host.send_one(out("a")).await;
    assert_eq!(host.claim("w").await.len(), 1);
    pass(seconds(3_600)).await;
    assert_eq!(check("out.memory").await, None);
}
