//! Workers outside: claims, leases, settlements, and what happens to them when somebody dies.

mod failures;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_api::dead_letters::Replay;
use waybill_api::transports::Breaker;
use waybill_api::workers::{ClaimRequest, ClaimedMessage, SettleAnswer, SettleItem, SettleRequest};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt};
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::MessageState;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::Fault;
use waybill_core::port::workers::{FlushResult, SettleWish};
use waybill_core::route::{Pattern, Route};
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, ack};

use crate::support::*;

/// Topics `bus:out.**` are for workers, the rest as in every test.
fn with_workers(config: &mut EngineConfig) {
    let route = Route::new(Pattern::parse("bus:out.**").unwrap(), "external");
    config.routes.0.insert(0, route);
}

async fn start(world: &World) -> Host {
    world.start_with(with_workers).await
}

fn out(text: &str) -> NewMessage {
    NewMessage { topic: "bus:out.memory".to_owned(), payload: Bytes::from(text.to_owned()), ..NewMessage::default() }
}

fn out_keyed(text: &str, key: &str) -> NewMessage {
    NewMessage { key: Some(key.to_owned()), ..out(text) }
}

fn ask(worker: &str) -> ClaimRequest {
    ClaimRequest {
        worker: worker.to_owned(),
        limit: 10,
        lease: seconds(60),
        topic: None,
        tenants: None,
        wait: Duration::ZERO,
    }
}

impl Host {
    async fn claim(&self, worker: &str) -> Vec<ClaimedMessage> {
        self.outbox.claim(ask(worker)).await.unwrap()
    }

    /// Claims one message; there has to be one.
    async fn claim_one(&self, worker: &str) -> ClaimedMessage {
        let mut claimed = self.outbox.claim(ClaimRequest { limit: 1, ..ask(worker) }).await.unwrap();
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    async fn settle(&self, claimed: &ClaimedMessage, wish: SettleWish) -> SettleAnswer {
        self.settle_as(&claimed.message.id, &claimed.token, wish).await
    }

    async fn settle_as(&self, id: &str, token: &str, wish: SettleWish) -> SettleAnswer {
        let item = SettleItem { id: id.to_owned(), tenant: tenant("default"), token: token.to_owned(), wish };
        let request =
            SettleRequest { worker: Some("w".to_owned()), actor: "test".to_owned(), tenants: None, items: vec![item] };
        self.outbox.settle(request).await.unwrap().remove(0)
    }

    async fn expect_conflict(&self, claimed: &ClaimedMessage, wish: SettleWish, state: Option<MessageState>) {
        let answer = self.settle(claimed, wish).await;
        assert_eq!((answer.applied, answer.result), (false, FlushResult::Conflict));
        assert_eq!((answer.code.as_deref(), answer.state), (Some("TX.LEASE_LOST"), state));
    }
}

fn acked() -> SettleWish {
    SettleWish::Ack { receipt: Some("memory-1".to_owned()) }
}

fn failed() -> SettleWish {
    SettleWish::Nack { fault: Fault::new("MEMORY.DOWN", "it is down"), next_attempt_at: None }
}

fn texts(claimed: &[ClaimedMessage]) -> Vec<String> {
    let text = |one: &ClaimedMessage| String::from_utf8(one.message.bytes.clone().unwrap().to_vec()).unwrap();
    claimed.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_worker_claims_delivers_and_its_receipt_is_kept() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("a")).await;
    let claimed = host.claim_one("w-1").await;
    assert_eq!((claimed.message.id.as_str(), claimed.target.as_str(), claimed.attempt), (&*id, "out.memory", 1));
    assert_eq!(claimed.message.payload_sha256.as_ref().unwrap().len(), 64);
    assert_eq!(claimed.lease_until.0, world.clock.wall().plus(seconds(60)));
    let view = host.view(&id).await;
    assert_eq!(view.state, MessageState::Leased);
    assert_eq!(view.lease.map(|lease| (lease.worker, lease.until)), Some(("w-1".to_owned(), claimed.lease_until)));
    let stats = host.outbox.stats(None).await.unwrap();
    assert!(stats.iter().any(|stats| stats.transport == "external" && stats.leased == 1), "{stats:?}");
    pass(seconds(3)).await;
    let answer = host.settle(&claimed, acked()).await;
    assert_eq!((answer.applied, answer.result), (true, FlushResult::Success));
    let view = host.view(&id).await;
    assert_eq!((view.state, view.attempts, view.lease), (MessageState::Done, 1, None));
    assert_eq!(view.receipt.unwrap().broker_ref.as_deref(), Some("memory-1"));
    assert_eq!(
        (&*view.history[0].worker, &*view.history[0].transport, view.history[0].took_ms),
        ("w-1", "external", 3_000)
    );
    assert!(host.claim("w-1").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_was_told_is_applied_is_durable() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("a")).await;
    let claimed = host.claim_one("w").await;
    assert!(host.settle(&claimed, acked()).await.applied);
    drop(host);
    let host = start(&world).await;
    assert_eq!(host.view(&id).await.state, MessageState::Done);
    assert!(host.claim("w").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_transport_external_can_be_claimed() {
    let world = World::new();
    let host = start(&world).await;
    world.main.answer(|_| Answer::stuck());
    host.send_one(message("a")).await;
    assert!(host.claim("w").await.is_empty());
    drop(host);
    let host = world.start().await;
    let error = host.outbox.claim(ask("w")).await.unwrap_err();
    assert_eq!(error.code().as_str(), "TRANSPORT.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn only_the_head_of_a_key_is_given_and_the_next_follows_its_settlement() {
    let world = World::new();
    let host = start(&world).await;
    host.send([out_keyed("a1", "a"), out_keyed("a2", "a"), out_keyed("b1", "b")]).await;
    let first = host.claim("w-1").await;
    assert_eq!(texts(&first), ["a1", "b1"]);
    assert!(host.claim("w-2").await.is_empty());
    assert!(host.settle(&first[0], acked()).await.applied);
    assert_eq!(texts(&host.claim("w-2").await), ["a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_is_given_to_the_next_claim_first_and_its_old_token_is_worth_nothing() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("old")).await;
    let slow = host.claim_one("slow").await;
    host.send_one(out("fresh")).await;
    pass(seconds(61)).await;
    let again = host.claim("quick").await;
    assert_eq!(texts(&again), ["old", "fresh"]);
    assert_eq!((again[0].claims, again[0].attempt), (2, 1));
    assert_ne!(again[0].token, slow.token);
    for wish in [acked(), failed(), SettleWish::Release { not_before: None }, SettleWish::Renew { lease: None }] {
        host.expect_conflict(&slow, wish, Some(MessageState::Leased)).await;
    }
    assert!(host.settle(&again[0], acked()).await.applied);
    host.expect_conflict(&slow, acked(), Some(MessageState::Done)).await;
    let view = host.view(&id).await;
    assert_eq!((view.attempts, &*view.history[0].worker), (1, "quick"));
    let audit = host.audit_of("outbox_flush_conflict").await;
    assert_eq!(audit.len(), 5);
    assert_eq!((audit[0].object.as_str(), audit[0].actor.as_str()), (&*id, "test"));
    let wanted: Vec<_> = audit.iter().map(|event| event.detail["wanted"].as_str().unwrap()).collect();
    assert_eq!(wanted, ["ack", "nack", "release", "renew", "ack"]);
    assert_eq!((&audit[4].detail["worker"], &audit[4].detail["state"]), (&"w".into(), &"done".into()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_still_settles_while_nobody_else_has_the_message() {
    let world = World::new();
    let host = start(&world).await;
    let claimed = {
        host.send_one(out("a")).await;
        host.claim_one("w").await
    };
    pass(seconds(600)).await;
    assert!(host.settle(&claimed, acked()).await.applied);
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_lasts_from_the_renewal_on() {
    let world = World::new();
    let host = start(&world).await;
    host.send_one(out("a")).await;
    let claimed = host.claim_one("w-1").await;
    pass(seconds(50)).await;
    let answer = host.settle(&claimed, SettleWish::Renew { lease: None }).await;
    assert_eq!((answer.applied, answer.result), (true, FlushResult::Renewed));
    assert_eq!(answer.lease_until.unwrap().0, world.clock.wall().plus(seconds(60)));
    pass(seconds(50)).await;
    assert!(host.claim("w-2").await.is_empty());
    pass(seconds(11)).await;
    assert_eq!(host.claim("w-2").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn settling_twice_with_a_made_up_token_or_an_unknown_id_changes_nothing() {
    let world = World::new();
    let host = start(&world).await;
    let ids = host.send([out("a"), out("b")]).await;
    let claimed = host.claim("w").await;
    assert!(host.settle(&claimed[0], acked()).await.applied);
    host.expect_conflict(&claimed[0], acked(), Some(MessageState::Done)).await;
    host.expect_conflict(&claimed[0], failed(), Some(MessageState::Done)).await;
    // Another message's token, a token that is none, an id that is none.
    for (id, token, state) in [
        (&*ids[1], &*claimed[0].token, Some(MessageState::Leased)),
        (&*ids[0], &*claimed[1].token, Some(MessageState::Done)),
        (&*ids[1], "sesame", Some(MessageState::Leased)),
        ("nobody", &*claimed[1].token, None),
    ] {
        let answer = host.settle_as(id, token, acked()).await;
        assert_eq!((answer.applied, answer.code.as_deref()), (false, Some("TX.LEASE_LOST")), "{id} {token}");
        assert_eq!(answer.state, state, "{id} {token}");
    }
    assert!(host.settle(&claimed[1], acked()).await.applied);
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_other_tenants_neither_gets_nor_settles() {
    let world = World::new();
    let host = start(&world).await;
    host.send([out("a"), NewMessage { tenant: Some("acme".to_owned()), ..out("b") }]).await;
    let acme = || Some(vec![tenant("acme")]);
    let claimed = host.outbox.claim(ClaimRequest { tenants: acme(), ..ask("w") }).await.unwrap();
    assert_eq!(texts(&claimed), ["b"]);
    let all = host.claim("w").await;
    assert_eq!(texts(&all), ["a"]);
    let item = SettleItem {
        id: all[0].message.id.clone(),
        tenant: tenant("acme"),
        token: all[0].token.clone(),
        wish: acked(),
    };
    let request = SettleRequest { worker: None, actor: "acme".to_owned(), tenants: acme(), items: vec![item] };
    assert!(!host.outbox.settle(request).await.unwrap()[0].applied);
    assert!(host.settle(&all[0], acked()).await.applied);
    // Nor does one of all tenants that names another one.
    for (name, applied) in [("shop", false), ("acme", true)] {
        let ClaimedMessage { message, token, .. } = &claimed[0];
        let item = SettleItem { id: message.id.clone(), tenant: tenant(name), token: token.clone(), wish: acked() };
        let request = SettleRequest { worker: None, actor: "all".to_owned(), tenants: None, items: vec![item] };
        assert_eq!(host.outbox.settle(request).await.unwrap()[0].applied, applied, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_asks_for_some_topics_gets_only_those() {
    let world = World::new();
    let host = start(&world).await;
    host.send([out("a"), NewMessage { topic: "bus:out.mail".to_owned(), ..out("b") }]).await;
    let topic = Some(Pattern::parse("bus:out.mail").unwrap());
    let claimed = host.outbox.claim(ClaimRequest { topic, ..ask("w") }).await.unwrap();
    assert_eq!(texts(&claimed), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_waits_as_the_host_says_and_dies_at_the_last_attempt() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.retries.policy.max_attempts = 3;
        })
        .await;
    let id = host.send_one(out("a")).await;
    for (attempt, delay) in [(1, 500), (2, 1_000)] {
        let claimed = host.claim_one("w").await;
        assert_eq!((claimed.attempt, claimed.message.attempts), (attempt, attempt - 1));
        let answer = host.settle(&claimed, failed()).await;
        assert_eq!((answer.applied, answer.result), (true, FlushResult::Retry));
        let due = answer.next_attempt_at.unwrap();
        assert!(due.0.since(world.clock.wall()).abs_diff(millis(delay)) < millis(10));
        assert!(host.claim("w").await.is_empty());
        let view = host.view(&id).await;
        assert_eq!((view.state, view.not_before), (MessageState::Pending, Some(due)));
        assert_eq!(view.last_error.as_deref(), Some("MEMORY.DOWN: it is down"));
        pass(millis(delay)).await;
    }
    let answer = host.settle(&host.claim_one("w").await, failed()).await;
    assert_eq!((answer.applied, answer.result), (true, FlushResult::Dead));
    let view = host.view(&id).await;
    assert_eq!((view.state, view.attempts), (MessageState::Dead, 3));
    let outcomes: Vec<_> = view.history.iter().map(|attempt| (attempt.outcome, &*attempt.worker)).collect();
    let (retry, dead) = (AttemptOutcome::Retry, AttemptOutcome::Dead);
    assert_eq!(outcomes, [(retry, "w"), (retry, "w"), (dead, "w")]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_say_when_it_is_tried_again_within_bounds() {
    let world = World::new();
    let host = start(&world).await;
    host.send_one(out("a")).await;
    for (asked, granted) in [(seconds(90), seconds(90)), (seconds(86_400), seconds(4_800))] {
        let claimed = host.claim_one("w").await;
        let at = world.clock.wall().plus(asked);
        let wish = SettleWish::Nack { fault: Fault::new("X", "x"), next_attempt_at: Some(at) };
        let answer = host.settle(&claimed, wish).await;
        assert!(
            answer.next_attempt_at.unwrap().0.since(world.clock.wall()).abs_diff(granted) < millis(10),
            "{answer:?}"
        );
        pass(granted.checked_sub(seconds(3)).unwrap()).await;
        assert!(host.claim("w").await.is_empty());
        pass(seconds(3)).await;
    }
}

struct Stubborn;

#[async_trait]
impl BackoffPolicy for Stubborn {
    fn name(&self) -> &str {
        "stubborn"
    }
    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision {
        assert_eq!((attempt.endpoint.as_str(), attempt.fault.code.as_str()), ("external", "MEMORY.DOWN"));
        match attempt.number {
            3 => BackoffDecision::Pause("ask somebody".to_owned()),
            number => BackoffDecision::Delay(seconds(7 * u64::from(number))),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_component_is_asked_when_a_worker_names_no_time() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.retries.component = Some(Arc::new(Stubborn));
        })
        .await;
    let id = host.send_one(out("a")).await;
    // A pause is a retry as the host's own backoff says: nothing is held, and the attempt counts.
    for wanted in [seconds(7), seconds(14), seconds(2)] {
        let answer = host.settle(&host.claim_one("w").await, failed()).await;
        assert_eq!((answer.applied, answer.result), (true, FlushResult::Retry));
        let wait = answer.next_attempt_at.unwrap().0.since(world.clock.wall());
        assert!(wait.abs_diff(wanted) < millis(10), "{wait:?}");
        pass(wanted).await;
    }
    assert_eq!(host.view(&id).await.last_error.as_deref(), Some("MEMORY.DOWN: ask somebody (after: it is down)"));
    assert_eq!(host.claim_one("w").await.attempt, 4);
}

#[tokio::test(start_paused = true)]
async fn a_released_message_counts_no_attempt() {
    let world = World::new();
    let host = start(&world).await;
    host.send_one(out("a")).await;
    let claimed = host.claim_one("w").await;
    let answer = host.settle(&claimed, SettleWish::Release { not_before: None }).await;
    assert_eq!((answer.applied, answer.result), (true, FlushResult::Released));
    host.expect_conflict(&claimed, acked(), Some(MessageState::Pending)).await;
    let claimed = host.claim_one("w").await;
    assert_eq!((claimed.attempt, claimed.claims, claimed.message.history.len()), (1, 1, 0));
    let later = world.clock.wall().plus(seconds(30));
    assert!(host.settle(&claimed, SettleWish::Release { not_before: Some(later) }).await.applied);
    assert!(host.claim("w").await.is_empty());
    pass(seconds(30)).await;
    assert_eq!(host.claim_one("w").await.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_given_up_is_a_dead_letter_and_a_replay_brings_it_back() {
    let world = World::new();
    let host = start(&world).await;
    let id = host.send_one(out("a")).await;
    let wish = SettleWish::Dead { fault: Fault::new("MEMORY.REFUSED", "no such space") };
    let answer = host.settle(&host.claim_one("w").await, wish).await;
    assert_eq!((answer.applied, answer.result), (true, FlushResult::Dead));
    let dead = host.view(&id).await;
    assert_eq!(dead.last_error.as_deref(), Some("MEMORY.REFUSED: no such space"));
    host.outbox.replay(&DeadId::new(&tenant("default"), &id), Replay::because(""), "test").await.unwrap();
    assert_eq!(host.claim_one("w").await.attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_its_first_message() {
    let world = World::new();
    let host = Arc::new(start(&world).await);
    let waiting = tokio::spawn({
        let host = Arc::clone(&host);
        async move { host.outbox.claim(ClaimRequest { wait: seconds(20), ..ask("w") }).await.unwrap() }
    });
    pass(seconds(12)).await;
    host.send_one(out("a")).await;
    let began = world.clock.wall();
    assert_eq!(texts(&waiting.await.unwrap()), ["a"]);
    assert!(world.clock.wall().since(began) < seconds(1));
    assert!(host.outbox.claim(ClaimRequest { wait: seconds(5), ..ask("w") }).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns() {
    let world = World::new();
    let host = start(&world).await;
    host.send((0..100).map(|n| out(&format!("loud-{n}")))).await;
    host.send([NewMessage { tenant: Some("quiet".to_owned()), ..out("quiet") }]).await;
    let claimed = host.claim("w").await;
    assert_eq!(claimed.len(), 10);
    assert!(texts(&claimed).contains(&"quiet".to_owned()));
}

/// A host that was just started would else begin with an alarm.
#[tokio::test(start_paused = true)]
async fn a_route_to_workers_holds_nothing_back_while_nothing_waits_there() {
    let world = World::new();
    let host = world.start_with(with_workers).await;
    assert!(host.outbox.blocked(None).await.unwrap().is_empty());
    host.send_one(out("1")).await;
    pass(seconds(1)).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert_eq!((blocked.len(), blocked[0].kind, blocked[0].waiting), (1, WaitKind::Unclaimed, 1));
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_claims_keep_nothing_else_from_being_sent() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            with_workers(config);
            config.limits.window_messages = 100;
            config.limits.open_segments = 4;
        })
        .await;
    // One commit each, so that each lies in a segment of its own: more than fit, and more than may be claimed.
    for n in 0..150 {
        host.send_one(out(&n.to_string())).await;
    }
    let sent = host.send((0..50).map(|n| message(&n.to_string()))).await;
    host.until_done(&sent).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    assert!(blocked.iter().any(|view| view.kind == WaitKind::Unclaimed && view.subject == "external"), "{blocked:?}");
    // All of them are there for a worker, and as long as it has them the rest goes on.
    let claimed = host.outbox.claim(ClaimRequest { limit: 20, ..ask("w") }).await.unwrap();
    assert_eq!(claimed.len(), 20);
    let sent = host.send((50..80).map(|n| message(&n.to_string()))).await;
    host.until_done(&sent).await;
    let mut seen = texts(&claimed);
    for one in &claimed {
        assert!(host.settle(one, acked()).await.applied);
    }
    while seen.len() < 150 {
        let claimed = host.outbox.claim(ClaimRequest { wait: seconds(60), ..ask("w") }).await.unwrap();
        assert!(!claimed.is_empty(), "{} came", seen.len());
        for one in &claimed {
            assert!(host.settle(one, acked()).await.applied);
        }
        seen.extend(texts(&claimed));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 150);
    host.drain().await;
}
