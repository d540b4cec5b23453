//! Why an instance was lost, in words for the operator.

use std::fmt;

use wasmtime::Trap;
use waybill_core::port::transport::{CallError, ErrorKind, Fault};

use crate::error::one_line;
use crate::host::ContractBreach;
use crate::limits::FAULT_REASON_BYTES_MAX;
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

/// An instance was lost.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    /// Trapped, timed out, or broke the contract.
    pub(crate) kind: ErrorKind,
    /// Details. Everything that was under way may have had its effect.
    pub(crate) fault: Fault,
}

impl Crash {
    pub(super) fn new(kind: ErrorKind, code: &str, reason: impl Into<String>) -> Self {
        let mut fault = Fault::new(code, cut_owned(reason.into(), FAULT_REASON_BYTES_MAX));
        fault.maybe_delivered = true;
        Self { kind, fault }
    }

    /// From what wasmtime says. `out_of_memory`: the guest had asked for more memory than it may have.
    pub(super) fn from_trap(error: &wasmtime::Error, out_of_memory: bool) -> Self {
        let text = one_line(error);
        if error.downcast_ref::<ContractBreach>().is_some() {
            return Self::new(ErrorKind::Contract, "PLUGIN.CONTRACT", text);
        }
        if error.downcast_ref::<CpuExhausted>().is_some() {
            return Self::new(ErrorKind::Trapped, "PLUGIN.CPU", text);
        }
        if out_of_memory {
            let reason = format!("the memory it may have is used up: {text}");
            return Self::new(ErrorKind::Trapped, "PLUGIN.MEMORY", reason);
        }
        let code = match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => "PLUGIN.STACK_OVERFLOW",
            _ => "PLUGIN.TRAPPED",
        };
        Self::new(ErrorKind::Trapped, code, text)
    }

    /// A host function panicked on this instance's task.
    pub(super) fn host_panic() -> Self {
        Self::new(ErrorKind::Trapped, "PLUGIN.HOST_PANIC", "a host function panicked: see the host's log and report it")
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
