//! What can be done on the page: one closed table that views, plans, the route and the tests go by.
//!
//! Nothing is done by a link. A link leads to a plan, whose address names the act and its target; the plan's form does it.

mod command;
mod entries;
mod form;
mod table;
mod target;

use crate::address;

pub use entries::{AS_TEXT, Entry, Input};
pub(crate) use form::hidden;
pub use form::{Form, at_once, link, links};
pub use target::{FORM, Pick, Target};

/// Above so many their number is typed before they are acted on.
pub const TYPED_ABOVE: u64 = 1_000;

/// An act. Its words are those of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    DeadReplay,
    /// Sends an edited copy.
    DeadEdit,
    DeadQuarantine,
    DeadPurge,
    MessageSend,
    MessageCancel,
    MessageReschedule,
    TransportPause,
    TransportResume,
    TransportProbe,
    SagaStart,
    SagaPause,
    SagaResume,
    SagaCancel,
    SagaRetry,
    SagaSkip,
    SagaAccept,
    SagaKill,
    SagaSignal,
    SagaApprove,
    SagaReject,
    PluginReload,
    PluginRollback,
    SourcePause,
    SourceResume,
    /// Of failed rows in the table of a source.
    RowsReplay,
    RelayPause,
    RelayResume,
    RelaySeek,
    StreamAppend,
    StreamPurge,
    KeyRelease,
    OperationCancel,
    ConfigurationReload,
}

/// What an act needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    Send,
    /// To streams: to which, is asked with each.
    Append,
    Operate,
    /// It concerns all tenants.
    Manage,
}

impl Right {
    /// The roles that have it, in words.
    pub fn roles(self) -> &'static str {
        match self {
            Self::Send => "sender, transactor or admin",
            Self::Append => "sender, transactor or admin, or append:PATTERN",
            Self::Operate => "operator or admin",
            Self::Manage => "admin for all tenants",
        }
    }
}

/// What the caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct May {
    pub send: bool,
    pub append: bool,
    pub operate: bool,
    pub manage: bool,
    /// This host's page only shows, whoever looks.
    pub is_read_only: bool,
}

impl May {
    pub fn has(self, right: Right) -> bool {
        let is_granted = match right {
            Right::Send => self.send,
            Right::Append => self.append,
            Right::Operate => self.operate,
            Right::Manage => self.manage,
        };
        is_granted && !self.is_read_only
    }

    /// What an act lacks that can't be done.
    pub fn lack(self, right: Right) -> String {
        match (self.is_read_only, self.has(right)) {
            (true, _) => "this host’s page only shows: [ui] read_only".to_owned(),
            (false, true) => "needs a session: sign in".to_owned(),
            (false, false) => format!("needs the role {}", right.roles()),
        }
    }
}

/// What an act is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    DeadLetter,
    Message,
    Saga,
    Transport,
    Plugin,
    Source,
    Relay,
    Stream,
    Key,
    Operation,
    Host,
}

impl On {
    /// One of them, and several.
    pub fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::DeadLetter => ("dead letter", "dead letters"),
            Self::Message => ("message", "messages"),
            Self::Saga => ("saga", "sagas"),
            Self::Transport => ("transport", "transports"),
            Self::Plugin => ("plugin", "plugins"),
            Self::Source => ("source", "sources"),
            Self::Relay => ("relay", "relays"),
            Self::Stream => ("stream", "streams"),
            Self::Key => ("idempotency key", "idempotency keys"),
            Self::Operation => ("operation", "operations"),
            Self::Host => ("configuration", "configurations"),
        }
    }

    /// It is a tenant's.
    pub fn has_tenant(self) -> bool {
        matches!(self, Self::DeadLetter | Self::Message | Self::Saga | Self::Stream | Self::Key)
    }
}

/// How many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    One,
    /// One by its id, or all that a filter takes.
    Any,
    /// All that a filter takes.
    Many,
    /// Something new, which is written first.
    New,
}

/// What it costs to have done it by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It is taken back, or repeats what receivers can tell.
    Plain,
    /// It isn't taken back by a press.
    Risky,
    /// What is gone is gone: the id or the number is typed.
    Final,
}

/// What is asked for beside the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Reason,
    /// A reason without which it isn't done.
    ReasonNeeded,
    /// When a message goes.
    At,
    /// A step; which, if it isn't the only one.
    Step,
    StepNeeded,
    /// Which way a stuck saga goes on.
    Mode,
    /// A signal's name and data.
    Signal,
    /// The stream, and where a relay goes on in it.
    Seek,
    /// Keys of failed rows.
    Rows,
    /// Takes a component that was refused, too.
    Force,
    /// Forgets a known outcome, too.
    Finished,
    /// Only events below this number.
    Below,
}

/// All that is known of an act.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// What addresses call it.
    pub name: &'static str,
    /// On buttons and in headings.
    pub word: &'static str,
    /// What its answer says.
    pub done: &'static str,
    pub right: Right,
    pub on: On,
    pub reach: Reach,
    pub weight: Weight,
    /// What it repeats or destroys.
    pub effect: &'static str,
    /// Behind `waybill` in a terminal.
    pub verb: &'static str,
    pub fields: &'static [Field],
    /// What takes it back at one press.
    pub undo: Option<Act>,
}

impl Act {
    pub const ALL: [Self; 34] = [
        Self::DeadReplay,
        Self::DeadEdit,
        Self::DeadQuarantine,
        Self::DeadPurge,
        Self::MessageSend,
        Self::MessageCancel,
        Self::MessageReschedule,
        Self::TransportPause,
        Self::TransportResume,
        Self::TransportProbe,
        Self::SagaStart,
        Self::SagaPause,
        Self::SagaResume,
        Self::SagaCancel,
        Self::SagaRetry,
        Self::SagaSkip,
        Self::SagaAccept,
        Self::SagaKill,
        Self::SagaSignal,
        Self::SagaApprove,
        Self::SagaReject,
        Self::PluginReload,
        Self::PluginRollback,
        Self::SourcePause,
        Self::SourceResume,
        Self::RowsReplay,
        Self::RelayPause,
        Self::RelayResume,
        Self::RelaySeek,
        Self::StreamAppend,
        Self::StreamPurge,
        Self::KeyRelease,
        Self::OperationCancel,
        Self::ConfigurationReload,
    ];

    /// The act of an address.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|act| act.about().name == name)
    }

    pub fn about(self) -> &'static About {
        table::of(self)
    }

    /// What has to be typed before it is done: the id of one, or how many there are.
    pub fn typed(self, target: &Target, matched: Option<u64>) -> Option<String> {
        let is_final = self.about().weight == Weight::Final;
        match matched {
            Some(matched) => (is_final || matched > TYPED_ABOVE).then(|| matched.to_string()),
            None => is_final.then(|| target.id.clone()),
        }
    }
}

/// Where an operation is shown.
pub fn operation(id: &str) -> String {
    address::with(address::OPERATION, &[("id", id)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_a_name_of_its_own_and_is_found_by_it() {
        for act in Act::ALL {
            assert_eq!(Act::named(act.about().name), Some(act));
            assert!(act.about().effect.ends_with('.'), "{act:?}");
        }
        assert_eq!(Act::named("<script>"), None);
    }

    #[test]
    fn what_is_gone_for_good_or_many_is_typed() {
        let (one, many) = (Target::one("acme", "order-1"), Target::matching("acme", "id=*"));
        assert_eq!(Act::SagaKill.typed(&one, None).as_deref(), Some("order-1"));
        assert_eq!(Act::DeadPurge.typed(&many, Some(3)).as_deref(), Some("3"));
        assert_eq!(Act::DeadReplay.typed(&many, Some(1_000)), None);
        assert_eq!(Act::DeadReplay.typed(&many, Some(1_001)).as_deref(), Some("1001"));
        assert_eq!(Act::TransportPause.typed(&Target::named("bus"), None), None);
    }
}
