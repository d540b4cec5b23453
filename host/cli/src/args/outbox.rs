//! `waybill outbox ...`.

use clap::{ArgGroup, Args, Subcommand};

/// Messages on their way.
#[derive(Debug, Subcommand)]
pub enum Outbox {
    /// Messages, by filter
    List(List),
    /// One message: state, attempts, payload, and what it waits for
    #[command(
        after_help = "Examples:\n  waybill outbox show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  waybill outbox show order-17 --tenant acme -o json"
    )]
    Show(One),
    /// Depths and ages per tenant and transport
    Stats(Stats),
    /// What holds messages back, since when and why
    Blocked(Blocked),
    /// Take a message back before it is sent
    #[command(
        after_help = "Examples:\n  waybill outbox cancel 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  waybill outbox cancel order-17 --tenant acme\n\nOne that is being sent can't be taken back."
    )]
    Cancel(One),
    /// Move a waiting message to another time
    Reschedule(Reschedule),
}

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox list --filter 'tenant=acme state=pending age>10m'\n  \
    waybill outbox list --filter 'topic=bus:orders.*' --all -o jsonl\n  \
    waybill outbox list --filter 'key=order-17' --cursor 5pXq8hYwMC8z    go on where it ended\n\n\
    Conditions: tenant, topic, key, id, state, code, with = and * as a wildcard; age with > or <. All have to hold.")]
pub struct List {
    /// Conditions, e.g. 'tenant=acme state=pending age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Most messages listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

/// One message.
#[derive(Debug, Args)]
pub struct One {
    /// Its id
    pub id: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Depths and ages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill outbox stats\n  waybill outbox stats --tenant acme -o json")]
pub struct Stats {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

/// What holds messages back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill outbox blocked\n  waybill outbox blocked --tenant acme")]
pub struct Blocked {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Another time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox reschedule order-17 --in 10m\n  \
    waybill outbox reschedule order-17 --at 2026-12-01T08:00:00Z\n  \
    waybill outbox reschedule order-17 --in 0s         try again now")]
#[command(group(ArgGroup::new("when").args(["at", "in_"]).required(true)))]
pub struct Reschedule {
    /// Which.
    #[command(flatten)]
    pub one: One,
    /// Instant, RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Time from now, e.g. 10m
    #[arg(long = "in", value_name = "TIME", value_parser = super::duration)]
    pub in_: Option<std::time::Duration>,
}
