//! What an answer of a handler means (`docs/design/inbox.md`, Verdicts).

use std::sync::Arc;
use std::time::Duration;

use super::records::SagaDoorItem;
use crate::code::Code;
use crate::message::Message;
use crate::port::transport::{Blame, CallError, ErrorKind, Fault};
use crate::streams::joint::JointAppends;

/// What a handled message leaves behind: it commits with the mark that it is processed, whole or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leavings {
    /// For the doorstep of the outbox, checked, with ids.
    pub messages: Vec<Arc<Message>>,
    /// For the doorstep of sagas.
    pub sagas: Vec<SagaDoorItem>,
    /// For streams, checked, with ids.
    pub events: JointAppends,
}

/// What was said of one message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Processed(Leavings),
    /// The handler's own records say that it was done before: finished, and nothing is left behind.
    Duplicate,
    /// Never processable: a dead letter.
    Poison(Fault),
    /// Not now; the attempt counts.
    Failed(Fault),
    /// The handler asks for a pause of the consumer; the attempt doesn't count, unless another message went through since this one
    /// last asked.
    Busy(Fault),
    /// What the handler needs is down: the consumer is held and probed with another message first. It counts as [`Self::Busy`] does.
    Blocked(Fault),
    /// Not called: the call was given up before it began. Nothing counts.
    NotCalled,
    /// Called, and another call brought its instance down: nothing counts, and the next call says that it may have been handled.
    Interrupted,
}

/// What an HTTP status means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    Processed,
    Duplicate,
    Poison,
    Failed,
    Busy,
    Blocked,
}

/// Sorts out an HTTP status. `retry_after`: the answer says when another try makes sense.
pub fn status_class(status: u16, retry_after: bool) -> StatusClass {
    match status {
        200..=299 => StatusClass::Processed,
        409 => StatusClass::Duplicate,
        400 | 406 | 411 | 413 | 414 | 415 | 422 | 431 => StatusClass::Poison,
        429 => StatusClass::Busy,
        503 if retry_after => StatusClass::Busy,
        408 | 425 | 500..=599 => StatusClass::Failed,
        // 401, 403, 404, 405, 410, redirects and the rest: the address or the rights are wrong, not the message.
        _ => StatusClass::Blocked,
    }
}

impl Verdict {
    /// Of an HTTP answer; `leavings` are what its body asks for, if it does.
    pub fn of_status(status: u16, after: Option<Duration>, leavings: Leavings) -> Self {
        let fault =
            || Fault { after, ..Fault::new(format!("HTTP.{status}"), format!("the handler answered {status}")) };
        match status_class(status, after.is_some()) {
            StatusClass::Processed => Self::Processed(leavings),
            StatusClass::Duplicate => Self::Duplicate,
            StatusClass::Poison => Self::Poison(fault()),
            StatusClass::Failed => Self::Failed(fault()),
            StatusClass::Busy => Self::Busy(fault()),
            StatusClass::Blocked => Self::Blocked(fault()),
        }
    }

    /// Of a call that failed as a whole, with one message in it.
    pub fn of_call_error(error: CallError) -> Self {
        match error.kind {
            _ if error.blame() == Blame::Another => Self::Interrupted,
            ErrorKind::Trapped | ErrorKind::TimedOut | ErrorKind::Contract | ErrorKind::Internal => {
                Self::Failed(error.fault)
            }
            // It may have been handled before the connection broke.
            _ if error.fault.maybe_delivered => Self::Failed(error.fault),
            ErrorKind::Throttled => Self::Busy(error.fault),
            ErrorKind::Cancelled => Self::NotCalled,
            ErrorKind::InvalidConfig
            | ErrorKind::Denied
            | ErrorKind::Unavailable
            | ErrorKind::Fenced
            | ErrorKind::Unsupported => Self::Blocked(error.fault),
        }
    }

    /// What a handler left behind can't be committed: a failed attempt.
    pub fn bad_output(reason: impl Into<String>) -> Self {
        Self::Failed(Fault::new(Code::HANDLER_BAD_OUTPUT, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_fate() {
        let classes = |statuses: &[u16]| -> Vec<StatusClass> {
            statuses.iter().map(|status| status_class(*status, false)).collect()
        };
        let all = |class: StatusClass, statuses: &[u16]| assert_eq!(classes(statuses), vec![class; statuses.len()]);
        all(StatusClass::Processed, &[200, 201, 202, 204, 299]);
        all(StatusClass::Duplicate, &[409]);
        all(StatusClass::Poison, &[400, 406, 411, 413, 414, 415, 422, 431]);
        all(StatusClass::Failed, &[408, 425, 500, 502, 503, 504, 599]);
        all(StatusClass::Busy, &[429]);
        all(StatusClass::Blocked, &[401, 403, 404, 405, 410, 301, 302, 307, 308, 402, 418, 451, 100, 600]);
        assert_eq!(status_class(503, true), StatusClass::Busy);
        assert_eq!(status_class(500, true), StatusClass::Failed);
    }

    #[test]
    fn a_trap_and_a_timeout_count_and_a_handler_that_is_away_does_not() {
        let of = |kind, maybe_delivered| {
            Verdict::of_call_error(CallError { kind, fault: Fault { maybe_delivered, ..Fault::new("X", "x") } })
        };
        for kind in [ErrorKind::Trapped, ErrorKind::TimedOut, ErrorKind::Contract] {
            assert!(matches!(of(kind, false), Verdict::Failed(_)));
        }
        assert!(matches!(of(ErrorKind::Unavailable, false), Verdict::Blocked(_)));
        assert!(matches!(of(ErrorKind::Unavailable, true), Verdict::Failed(_)));
        assert!(matches!(of(ErrorKind::Throttled, false), Verdict::Busy(_)));
        assert_eq!(of(ErrorKind::Cancelled, false), Verdict::NotCalled);
    }

    #[test]
    fn a_call_whose_instance_another_one_brought_down_does_not_count() {
        let of = |kind, blame| {
            Verdict::of_call_error(CallError { kind, fault: Fault::new("PLUGIN.TRAPPED", "x") }.blaming(blame))
        };
        assert_eq!(of(ErrorKind::Trapped, Blame::Another), Verdict::Interrupted);
        assert_eq!(of(ErrorKind::TimedOut, Blame::Another), Verdict::Interrupted);
        for blame in [Blame::Own, Blame::Unknown] {
            assert!(matches!(of(ErrorKind::Trapped, blame), Verdict::Failed(_)));
        }
        let said = of(ErrorKind::Internal, Blame::Another);
        assert!(matches!(said, Verdict::Failed(_)), "a guest's own error, whatever attributes it gives");
    }
}
