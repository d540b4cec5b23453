//! Acts on sagas.

use super::super::{About, Act, Field, On, Reach, Right, Weight};

pub(super) const SAGA_START: About = About {
    name: "saga-start",
    word: "Start a saga",
    done: "Started",
    right: Right::Send,
    on: On::Saga,
    reach: Reach::New,
    weight: Weight::Plain,
    effect: "It is started once under its id; its steps run by themselves after that.",
    verb: "saga start",
    fields: &[],
    undo: None,
};

pub(super) const SAGA_PAUSE: About = About {
    name: "saga-pause",
    word: "Pause",
    done: "Paused",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "It begins nothing new until it is resumed; calls under way end.",
    verb: "saga pause",
    fields: &[Field::Reason],
    undo: Some(Act::SagaResume),
};

pub(super) const SAGA_RESUME: About = About {
    name: "saga-resume",
    word: "Resume",
    done: "Resumed",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "It goes on where it was held.",
    verb: "saga resume",
    fields: &[Field::Reason],
    undo: Some(Act::SagaPause),
};

pub(super) const SAGA_CANCEL: About = About {
    name: "saga-cancel",
    word: "Cancel",
    done: "Cancelled",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Risky,
    effect: "What was done is compensated, step by step, then it is cancelled.",
    verb: "saga cancel",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const SAGA_RETRY: About = About {
    name: "saga-retry",
    word: "Retry",
    done: "Tried again",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "A call is repeated under the same idempotency key. From a step on, that one and all behind it are done anew.",
    verb: "saga retry",
    fields: &[Field::Step, Field::Mode, Field::Reason],
    undo: None,
};

pub(super) const SAGA_SKIP: About = About {
    name: "saga-skip",
    word: "Skip a step",
    done: "Skipped",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "The step is left out, or what it did stays done; the rest goes on.",
    verb: "saga skip",
    fields: &[Field::StepNeeded, Field::Reason],
    undo: None,
};

pub(super) const SAGA_ACCEPT: About = About {
    name: "saga-accept",
    word: "Accept as it is",
    done: "Accepted",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Risky,
    effect: "It ends now, failed. What is done stays done, and nothing more is undone.",
    verb: "saga accept",
    fields: &[Field::ReasonNeeded],
    undo: None,
};

pub(super) const SAGA_KILL: About = About {
    name: "saga-kill",
    word: "Kill",
    done: "Killed",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::Any,
    weight: Weight::Final,
    effect: "It ends as it is, failed. Nothing is compensated.",
    verb: "saga kill",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const SAGA_SIGNAL: About = About {
    name: "saga-signal",
    word: "Signal",
    done: "Signalled",
    right: Right::Send,
    on: On::Saga,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "The step that waits for the signal takes it; one that comes early is kept.",
    verb: "saga signal",
    fields: &[Field::Signal],
    undo: None,
};

pub(super) const SAGA_APPROVE: About = About {
    name: "saga-approve",
    word: "Approve",
    done: "Approved",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "The step counts as done, and the saga goes on. Once decided it stays so.",
    verb: "saga approve",
    fields: &[Field::Step, Field::Reason],
    undo: None,
};

pub(super) const SAGA_REJECT: About = About {
    name: "saga-reject",
    word: "Reject",
    done: "Rejected",
    right: Right::Operate,
    on: On::Saga,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "What was done is compensated. Once decided it stays so.",
    verb: "saga reject",
    fields: &[Field::Step, Field::Reason],
    undo: None,
};
