//! What can be asked of an instance, in every world, and what it can answer.

use std::sync::Arc;

use waybill_bindings::api::types::Message;
use waybill_bindings::inbound::inbound_types::Inbound;
use waybill_bindings::services::exports::waybill::inbound::source_api::Settlement;
use waybill_bindings::services::exports::waybill::inbound::table_api::{ClaimArgs, Mark};
use waybill_bindings::services::exports::waybill::plugin::participant_api::StepContext;
use waybill_core::code::Code;
use waybill_core::port::handler::{Verdict, VerdictSink};
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::source::{Notices, Pulled, Settled};
use waybill_core::port::table::{Claimed, ContextStats, DeadPage, Ended};
use waybill_core::port::transport::{Fault, HealthReport, Outcome, OutcomeSink};

use crate::host::EarlySink;
use crate::limits::TABLE_CONTEXTS_MAX;

/// The function of transports.
const SEND: &str = "send-batch";
/// The function of handlers.
pub(super) const HANDLE: &str = "handle";
/// The functions of participants.
const EXECUTE: &str = "execute";
const COMPENSATE: &str = "compensate";

/// Whether calls of a function give a guest work that people send, and don't only keep it going.
pub(super) fn is_for_people(function: &str) -> bool {
    matches!(function, SEND | HANDLE | EXECUTE | COMPENSATE)
}

/// What is to be done, as the guest gets it.
pub(crate) enum Work {
    /// A transport sends a batch.
    Send {
        batch: Vec<Message>,
        sink: Arc<dyn OutcomeSink>,
        /// W3C trace context of the host's span.
        traceparent: Option<String>,
    },
    /// A handler handles a batch.
    Handle {
        batch: Vec<Inbound>,
        sink: Arc<dyn VerdictSink>,
    },
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
    /// A source fetches no more.
    Quiesce,
    Claim(ClaimArgs),
    /// A table marks what an instance claimed.
    Commit {
        /// The instance that claimed it.
        session: u64,
        claim: u32,
        marks: Vec<Mark>,
    },
    Stats,
    /// A table lists what stands failed.
    Dead {
        page: Option<String>,
        max: u32,
    },
    /// A table puts rows back, by their keys.
    Replay(Vec<String>),
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
            Self::Send { .. } => SEND,
            Self::Handle { .. } => HANDLE,
            Self::Pull { .. } => "pull",
            Self::Settle { .. } => "settle",
            Self::Quiesce => "quiesce",
            Self::Claim(_) => "claim",
            Self::Commit { .. } => "commit",
            Self::Stats => "stats",
            Self::Dead { .. } => "dead",
            Self::Replay(_) => "replay",
            Self::Execute(_) => EXECUTE,
            Self::Compensate { .. } => COMPENSATE,
            Self::Health => "health",
        }
    }

    /// How many things the answer must speak of, or may at most.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Send { batch, .. } => batch.len(),
            Self::Handle { batch, .. } => batch.len(),
            Self::Pull { max, .. } => *max as usize,
            Self::Settle { items, .. } => items.len(),
            Self::Claim(args) => args.batch as usize,
            Self::Commit { marks, .. } => marks.len(),
            Self::Dead { max, .. } => *max as usize,
            Self::Replay(ids) => ids.len(),
            Self::Stats => TABLE_CONTEXTS_MAX,
            Self::Quiesce | Self::Execute(_) | Self::Compensate { .. } | Self::Health => 0,
        }
    }

    /// Who takes early answers.
    pub(super) fn sink(&self) -> Option<EarlySink> {
        match self {
            Self::Send { sink, .. } => Some(EarlySink::Outcomes(Arc::clone(sink))),
            Self::Handle { sink, .. } => Some(EarlySink::Verdicts(Arc::clone(sink))),
            _ => None,
        }
    }

    /// The instance that it speaks of, if it speaks of one.
    pub(super) fn session(&self) -> Option<u64> {
        match self {
            Self::Settle { session, .. } | Self::Commit { session, .. } => Some(*session),
            _ => None,
        }
    }

    /// The answer to work on what another instance had: that is lost with it.
    pub(super) fn lost(&self) -> Option<Answer> {
        match self {
            Self::Settle { items, .. } => Some(Answer::Settled(vec![Settled::Lost; items.len()])),
            Self::Commit { .. } => Some(Answer::Ended(Ended::Lost(claim_lost()))),
            _ => None,
        }
    }

    /// Trace context of the call.
    pub(super) fn traceparent(&self) -> Option<String> {
        match self {
            Self::Send { traceparent, .. } => traceparent.clone(),
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
    Quiesced,
    /// What a tick told.
    Noticed(Notices),
    Claimed(Claimed),
    Ended(Ended),
    Stats(Vec<ContextStats>),
    Dead(DeadPage),
    /// One answer an id.
    Replayed(Vec<bool>),
    /// A step was done, or not.
    Executed(Result<StepDone, StepError>),
    /// A step was undone, or not.
    Compensated(Result<StepOutput, StepError>),
    Health(HealthReport),
}

/// Why a claim of an instance that has ended can't be committed. The database has ended its transaction.
pub(crate) fn claim_lost() -> Fault {
    Fault::new(Code::PLUGIN_CLOSED, "the instance that made the claim has ended, and its transaction with it")
}
