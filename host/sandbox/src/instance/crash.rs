//! Why an instance was lost, in words for the operator.

use std::fmt;

use wasmtime::Trap;
use waybill_core::code::Code;
use waybill_core::one_line::into_one_line;
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use super::stack;
use crate::error::one_line;
use crate::host::{ContractBreach, EndpointContext, InstanceState};
use crate::limits::FAULT_REASON_BYTES_MAX;
use crate::meters::Bound;
use crate::text::cut_owned;

/// The CPU budget of the running calls is used up.
#[derive(Debug)]
pub(super) struct CpuExhausted;

impl fmt::Display for CpuExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the CPU time of the call is used up")
    }
}

impl std::error::Error for CpuExhausted {}

/// The bound that wasmtime names in its text: these errors have no type of their own.
fn bound_of(text: &str) -> Option<Bound> {
    let says = |words: &str| text.contains(words);
    if says("fuel allocated for hostcalls") {
        Some(Bound::HostcallBytes)
    } else if says("handle limit exceeded") || says("no free keys") {
        Some(Bound::Handles)
    } else {
        None
    }
}

/// An instance was lost.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    /// Trapped, timed out, or broke the contract.
    pub(crate) kind: ErrorKind,
    /// Details. Everything that was under way may have had its effect.
    pub(crate) fault: Fault,
    /// The limit that ended it and isn't counted yet.
    pub(crate) bound: Option<Bound>,
}

impl Crash {
    pub(super) fn new(kind: ErrorKind, code: Code, reason: impl Into<String>) -> Self {
        let mut fault = Fault::new(code, cut_owned(into_one_line(reason.into()), FAULT_REASON_BYTES_MAX));
        fault.maybe_delivered = true;
        Self { kind, fault, bound: None }
    }

    fn at(self, bound: Bound) -> Self {
        Self { bound: Some(bound), ..self }
    }

    /// A call took longer than it may.
    pub(super) fn late(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::TimedOut, Code::PLUGIN_TIMED_OUT, reason).at(Bound::CallTime)
    }

    /// From what wasmtime says, and what is known of the instance.
    pub(super) fn from_trap(error: &wasmtime::Error, state: &InstanceState) -> Self {
        let text = [Some(one_line(error)), stack::of_trap(error)].into_iter().flatten().collect::<Vec<_>>().join(", ");
        if error.downcast_ref::<ContractBreach>().is_some() {
            return Self::new(ErrorKind::Contract, Code::PLUGIN_CONTRACT, text);
        }
        if error.downcast_ref::<CpuExhausted>().is_some() {
            return Self::new(ErrorKind::Trapped, Code::PLUGIN_CPU, text).at(Bound::Cpu);
        }
        // What the guest had asked too much of before.
        if let Some(bound) = state.limiter.refused() {
            let what = if bound == Bound::Tables { "table elements" } else { "memory" };
            let reason = format!("the {what} it may have is used up: {text}");
            return Self::new(ErrorKind::Trapped, Code::PLUGIN_MEMORY, reason);
        }
        if error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow) {
            return Self::new(ErrorKind::Trapped, Code::PLUGIN_STACK_OVERFLOW, text).at(Bound::Stack);
        }
        let trapped = |text| Self::new(ErrorKind::Trapped, Code::PLUGIN_TRAPPED, text);
        match bound_of(&text) {
            Some(bound) => trapped(text).at(bound),
            None => trapped(state.last_words.explain(&text)),
        }
    }

    /// A host function panicked on this instance's task.
    pub(super) fn host_panic() -> Self {
        Self::new(
            ErrorKind::Trapped,
            Code::PLUGIN_HOST_PANIC,
            "a host function panicked: see the host's log and report it",
        )
    }

    /// Counts it, and the limit that led to it.
    pub(crate) fn count(&self, context: &EndpointContext) {
        context.meters.trap(self.kind);
        if let Some(bound) = self.bound {
            context.meters.hit(bound);
        }
    }

    /// The answer to a call that was under way.
    pub(super) fn call_error(&self) -> CallError {
        CallError { kind: self.kind, fault: self.fault.clone() }
    }

    /// The answer to a call that only shared the instance.
    pub(super) fn sibling_error(&self) -> CallError {
        let mut error = self.call_error();
        error.fault.reason = format!("another call of the same instance brought it down: {}", error.fault.reason);
        error
    }
}
