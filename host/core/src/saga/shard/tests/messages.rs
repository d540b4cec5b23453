//! Steps that leave messages and events, and the replies to them.

use std::collections::HashSet;
use std::sync::Arc;

use super::{bench, refused, step, unknown};
use crate::ids::ShardId;
use crate::port::saga::{ReplyFailure, RetryMode, SagaAct};
use crate::saga::call::{Answer, AnswerResult};
use crate::saga::event::{Failure, StepDirection};
use crate::saga::json::Json;
use crate::saga::state::SagaState;
use crate::streams::fixtures::append;
use crate::streams::joint::{JointAppend, JointAppends};

const BUS: &str = "[[steps]]\nname = \"a\"\naction = \"bus:stock.reserve\"\ncompensation = \"bus:stock.release\"\n";

fn failed(code: &str, maybe_done: bool) -> Result<Json, ReplyFailure> {
    let failure = Failure { maybe_done, ..Failure::new(code, "told") };
    Err(ReplyFailure { failure, retryable: false })
}

#[test]
fn a_bus_step_leaves_its_message_in_the_same_commit_and_a_reply_completes_it() {
    let mut bench = bench(BUS);
    bench.start();
    let message = &bench.commits[0].messages[0].messages[0];
    assert_eq!(message.topic.as_str(), "bus:stock.reserve");
    assert!(message.headers.contains(&("idempotency-key".into(), "s/a/execute".into())));
    bench.reply(StepDirection::Execute, Ok(Json::parse("{\"n\":1}").unwrap())).unwrap();
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn events_that_a_step_leaves_are_in_the_commit_that_records_it_and_in_no_other() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let plain = JointAppend::Plain { shard: ShardId(3), append: Arc::new(append("order", &["x", "y"])) };
    let left = JointAppends { list: vec![plain], ..JointAppends::default() };
    let answer = AnswerResult::Done { output: Json::null(), messages: Vec::new(), events: left.clone() };
    let before = bench.commits.len();
    let call = bench.answer("a", Answer::of(answer.clone()));
    assert_eq!(bench.commits[before].events, left);
    assert!(!bench.commits[before].journal.is_empty(), "the state of the step");
    // The same answer again, when the step is done: it decides nothing, and leaves nothing.
    bench.answer_to(&call, Answer::of(answer));
    let events: usize = bench.commits.iter().map(|commit| commit.events.list.len()).sum();
    assert_eq!(events, 1);
}

#[test]
fn only_bus_steps_take_replies_each_way_for_itself() {
    let sent = "[[steps]]\nname = \"a\"\naction = \"bus:do\"\ncompensation = \"fn:una\"\n";
    let done = || Ok(Json::null());
    let mut called = bench(&step("a", "idempotent = false"));
    called.start();
    let refused_reply = called.reply(StepDirection::Execute, done());
    assert_eq!(called.code(refused_reply), "SAGA.NOT_WAITING");
    called.answer("a", unknown());
    let undecided = called.reply(StepDirection::Execute, done()).unwrap_err();
    assert!(undecided.to_string().contains("done by fn:a, and only bus: steps"), "{undecided}");
    assert_eq!(called.state(), SagaState::Paused, "an operator decides, not a reply");
    let mut undone = bench(&(sent.to_owned() + &step("b", "")));
    undone.start();
    undone.reply(StepDirection::Execute, done()).unwrap();
    undone.answer("b", refused());
    let refused_reply = undone.reply(StepDirection::Compensate, done());
    assert_eq!(undone.code(refused_reply), "SAGA.NOT_WAITING");
    assert_eq!(undone.state(), SagaState::Compensating);
    let mut asked = bench(&format!("{BUS}idempotent = false\ntimeout_ms = 10\n"));
    asked.start();
    asked.wait(20);
    assert_eq!(asked.tree().waiting().0.as_deref(), Some("operator"));
    asked.reply(StepDirection::Execute, done()).unwrap();
    assert_eq!(asked.state(), SagaState::Completed, "its own reply decides it");
}

#[test]
fn a_saga_that_goes_forward_again_sends_its_messages_again_under_the_same_keys() {
    let mut bench = bench(&format!("{BUS}retry = {{ max_attempts = 1 }}\n"));
    bench.start();
    for _ in 0..3 {
        bench.reply(StepDirection::Execute, failed("T.MAYBE", true)).unwrap();
        bench.reply(StepDirection::Compensate, failed("T.NO", false)).unwrap();
        assert_eq!(bench.state(), SagaState::Failed);
        bench.act(SagaAct::Retry { step: None, mode: RetryMode::Retry }).unwrap();
    }
    let groups = bench.commits.iter().flat_map(|commit| &commit.messages);
    let sent: Vec<_> = groups.flat_map(|group| &group.messages).collect();
    assert_eq!(sent.len(), 7);
    let ids: HashSet<&str> = sent.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(ids.len(), sent.len(), "no message is taken for a repeat of another");
    let headers = sent.iter().flat_map(|message| &message.headers);
    let keys: HashSet<&str> =
        headers.filter(|(name, _)| name == "idempotency-key").map(|(_, key)| key.as_str()).collect();
    assert_eq!(keys, HashSet::from(["s/a/execute", "s/a/compensate"]));
}
