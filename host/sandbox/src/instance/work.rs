//! What can be asked of an instance, in every world, and what it can answer.

use std::sync::Arc;

use waybill_bindings::api::types::Message;
use waybill_bindings::services::exports::waybill::plugin::handler_api::Inbound;
use waybill_bindings::services::exports::waybill::plugin::participant_api::StepContext;
use waybill_bindings::services::exports::waybill::plugin::source_api::Settlement;
use waybill_core::port::handler::Verdict;
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::source::{Pulled, Settled};
use waybill_core::port::transport::{HealthReport, Outcome, OutcomeSink};

/// What is to be done, as the guest gets it.
pub(crate) enum Work {
    /// A transport sends a batch.
    Send {
        batch: Vec<Message>,
        sink: Arc<dyn OutcomeSink>,
    },
    /// A handler handles a batch.
    Handle(Vec<Inbound>),
    Pull {
        max: u32,
        /// Most payload bytes of all messages together.
        max_bytes: u32,
        /// Milliseconds to wait for the first.
        wait: u32,
    },
    /// A source settles what an instance brought.
    Settle {
        /// The instance that brought it.
        session: u64,
        items: Vec<Settlement>,
    },
    /// A participant does a step.
    Execute(Step),
    /// A participant undoes a step.
    Compensate {
        step: Step,
        /// What doing it answered; none = unknown.
        output: Option<Vec<u8>>,
    },
    Health,
}

/// A step with what it is called with.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) context: StepContext,
    pub(crate) input: Vec<u8>,
    /// W3C trace context of the host's span.
    pub(crate) traceparent: Option<String>,
}

impl Work {
    /// The function of the contract, for messages.
    pub(super) fn function(&self) -> &'static str {
        match self {
            Self::Send { .. } => "send-batch",
            Self::Handle(_) => "handle",
            Self::Pull { .. } => "pull",
            Self::Settle { .. } => "settle",
            Self::Execute(_) => "execute",
            Self::Compensate { .. } => "compensate",
            Self::Health => "health",
        }
    }

    /// How many things the answer must speak of, or may at most.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Send { batch, .. } => batch.len(),
            Self::Handle(batch) => batch.len(),
            Self::Pull { max, .. } => *max as usize,
            Self::Settle { items, .. } => items.len(),
            Self::Execute(_) | Self::Compensate { .. } | Self::Health => 0,
        }
    }

    /// Who takes early outcomes.
    pub(super) fn sink(&self) -> Option<Arc<dyn OutcomeSink>> {
        match self {
            Self::Send { sink, .. } => Some(Arc::clone(sink)),
            _ => None,
        }
    }

    /// Trace context of the call.
    pub(super) fn traceparent(&self) -> Option<String> {
        match self {
            Self::Execute(step) | Self::Compensate { step, .. } => step.traceparent.clone(),
            _ => None,
        }
    }
}

/// What came of it.
pub(crate) enum Answer {
    /// One outcome a message.
    Outcomes(Vec<Outcome>),
    /// One verdict a message.
    Verdicts(Vec<Verdict>),
    Pulled(Pulled),
    /// One result an order.
    Settled(Vec<Settled>),
    /// A step was done, or not.
    Executed(Result<StepDone, StepError>),
    /// A step was undone, or not.
    Compensated(Result<StepOutput, StepError>),
    Health(HealthReport),
}
