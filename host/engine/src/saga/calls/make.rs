//! One call, from its holds to its answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::port::participant::{Answered, StepDone, StepError, StepOutput};
use waybill_core::port::trace;
use waybill_core::port::transport::{Fault, PluginIdentity};
use waybill_core::saga::call::{Answer, AnswerResult, Call, output_bytes, output_json};
use waybill_core::saga::definition::Action;
use waybill_core::saga::event::StepDirection;
use waybill_core::step_address::StepAddress;

use super::holds::Target;
use super::{Calls, Origin, http, outgoing, policy, spans};
use crate::participants::StepLookupError;

/// Whoever answered, and what.
struct CallResult {
    result: Result<StepDone, StepError>,
    by: Option<PluginIdentity>,
}

impl CallResult {
    fn host(error: StepError) -> Self {
        Self { result: Err(error), by: None }
    }
}

impl From<Answered<StepDone>> for CallResult {
    fn from(answered: Answered<StepDone>) -> Self {
        Self { result: answered.result, by: Some(answered.by) }
    }
}

/// Makes a call and says what came of it, within `time`.
pub(super) async fn make(calls: &Calls, call: &Call, origin: &Origin, time: Duration) -> Answer {
    let context = &calls.context;
    if !context.config.exclusive && context.clock.now().mono >= origin.lease.until() {
        return super::ending();
    }
    let began = Instant::now();
    let span = context.config.tracer.as_ref().map(|tracer| spans::begin(tracer, call));
    let own;
    // What is called, and what it leaves behind, has the span as its parent.
    let call = match span.as_ref().filter(|span| span.is_recorded()) {
        Some(span) => {
            own = spans::with_context(call, span.traceparent());
            &own
        }
        None => call,
    };
    let CallResult { result, by } = match &call.action {
        Action::Http(url) => of_http(calls, call, url, time).await,
        Action::Fn(address) => of_participant(calls, call, address, time).await,
        other => {
            CallResult::host(StepError::Permanent(Fault::new(Code::UNKNOWN_INTERNAL, format!("{other} isn't called"))))
        }
    };
    let backoff = match &result {
        Err(StepError::Retryable(fault)) => Box::pin(policy::decide(context, call, fault)).await,
        _ => None,
    };
    let result = match result.and_then(|done| outgoing::taken(context, call, done)) {
        Ok(result) => result,
        Err(error) => AnswerResult::Failed(error),
    };
    trace::finish(span, spans::failure(&result));
    Answer { result, plugin: by.map(Arc::new), took: began.elapsed(), backoff }
}

async fn of_http(calls: &Calls, call: &Call, url: &Arc<str>, time: Duration) -> CallResult {
    let (client, bytes_max) = {
        let live = calls.context.live();
        (live.config.sagas.http.clone(), live.config.sagas.limits.output_bytes_max)
    };
    let Some(client) = client else {
        let reason = "this host makes no http: calls for sagas";
        return CallResult::host(blocked(http::origin(url), Fault::new(Code::HTTP_UNSUPPORTED, reason)));
    };
    let tenant = Some(call.reference.key.tenant.clone());
    let target = Target { tenant, name: Arc::from(http::origin(url)) };
    let post = async {
        let step = http::step(call, url, time, bytes_max);
        CallResult { result: client.post(step).await, by: None }
    };
    held(calls, target, None, pin!(post)).await
}

async fn of_participant(calls: &Calls, call: &Call, address: &StepAddress, time: Duration) -> CallResult {
    let (participant, step) = match calls.context.config.sagas.participants.at(address) {
        Ok(found) => found,
        Err(error) => return CallResult::host(blocked(missing_scope(address), lookup_fault(&error))),
    };
    let whole = format!("fn:{}", participant.name());
    let name = Arc::from(format!("{whole}/{step}"));
    let target = Target { tenant: Some(call.reference.key.tenant.clone()), name };
    let whole = Target { tenant: None, name: Arc::from(whole) };
    let input = Bytes::copy_from_slice(call.input.as_str().as_bytes());
    let work = async {
        match call.reference.way {
            StepDirection::Execute => participant.execute(step, &call.context, input, time).await.into(),
            StepDirection::Compensate => {
                let output = call.output.as_ref().map(output_bytes);
                let Answered { by, result } = participant.compensate(step, &call.context, input, output, time).await;
                CallResult { result: result.map(StepDone::Output), by: Some(by) }
            }
        }
    };
    held(calls, target, Some(whole), pin!(work)).await
}

/// Calls unless the target, or the whole that it is a part of, is held; and learns from the answer.
async fn held(
    calls: &Calls,
    target: Target,
    whole: Option<Target>,
    work: impl Future<Output = CallResult>,
) -> CallResult {
    let now = calls.context.clock.now().mono;
    for one in whole.iter().chain([&target]) {
        if let Err(error) = calls.holds.admit(one, now) {
            if let Some(whole) = whole.as_ref().filter(|whole| *whole != one) {
                // Let in as the probe of the whole, which it now can't be.
                calls.holds.unknown(whole);
            }
            return CallResult::host(error);
        }
    }
    let word = work.await;
    let now = calls.context.clock.now().mono;
    match &word.result {
        Err(StepError::Blocked { scope, fault }) => {
            let at_fault = whole.as_ref().filter(|whole| *whole.name == **scope);
            calls.holds.blocked(at_fault.unwrap_or(&target).clone(), scope, fault, now);
        }
        Err(StepError::Release(_)) => whole.iter().chain([&target]).for_each(|one| calls.holds.unknown(one)),
        _ => whole.iter().chain([&target]).for_each(|one| calls.holds.well(one)),
    }
    word
}

fn blocked(scope: impl Into<String>, fault: Fault) -> StepError {
    StepError::Blocked { scope: scope.into(), fault }
}

/// What is missing: the participant, or the step that nobody serves.
fn missing_scope(address: &StepAddress) -> String {
    address.participant.as_ref().map_or_else(|| address.to_string(), |name| format!("fn:{name}"))
}

fn lookup_fault(error: &StepLookupError) -> Fault {
    Fault::new(error.code(), error.to_string())
}

/// An answer's bytes as they are kept.
pub(super) fn kept(output: &StepOutput) -> waybill_core::saga::json::Json {
    output_json(&output.data, output.content_type.as_deref())
}
