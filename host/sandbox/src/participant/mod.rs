//! A participant plugin behind the core's port: saga steps, each call in an instance that nobody else uses meanwhile.
//!
//! ```text
//! call ──▶ gate (breaker) ──▶ permit ──▶ pool: warm | fresh ──▶ open ──▶ call ──▶ back into the pool, or dropped
//! ```
//! An instance serves one call at a time and one tenant in its life. What traps, or misses its deadline, is dropped with its
//! Store. Bounds: `instances` of the settings, and [`ParticipantLimits`].

mod calls;
mod gate;
mod pool;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::participant::{
    Answered, Direction, Participant, StepContext, StepDone, StepError, StepInfo, StepOutput,
};
use waybill_core::port::transport::{Fault, Health, HealthReport, PluginIdentity};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::host::Losses;
use crate::instance::{Answer, Endpoint, Opening, Step, Work, other_question, probe_endpoint, read_steps};
use crate::limits::{
    PARTICIPANT_CALL_TIME, PARTICIPANT_IDLE_INSTANCES_MAX, PARTICIPANT_IDLE_TIME, PARTICIPANT_USES_MAX,
    PARTICIPANT_WAIT_MAX, STEP_INPUT_BYTES_MAX,
};
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::tally::Tally;
use calls::Calls;

/// Bounds of one participant beside [`waybill_core::endpoint::PluginLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantLimits {
    /// Longest call, whatever a caller gives it.
    pub call_time: Duration,
    /// How long a call waits for a free instance.
    pub wait: Duration,
    /// Instances kept warm between calls, at most.
    pub idle_instances: usize,
    /// How long a warm instance is kept without a call.
    pub idle_time: Duration,
    /// Calls after which an instance is replaced.
    pub uses: u32,
}

impl Default for ParticipantLimits {
    fn default() -> Self {
        Self {
            call_time: PARTICIPANT_CALL_TIME,
            wait: PARTICIPANT_WAIT_MAX,
            idle_instances: PARTICIPANT_IDLE_INSTANCES_MAX,
            idle_time: PARTICIPANT_IDLE_TIME,
            uses: PARTICIPANT_USES_MAX,
        }
    }
}

impl ParticipantLimits {
    /// Those of a configured participant.
    pub fn of(settings: &EndpointSettings) -> Self {
        let normal = Self::default();
        Self { call_time: settings.grants.limits.call_time.unwrap_or(normal.call_time), ..normal }
    }
}

/// What came of a call, and whether the guest said so or the host did for it.
pub(crate) struct StepAnswer<T> {
    pub(crate) result: Result<T, StepError>,
    pub(crate) by_guest: bool,
}

impl<T> StepAnswer<T> {
    fn by_host(error: StepError) -> Self {
        Self { result: Err(error), by_guest: false }
    }

    fn by_guest(result: Result<T, StepError>) -> Self {
        Self { result, by_guest: true }
    }
}

/// The steps a plugin serves, read without a network, secrets or state; names are checked.
pub async fn participant_steps(plugin: &LoadedPlugin) -> Result<Vec<StepInfo>, SandboxError> {
    let name = plugin.manifest().name.clone();
    let wrong = |cause: String| SandboxError::Steps { plugin: name.clone(), cause };
    let endpoint = Endpoint::closed(plugin.clone(), World::Participant, &name)?;
    let steps = read_steps(&endpoint).await.map_err(|crash| {
        wrong(format!("{}: {}; this is a defect of the plugin", crash.fault.code, crash.fault.reason))
    })?;
    let steps: Vec<StepInfo> = steps.into_iter().map(|step| convert::step::info(&endpoint.context, step)).collect();
    steps::check(&steps).map_err(wrong)?;
    Ok(steps)
}

/// A running participant plugin. Dropping it ends its warm instances at once, without `close`; calls under way go on.
pub struct WasmParticipant {
    steps: Arc<[StepInfo]>,
    calls: Arc<Calls>,
}

impl std::fmt::Debug for WasmParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmParticipant")
            .field("name", &self.calls.endpoint.name)
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

impl WasmParticipant {
    /// Reads the steps and opens a first instance, which is kept warm. The second value tells whether that worked; if it
    /// didn't, calls try again by themselves. Errors only when it can never serve (world, configuration by schema, steps). Must
    /// be called inside a tokio runtime.
    pub async fn start(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        limits: ParticipantLimits,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let endpoint = Endpoint::new(plugin.clone(), World::Participant, spec)?;
        let steps = participant_steps(&plugin).await?;
        let (participant, opening) = Self::over(endpoint, steps.into(), limits);
        let opened = opening.await;
        Ok((participant, opened))
    }

    /// The same with steps that were read before, and without waiting for the first instance: a call opens one if there is none. The
    /// second part opens it when it is awaited, which it needn't be.
    pub(crate) fn spawn(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        steps: Arc<[StepInfo]>,
    ) -> Result<(Arc<Self>, Opening), SandboxError> {
        let limits = ParticipantLimits::of(&spec.settings);
        Ok(Self::over(Endpoint::new(plugin, World::Participant, spec)?, steps, limits))
    }

    fn over(endpoint: Endpoint, steps: Arc<[StepInfo]>, limits: ParticipantLimits) -> (Arc<Self>, Opening) {
        let calls = Calls::start(endpoint, limits);
        let participant = Arc::new(Self { steps, calls: Arc::clone(&calls) });
        (participant, Box::pin(async move { calls.open_first().await }))
    }

    /// Opens one instance with purpose `probe` and closes it: whether a participant would work, while another generation serves.
    pub(crate) async fn probe(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<HealthReport, SandboxError> {
        probe_endpoint(&Endpoint::new(plugin, World::Participant, spec)?).await
    }

    /// What is counted of it.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.calls.endpoint.context.meters.tally)
    }

    /// Tells of each instance that is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<Losses> {
        self.calls.endpoint.context.losses.subscribe()
    }

    /// Takes no more calls; those under way go on.
    pub(crate) fn retire(&self) {
        self.calls.retire();
    }

    /// Lets the next call try at once what was refused or held by the breaker, e.g. after a secret has changed.
    pub fn reopen(&self) {
        self.calls.gate.lock().reopen(Instant::now());
    }

    /// The step of a name, or why it can't be called.
    fn step(&self, name: &str, input: &Bytes) -> Result<&StepInfo, StepError> {
        let participant = &self.calls.endpoint.name;
        let Some(step) = self.steps.iter().find(|step| step.name == name) else {
            let served: Vec<&str> = self.steps.iter().map(|step| step.name.as_str()).collect();
            let reason = format!(
                "participant {participant:?} serves no step {name:?}, but {}: correct the name",
                served.join(", ")
            );
            let scope = format!("fn:{participant}/{name}");
            return Err(StepError::Blocked { scope, fault: Fault::new(Code::PLUGIN_NO_STEP, reason) });
        };
        if input.len() > STEP_INPUT_BYTES_MAX {
            let reason = format!(
                "the input has {} bytes, at most {STEP_INPUT_BYTES_MAX} are given to a step: map less, or a reference",
                input.len()
            );
            return Err(StepError::Permanent(Fault::new(Code::PLUGIN_INPUT_TOO_LARGE, reason)));
        }
        Ok(step)
    }
}

fn step(name: &str, context: &StepContext, direction: Direction, input: Bytes) -> Step {
    Step {
        name: name.to_owned(),
        context: convert::step::context(context, direction),
        input: input.into(),
        traceparent: context.traceparent.clone(),
    }
}

impl WasmParticipant {
    /// Does a step; see [`Participant::execute`].
    pub(crate) async fn ask_to_execute(
        &self,
        name: &str,
        context: &StepContext,
        input: Bytes,
        timeout: Duration,
    ) -> StepAnswer<StepDone> {
        if let Err(error) = self.step(name, &input) {
            return StepAnswer::by_host(error);
        }
        let work = Work::Execute(step(name, context, Direction::Execute, input));
        match self.calls.call(&context.tenant, work, timeout).await {
            Ok(Answer::Executed(result)) => StepAnswer::by_guest(result),
            Ok(_) => StepAnswer::by_host(StepError::Retryable(other_question().fault)),
            Err(error) => StepAnswer::by_host(error),
        }
    }

    /// Undoes it; see [`Participant::compensate`].
    pub(crate) async fn ask_to_compensate(
        &self,
        name: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        timeout: Duration,
    ) -> StepAnswer<StepOutput> {
        match self.step(name, &input) {
            Ok(info) if info.compensates => {}
            Ok(_) => {
                // A definition that names it was refused without one: the component was changed since, and may be again.
                let reason = format!("step {name:?} has no compensation now: load a component that has it");
                let scope = format!("fn:{}/{name}", self.calls.endpoint.name);
                let fault = Fault::new(Code::PLUGIN_NO_COMPENSATION, reason);
                return StepAnswer::by_host(StepError::Blocked { scope, fault });
            }
            Err(error) => return StepAnswer::by_host(error),
        }
        let step = step(name, context, Direction::Compensate, input);
        let work = Work::Compensate { step, output: output.map(Into::into) };
        match self.calls.call(&context.tenant, work, timeout).await {
            Ok(Answer::Compensated(result)) => StepAnswer::by_guest(result),
            Ok(_) => StepAnswer::by_host(StepError::Retryable(other_question().fault)),
            Err(error) => StepAnswer::by_host(error),
        }
    }
}

#[async_trait]
impl Participant for WasmParticipant {
    fn name(&self) -> &str {
        &self.calls.endpoint.name
    }

    fn identity(&self) -> PluginIdentity {
        self.calls.endpoint.identity()
    }

    fn steps(&self) -> Vec<StepInfo> {
        self.steps.to_vec()
    }

    async fn execute(&self, name: &str, context: &StepContext, input: Bytes, timeout: Duration) -> Answered<StepDone> {
        let result = self.ask_to_execute(name, context, input, timeout).await.result;
        Answered { by: self.identity(), result }
    }

    async fn compensate(
        &self,
        name: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        timeout: Duration,
    ) -> Answered<StepOutput> {
        let result = self.ask_to_compensate(name, context, input, output, timeout).await.result;
        Answered { by: self.identity(), result }
    }

    fn health(&self) -> HealthReport {
        if let Some(fault) = self.calls.gate.lock().closed(Instant::now()) {
            return HealthReport { health: Health::Down, detail: Some(format!("{}: {}", fault.code, fault.reason)) };
        }
        match self.calls.reported.blocked() {
            Some((_, why)) => HealthReport { health: Health::Blocked, detail: Some(why) },
            None => HealthReport { health: Health::Ready, detail: None },
        }
    }

    async fn close(&self, timeout: Duration) {
        self.calls.close(timeout).await;
    }
}
