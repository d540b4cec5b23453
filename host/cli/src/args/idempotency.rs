//! `waybill idempotency ...`.

use clap::{Args, Subcommand};

/// Idempotency keys.
#[derive(Debug, Subcommand)]
pub enum Idempotency {
    /// Keys, by filter
    List(List),
    /// One key: who has it, or what came of it
    #[command(
        after_help = "Examples:\n  waybill idempotency show order-17\n  waybill idempotency show order-17 --tenant acme -o json"
    )]
    Show(Key),
    /// Free a key whose holder is gone, before its lease ends
    Release(Release),
}

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill idempotency list\n  \
    waybill idempotency list --filter 'tenant=acme key=order-* age>1h'\n  \
    waybill idempotency list --filter 'state=in_flight' --all -o ids\n  \
    waybill idempotency list --filter 'key=order-*' --cursor 5pXq8hYwMC8z     go on where it ended\n\n\
    Conditions: tenant, key, state (in_flight, succeeded, failed), with = and * as a wildcard; age with > or <.\n\
    All have to hold.")]
pub struct List {
    /// Conditions, e.g. 'tenant=acme state=in_flight age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Most keys listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

/// One key.
#[derive(Debug, Args)]
pub struct Key {
    /// The key
    pub key: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Free one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill idempotency release order-17 --dry-run\n  \
    waybill idempotency release order-17 --yes --reason 'its client is gone'\n  \
    waybill idempotency release order-17 --finished --yes\n\n\
    What its holder says afterwards is refused (TX.LEASE_LOST). With --finished a known outcome is forgotten too: the\n\
    next request with this key executes again.")]
pub struct Release {
    /// Which.
    #[command(flatten)]
    pub one: Key,
    /// Also when its outcome is known
    #[arg(long)]
    pub finished: bool,
    /// Only show it
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}
