//! Acts on plugins, sources, relays, streams, keys, operations and the configuration.

use super::super::{About, Act, Field, On, Reach, Right, Weight};

pub(super) const PLUGIN_RELOAD: About = About {
    name: "plugin-reload",
    word: "Reload",
    done: "Reloaded",
    right: Right::Manage,
    on: On::Plugin,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "Its component is read again, tried beside the one that serves, and made live. A refusal changes nothing.",
    verb: "plugin reload",
    fields: &[Field::Force],
    undo: Some(Act::PluginRollback),
};

pub(super) const PLUGIN_ROLLBACK: About = About {
    name: "plugin-rollback",
    word: "Roll back",
    done: "Rolled back",
    right: Right::Manage,
    on: On::Plugin,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "The generation before serves again. The component that was live isn’t used again unless forced.",
    verb: "plugin rollback",
    fields: &[Field::Reason],
    undo: None,
};

pub(super) const SOURCE_PAUSE: About = About {
    name: "source-pause",
    word: "Pause",
    done: "Paused",
    right: Right::Manage,
    on: On::Source,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "Nothing more is pulled; what is in hand is finished and settled.",
    verb: "source pause",
    fields: &[Field::Reason],
    undo: Some(Act::SourceResume),
};

pub(super) const SOURCE_RESUME: About = About {
    name: "source-resume",
    word: "Resume",
    done: "Resumed",
    right: Right::Manage,
    on: On::Source,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "It pulls again. One that stands still because messages were removed goes on at the earliest that is kept.",
    verb: "source resume",
    fields: &[Field::Reason],
    undo: Some(Act::SourcePause),
};

pub(super) const ROWS_REPLAY: About = About {
    name: "rows-replay",
    word: "Replay rows",
    done: "Put back",
    right: Right::Manage,
    on: On::Source,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "Failed rows of the source’s table wait again, with no attempts. Receivers may see them twice.",
    verb: "inbox replay",
    fields: &[Field::Rows, Field::Reason],
    undo: None,
};

pub(super) const RELAY_PAUSE: About = About {
    name: "relay-pause",
    word: "Pause",
    done: "Paused",
    right: Right::Manage,
    on: On::Relay,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "Nothing more is sent; what is under way ends first. Events are kept for it.",
    verb: "relay pause",
    fields: &[Field::Reason],
    undo: Some(Act::RelayResume),
};

pub(super) const RELAY_RESUME: About = About {
    name: "relay-resume",
    word: "Resume",
    done: "Resumed",
    right: Right::Manage,
    on: On::Relay,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "It goes on where it stopped.",
    verb: "relay resume",
    fields: &[Field::Reason],
    undo: Some(Act::RelayPause),
};

pub(super) const RELAY_SEEK: About = About {
    name: "relay-seek",
    word: "Go elsewhere",
    done: "Moved",
    right: Right::Manage,
    on: On::Relay,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "Backward, events are sent again. Forward, they are skipped, and the broker never has them.",
    verb: "relay seek",
    fields: &[Field::Seek, Field::Reason],
    undo: None,
};

pub(super) const STREAM_APPEND: About = About {
    name: "stream-append",
    word: "Append an event",
    done: "Appended",
    right: Right::Append,
    on: On::Stream,
    reach: Reach::New,
    weight: Weight::Plain,
    effect: "It is appended once under its id, and gets the stream’s next number. Events are never changed.",
    verb: "stream append",
    fields: &[],
    undo: None,
};

pub(super) const STREAM_PURGE: About = About {
    name: "stream-purge",
    word: "Purge",
    done: "Purged",
    right: Right::Operate,
    on: On::Stream,
    reach: Reach::One,
    weight: Weight::Final,
    effect: "Its first events are deleted for good, in whole chunks; what a relay that holds retention hasn’t sent stays.",
    verb: "stream purge",
    fields: &[Field::Below, Field::Reason],
    undo: None,
};

pub(super) const KEY_RELEASE: About = About {
    name: "key-release",
    word: "Release",
    done: "Released",
    right: Right::Operate,
    on: On::Key,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "Whoever has it is refused from then on, so what it guards may be executed twice.",
    verb: "idempotency release",
    fields: &[Field::Finished, Field::Reason],
    undo: None,
};

pub(super) const OPERATION_CANCEL: About = About {
    name: "operation-cancel",
    word: "Stop",
    done: "Stopped",
    right: Right::Operate,
    on: On::Operation,
    reach: Reach::One,
    weight: Weight::Risky,
    effect: "It goes no further. What it did stays done.",
    verb: "operation cancel",
    fields: &[],
    undo: None,
};

pub(super) const CONFIGURATION_RELOAD: About = About {
    name: "configuration-reload",
    word: "Reload",
    done: "Reloaded",
    right: Right::Manage,
    on: On::Host,
    reach: Reach::One,
    weight: Weight::Plain,
    effect: "All of what can change while the host runs is put in force, or nothing is.",
    verb: "config reload",
    fields: &[],
    undo: None,
};
