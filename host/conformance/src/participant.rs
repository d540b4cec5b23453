//! The suite of participants: steps, repeats, compensation of what is unknown, inputs that make no sense.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use waybill_core::code::Code;
use waybill_core::port::participant::{Direction, Participant, StepContext, StepDone, StepError};
use waybill_sandbox::{LoadedPlugin, ParticipantLimits, PluginSource, Sandbox, SandboxError, WasmParticipant, World};

use crate::Options;
use crate::case::{Case, CaseStep};
use crate::endpoint::{case_for, config_empty, outside, refused, spec};
use crate::limits::{CALL_TIMEOUT, CLOSE_TIMEOUT};
use crate::outside::Outside;
use crate::report::{Report, Verdict};
use crate::sample;
use crate::suite::{CaseResult, Suite, failed, not_applicable, not_run};

/// What became of a step: its word in a case, its code, and its result.
struct Ended {
    word: &'static str,
    code: Option<String>,
    data: Option<Bytes>,
    shown: String,
}

pub(crate) async fn run(sandbox: &Sandbox, source: &PluginSource, options: &Options) -> Result<Report, SandboxError> {
    let plugin = sandbox.load(source.clone(), World::Participant).await?;
    let mut suite = Suite::new(plugin.inspection(), &options.cases);
    let case = case_for(options, |case| !case.steps.is_empty());
    config_empty(&mut suite, &plugin, opens_empty(&plugin, &case)).await;
    let promise = "it opens, and names its steps";
    suite.check("opens", promise, steps(&plugin, &case)).await;
    if !options.smoke {
        let promise = "a step that is repeated ends the same way, in a fresh instance too";
        suite.check("repeats", promise, repeats(&plugin, &case)).await;
        let promise = "a compensation of what may never have been done is a success, or tried again";
        suite.check("compensates-the-unknown", promise, unknown(&plugin, &case)).await;
        let promise = "input that makes no sense is refused for good, and nothing breaks";
        suite.check("odd-input", promise, odd_input(&plugin, &case)).await;
    }
    for case in options.cases.iter().filter(|case| !case.steps.is_empty()) {
        let name = format!("case: {}", case.head.name);
        suite.check(&name, "what the author expects", author(&plugin, case)).await;
    }
    Ok(suite.done())
}

async fn opens_empty(plugin: &LoadedPlugin, case: &Case) -> Result<(), SandboxError> {
    let empty = Case { head: crate::case::Head { config: json!({}), ..case.head.clone() }, ..Case::default() };
    let spec = spec(plugin, &empty, "127.0.0.1:9");
    let (participant, opened) = WasmParticipant::start(plugin.clone(), spec, ParticipantLimits::default()).await?;
    participant.close(CLOSE_TIMEOUT).await;
    opened
}

/// Open against the peer of a case.
async fn start(plugin: &LoadedPlugin, case: &Case) -> Result<(Arc<WasmParticipant>, Outside), Verdict> {
    let outside = outside(case).await?;
    let spec = spec(plugin, case, &outside.address());
    let (participant, opened) =
        WasmParticipant::start(plugin.clone(), spec, ParticipantLimits::default()).await.map_err(refused)?;
    opened.map_err(refused)?;
    Ok((participant, outside))
}

async fn steps(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (participant, _outside) = start(plugin, case).await?;
    let steps = participant.steps();
    participant.close(CLOSE_TIMEOUT).await;
    if steps.is_empty() {
        return Err(failed("it serves no step", "name at least one in `steps`"));
    }
    Ok(steps.iter().map(|step| step.name.clone()).collect::<Vec<String>>().join(", "))
}

async fn call(participant: &WasmParticipant, step: &CaseStep, number: usize, attempt: u32) -> Ended {
    let context = StepContext {
        tenant: step.tenant.clone().unwrap_or_else(|| "suite".to_owned()),
        attempt,
        ..StepContext::new(format!("suite-saga-{number}"), "suite", &step.name)
    };
    let input = Bytes::from(step.input.to_string());
    let output = step.output.as_ref().map(|output| Bytes::from(output.to_string()));
    let direction = if step.compensate { Direction::Compensate } else { Direction::Execute };
    raw(participant, &step.name, &context, direction, input, output).await
}

async fn raw(
    participant: &WasmParticipant,
    name: &str,
    context: &StepContext,
    direction: Direction,
    input: Bytes,
    output: Option<Bytes>,
) -> Ended {
    let time: Duration = CALL_TIMEOUT;
    let result = match direction {
        Direction::Execute => participant.execute(name, context, input, time).await.result,
        Direction::Compensate => {
            participant.compensate(name, context, input, output, time).await.result.map(StepDone::Output)
        }
    };
    let of = |word: &'static str, data: Bytes| Ended {
        word,
        code: None,
        shown: format!("{word} {}", String::from_utf8_lossy(&data)),
        data: Some(data),
    };
    match result {
        Ok(StepDone::Output(output)) => of("output", output.data),
        Ok(StepDone::Pending(pending)) => of("pending", pending.data),
        Err(error) => {
            let word = match &error {
                StepError::Retryable(_) => "retryable",
                StepError::Permanent(_) => "permanent",
                StepError::Blocked { .. } => "blocked",
                StepError::Release(_) => "release",
            };
            let fault = error.fault();
            Ended {
                word,
                code: Some(fault.code.clone()),
                data: None,
                shown: format!("{word} ({})", sample::describe(fault)),
            }
        }
    }
}

impl Ended {
    /// The instance was lost by it.
    fn crashed(&self) -> bool {
        let lost = [
            Code::PLUGIN_TRAPPED,
            Code::PLUGIN_TIMED_OUT,
            Code::PLUGIN_CONTRACT,
            Code::PLUGIN_MEMORY,
            Code::PLUGIN_CPU,
        ];
        self.code.as_deref().and_then(Code::of).is_some_and(|code| lost.contains(&code))
    }
}

async fn repeats(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let mut compared = 0;
    for (number, step) in case.steps.iter().enumerate().filter(|(_, step)| !step.compensate) {
        // Each in a participant of its own: nothing that an instance remembers may matter.
        let mut ends = Vec::new();
        for attempt in [1, 2] {
            let (participant, _outside) = start(plugin, case).await?;
            ends.push(call(&participant, step, number, attempt).await);
            participant.close(CLOSE_TIMEOUT).await;
        }
        if let [first, second] = ends.as_slice()
            && (first.word, &first.data) != (second.word, &second.data)
        {
            return Err(failed(
                format!("{}: {} at first, {} when repeated", step.name, first.shown, second.shown),
                "make a repeat with one idempotency key answer the same, or say `idempotent: false` and excuse this check in a case",
            ));
        }
        compared += 1;
    }
    if compared == 0 { Err(no_steps()) } else { Ok(format!("{compared} steps, twice each")) }
}

fn no_steps() -> Verdict {
    not_run("no case calls a step: add [[step]] to tests/, so that there is an input that makes sense")
}

async fn unknown(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (participant, _outside) = start(plugin, case).await?;
    let compensating: Vec<String> =
        participant.steps().into_iter().filter(|step| step.compensates).map(|step| step.name).collect();
    let mut called = 0;
    for (number, step) in case.steps.iter().enumerate().filter(|(_, step)| compensating.contains(&step.name)) {
        let undo = CaseStep { compensate: true, output: None, ..step.clone() };
        let ended = call(&participant, &undo, number, 1).await;
        if ended.word == "permanent" || ended.crashed() {
            return Err(failed(
                format!("{}: compensating without an output ended as {}", step.name, ended.shown),
                "undo by the idempotency key or the input; what was never done is undone already",
            ));
        }
        called += 1;
    }
    participant.close(CLOSE_TIMEOUT).await;
    if called == 0 {
        Err(not_applicable("no case calls a step that compensates"))
    } else {
        Ok(format!("{called} calls"))
    }
}

async fn odd_input(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (participant, _outside) = start(plugin, case).await?;
    let inputs: [Vec<u8>; 6] =
        [b"null".to_vec(), b"{}".to_vec(), b"[]".to_vec(), b"\"".to_vec(), vec![0xff, 0xfe], vec![b'['; 500]];
    let mut called = 0;
    for step in participant.steps() {
        for input in &inputs {
            let context = StepContext { tenant: "suite".to_owned(), ..StepContext::new("odd", "suite", &step.name) };
            let ended =
                raw(&participant, &step.name, &context, Direction::Execute, Bytes::from(input.clone()), None).await;
            if ended.crashed() {
                let start = String::from_utf8_lossy(input.get(..20).unwrap_or(input)).into_owned();
                return Err(failed(
                    format!("{} with input {start:?}: {}", step.name, ended.shown),
                    "answer `permanent` for input that can't be read",
                ));
            }
            called += 1;
        }
    }
    participant.close(CLOSE_TIMEOUT).await;
    Ok(format!("{called} calls"))
}

async fn author(plugin: &LoadedPlugin, case: &Case) -> CaseResult {
    let (participant, _outside) = start(plugin, case).await?;
    for (number, step) in case.steps.iter().enumerate() {
        let ended = call(&participant, step, number, step.attempt.unwrap_or(1)).await;
        let code_fits = step.code.is_none() || step.code == ended.code;
        let read = |data: &Bytes| serde_json::from_slice::<Value>(data).ok();
        let data_fits =
            step.data.as_ref().is_none_or(|wanted| ended.data.as_ref().and_then(read).as_ref() == Some(wanted));
        if step.expect != ended.word || !code_fits || !data_fits {
            let wanted = [step.code.clone(), step.data.as_ref().map(Value::to_string)];
            let wanted = wanted.into_iter().flatten().collect::<Vec<String>>().join(" ");
            return Err(failed(
                format!("step {}: expected {} {wanted}, was {}", number + 1, step.expect, ended.shown),
                "correct the plugin, or the case if it expects the wrong thing",
            ));
        }
    }
    participant.close(CLOSE_TIMEOUT).await;
    Ok(format!("{} steps", case.steps.len()))
}
