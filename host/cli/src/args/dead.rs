//! `waybill dead ...`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::bulk::Bulk;
use super::outbox::One;
use super::saga_acts::Mode;

/// Dead letters: messages that can't be delivered, and sagas whose compensation is stuck.
#[derive(Debug, Subcommand)]
pub enum Dead {
    /// Dead letters, by filter
    List(List),
    /// One dead letter: why it died; of a message every attempt and payload
    #[command(
        after_help = "Examples:\n  waybill dead show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  waybill dead show order-17 --tenant acme -o json\n  waybill dead show order-17 --kind saga"
    )]
    Show(Show),
    /// Dead letters by error
    Groups(Groups),
    /// Put dead letters back in order; of stuck sagas try the failed compensation again
    Replay(Replay),
    /// Fence dead letters off with a note; only `replay ID` brings them back
    Quarantine(Quarantine),
    /// Send an edited copy as a new message that names the original, and quarantine the original
    Edit(Box<Edit>),
    /// Delete dead letters for good; messages only
    Purge(Purge),
}

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead list\n  \
    waybill dead list --filter 'tenant=acme code=HTTP.* age>1h'\n  \
    waybill dead list --filter 'kind=saga definition=order'\n  \
    waybill dead list --filter 'code=HTTP.400' --all -o ids | waybill dead replay -\n  \
    waybill dead list --filter 'code=HTTP.400' --cursor 5pXq8hYwMC8z     go on where it ended\n\n\
    Conditions: tenant, topic, key, id, code, error, state, kind (message or saga), and of sagas definition and step, with = \
    and * as a wildcard; age with > or <.")]
pub struct List {
    /// Conditions, e.g. 'tenant=acme code=HTTP.* age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Most dead letters listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

/// Which dead letter.
#[derive(Debug, Args)]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub one: One,
    /// Its kind, where a message and a saga have the same id
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<Kind>,
}

/// Kind of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A message that wasn't delivered
    Message,
    /// A saga whose compensation is stuck
    Saga,
}

impl Kind {
    /// As the host names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Saga => "saga",
        }
    }
}

/// By error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill dead groups\n  waybill dead groups --filter 'tenant=acme age<1d'")]
pub struct Groups {
    /// Conditions
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
}

/// Which dead letters: by id or by filter.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").args(["ids", "filter"]).required(true)))]
pub struct Which {
    /// Ids; `-` reads them from stdin, one a line
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All that match; '' for all there are
    #[arg(long)]
    pub filter: Option<String>,
    /// Tenant of the ids [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Kind of the ids, where a message and a saga have the same one
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "filter")]
    pub kind: Option<Kind>,
}

/// Put back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead replay 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
    waybill dead replay --filter 'code=HTTP.503' --dry-run\n  \
    waybill dead replay --filter 'code=HTTP.503 age>1h' --rate 20 --reason 'shop is back' --yes\n  \
    waybill dead list -o ids | waybill dead replay -\n  \
    waybill dead replay --filter 'kind=saga code=HTTP.503' --yes\n  \
    waybill dead replay order-17 --kind saga --mode retry\n\n\
    Of stuck sagas the failed compensation is tried again; `waybill saga retry --filter` takes many of them forward.")]
pub struct Replay {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Which way a stuck saga goes on [default: compensate]
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "filter")]
    pub mode: Option<Mode>,
    /// How.
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Fence off.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead quarantine 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --note 'broken payload, see ticket 4711'\n  \
    waybill dead quarantine --filter 'topic=bus:legacy.*' --note 'receiver is gone' --yes")]
pub struct Quarantine {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why; kept with each
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    /// How.
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Edited copy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead edit 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --payload '{\"order\":17,\"total\":\"10.00\"}'\n  \
    waybill dead edit order-17 --tenant acme --topic bus:orders.v2\n\n\
    What isn't given is taken from the original. The original is quarantined with a note that names the copy, so that a \
    replay by filter doesn't send both; `waybill dead replay ID` still brings it back.")]
pub struct Edit {
    /// Which.
    #[command(flatten)]
    pub one: One,
    /// New payload as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "file")]
    pub payload: Option<String>,
    /// File with the new payload as JSON
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// New topic
    #[arg(long)]
    pub topic: Option<String>,
    /// New key
    #[arg(long)]
    pub key: Option<String>,
    /// New headers; all old ones are dropped
    #[arg(long = "header", value_name = "NAME=VALUE")]
    pub headers: Vec<String>,
}

/// Delete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead purge --filter 'age>30d' --dry-run\n  \
    waybill dead purge --filter 'tenant=test' --reason 'test data' --yes\n\n\
    Stuck sagas stay: `waybill saga accept` ends them, with a reason.")]
pub struct Purge {
    /// All that match; '' for all there are
    #[arg(long)]
    pub filter: String,
    /// How.
    #[command(flatten)]
    pub bulk: Bulk,
}
