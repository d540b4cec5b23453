//! Saga steps between the contract and the core.

use bytes::Bytes;
use waybill_bindings::services::exports::waybill::plugin::participant_api as wit;
use waybill_core::code::Code;
use waybill_core::port::participant::{Direction, Pending, StepContext, StepDone, StepError, StepInfo, StepOutput};
use waybill_core::port::transport::Fault;

use super::followup::{Size, followups, too_large};
use super::{attributes, block, fault, millis};
use crate::host::EndpointContext;
use crate::limits::{ATTRIBUTE_BYTES_MAX, FAULT_REASON_BYTES_MAX, STEP_OUTPUT_BYTES_MAX};

/// The context of a call as the guest gets it.
pub(crate) fn context(context: &StepContext, direction: Direction) -> wit::StepContext {
    wit::StepContext {
        saga_id: context.saga_id.clone(),
        definition: context.definition.clone(),
        definition_version: context.definition_version,
        tenant: context.tenant.clone(),
        step: context.step.clone(),
        idempotency_key: context.idempotency_key(direction),
        attempt: context.attempt,
        envelope_id: context.envelope_id.clone(),
        correlation_id: context.correlation_id.clone(),
        saga_deadline: context.saga_deadline.map(|at| at.0),
        headers: context.headers.clone(),
        attributes: context.attributes.clone(),
    }
}

/// A step as its plugin describes it. Names aren't cut: they are checked.
pub(crate) fn info(endpoint: &EndpointContext, info: wit::StepInfo) -> StepInfo {
    StepInfo {
        name: info.name,
        compensates: info.compensates,
        idempotent: info.idempotent,
        summary: endpoint.redactor.clean_and_cut(info.summary, ATTRIBUTE_BYTES_MAX),
        attributes: attributes(endpoint, info.attributes),
    }
}

pub(crate) fn done(
    endpoint: &EndpointContext,
    done: Result<wit::StepDone, wit::StepError>,
) -> Result<StepDone, StepError> {
    match done {
        Ok(wit::StepDone::Output(answer)) => output(endpoint, answer).map(StepDone::Output),
        Ok(wit::StepDone::Pending(pending)) => {
            let data = data(pending.data)?;
            if pending.signal.trim().is_empty() || pending.signal.len() > ATTRIBUTE_BYTES_MAX {
                let why = format!("it waits for a signal without a name, or of more than {ATTRIBUTE_BYTES_MAX} bytes");
                let fault = Fault { maybe_delivered: true, ..Fault::new(Code::PLUGIN_CONTRACT, why) };
                return Err(StepError::Permanent(fault));
            }
            Ok(StepDone::Pending(Pending { signal: pending.signal, timeout: pending.timeout.map(millis), data }))
        }
        Err(cause) => Err(error(endpoint, cause)),
    }
}

pub(crate) fn undone(
    endpoint: &EndpointContext,
    done: Result<wit::StepOutput, wit::StepError>,
) -> Result<StepOutput, StepError> {
    done.map_err(|cause| error(endpoint, cause)).and_then(|answer| output(endpoint, answer))
}

fn output(endpoint: &EndpointContext, answer: wit::StepOutput) -> Result<StepOutput, StepError> {
    let data = data(answer.data)?;
    Size::of(&answer.messages, &answer.events).check().map_err(StepError::Permanent)?;
    let (messages, events) = followups(answer.messages, answer.events);
    let content_type = answer.content_type.map(|text| endpoint.redactor.clean_and_cut(text, FAULT_REASON_BYTES_MAX));
    Ok(StepOutput { data, content_type, messages, events, attributes: attributes(endpoint, answer.attributes) })
}

/// Trying again would answer as much again, so what is too large is final.
fn data(bytes: Vec<u8>) -> Result<Bytes, StepError> {
    if bytes.len() > STEP_OUTPUT_BYTES_MAX {
        let what = format!("{} bytes, at most {STEP_OUTPUT_BYTES_MAX} are taken", bytes.len());
        return Err(StepError::Permanent(too_large(what)));
    }
    Ok(Bytes::from(bytes))
}

fn error(endpoint: &EndpointContext, cause: wit::StepError) -> StepError {
    match cause {
        wit::StepError::Retryable(cause) => StepError::Retryable(fault(endpoint, cause)),
        wit::StepError::Permanent(cause) => StepError::Permanent(fault(endpoint, cause)),
        wit::StepError::Blocked(cause) => {
            let (scope, fault) = block(endpoint, cause);
            StepError::Blocked { scope, fault }
        }
    }
}
