//! The rules of sagas, sentence by sentence, on a shard whose commits all go in.
#![allow(clippy::unwrap_used, clippy::panic)]

mod audit;
mod begin;
mod bytes;
mod deaths;
mod door;
mod exact;
mod messages;
mod needs;
mod operators;
mod set_aside;
mod signals;
mod steps;
mod ways;

use std::sync::Arc;
use std::time::Duration;

use super::{NewSaga, SagaCommand, SagaEffect, SagaReply, SagaShard, SagaShardConfig, Ticket};
use crate::backoff::RetryPolicy;
use crate::ids::{ShardId, Tenant};
use crate::port::participant::StepError;
use crate::port::saga::{ActedBy, DefinitionFormat, ReplyFailure, SagaAct, StepReply};
use crate::port::transport::Fault;
use crate::saga::call::{Answer, Call};
use crate::saga::definition::{DefinitionSet, default_retry, parse};
use crate::saga::error::SagaError;
use crate::saga::event::StepDirection;
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::saga::limits::SagaLimits;
use crate::saga::machine::Rules;
use crate::saga::records::{SagaCommit, SagaTakeover, SagaWrite};
use crate::saga::state::{SagaState, Tree};
use crate::time::UnixMillis;

const T0: UnixMillis = UnixMillis(1_800_000_000_000);

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
    bench_of(steps, None)
}

/// Whose commits write audit events in the name of this host.
fn bench_of(steps: &str, host: Option<&str>) -> Bench {
    let parsed = parse(&format!("name = \"d\"\n{steps}"), DefinitionFormat::Toml);
    let root = Arc::new(parsed.unwrap_or_else(|problems| panic!("{problems}")).definition);
    let limits = SagaLimits { input_bytes_max: 1_000, output_bytes_max: 1_000, ..SagaLimits::default() };
    let config = SagaShardConfig {
        shard: ShardId(0),
        tx_events: host.map(Arc::from),
        limits,
        rules: Rules::default(),
        died: true,
    };
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
        let (definitions, input) = (Arc::clone(&self.definitions), Json::parse(input).unwrap());
        let new = NewSaga::new(key, definitions, input, self.default_retry);
        NewSaga { caller_id: true, at: self.at, looked_up: Some(looked_up), ..new }
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
    fn reply(&mut self, way: StepDirection, result: Result<Json, ReplyFailure>) -> Result<SagaReply, SagaError> {
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
        error.unwrap_err().code().as_str()
    }
}
