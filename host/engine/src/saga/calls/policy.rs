//! Retry plugins: a component that decides what follows a step's failure.

use waybill_core::code::Code;
use waybill_core::port::backoff::{BackoffDecision, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::trace::trace_id;
use waybill_core::port::transport::Fault;
use waybill_core::saga::call::Call;
use waybill_core::saga::event::StepDirection;

use crate::shard::Context;

/// The word of the step's retry plugin. None when it has none; one that isn't there has no opinion.
pub(super) async fn decide(context: &Context, call: &Call, fault: &Fault) -> Option<BackoffDecision> {
    let name = call.retry_plugin.as_ref()?;
    let live = context.live();
    let component = live.config.retries.component.as_ref().filter(|policy| policy.name() == &**name);
    let Some(policy) = context.config.sagas.policies.get(&**name).or(component) else {
        tracing::warn!(
            plugin = &**name,
            saga = call.context.saga_id,
            step = call.context.step,
            trace_id = call.context.traceparent.as_deref().and_then(trace_id),
            "a step's retry plugin isn't configured: the step's own retry decides"
        );
        return Some(BackoffDecision::Fallback);
    };
    Some(policy.decide(&failed(context, call, fault)).await)
}

fn failed(context: &Context, call: &Call, fault: &Fault) -> FailedAttempt {
    let (now, of) = (context.clock.now().wall, &call.context);
    FailedAttempt {
        work: if call.reference.way == StepDirection::Execute { WorkKind::Step } else { WorkKind::Compensation },
        kind: kind(fault),
        fault: fault.clone(),
        number: call.failures.saturating_add(1),
        max_attempts: call.retry.max_attempts,
        elapsed: now.since(call.began_at),
        age: now.since(call.started_at),
        previous_delay: Some(call.previous_delay).filter(|delay| !delay.is_zero()),
        tenant: of.tenant.clone(),
        topic: format!("saga:{}/{}", of.definition, of.step),
        endpoint: call.action.to_string(),
        now,
        deadline: of.saga_deadline,
        random: rand::random(),
    }
}

/// The class of a failure, by the codes that the host itself makes.
fn kind(fault: &Fault) -> FailureKind {
    match Code::of(&fault.code) {
        Some(Code::PLUGIN_TIMEOUT | Code::PLUGIN_TIMED_OUT | Code::HTTP_TIMEOUT | Code::SAGA_TIMEOUT) => {
            FailureKind::TimedOut
        }
        Some(
            Code::PLUGIN_TRAPPED
            | Code::PLUGIN_CONTRACT
            | Code::PLUGIN_CPU
            | Code::PLUGIN_MEMORY
            | Code::UNKNOWN_INTERNAL,
        ) => FailureKind::Trapped,
        Some(Code::HTTP_CONNECT | Code::HTTP_RESET | Code::HTTP_RESOLVE | Code::HTTP_TLS) => FailureKind::Unavailable,
        Some(Code::HTTP_OVERLOADED) => FailureKind::Throttled,
        _ => FailureKind::Retryable,
    }
}
