//! Events and waits in words.

use waybill_core::saga::definition::Step;
use waybill_core::saga::event::{End, EventKind, Failure, PauseCause, StepDirection, Wait};
use waybill_core::saga::state::{StepRecord, StepWait};

/// What a step waits for, in a sentence.
pub(super) fn step_waiting(record: &StepRecord, step: &Step) -> Option<String> {
    let action = match record.way {
        Some(StepDirection::Compensate) => step.undo().unwrap_or(&step.action),
        _ => &step.action,
    };
    let attempt = record.attempt;
    Some(match record.wait.as_ref()? {
        StepWait::For(Wait::Call) => format!("{action} is being called (attempt {attempt})"),
        StepWait::For(Wait::Reply) => format!("a reply to the message to {action} (attempt {attempt})"),
        StepWait::For(Wait::Signal(name)) | StepWait::Pending(name) => format!("signal {name:?}"),
        StepWait::For(Wait::Approval) => "a person who approves or rejects".to_owned(),
        StepWait::For(Wait::Child) => "its sub-saga".to_owned(),
        StepWait::Retry => format!("its next attempt, after {} failures", record.failures),
        StepWait::Released(Some(scope)) => format!("{scope}, which is blocked"),
        StepWait::Released(None) => "a free instance".to_owned(),
        StepWait::Lost => "its next attempt: the host ended during the call".to_owned(),
        StepWait::Operator => "an operator: its result is unknown".to_owned(),
    })
}

/// An event in one word.
pub(super) fn event_word(what: &EventKind) -> &'static str {
    match what {
        EventKind::Started(_) => "started",
        EventKind::ChildStarted { .. } => "sub_saga_started",
        EventKind::StepBegan { .. } => "step_began",
        EventKind::StepPending { .. } => "step_pending",
        EventKind::StepSucceeded { way: StepDirection::Execute, .. } => "step_succeeded",
        EventKind::StepSucceeded { .. } => "step_compensated",
        EventKind::StepFailed { retry_at: Some(_), .. } => "attempt_failed",
        EventKind::StepFailed { way: StepDirection::Execute, .. } => "step_failed",
        EventKind::StepFailed { .. } => "compensation_failed",
        EventKind::StepReleased { .. } => "step_blocked",
        EventKind::StepLost { .. } => "call_lost",
        EventKind::StepUnknown { .. } => "result_unknown",
        EventKind::LateResult { .. } => "late_result",
        EventKind::StepSkipped { .. } => "step_skipped",
        EventKind::StepReset { .. } => "step_retried",
        EventKind::Signalled { .. } => "signalled",
        EventKind::SignalTaken { .. } => "signal_taken",
        EventKind::Decided { approved: true, .. } => "approved",
        EventKind::Decided { .. } => "rejected",
        EventKind::CompensationStarted { .. } => "compensation_started",
        EventKind::ForwardAgain => "forward_again",
        EventKind::Stuck { .. } => "stuck",
        EventKind::Paused { .. } => "paused",
        EventKind::Resumed => "resumed",
        EventKind::Ended { .. } => "ended",
    }
}

fn describe_failure(failure: &Failure) -> String {
    let unknown = if failure.maybe_done { " (its effect is unknown)" } else { "" };
    format!("{}: {}{unknown}", failure.code, failure.reason)
}

fn noted(note: Option<&str>) -> String {
    note.map_or_else(String::new, |note| format!(": {note}"))
}

/// The word for what is done in a way.
fn thing(way: StepDirection) -> &'static str {
    match way {
        StepDirection::Execute => "action",
        StepDirection::Compensate => "compensation",
    }
}

/// An event in a sentence. `step` is the name of the step that it is about.
pub(super) fn sentence(what: &EventKind, step: Option<&str>) -> String {
    let step = step.unwrap_or("the step");
    match what {
        EventKind::Started(started) => {
            format!("started with {} version {}", started.definition.name, started.definition.version)
        }
        EventKind::ChildStarted { id, .. } => format!("{step} began sub-saga {id}"),
        EventKind::StepBegan { way, attempt, .. } => format!("{step}: {} attempt {attempt} began", thing(*way)),
        EventKind::StepPending { signal, .. } => format!("{step}: accepted, signal {signal:?} completes it"),
        EventKind::StepSucceeded { way: StepDirection::Execute, late, .. } => {
            format!("{step}: done{}", if *late { ", by an answer that came late" } else { "" })
        }
        EventKind::StepSucceeded { .. } => format!("{step}: compensated"),
        EventKind::StepFailed { way, attempt, failure, retry_at, .. } => {
            let next = retry_at.map_or_else(|| "; it isn't tried again".to_owned(), |at| format!("; again at {at}"));
            format!("{step}: {} attempt {attempt} failed, {}{next}", thing(*way), describe_failure(failure))
        }
        EventKind::StepReleased { failure, retry_at, scope, .. } => {
            let scope = scope.as_deref().map_or_else(String::new, |scope| format!(" at {scope}"));
            format!("{step}: not tried{scope}, {}; again at {retry_at}", describe_failure(failure))
        }
        EventKind::StepLost { attempt, until, .. } => {
            let next = until.map_or_else(String::new, |at| format!("; again at {at}"));
            format!("{step}: the host ended during attempt {attempt}{next}")
        }
        EventKind::StepUnknown { attempt, failure, .. } => {
            format!("{step}: the result of attempt {attempt} is unknown, {}", describe_failure(failure))
        }
        EventKind::LateResult { attempt, .. } => {
            format!("{step}: attempt {attempt} succeeded too late; kept for undoing it")
        }
        EventKind::StepSkipped { way, note, .. } => {
            format!("{step}: {} skipped{}", thing(*way), noted(note.as_deref()))
        }
        EventKind::StepReset { way, .. } => format!("{step}: {} to be tried anew", thing(*way)),
        EventKind::Signalled { name, step: Some(_), .. } => format!("{step}: signal {name:?} came"),
        EventKind::Signalled { name, .. } => format!("signal {name:?} came before something waited for it"),
        EventKind::SignalTaken { name } => format!("the kept signal {name:?} was taken"),
        EventKind::Decided { approved: true, note, .. } => format!("{step}: approved{}", noted(note.as_deref())),
        EventKind::Decided { note, .. } => format!("{step}: rejected{}", noted(note.as_deref())),
        EventKind::CompensationStarted { failure } => format!("compensating, {}", describe_failure(failure)),
        EventKind::ForwardAgain => "goes forward again".to_owned(),
        EventKind::Stuck { .. } => format!("stuck: the compensation of {step} gave up"),
        EventKind::Paused { cause, note } => {
            let cause = match cause {
                PauseCause::Asked => "held",
                PauseCause::UnknownResult => "held: a result is unknown",
                PauseCause::Suspect => "held: the host died of a step too often",
                PauseCause::Policy => "held by the retry policy",
            };
            format!("{cause}{}", noted(note.as_deref()))
        }
        EventKind::Resumed => "goes on".to_owned(),
        EventKind::Ended { end, note } => {
            let end = match end {
                End::Completed => "completed",
                End::Cancelled => "all compensated",
                End::Killed => "killed, nothing compensated",
                End::Accepted => "accepted as it is",
                End::Skipped => "compensated but for what was skipped",
            };
            format!("{end}{}", noted(note.as_deref()))
        }
    }
}
