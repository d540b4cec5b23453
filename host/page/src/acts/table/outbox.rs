//! Acts on dead letters, messages and transports.

use super::super::{About, Act, Field, On, Reach, Right, Weight};

pub(super) const DEAD_REPLAY: About = About {
    name: "dead-replay",
    word: "Replay",
    done: "Put back",
    right: Right::Operate,
    on: On::DeadLetter,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "Receivers may see a message twice: each carries its first id, and says that it is a replay.",
    verb: "dead replay",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const DEAD_EDIT: About = About {
    name: "dead-edit",
    word: "Edit",
    done: "Sent an edited copy",
    right: Right::Operate,
    on: On::DeadLetter,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "The copy is a new message with an id of its own that names the original, which is fenced off. Of a received message the copy is stored for its consumer, and the original is removed.",
    verb: "dead edit",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const DEAD_QUARANTINE: About = About {
    name: "dead-quarantine",
    word: "Quarantine",
    done: "Fenced off",
    right: Right::Operate,
    on: On::DeadLetter,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "Nothing is sent. Replays by filter leave it alone until it is put back by its id.",
    verb: "dead quarantine",
    fields: &[Field::ReasonNeeded],
    undo: Some(Act::DeadReplay),
};

pub(super) const DEAD_PURGE: About = About {
    name: "dead-purge",
    word: "Purge",
    done: "Purged",
    right: Right::Operate,
    on: On::DeadLetter,
    reach: Reach::Many,
    weight: Weight::Final,
    effect: "They are deleted for good; the audit trail keeps that they were there.",
    verb: "dead purge",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const MESSAGE_SEND: About = About {
    name: "message-send",
    word: "Send a message",
    done: "Sent",
    right: Right::Send,
    on: On::Message,
    reach: Reach::New,
    weight: Weight::Plain,
    effect: "It is taken once under its id, and goes where its topic is routed to.",
    verb: "send",
    fields: &[],
    undo: None,
};

pub(super) const MESSAGE_CANCEL: About = About {
    name: "message-cancel",
    word: "Cancel",
    done: "Taken back",
    right: Right::Operate,
    on: On::Message,
    reach: Reach::Any,
    weight: Weight::Risky,
    effect: "It is never sent. What is being sent already, or has ended, is refused.",
    verb: "outbox cancel",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const MESSAGE_RESCHEDULE: About = About {
    name: "message-reschedule",
    word: "Reschedule",
    done: "Moved",
    right: Right::Operate,
    on: On::Message,
    reach: Reach::Any,
    weight: Weight::Plain,
    effect: "It waits until then, or is tried at once. Only what waits for a retry or for its time is moved.",
    verb: "outbox reschedule",
    fields: &[Field::At, Field::Reason],
    undo: None,
};

pub(super) const TRANSPORT_PAUSE: About = About {
    name: "transport-pause",
    word: "Pause",
    done: "Paused",
    right: Right::Manage,
    on: On::Transport,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "What is under way ends; everything else for it waits, of all tenants.",
    verb: "transport pause",
    fields: &[Field::Reason],
    undo: Some(Act::TransportResume),
};

pub(super) const TRANSPORT_RESUME: About = About {
    name: "transport-resume",
    word: "Resume",
    done: "Resumed",
    right: Right::Manage,
    on: On::Transport,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "What waited goes in its order.",
    verb: "transport resume",
    fields: &[Field::Reason],
    undo: Some(Act::TransportPause),
};

pub(super) const TRANSPORT_PROBE: About = About {
    name: "transport-probe",
    word: "Probe",
    done: "Asked",
    right: Right::Manage,
    on: On::Transport,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "It is asked how it is, and destinations that are held are tried again now.",
    verb: "transport probe",
    fields: &[],
    undo: None,
};
