//! Well-behaved participant. Steps: `tell` answers everything it was told, doing and undoing; `count` how many calls and which tenants
//! this instance has served; `wait` is pending; `fail` fails as the input says; `sleep` takes as many milliseconds; `leave` leaves as
//! many messages and events behind; `fill` answers as many bytes; `keep` counts in `kv`.
use std::cell::RefCell;

use guests::{CallInfo, Config, Fault, OpenArgs, Opened, PluginError};
use serde_json::{Value, json};
use waybill_plugin::host::kv;
use waybill_plugin::participant::{Done, Outgoing, Output, Participant, Step, StepCall, StepError, StreamEvent, Undo};

waybill_plugin::manifest!("manifests/participant.toml");
waybill_plugin::export_participant!(Steps { Tell: Undo, Count, Wait: Undo, Fail, Sleep, Leave, Fill, Keep });

struct Steps {
    instance: u32,
    tenants: RefCell<Vec<String>>,
}

impl Participant for Steps {
    type Config = Config;

    async fn open(_: &CallInfo, args: &OpenArgs, config: Config) -> Result<(Self, Opened), PluginError> {
        match config.address.as_str() {
            "denied" => Err(PluginError::denied("FIXTURE.DENIED", "as told")),
            "unavailable" => Err(PluginError::unavailable("FIXTURE.GONE", "as told")),
            _ => Ok((Self { instance: args.instance, tenants: RefCell::default() }, Opened::new())),
        }
    }
}

impl Steps {
    fn note(&self, call: &StepCall) {
        self.tenants.borrow_mut().push(call.tenant().to_owned());
    }
}

/// As JSON: what the call was told.
fn described(call: &StepCall, input: &Value) -> Value {
    let context = &call.context;
    json!({
        "saga_id": context.saga_id,
        "definition": context.definition,
        "definition_version": context.definition_version,
        "tenant": context.tenant,
        "step": context.step,
        "idempotency_key": context.idempotency_key,
        "attempt": context.attempt,
        "envelope_id": context.envelope_id,
        "correlation_id": context.correlation_id,
        "saga_deadline": context.saga_deadline,
        "headers": context.headers,
        "attributes": context.attributes,
        "traceparent": call.info.traceparent,
        "timeout": call.info.timeout,
        "input": input,
    })
}

struct Tell;
impl Step<Steps> for Tell {
    const NAME: &'static str = "tell";
    const SUMMARY: &'static str = "Tells what it was told.";
    type Input = Value;
    type Output = Value;
    async fn execute(_: &Steps, call: &StepCall, input: Value) -> Result<Done<Value>, StepError> {
        waybill_plugin::info!("telling");
        Ok(described(call, &input).into())
    }
}
impl Undo<Steps> for Tell {
    async fn undo(_: &Steps, call: &StepCall, input: Value, output: Option<Value>) -> Result<Output<()>, StepError> {
        let told = json!({ "told": described(call, &input), "output": output });
        Ok(Output::from(()).with_message(Outgoing::json("bus:undone", &told)))
    }
}

struct Count;
impl Step<Steps> for Count {
    const NAME: &'static str = "count";
    type Input = Value;
    type Output = Value;
    async fn execute(steps: &Steps, call: &StepCall, _: Value) -> Result<Done<Value>, StepError> {
        steps.note(call);
        let tenants = steps.tenants.borrow();
        Ok(json!({ "instance": steps.instance, "calls": tenants.len(), "tenants": *tenants }).into())
    }
}

struct Wait;
impl Step<Steps> for Wait {
    const NAME: &'static str = "wait";
    const IDEMPOTENT: bool = false;
    type Input = Value;
    type Output = Value;
    async fn execute(_: &Steps, _: &StepCall, input: Value) -> Result<Done<Value>, StepError> {
        Ok(Done::Pending { signal: "approved".to_owned(), timeout: Some(60_000), data: input })
    }
}
impl Undo<Steps> for Wait {
    async fn undo(_: &Steps, _: &StepCall, _: Value, _: Option<Value>) -> Result<Output<()>, StepError> {
        Err(StepError::permanent("FIXTURE.STUCK", "as told"))
    }
}

struct Fail;
impl Step<Steps> for Fail {
    const NAME: &'static str = "fail";
    type Input = String;
    type Output = ();
    async fn execute(_: &Steps, _: &StepCall, how: String) -> Result<Done<()>, StepError> {
        Err(match how.as_str() {
            "retryable" => StepError::Retryable(Fault::new("FIXTURE.LATER", "as told").with_after(Some(1_500))),
            "unknown" => StepError::unknown("FIXTURE.UNKNOWN", "as told"),
            "blocked" => StepError::blocked("stock", Fault::new("FIXTURE.DOWN", "as told")),
            _ => StepError::permanent("FIXTURE.NEVER", "as told"),
        })
    }
}

struct Sleep;
impl Step<Steps> for Sleep {
    const NAME: &'static str = "sleep";
    type Input = u64;
    type Output = u64;
    async fn execute(steps: &Steps, call: &StepCall, millis: u64) -> Result<Done<u64>, StepError> {
        steps.note(call);
        std::thread::sleep(std::time::Duration::from_millis(millis));
        Ok(millis.into())
    }
}

struct Leave;
impl Step<Steps> for Leave {
    const NAME: &'static str = "leave";
    type Input = u32;
    type Output = u32;
    async fn execute(_: &Steps, _: &StepCall, count: u32) -> Result<Done<u32>, StepError> {
        let mut output = Output::from(count);
        for number in 0..count {
            output = output
                .with_message(Outgoing::json("bus:left", &number).with_key("k").with_header("x-n", number.to_string()))
                .with_event(StreamEvent::json("left", "number", number.to_string(), "create", &number));
        }
        Ok(output.into())
    }
}

struct Fill;
impl Step<Steps> for Fill {
    const NAME: &'static str = "fill";
    type Input = usize;
    type Output = String;
    async fn execute(_: &Steps, _: &StepCall, bytes: usize) -> Result<Done<String>, StepError> {
        Ok("x".repeat(bytes).into())
    }
}

struct Keep;
impl Step<Steps> for Keep {
    const NAME: &'static str = "keep";
    type Input = Value;
    type Output = u8;
    async fn execute(_: &Steps, _: &StepCall, _: Value) -> Result<Done<u8>, StepError> {
        let failed = |error| StepError::retryable("FIXTURE.KV", format!("{error:?}"));
        let before = kv::get("calls").map_err(failed)?.and_then(|entry| entry.value.first().copied()).unwrap_or(0);
        kv::put("calls", &[before + 1], &kv::Expectation::Anything).map_err(failed)?;
        Ok((before + 1).into())
    }
}
