//! A participant whose steps do what a test writes, and that remembers every call; in `http`, the same for steps that are
//! called by HTTP. What it doesn't do: check anything. Tests read the calls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what a test wrote wrongly fails by panicking")]

mod http;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use waybill_core::port::participant::{
    Answered, Direction, Participant, Pending, StepContext, StepDone, StepError, StepInfo, StepOutput,
};
use waybill_core::port::transport::{Fault, Health, HealthReport, PluginIdentity};

pub use http::FakeHttp;

#[derive(Clone, Debug)]
pub struct Called {
    /// Name of the step in the definition.
    pub step: String,
    pub direction: Direction,
    pub saga: String,
    pub tenant: String,
    pub attempt: u32,
    pub key: String,
    pub input: Value,
    /// Of a compensation: what the action answered.
    pub output: Option<Value>,
    /// Calls of this step in this direction and saga before this one.
    pub before: usize,
}

/// What a step does.
#[derive(Debug)]
pub enum Does {
    Done(Value),
    DoneAfter(Duration, Value),
    /// Done, and leaves messages behind.
    Leaves(StepOutput),
    Pending(&'static str),
    Fails(StepError),
    Never,
    Panics,
}

pub fn retryable(code: &str) -> Does {
    Does::Fails(StepError::Retryable(Fault::new(code, "not this time")))
}

/// Not this time, and nobody knows whether it had its effect.
pub fn unknown(code: &str) -> Does {
    Does::Fails(StepError::Retryable(Fault { maybe_delivered: true, ..Fault::new(code, "who knows") }))
}

/// The step fails and is never retried.
pub fn permanent(code: &str) -> Does {
    Does::Fails(StepError::Permanent(Fault::new(code, "never")))
}

/// What it needs is at fault.
pub fn blocked(scope: &str) -> Does {
    Does::Fails(StepError::Blocked { scope: scope.to_owned(), fault: Fault::new("SHOP.DOWN", "it is down") })
}

type Script = dyn FnMut(&Called) -> Does + Send;

pub struct FakeParticipant {
    name: String,
    steps: Vec<StepInfo>,
    script: Mutex<Box<Script>>,
    calls: Mutex<Vec<Called>>,
    under_way: Mutex<(usize, usize)>,
}

impl FakeParticipant {
    /// One that serves these steps, each with a compensation; all answer `{"did": <step>}`.
    pub fn new(name: &str, steps: &[&str]) -> Arc<Self> {
        let info = |name: &&str| StepInfo {
            name: (*name).to_owned(),
            compensates: true,
            idempotent: true,
            summary: String::new(),
            attributes: Vec::new(),
        };
        Arc::new(Self {
            name: name.to_owned(),
            steps: steps.iter().map(info).collect(),
            script: Mutex::new(Box::new(|call| Does::Done(serde_json::json!({ "did": call.step })))),
            calls: Mutex::default(),
            under_way: Mutex::default(),
        })
    }

    /// From now on every call does what `script` says; none = as at the beginning.
    pub fn on(&self, mut script: impl FnMut(&Called) -> Option<Does> + Send + 'static) {
        *self.script.lock() =
            Box::new(move |call| script(call).unwrap_or_else(|| Does::Done(serde_json::json!({ "did": call.step }))));
    }

    pub fn calls(&self) -> Vec<Called> {
        self.calls.lock().clone()
    }

    /// Calls as `step` and `-step` for a compensation, in order.
    pub fn names(&self) -> Vec<String> {
        let name = |call: &Called| match call.direction {
            Direction::Execute => call.step.clone(),
            Direction::Compensate => format!("-{}", call.step),
        };
        self.calls().iter().map(name).collect()
    }

    pub fn count(&self, name: &str) -> usize {
        self.names().iter().filter(|known| *known == name).count()
    }

    /// Most calls that were under way at once.
    pub fn most_at_once(&self) -> usize {
        self.under_way.lock().1
    }

    fn called(&self, context: &StepContext, direction: Direction, input: &Bytes, output: Option<&Bytes>) -> Does {
        let mut calls = self.calls.lock();
        let same =
            |call: &&Called| call.saga == context.saga_id && call.step == context.step && call.direction == direction;
        let call = Called {
            step: context.step.clone(),
            direction,
            saga: context.saga_id.clone(),
            tenant: context.tenant.clone(),
            attempt: context.attempt,
            key: context.idempotency_key(direction),
            input: serde_json::from_slice(input).unwrap(),
            output: output.map(|output| serde_json::from_slice(output).unwrap()),
            before: calls.iter().filter(same).count(),
        };
        calls.push(call.clone());
        drop(calls);
        (self.script.lock())(&call)
    }

    async fn run(&self, does: Does, time: Duration) -> Result<StepDone, StepError> {
        let _count = Count::new(&self.under_way);
        let output = |value: Value| StepOutput { data: Bytes::from(value.to_string()), ..StepOutput::default() };
        match does {
            Does::Done(value) => Ok(StepDone::Output(output(value))),
            Does::DoneAfter(wait, value) => {
                let late = tokio::time::timeout(time, tokio::time::sleep(wait)).await.is_err();
                let fault = Fault { maybe_delivered: true, ..Fault::new("PLUGIN.TIMEOUT", "too slow") };
                if late { Err(StepError::Retryable(fault)) } else { Ok(StepDone::Output(output(value))) }
            }
            Does::Leaves(output) => Ok(StepDone::Output(output)),
            Does::Pending(signal) => {
                let data = Bytes::from_static(b"{\"ticket\":1}");
                Ok(StepDone::Pending(Pending { signal: signal.to_owned(), timeout: None, data }))
            }
            Does::Fails(error) => Err(error),
            Does::Never => std::future::pending().await,
            Does::Panics => panic!("a test made the call panic"),
        }
    }
}

struct Count<'a>(&'a Mutex<(usize, usize)>);

impl<'a> Count<'a> {
    fn new(counts: &'a Mutex<(usize, usize)>) -> Self {
        let mut count = counts.lock();
        count.0 += 1;
        count.1 = count.1.max(count.0);
        drop(count);
        Self(counts)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.lock().0 -= 1;
    }
}

#[async_trait]
impl Participant for FakeParticipant {
    fn name(&self) -> &str {
        &self.name
    }
    fn identity(&self) -> PluginIdentity {
        let (plugin, version) = (format!("fake-{}", self.name), "1.2.3".to_owned());
        PluginIdentity { plugin, version, digest: format!("sha256:{}", "cd".repeat(32)), generation: 1 }
    }
    fn steps(&self) -> Vec<StepInfo> {
        self.steps.clone()
    }
    async fn execute(&self, _: &str, context: &StepContext, input: Bytes, time: Duration) -> Answered<StepDone> {
        let does = self.called(context, Direction::Execute, &input, None);
        Answered { by: self.identity(), result: self.run(does, time).await }
    }
    async fn compensate(
        &self,
        _: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        time: Duration,
    ) -> Answered<StepOutput> {
        let does = self.called(context, Direction::Compensate, &input, output.as_ref());
        let result = match self.run(does, time).await {
            Ok(StepDone::Output(output)) => Ok(output),
            Ok(StepDone::Pending(_)) => panic!("a compensation is never pending"),
            Err(error) => Err(error),
        };
        Answered { by: self.identity(), result }
    }
    fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: None }
    }
    async fn close(&self, _: Duration) {}
}
