//! Approvals, signals, sub-sagas, messages and their replies.

use waybill_core::port::participant::Direction;
use waybill_core::port::saga::{ReplyFailure, SagaAct, StepReply};
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;

use crate::support::*;

const APPROVAL: &str = "[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\ntimeout_ms = 60000\n";
const SIGNAL: &str = "[[steps]]\nname = \"paid\"\naction = \"wait:payment\"\n";
const BUS: &str = "[[steps]]\nname = \"ship\"\naction = \"bus:ship.book\"\ncompensation = \"bus:ship.cancel\"\n\
timeout_ms = 5000\nretry = { max_attempts = 3, base_ms = 1000, jitter = 0.0 }\n";

fn approve(step: Option<&str>) -> SagaAct {
    SagaAct::Approve { step: step.map(str::to_owned), since: None }
}

fn reply(step: &str, way: StepDirection, attempt: Option<u32>, result: Result<Json, ReplyFailure>) -> StepReply {
    StepReply { id: SagaId::new("one").unwrap(), step: step.to_owned(), way, attempt, result }
}

#[tokio::test(start_paused = true)]
async fn an_approval_says_who_decided_and_comes_once() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{APPROVAL}{}", step("a", ""))).await;
    host.until_waiting("one", "approval").await;
    host.act("one", approve(None)).await.unwrap();
    let view = host.until("one", SagaState::Completed).await;
    assert!(view.saga.as_ref().unwrap().steps[0].output.as_ref().unwrap().get().contains("\"by\":\"ann\""));
    for step in [Some("ok"), None] {
        let again = host.act("one", approve(step)).await.unwrap_err();
        assert_eq!(again.code().as_str(), "SAGA.NOT_WAITING", "its saga has ended, but who decided is told");
        assert!(again.to_string().contains("approved already, by ann"), "{again}");
    }
    assert_eq!(host.act("one", approve(Some("a"))).await.unwrap_err().code().as_str(), "SAGA.ENDED", "not an approval");
    host.begin("two").await;
    let view = host.until("two", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.APPROVAL_EXPIRED"));
    for step in [Some("ok"), None] {
        assert_eq!(host.act("two", approve(step)).await.unwrap_err().code().as_str(), "SAGA.APPROVAL_EXPIRED");
    }
    host.begin("three").await;
    host.until_waiting("three", "approval").await;
    host.act("three", SagaAct::Cancel).await.unwrap();
    host.until("three", SagaState::Cancelled).await;
    assert_eq!(host.act("three", approve(None)).await.unwrap_err().code().as_str(), "SAGA.ENDED", "nobody decided");
    assert!(host.audit_kinds().await.contains(&"SagaStepApproved".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn one_bad_reading_of_the_wall_clock_ends_no_wait() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{APPROVAL}", step("a", ""))).await;
    host.until_waiting("one", "approval").await;
    world.stepped.step(365 * 24 * 3_600);
    pass(seconds(20)).await;
    assert_eq!(host.state("one").await, SagaState::Running, "its approval has 40 seconds left");
    world.stepped.step(-365 * 24 * 3_600);
    pass(seconds(20)).await;
    host.act("one", approve(None)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    host.begin("two").await;
    host.until("two", SagaState::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_decision_and_one_after_the_expiry_are_refused() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{APPROVAL}{SIGNAL}", step("a", ""))).await;
    host.until_waiting("one", "approval").await;
    host.act("one", approve(None)).await.unwrap();
    assert_eq!(host.act("one", approve(Some("ok"))).await.unwrap_err().code().as_str(), "SAGA.NOT_WAITING");
    host.begin("two").await;
    host.until_waiting("two", "approval").await;
    pass(seconds(59)).await;
    world.shop.on(|call| (call.direction == Direction::Compensate).then_some(Does::Never));
    pass(seconds(2)).await;
    assert_eq!(host.state("two").await, SagaState::Compensating);
    assert_eq!(host.act("two", approve(Some("ok"))).await.unwrap_err().code().as_str(), "SAGA.APPROVAL_EXPIRED");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_compensates() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{APPROVAL}", step("a", ""))).await;
    host.until_waiting("one", "approval").await;
    host.act("one", SagaAct::Reject { step: None, since: None }).await.unwrap();
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.REJECTED"));
    assert_eq!(world.shop.names(), ["a", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_taken_by_its_wait_also_when_it_came_before() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|_| Some(Does::DoneAfter(seconds(5), serde_json::json!({}))));
    host.run(&format!("{}{SIGNAL}", step("a", ""))).await;
    host.signal("one", "payment", serde_json::json!({ "sum": 3 })).await.unwrap();
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[1].output.as_ref().unwrap().get(), "{\"sum\":3}");
    host.begin("two").await;
    host.until_waiting("two", "signal:payment").await;
    host.signal("two", "payment", serde_json::json!(4)).await.unwrap();
    host.until("two", SagaState::Completed).await;
    assert_eq!(host.signal("two", "payment", serde_json::json!(5)).await.unwrap_err().code().as_str(), "SAGA.ENDED");
}

#[tokio::test(start_paused = true)]
async fn a_participant_may_answer_later_by_a_signal() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|_| Some(Does::Pending("printed")));
    host.run(&steps(&["a"])).await;
    host.until_waiting("one", "signal:printed").await;
    host.signal("one", "printed", serde_json::json!({ "pages": 9 })).await.unwrap();
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[0].output.as_ref().unwrap().get(), "{\"pages\":9}");
}

#[tokio::test(start_paused = true)]
async fn a_sub_saga_runs_with_its_own_compensation_and_goes_back_with_its_parent() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "d" && call.direction == Direction::Execute).then(|| permanent("SHOP.NO")));
    host.define(&format!("name = \"pay\"\nversion = 1\n{}", steps(&["b", "c"]))).await;
    let child = "[[steps]]\nname = \"pay\"\naction = \"saga:pay\"\n";
    host.run(&format!("{}{child}{}", step("a", ""), step("d", ""))).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(world.shop.names(), ["a", "b", "c", "d", "-c", "-b", "-a"]);
    let below = view.saga.as_ref().unwrap().steps[1].saga.as_ref().unwrap();
    assert_eq!((below.id.as_str(), below.steps.len()), ("one~pay", 2));
    assert_eq!(world.shop.calls()[1].key, "one~pay/b/execute");
    assert_eq!(host.view("one~pay").await.id, "one", "a sub-saga's id answers its tree");
}

#[tokio::test(start_paused = true)]
async fn a_bus_step_enqueues_its_message_and_a_reply_completes_it() {
    let world = World::new();
    let host = world.start().await;
    host.run(BUS).await;
    eventually("the message is delivered", async || world.messages().len() == 1).await;
    let sent = world.messages()[0].clone();
    let header = |name: &str| {
        let headers = &sent.headers;
        headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(header("idempotency-key"), "one/ship/execute");
    assert_eq!((header("waybill-saga-id"), header("waybill-saga-step")), ("one".to_owned(), "ship".to_owned()));
    let done = Ok(Json::parse("{\"track\":1}").unwrap());
    let acted = host.reply(reply("ship", StepDirection::Execute, Some(1), done.clone())).await.unwrap();
    assert!(!acted.unchanged);
    host.until("one", SagaState::Completed).await;
    let again = host.reply(reply("ship", StepDirection::Execute, Some(1), done)).await.unwrap();
    assert!(again.unchanged, "a reply that comes twice changes nothing");
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_counts_while_its_step_waits_for_its_retry() {
    let world = World::new();
    let host = world.start().await;
    host.run(BUS).await;
    host.until_waiting("one", "retry").await;
    host.reply(reply("ship", StepDirection::Execute, Some(1), Ok(Json::null()))).await.unwrap();
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[0].attempts, 1);
    pass(seconds(60)).await;
    assert_eq!(world.messages().len(), 1, "no second message");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_a_bus_step_is_another_message_with_the_same_key() {
    let world = World::new();
    let host = world.start().await;
    host.run(BUS).await;
    eventually("two messages", async || world.messages().len() == 2).await;
    let sent = world.messages();
    assert_ne!(sent[0].id, sent[1].id);
    let failure = ReplyFailure { failure: Failure::new("SHIP.FULL", "no room"), retryable: false };
    host.reply(reply("ship", StepDirection::Execute, Some(2), Err(failure))).await.unwrap();
    host.until_waiting("one", "reply").await;
    eventually("the compensation's message", async || world.messages().len() == 3).await;
    host.reply(reply("ship", StepDirection::Compensate, None, Ok(Json::null()))).await.unwrap();
    host.until("one", SagaState::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_saga_hears_of_its_end_when_it_is_durable() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{APPROVAL}", step("a", ""))).await;
    assert_eq!(host.at_rest("one", 5).await.unwrap(), None, "it waits for somebody");
    let (end, _) = tokio::join!(host.at_rest("one", 30), async {
        pass(seconds(1)).await;
        host.act("one", approve(None)).await.unwrap();
    });
    assert_eq!(end.unwrap(), Some(SagaState::Completed));
    assert_eq!(host.at_rest("one", 30).await.unwrap(), Some(SagaState::Completed), "as its row tells");
    assert_eq!(host.at_rest("none", 1).await.unwrap_err().code().as_str(), "SAGA.NOT_FOUND");
    world.shop.on(|call| (call.direction == Direction::Compensate).then_some(permanent("SHOP.NO")));
    host.begin("two").await;
    host.until_waiting("two", "approval").await;
    let (stuck, _) =
        tokio::join!(host.at_rest("two", 30), host.act("two", SagaAct::Reject { step: None, since: None }));
    assert_eq!(stuck.unwrap(), Some(SagaState::Failed), "stuck");
}
