//! The rules of sagas, sentence by sentence, on a shard whose commits all go in.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bytes;
mod deaths;
mod set_aside;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{NewSaga, SagaCommand, SagaEffect, SagaReply, SagaShard, SagaShardConfig, Ticket};
use crate::backoff::RetryPolicy;
use crate::ids::{ShardId, Tenant};
use crate::port::participant::StepError;
use crate::port::saga::{ActedBy, DefinitionFormat, ReplyFailure, RetryMode, SagaAct, StepReply};
use crate::port::transport::Fault;
use crate::saga::call::{Answer, AnswerResult, Call};
use crate::saga::definition::{DefinitionSet, default_retry, parse};
use crate::saga::error::SagaError;
use crate::saga::event::{Failure, Way};
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::saga::limits::{SIGNALS_MAX, SagaLimits};
use crate::saga::machine::Rules;
use crate::saga::records::{SagaCommit, SagaTakeover, SagaWrite};
use crate::saga::state::{SagaState, StepState, Tree};
use crate::time::UnixMillis;

const T0: UnixMillis = UnixMillis(1_800_000_000_000);

const BUS: &str = "[[steps]]\nname = \"a\"\naction = \"bus:stock.reserve\"\ncompensation = \"bus:stock.release\"\n";

struct Bench {
    shard: SagaShard,
    definitions: Arc<DefinitionSet>,
    default_retry: RetryPolicy,
    at: Option<UnixMillis>,
    now: UnixMillis,
    calls: Vec<Call>,
    replies: Vec<Result<SagaReply, SagaError>>,
    commits: Vec<SagaCommit>,
}

fn bench(steps: &str) -> Bench {
    let parsed = parse(&format!("name = \"d\"\n{steps}"), DefinitionFormat::Toml);
    let root = Arc::new(parsed.unwrap_or_else(|problems| panic!("{problems}")).definition);
    let limits = SagaLimits { input_bytes_max: 1_000, output_bytes_max: 1_000, ..SagaLimits::default() };
    let config = SagaShardConfig { shard: ShardId(0), limits, rules: Rules::default(), died: true };
    let shard = SagaShard::restore(config, SagaTakeover::default(), |_| None, T0, 0.5).shard;
    let definitions = Arc::new(DefinitionSet::new(root, Vec::new()));
    let default_retry = default_retry();
    let (calls, replies, commits) = (Vec::new(), Vec::new(), Vec::new());
    Bench { shard, definitions, default_retry, at: None, now: T0, calls, replies, commits }
}

fn step(name: &str, more: &str) -> String {
    format!("[[steps]]\nname = \"{name}\"\naction = \"fn:{name}\"\ncompensation = \"fn:un{name}\"\n{more}\n")
}

fn key() -> SagaKey {
    SagaKey { tenant: Tenant::unnamed(), id: SagaId::root("s").unwrap() }
}

fn fault(unknown: bool) -> Fault {
    Fault { maybe_delivered: unknown, ..Fault::new("T.NO", "thrown") }
}

fn refused() -> Answer {
    Answer::failed(StepError::Permanent(fault(false)))
}

fn failed(code: &str, maybe_done: bool) -> Result<Json, ReplyFailure> {
    let failure = Failure { maybe_done, ..Failure::new(code, "told") };
    Err(ReplyFailure { failure, retryable: false })
}

fn retry() -> Answer {
    Answer::failed(StepError::Retryable(fault(false)))
}

fn unknown() -> Answer {
    Answer::failed(StepError::Retryable(fault(true)))
}

fn done() -> Answer {
    Answer::done(Json::parse("{\"ok\":1}").unwrap())
}

impl Bench {
    fn settle(&mut self) {
        while let Some(commit) = self.shard.build(1) {
            self.commits.push(commit);
            self.shard.committed();
        }
        for effect in self.shard.take_effects() {
            match effect {
                SagaEffect::Call(call) => self.calls.push(*call),
                SagaEffect::Reply { result, .. } => self.replies.push(result),
                _ => {}
            }
        }
    }

    fn submit(&mut self, command: SagaCommand) -> Result<SagaReply, SagaError> {
        self.shard.submit(Some(Ticket(1)), command, self.now, 0.5);
        self.settle();
        self.replies.pop().unwrap()
    }

    fn new_saga(&self, key: SagaKey, input: &str, looked_up: u64) -> NewSaga {
        NewSaga {
            key,
            caller_id: true,
            at: self.at,
            looked_up: Some(looked_up),
            definitions: Arc::clone(&self.definitions),
            version: None,
            input: Json::parse(input).unwrap(),
            deadline: None,
            headers: Vec::new(),
            envelope_id: None,
            correlation_id: None,
            traceparent: None,
            plugins: Vec::new(),
            default_retry: self.default_retry,
            actor: None,
        }
    }

    fn start_as(&mut self, input: &str, looked_up: u64) -> Result<SagaReply, SagaError> {
        let new = self.new_saga(key(), input, looked_up);
        self.submit(SagaCommand::Start(Box::new(new)))
    }

    fn start(&mut self) {
        self.start_as("{}", 0).unwrap();
    }

    fn call(&mut self, step: &str) -> Call {
        let at = self.calls.iter().position(|call| call.context.step == step);
        self.calls.remove(at.unwrap_or_else(|| panic!("{step} isn't called: {:?}", self.calls)))
    }

    fn answer(&mut self, step: &str, answer: Answer) -> Call {
        let call = self.call(step);
        self.answer_to(&call, answer);
        call
    }

    fn answer_to(&mut self, call: &Call, answer: Answer) {
        let call = call.reference.clone();
        self.shard.submit(None, SagaCommand::Answer { call, answer }, self.now, 0.5);
        self.settle();
    }

    fn act(&mut self, act: SagaAct) -> Result<SagaReply, SagaError> {
        let by = ActedBy { actor: "ann".to_owned(), note: Some("why".to_owned()) };
        self.submit(SagaCommand::Act { key: key(), act, by })
    }

    fn signal(&mut self, name: &str) -> Result<SagaReply, SagaError> {
        let by = ActedBy { actor: "ann".to_owned(), note: None };
        let data = Json::parse("7").unwrap();
        self.submit(SagaCommand::Signal { key: key(), name: name.to_owned(), data, by })
    }

    /// A reply about step `a`.
    fn reply(&mut self, way: Way, result: Result<Json, ReplyFailure>) -> Result<SagaReply, SagaError> {
        let reply = StepReply { id: key().id, step: "a".into(), way, attempt: None, result };
        self.submit(SagaCommand::Reply { tenant: Tenant::unnamed(), reply })
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now.plus(Duration::from_millis(ms));
        while self.shard.next_due().is_some_and(|due| due <= self.now) {
            self.shard.tick(self.now, 0.5);
        }
        self.settle();
    }

    /// As it is in memory, or as it ended.
    fn tree(&self) -> Arc<Tree> {
        let mut ended = self.commits.iter().flat_map(|commit| &commit.writes).filter_map(|write| match write {
            SagaWrite::PutDone(row) => Some(Arc::clone(&row.tree)),
            _ => None,
        });
        self.shard.tree(&key()).map(|(tree, _)| tree).or_else(|| ended.next_back()).unwrap()
    }

    fn state(&self) -> SagaState {
        self.tree().state()
    }

    fn code(&self, error: Result<SagaReply, SagaError>) -> &'static str {
        error.unwrap_err().code()
    }
}

fn approve() -> SagaAct {
    SagaAct::Approve { step: None, since: None }
}

fn again() -> SagaAct {
    SagaAct::Retry { step: None, mode: RetryMode::Compensate }
}

#[test]
fn a_saga_begins_when_its_id_says_and_nothing_of_it_is_earlier() {
    for now in [1_005, 995] {
        let mut bench = bench(&step("a", ""));
        bench.now = UnixMillis(T0.0 + now);
        bench.at = Some(UnixMillis(T0.0 + 1_000));
        bench.start();
        let tree = bench.tree();
        assert_eq!(Some(tree.root().unwrap().started_at), bench.at);
        assert!(tree.events().all(|event| Some(event.at) >= bench.at), "now {now}");
        bench.answer("a", done());
        assert_eq!(bench.state(), SagaState::Completed);
    }
}

#[test]
fn what_a_step_does_not_say_about_retries_is_the_default_that_its_saga_began_with() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 3 }"));
    bench.default_retry = RetryPolicy { max_attempts: 9, base_ms: 50, factor: 4.0, jitter: 0.0, ..default_retry() };
    bench.start();
    // Another default, as after a restart with another configuration: what runs keeps its own.
    bench.default_retry = default_retry();
    for (attempt, delay) in [(1, 50), (2, 200)] {
        let call = bench.answer("a", retry());
        assert_eq!((call.reference.attempt, call.retry.max_attempts, call.retry.base_ms), (attempt, 3, 50));
        bench.wait(delay - 1);
        assert!(bench.calls.is_empty(), "attempt {attempt} is repeated after {delay} ms");
        bench.wait(1);
    }
    bench.answer("a", retry());
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn steps_go_one_after_another_and_every_call_waits_for_its_commit() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.shard.submit(
        None,
        SagaCommand::Signal {
            key: key(),
            name: "x".into(),
            data: Json::null(),
            by: ActedBy { actor: String::new(), note: None },
        },
        T0,
        0.5,
    );
    bench.start();
    assert_eq!(bench.calls.len(), 1);
    let call = bench.call("a");
    bench.shard.submit(None, SagaCommand::Answer { call: call.reference.clone(), answer: done() }, T0, 0.5);
    assert!(bench.shard.take_effects().is_empty(), "nothing before the commit");
    bench.settle();
    assert_eq!(bench.answer("b", done()).context.saga_id, "s");
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_failed_step_undoes_what_was_done_in_reverse_with_input_and_output() {
    let mut bench = bench(&(step("a", "") + &step("b", "") + &step("c", "")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", done());
    bench.answer("c", refused());
    assert_eq!(bench.calls.len(), 1);
    let undo = bench.answer("b", done());
    assert_eq!((undo.reference.way, undo.output.unwrap().as_str().to_owned()), (Way::Compensate, "{\"ok\":1}".into()));
    bench.answer("a", done());
    let tree = bench.tree();
    assert_eq!(tree.state(), SagaState::Cancelled);
    let states: Vec<StepState> = tree.sagas[0].steps.iter().map(|step| step.state).collect();
    assert_eq!(states, [StepState::Compensated, StepState::Compensated, StepState::Failed]);
}

#[test]
fn a_retry_has_the_same_key_and_waits_for_its_backoff() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 2, base_ms = 100, jitter = 0 }"));
    bench.start();
    let first = bench.answer("a", retry());
    assert!(bench.calls.is_empty());
    bench.wait(99);
    assert!(bench.calls.is_empty());
    bench.wait(2);
    let second = bench.answer("a", retry());
    let of = |call: &Call| call.context.idempotency_key(call.reference.way.direction());
    assert_eq!((of(&first), second.reference.attempt), (of(&second), 2));
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_step_whose_result_is_unknown_is_undone_without_output() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 1 }"));
    bench.start();
    bench.answer("a", unknown());
    let undo = bench.answer("a", done());
    assert_eq!((undo.reference.way, undo.output), (Way::Compensate, None));
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn an_unknown_result_of_a_step_that_is_not_idempotent_waits_for_an_operator() {
    let mut bench = bench(&step("a", "idempotent = false"));
    bench.start();
    bench.answer("a", unknown());
    assert_eq!(bench.state(), SagaState::Paused);
    assert_eq!(bench.tree().waiting().0.as_deref(), Some("operator"));
    let refused = bench.act(SagaAct::Resume);
    assert_eq!(bench.code(refused), "SAGA.STATE");
    bench.act(again()).unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_late_success_of_a_step_that_is_not_idempotent_lets_it_go_on() {
    let mut bench = bench(&step("a", "idempotent = false\ntimeout_ms = 10"));
    bench.start();
    let call = bench.call("a");
    bench.wait(5_000);
    assert_eq!(bench.state(), SagaState::Paused);
    bench.answer_to(&call, done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_late_success_spares_the_retry_and_a_second_one_changes_nothing() {
    let mut bench = bench(&(step("a", "timeout_ms = 10") + &step("b", "")));
    bench.start();
    let call = bench.call("a");
    bench.wait(1_500);
    assert!(bench.calls.is_empty(), "it waits for its retry");
    bench.answer_to(&call, done());
    bench.answer_to(&call, done());
    bench.wait(60_000);
    let names: Vec<String> = bench.calls.iter().map(|call| call.context.step.clone()).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn an_approval_is_given_once_and_says_who_gave_it() {
    let mut bench =
        bench("[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\n[[steps]]\nname = \"b\"\naction = \"fn:b\"\n");
    bench.start();
    bench.act(approve()).unwrap();
    assert!(bench.tree().sagas[0].steps[0].output.as_ref().unwrap().as_str().contains("\"by\":\"ann\""));
    let twice = bench.act(approve()).unwrap_err();
    assert_eq!(twice.code(), "SAGA.NOT_WAITING");
    assert!(twice.to_string().contains("approved already, by ann"), "{twice}");
}

#[test]
fn a_decision_about_an_earlier_wait_changes_nothing() {
    let mut bench = bench("[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\n");
    bench.start();
    let since = bench.tree().sagas[0].steps[0].since;
    bench.act(SagaAct::Pause).unwrap();
    bench.now = bench.now.plus(Duration::from_millis(5));
    bench.act(SagaAct::Retry { step: Some("ok".into()), mode: RetryMode::Compensate }).unwrap();
    assert_ne!(bench.tree().sagas[0].steps[0].since, since);
    for stale in [SagaAct::Approve { step: None, since }, SagaAct::Reject { step: Some("ok".into()), since }] {
        let refused = bench.act(stale).unwrap_err();
        assert_eq!(refused.code(), "SAGA.NOT_WAITING");
        assert!(refused.to_string().contains("another wait by now"), "{refused}");
    }
    let since = bench.tree().sagas[0].steps[0].since;
    bench.act(SagaAct::Approve { step: None, since }).unwrap();
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn an_approval_after_its_time_is_refused_and_counts_as_rejected() {
    let mut bench = bench(&(step("a", "") + "[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\ntimeout_ms = 50\n"));
    bench.start();
    bench.answer("a", done());
    bench.now = bench.now.plus(Duration::from_millis(50));
    let late = bench.act(approve());
    assert_eq!(bench.code(late), "SAGA.APPROVAL_EXPIRED");
    bench.wait(1);
    let later = bench.act(approve());
    assert_eq!(bench.code(later), "SAGA.APPROVAL_EXPIRED");
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_signal_may_come_early_and_none_is_taken_after_the_end() {
    let mut bench = bench(&(step("a", "") + "[[steps]]\nname = \"w\"\naction = \"wait:paid\"\n"));
    bench.start();
    bench.signal("paid").unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let late = bench.signal("paid");
    assert_eq!(bench.code(late), "SAGA.NOT_FOUND", "it left memory: the store knows that it ended");
}

#[test]
fn a_signal_with_a_bad_name_is_told_what_a_name_may_be() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let told = bench.signal("all paid").unwrap_err();
    assert_eq!(told.code(), "SCHEMA.VALIDATION_FAILED");
    assert!(told.to_string().contains("signal \"all paid\" isn't a name: it takes 1 to 64 letters"), "{told}");
}

#[test]
fn early_signals_are_bounded() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    for _ in 0..SIGNALS_MAX {
        bench.signal("x").unwrap();
    }
    let full = bench.signal("x").unwrap_err();
    assert!(full.code() == "SAGA.SIGNALS_FULL" && full.retryable());
}

#[test]
fn a_compensation_that_gives_up_is_a_dead_letter_that_can_be_retried_or_accepted() {
    let mut stuck = bench(&(step("a", "retry = { max_attempts = 1 }") + &step("b", "")));
    stuck.start();
    stuck.answer("a", done());
    stuck.answer("b", refused());
    stuck.answer("a", refused());
    assert_eq!(stuck.state(), SagaState::Failed);
    let writes = &stuck.commits.last().unwrap().writes;
    assert!(writes.iter().any(|write| matches!(write, SagaWrite::PutDead(dead) if &*dead.step == "a")), "{writes:?}");
    stuck.act(again()).unwrap();
    stuck.answer("a", refused());
    stuck.act(SagaAct::Accept).unwrap();
    let writes = &stuck.commits.last().unwrap().writes;
    assert!(writes.iter().any(|write| matches!(write, SagaWrite::DeleteDead(_))));
    assert_eq!(stuck.state(), SagaState::Failed);
    assert!(stuck.tree().is_ended());
}

#[test]
fn a_stuck_saga_goes_forward_again_only_while_nothing_is_undone() {
    let mut bench = bench(&(step("a", "") + &step("b", "") + &step("c", "")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", done());
    bench.answer("c", refused());
    bench.answer("b", refused());
    bench.act(SagaAct::Retry { step: None, mode: RetryMode::Retry }).unwrap();
    bench.answer("c", refused());
    bench.answer("b", done());
    bench.answer("a", refused());
    let undone = bench.act(SagaAct::Retry { step: None, mode: RetryMode::Retry });
    assert_eq!(bench.code(undone), "SAGA.STATE");
}

#[test]
fn cancel_undoes_and_kill_does_not() {
    let mut cancelled = bench(&(step("a", "") + &step("b", "")));
    cancelled.start();
    cancelled.answer("a", done());
    cancelled.act(SagaAct::Cancel).unwrap();
    cancelled.answer("b", done());
    cancelled.answer("b", done());
    cancelled.answer("a", done());
    assert_eq!(cancelled.state(), SagaState::Cancelled);
    let mut killed = bench(&(step("a", "") + &step("b", "")));
    killed.start();
    killed.answer("a", done());
    let call = killed.call("b");
    killed.act(SagaAct::Kill).unwrap();
    killed.answer_to(&call, done());
    assert!(killed.calls.is_empty());
    assert_eq!(killed.state(), SagaState::Failed);
}

#[test]
fn a_paused_saga_begins_nothing_and_keeps_what_comes_back() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    bench.act(SagaAct::Pause).unwrap();
    bench.answer("a", done());
    assert!(bench.calls.is_empty());
    assert_eq!(bench.state(), SagaState::Paused);
    bench.act(SagaAct::Resume).unwrap();
    bench.answer("b", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn the_deadline_undoes_also_when_the_clock_was_set_back() {
    let mut bench = bench(&format!("deadline_ms = 1000\n{}{}", step("a", ""), step("b", "")));
    bench.start();
    bench.answer("a", done());
    bench.shard.tick(UnixMillis(T0.0 - 100_000), 0.5);
    bench.wait(1_000);
    bench.answer("b", refused());
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.DEADLINE");
}

#[test]
fn what_was_not_tried_costs_no_attempt() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 1 }"));
    bench.start();
    for _ in 0..5 {
        let error = StepError::Blocked { scope: "fn:p".into(), fault: fault(false) };
        assert_eq!(bench.answer("a", Answer::failed(error)).reference.attempt, 1);
        assert_eq!(bench.tree().waiting().0.as_deref(), Some("blocked"));
        bench.wait(60_000);
    }
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_pending_step_is_completed_by_its_signal() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let pending = AnswerResult::Pending { signal: "shipped".into(), timeout: None, data: Json::null() };
    bench.answer("a", Answer::of(pending));
    assert_eq!(bench.tree().waiting().0.as_deref(), Some("signal:shipped"));
    bench.signal("shipped").unwrap();
    assert_eq!(bench.tree().sagas[0].steps[0].output.as_ref().unwrap().as_str(), "7");
}

#[test]
fn a_bus_step_leaves_its_message_in_the_same_commit_and_a_reply_completes_it() {
    let mut bench = bench(BUS);
    bench.start();
    let message = &bench.commits[0].messages[0].messages[0];
    assert_eq!(message.topic.as_str(), "bus:stock.reserve");
    assert!(message.headers.contains(&("idempotency-key".into(), "s/a/execute".into())));
    bench.reply(Way::Execute, Ok(Json::parse("{\"n\":1}").unwrap())).unwrap();
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn only_bus_steps_take_replies_each_way_for_itself() {
    let sent = "[[steps]]\nname = \"a\"\naction = \"bus:do\"\ncompensation = \"fn:una\"\n";
    let done = || Ok(Json::null());
    let mut called = bench(&step("a", "idempotent = false"));
    called.start();
    let refused_reply = called.reply(Way::Execute, done());
    assert_eq!(called.code(refused_reply), "SAGA.NOT_WAITING");
    called.answer("a", unknown());
    let undecided = called.reply(Way::Execute, done()).unwrap_err();
    assert!(undecided.to_string().contains("done by fn:a, and only bus: steps"), "{undecided}");
    assert_eq!(called.state(), SagaState::Paused, "an operator decides, not a reply");
    let mut undone = bench(&(sent.to_owned() + &step("b", "")));
    undone.start();
    undone.reply(Way::Execute, done()).unwrap();
    undone.answer("b", refused());
    let refused_reply = undone.reply(Way::Compensate, done());
    assert_eq!(undone.code(refused_reply), "SAGA.NOT_WAITING");
    assert_eq!(undone.state(), SagaState::Compensating);
    let mut asked = bench(&format!("{BUS}idempotent = false\ntimeout_ms = 10\n"));
    asked.start();
    asked.wait(20);
    assert_eq!(asked.tree().waiting().0.as_deref(), Some("operator"));
    asked.reply(Way::Execute, done()).unwrap();
    assert_eq!(asked.state(), SagaState::Completed, "its own reply decides it");
}

#[test]
fn a_saga_that_goes_forward_again_sends_its_messages_again_under_the_same_keys() {
    let mut bench = bench(&format!("{BUS}retry = {{ max_attempts = 1 }}\n"));
    bench.start();
    for _ in 0..3 {
        bench.reply(Way::Execute, failed("T.MAYBE", true)).unwrap();
        bench.reply(Way::Compensate, failed("T.NO", false)).unwrap();
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

#[test]
fn a_step_is_shown_with_the_key_that_its_tenant_calls_with() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let mut tree = (*bench.tree()).clone();
    let shown = |tree: &Tree| tree.view(&bench.definitions).saga.steps[0].idempotency_key.clone();
    assert_eq!(shown(&tree), "s/a/execute");
    tree.key.tenant = Tenant::new("acme").unwrap();
    assert_eq!(shown(&tree), "~acme/s/a/execute");
}

#[test]
fn inputs_and_outputs_are_bounded_and_an_output_too_large_is_undone() {
    let mut bench = bench(&step("a", ""));
    let large = format!("\"{}\"", "x".repeat(2_000));
    let refused = bench.start_as(&large, 0).unwrap_err();
    assert!(refused.code() == "SAGA.INPUT_TOO_LARGE" && refused.to_string().contains("1000"));
    bench.start();
    bench.answer("a", Answer::done(Json::parse(&large).unwrap()));
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.OUTPUT_TOO_LARGE");
}

#[test]
fn a_mapping_that_fails_undoes_what_was_done() {
    let mut bench = bench(&(step("a", "") + &step("b", "input = \"${ input.missing.x }\"")));
    bench.start();
    bench.answer("a", done());
    bench.answer("a", done());
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.MAPPING");
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_callers_id_begins_one_saga() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    assert!(matches!(bench.start_as("{}", 0), Ok(SagaReply::Started { duplicate: true, .. })));
    let other = bench.start_as("{\"other\":1}", 0);
    assert_eq!(bench.code(other), "STORAGE.CONFLICT");
    let before = bench.shard.record().beat;
    bench.answer("a", done());
    assert!(bench.shard.tree(&key()).is_none());
    assert!(matches!(bench.start_as("{}", before), Ok(SagaReply::Started { duplicate: true, .. })));
}

#[test]
fn a_step_may_be_skipped_while_it_is_not_called() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let called = bench.act(SagaAct::Skip { step: "a".into() });
    assert_eq!(bench.code(called), "SAGA.STATE");
    bench.act(SagaAct::Skip { step: "b".into() }).unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let none = bench.act(SagaAct::Skip { step: "zz".into() });
    assert_eq!(bench.code(none), "SAGA.NOT_FOUND");
}

#[test]
fn the_commit_that_ends_the_last_saga_lets_the_journal_before_it_go() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    bench.answer("a", done());
    let running = bench.commits.last().unwrap().record;
    assert_eq!(running.floor, 1, "it needs all of it");
    bench.answer("b", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let ended = bench.commits.last().unwrap();
    assert!(ended.journal.iter().all(|entry| entry.ended) && ended.record.beat > running.beat);
    assert_eq!(ended.record.floor, ended.record.beat);
}

#[test]
fn a_saga_at_rest_gets_a_row_and_its_journal_may_go() {
    let mut bench = bench("[[steps]]\nname = \"w\"\naction = \"wait:paid\"\n");
    bench.start();
    assert!(bench.commits.iter().all(|commit| commit.writes.is_empty() && !commit.journal.is_empty()));
    bench.wait(2_000);
    let resting = bench.commits.last().unwrap();
    assert!(matches!(resting.writes.as_slice(), [SagaWrite::PutRow(_)]) && resting.journal.is_empty());
    bench.signal("other").unwrap();
    assert!(bench.commits.last().unwrap().record.floor > 1);
}
