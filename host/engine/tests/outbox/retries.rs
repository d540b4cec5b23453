//! Failed attempts: backoff, dead letters, traps, early results, policies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt, FailureKind};
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{ErrorKind, Fault, Outcome};
use waybill_testkit::fake_transport::{Answer, End, ack, permanent, released, retryable};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_failed_message_is_tried_again_after_a_growing_delay_and_every_attempt_is_kept() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 4 { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.attempts, 4);
    let outcomes: Vec<_> = view.history.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(
        outcomes,
        [AttemptOutcome::Retry, AttemptOutcome::Retry, AttemptOutcome::Retry, AttemptOutcome::Delivered]
    );
    assert_eq!(view.history[0].code.as_deref(), Some("HTTP.503"));
    let log = world.main.log();
    let attempts: Vec<u32> = log.sent.iter().map(|sent| sent.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    assert!(log.sent.iter().all(|sent| sent.id == id && sent.seq == log.sent[0].seq));
    let pauses: Vec<Duration> = log.sent.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    for (pause, wanted) in pauses.iter().zip([500, 1_000, 2_000]) {
        let over = pause.checked_sub(millis(wanted)).expect("it was tried before its time");
        assert!(over < millis(50), "{pause:?} instead of {wanted} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_retry_says_what_it_waits_for_and_why() {
    let world = World::new();
    world.main.tell(|_| retryable("HTTP.503"));
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(3).await;
    pass(millis(500)).await;
    let view = host.view(&id).await;
    assert_eq!((view.state, view.attempts), (MessageState::Pending, 3));
    assert_eq!(view.last_error.as_deref(), Some("HTTP.503: HTTP.503 this time"));
    let waiting = view.waiting.unwrap();
    assert_eq!(waiting.on, WaitKind::Retry);
    assert_eq!(waiting.until, view.not_before);
    assert!(waiting.until.unwrap().0 > world.clock.wall());
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_a_dead_letter_at_once() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Dead).await;
    assert_eq!(view.attempts, 1);
    assert_eq!(view.last_error.as_deref(), Some("HTTP.400: HTTP.400 for good"));
    pass(seconds(3_600)).await;
    assert_eq!(world.main.log().sent.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_dies_with_its_last_allowed_attempt() {
    let world = World::new();
    world.main.tell(|_| retryable("HTTP.503"));
    let host = world.start_with(|config| config.retries.policy.max_attempts = 3).await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Dead).await;
    assert_eq!((view.attempts, view.history.len()), (3, 3));
    pass(seconds(3_600)).await;
    assert_eq!(world.main.log().sent.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_peers_wish_counts_when_it_is_later_and_is_cut_at_its_bound() {
    let world = World::new();
    world.main.tell(|delivery| match delivery.attempt {
        1 => Outcome::Retryable(Fault { after: Some(seconds(30)), ..Fault::new("HTTP.429", "slow down") }),
        2 => Outcome::Retryable(Fault { after: Some(seconds(100_000)), ..Fault::new("HTTP.429", "slow down") }),
        _ => ack(),
    });
    let host = world.start_with(|config| config.retries.retry_after_max = seconds(60)).await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Done).await;
    let sent = world.main.log().sent;
    assert_eq!((sent[1].at - sent[0].at).as_secs(), 30);
    assert_eq!((sent[2].at - sent[1].at).as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn what_is_released_burns_no_attempt_and_doesnt_spin() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| if batch.call < 5 { released("BROKER.FULL") } else { ack() }));
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.attempts, 1);
    let sent = world.main.log().sent;
    assert!(sent.iter().all(|sent| sent.attempt == 1));
    assert!(sent.windows(2).all(|pair| pair[1].at - pair[0].at >= millis(100)));
}

#[tokio::test(start_paused = true)]
async fn after_a_trap_each_of_the_batch_is_tried_alone_and_only_the_poison_dies() {
    let world = World::new();
    world
        .main
        .answer(|batch| if batch.has_payload("poison") { Answer::trap() } else { Answer::each(batch, |_| ack()) });
    let host = world.start_with(|config| config.retries.policy.max_attempts = 4).await;
    let mut ids = host.send(["a", "b", "poison", "c", "d"].map(message)).await;
    let poison = ids.remove(2);
    let view = host.until_state(&poison, MessageState::Dead).await;
    assert_eq!(view.attempts, 4);
    assert!(view.last_error.unwrap().starts_with("PLUGIN.TRAPPED"));
    assert!(
        view.history
            .iter()
            .take(3)
            .all(|attempt| attempt.outcome == AttemptOutcome::Unknown && attempt.maybe_delivered)
    );
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.iter().filter(|sent| sent.call == 1).count(), 5);
    for text in ["a", "b", "c", "d"] {
        let of = log.of(text);
        assert_eq!(of.iter().map(|sent| sent.attempt).collect::<Vec<_>>(), [1, 2], "{text}");
        assert_eq!(of[0].id, of[1].id);
    }
    assert!(log.sent.iter().filter(|sent| sent.call > 1).all(|sent| sent.batch == 1));
}

#[tokio::test(start_paused = true)]
async fn a_poison_on_a_lane_with_many_calls_takes_no_neighbour_with_it() {
    // A trap ends the instance, and with it every call that runs beside it.
    let world = World::new();
    world.main.set_limits(|limits| {
        limits.calls_per_lane = 8;
        limits.max_batch = 10;
    });
    let transport = Arc::downgrade(&world.main);
    world.main.answer(move |batch| {
        if !batch.has_payload("poison") {
            return Answer::each(batch, |_| ack()).after(millis(20));
        }
        let beside = transport.upgrade().map_or(0, |transport| transport.under_way());
        assert!(
            batch.deliveries.len() > 1 || beside == 1,
            "the poison shares its lane with {} other calls",
            beside - 1
        );
        Answer::trap().after(millis(20))
    });
    let host = world.start_with(|config| config.retries.policy.max_attempts = 6).await;
    let poison = host
        .send((0..10).map(|index| if index == 4 { message("poison") } else { message(&format!("first-{index}")) }))
        .await
        .remove(4);
    let more = host.send((0..500).map(|index| message(&index.to_string()))).await;
    host.until_state(&poison, MessageState::Dead).await;
    host.until_done(&more).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_settled_early_survives_a_trap() {
    let world = World::new();
    world.main.answer(|batch| match (batch.call, batch.index_of("m-1")) {
        (1, Some(index)) => {
            Answer::trap().telling(index, ack()).telling(index, retryable("LATE.WORD")).after(millis(50))
        }
        _ => Answer::each(batch, |_| ack()),
    });
    let host = world.start().await;
    let ids = host.send([named("a", "m-0"), named("b", "m-1"), named("c", "m-2")]).await;
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!((log.count("a"), log.count("b"), log.count("c")), (2, 1, 2));
    assert_eq!(host.view("m-1").await.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn an_early_result_is_settled_before_the_call_ends() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).telling(0, ack()).after(seconds(20)));
    let host = world.start().await;
    let ids = host.send([keyed("a", "k"), message("b")]).await;
    pass(seconds(1)).await;
    let second = host.send_one(keyed("after a", "k")).await;
    host.until_state(&ids[0], MessageState::Done).await;
    assert_eq!(host.view(&ids[1]).await.state, MessageState::Leased);
    host.until_state(&second, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_never_answers_costs_an_attempt_and_the_message_goes_on() {
    let world = World::new();
    world.main.answer(|batch| if batch.call == 1 { Answer::never() } else { Answer::each(batch, |_| ack()) });
    let host = world.start_with(|config| config.send_timeout = seconds(7)).await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.attempts, 2);
    assert_eq!(view.history[0].outcome, AttemptOutcome::Unknown);
    let sent = world.main.log().sent;
    assert_eq!((sent[1].at - sent[0].at).as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_of_outcomes_counts_for_nobody_and_is_a_failure_of_the_plugin() {
    let world = World::new();
    world.main.answer(|batch| match batch.call {
        1 => Answer::ending(End::Outcomes(vec![ack()])),
        _ => Answer::each(batch, |_| ack()),
    });
    let host = world.start().await;
    let ids = host.send(["a", "b", "c"].map(message)).await;
    host.until_done(&ids).await;
    let view = host.view(&ids[0]).await;
    assert_eq!(view.attempts, 2);
    assert_eq!(view.history[0].code.as_deref(), Some("PLUGIN.CONTRACT"));
}

#[tokio::test(start_paused = true)]
async fn an_error_after_which_it_may_have_been_delivered_counts_and_says_so() {
    let world = World::new();
    world.main.answer(|batch| {
        if batch.call > 1 {
            return Answer::each(batch, |_| ack());
        }
        let mut fault = Fault::new("NET.CLOSED", "the connection broke");
        fault.maybe_delivered = true;
        Answer::ending(End::Failed(waybill_core::port::transport::CallError { kind: ErrorKind::Unavailable, fault }))
    });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!(view.attempts, 2);
    assert!(view.history[0].maybe_delivered);
    assert_eq!(world.main.log().sent[1].attempt, 2);
}

/// A policy component with an answer for each attempt.
struct Policy(Box<dyn Fn(&FailedAttempt) -> BackoffDecision + Send + Sync>);

#[async_trait]
impl BackoffPolicy for Policy {
    fn name(&self) -> &str {
        "test"
    }
    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision {
        tokio::time::sleep(millis(3)).await;
        (self.0)(attempt)
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_component_decides_over_delay_death_and_the_formula() {
    let world = World::new();
    world.main.tell(|delivery| match (delivery.payload.as_ref(), delivery.attempt) {
        (b"permanent", 1) => permanent("HTTP.400"),
        (b"permanent", _) => ack(),
        _ => retryable("HTTP.503"),
    });
    let policy = Policy(Box::new(|attempt| {
        assert_eq!(
            (attempt.endpoint.as_str(), attempt.tenant.as_str(), attempt.topic.as_str()),
            ("main", "default", "bus:orders.created")
        );
        assert_eq!(attempt.previous_delay.is_none(), attempt.number == 1);
        match (attempt.kind, attempt.number) {
            (FailureKind::Permanent, _) => BackoffDecision::Delay(seconds(5)),
            (_, 1) => BackoffDecision::Delay(seconds(77)),
            (_, 2) => BackoffDecision::Fallback,
            _ => BackoffDecision::Dead("no use".into()),
        }
    }));
    let host = world.start_with(|config| config.retries.component = Some(Arc::new(policy))).await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Dead).await;
    assert_eq!(view.attempts, 3);
    assert!(view.last_error.unwrap().contains("no use"));
    let sent = world.main.log().sent;
    assert_eq!((sent[1].at - sent[0].at).as_secs(), 77);
    assert_eq!((sent[2].at - sent[1].at).as_secs(), 1);
    let id = host.send_one(message("permanent")).await;
    host.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_component_may_hold_a_destination_for_an_operator() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.payload == "stop" { retryable("CUSTOM.STOP") } else { ack() });
    let policy = Policy(Box::new(|_| BackoffDecision::Pause("ask the boss".into())));
    let host = world.start_with(|config| config.retries.component = Some(Arc::new(policy))).await;
    let id = host.send_one(message("stop")).await;
    eventually("it is held", async || {
        host.view(&id).await.waiting.is_some_and(|waiting| waiting.on == WaitKind::Destination)
    })
    .await;
    pass(seconds(3_600)).await;
    assert_eq!(world.main.log().count("stop"), 1, "nothing but an operator goes on");
    let view = host.view(&id).await;
    assert_eq!(view.attempts, 0);
    assert!(view.waiting.unwrap().reason.contains("ask the boss"));
    world.main.tell(|_| ack());
    host.outbox.probe("main", "ops").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
}

#[tokio::test(start_paused = true)]
async fn each_attempt_names_the_generation_of_the_plugin_that_made_it() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt == 1 { retryable("HTTP.503") } else { ack() });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    world.main.until_sent(1).await;
    world.main.set_identity(|identity| {
        identity.generation = 2;
        identity.version = "1.3.0".into();
    });
    let view = host.until_state(&id, MessageState::Done).await;
    let served: Vec<_> = view
        .history
        .iter()
        .map(|attempt| attempt.plugin.as_ref().unwrap())
        .map(|plugin| (plugin.generation, plugin.version.as_str()))
        .collect();
    assert_eq!(served, [(1, "1.2.3"), (2, "1.3.0")]);
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_ignores_its_time_is_given_up_and_its_lane_goes_on() {
    let world = World::new();
    world.main.answer(|batch| if batch.call == 1 { Answer::stuck() } else { Answer::each(batch, |_| ack()) });
    let host = world.start_with(|config| config.send_timeout = seconds(7)).await;
    let id = host.send_one(message("a")).await;
    let view = host.until_state(&id, MessageState::Done).await;
    assert_eq!((view.attempts, view.history[0].code.as_deref()), (2, Some("PLUGIN.TIMEOUT")));
    assert_eq!(world.main.under_way(), 0);
}
