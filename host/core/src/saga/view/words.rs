//! Events and waits in words.

use crate::saga::definition::Step;
use crate::saga::event::{End, Failure, PauseCause, Wait, Way, What};
use crate::saga::state::{StepRecord, StepWait};

/// What a step waits for, in a sentence.
pub(super) fn step_waiting(record: &StepRecord, step: &Step) -> Option<String> {
    let action = match record.way {
        Some(Way::Compensate) => step.undo().unwrap_or(&step.action),
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
pub(super) fn event_word(what: &What) -> &'static str {
    match what {
        What::Started(_) => "started",
        What::ChildStarted { .. } => "sub_saga_started",
        What::StepBegan { .. } => "step_began",
        What::StepPending { .. } => "step_pending",
        What::StepSucceeded { way: Way::Execute, .. } => "step_succeeded",
        What::StepSucceeded { .. } => "step_compensated",
        What::StepFailed { retry_at: Some(_), .. } => "attempt_failed",
        What::StepFailed { way: Way::Execute, .. } => "step_failed",
        What::StepFailed { .. } => "compensation_failed",
        What::StepReleased { .. } => "step_blocked",
        What::StepLost { .. } => "call_lost",
        What::StepUnknown { .. } => "result_unknown",
        What::LateResult { .. } => "late_result",
        What::StepSkipped { .. } => "step_skipped",
        What::StepReset { .. } => "step_retried",
        What::Signalled { .. } => "signalled",
        What::SignalTaken { .. } => "signal_taken",
        What::Decided { approved: true, .. } => "approved",
        What::Decided { .. } => "rejected",
        What::CompensationStarted { .. } => "compensation_started",
        What::ForwardAgain => "forward_again",
        What::Stuck { .. } => "stuck",
        What::Paused { .. } => "paused",
        What::Resumed => "resumed",
        What::Ended { .. } => "ended",
    }
}

fn told(failure: &Failure) -> String {
    let unknown = if failure.maybe_done { " (its effect is unknown)" } else { "" };
    format!("{}: {}{unknown}", failure.code, failure.reason)
}

fn noted(note: Option<&str>) -> String {
    note.map_or_else(String::new, |note| format!(": {note}"))
}

/// The word for what is done in a way.
fn thing(way: Way) -> &'static str {
    match way {
        Way::Execute => "action",
        Way::Compensate => "compensation",
    }
}

/// An event in a sentence. `step` is the name of the step that it is about.
pub(super) fn sentence(what: &What, step: Option<&str>) -> String {
    let step = step.unwrap_or("the step");
    match what {
        What::Started(started) => {
            format!("started with {} version {}", started.definition.name, started.definition.version)
        }
        What::ChildStarted { id, .. } => format!("{step} began sub-saga {id}"),
        What::StepBegan { way, attempt, .. } => format!("{step}: {} attempt {attempt} began", thing(*way)),
        What::StepPending { signal, .. } => format!("{step}: accepted, signal {signal:?} completes it"),
        What::StepSucceeded { way: Way::Execute, late, .. } => {
            format!("{step}: done{}", if *late { ", by an answer that came late" } else { "" })
        }
        What::StepSucceeded { .. } => format!("{step}: compensated"),
        What::StepFailed { way, attempt, failure, retry_at, .. } => {
            let next = retry_at.map_or_else(|| "; it isn't tried again".to_owned(), |at| format!("; again at {at}"));
            format!("{step}: {} attempt {attempt} failed, {}{next}", thing(*way), told(failure))
        }
        What::StepReleased { failure, retry_at, scope, .. } => {
            let scope = scope.as_deref().map_or_else(String::new, |scope| format!(" at {scope}"));
            format!("{step}: not tried{scope}, {}; again at {retry_at}", told(failure))
        }
        What::StepLost { attempt, until, .. } => {
            let next = until.map_or_else(String::new, |at| format!("; again at {at}"));
            format!("{step}: the host ended during attempt {attempt}{next}")
        }
        What::StepUnknown { attempt, failure, .. } => {
            format!("{step}: the result of attempt {attempt} is unknown, {}", told(failure))
        }
        What::LateResult { attempt, .. } => {
            format!("{step}: attempt {attempt} succeeded too late; kept for undoing it")
        }
        What::StepSkipped { way, note, .. } => format!("{step}: {} skipped{}", thing(*way), noted(note.as_deref())),
        What::StepReset { way, .. } => format!("{step}: {} to be tried anew", thing(*way)),
        What::Signalled { name, step: Some(_), .. } => format!("{step}: signal {name:?} came"),
        What::Signalled { name, .. } => format!("signal {name:?} came before something waited for it"),
        What::SignalTaken { name } => format!("the kept signal {name:?} was taken"),
        What::Decided { approved: true, note, .. } => format!("{step}: approved{}", noted(note.as_deref())),
        What::Decided { note, .. } => format!("{step}: rejected{}", noted(note.as_deref())),
        What::CompensationStarted { failure } => format!("compensating, {}", told(failure)),
        What::ForwardAgain => "goes forward again".to_owned(),
        What::Stuck { .. } => format!("stuck: the compensation of {step} gave up"),
        What::Paused { cause, note } => {
            let cause = match cause {
                PauseCause::Asked => "held",
                PauseCause::UnknownResult => "held: a result is unknown",
                PauseCause::Suspect => "held: the host died of a step too often",
                PauseCause::Policy => "held by the retry policy",
            };
            format!("{cause}{}", noted(note.as_deref()))
        }
        What::Resumed => "goes on".to_owned(),
        What::Ended { end, note } => {
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
