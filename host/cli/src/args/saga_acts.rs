//! What operators do to sagas: `waybill saga pause` and its like.

use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

/// Which sagas.
#[derive(Clone, Debug, Args)]
pub struct Ids {
    /// Ids; `-` reads them from stdin, one a line
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Tenant of the ids [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Which sagas: by id or by filter.
#[derive(Clone, Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("which").args(["ids", "filter"]).required(true)))]
pub struct Which {
    /// Ids; `-` reads them from stdin, one a line
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All that match and haven't ended; conditions as of `waybill saga list`
    #[arg(long)]
    pub filter: Option<String>,
    /// Tenant of the ids [default: the token's only one, else default], or of what matches
    #[arg(long)]
    pub tenant: Option<String>,
    /// With --filter: only count, and show a sample
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// With --filter: most acts a second [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: Option<u32>,
}

impl From<Ids> for Which {
    fn from(ids: Ids) -> Self {
        Self { ids: ids.ids, filter: None, tenant: ids.tenant, dry_run: false, yes: false, rate: None }
    }
}

/// An act that takes nothing but a reason.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga pause order-17 --reason 'the warehouse is closed'\n  \
    waybill saga resume order-17 order-18\n  \
    waybill saga cancel --filter 'definition=order state=running' --dry-run\n  \
    waybill saga cancel --filter 'definition=order state=running' --yes\n\n\
    They concern a saga with all its sub-sagas.")]
pub struct Act {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Ends it as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga kill order-17 --reason 'test data' --yes\n  \
    waybill saga kill --filter 'tenant=test' --reason 'test data' --yes\n\n\
    Nothing is compensated: what its steps did stays done. `waybill saga cancel` compensates.")]
pub struct Kill {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Tries again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga retry order-17                     what waits for its next attempt, or a stuck compensation, now\n  \
    waybill saga retry order-17 --mode retry        of a stuck one: forward again, if nothing was compensated yet\n  \
    waybill saga retry order-17 --step charge       of a paused one: that step and all behind it anew\n  \
    waybill saga retry --filter 'code=HTTP.* waiting_for=retry' --yes\n\n\
    Idempotency keys stay the same.")]
pub struct Retry {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// From this step on
    #[arg(long)]
    pub step: Option<String>,
    /// Which way a stuck one goes on
    #[arg(long, value_enum, default_value_t = Mode::Compensate, value_name = "MODE")]
    pub mode: Mode,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Which way a stuck saga goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The failed compensation again
    Compensate,
    /// Forward again from the step that failed
    Retry,
}

/// Leaves a step out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga skip order-17 --step notify --reason 'the customer was called'\n\n\
    One that isn't begun or waits counts as done, with no output; a stuck compensation as undone.")]
pub struct Skip {
    /// Which.
    #[command(flatten)]
    pub which: Ids,
    /// Which step
    #[arg(long)]
    pub step: String,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// A person's decision.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga approve order-17 --reason 'checked with Ann'\n  \
    waybill saga reject order-17 --step release --reason 'over the limit'\n  \
    waybill saga list --filter 'waiting_for=approval'")]
pub struct Approval {
    /// Which.
    #[command(flatten)]
    pub which: Ids,
    /// Which step, where several wait
    #[arg(long)]
    pub step: Option<String>,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Links for a decision.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga link order-17 --by ann@example.com\n  \
    waybill saga link order-17 --by ann --step release --expires 24h -o json\n\n\
    Whoever has one of the two links can decide: send them as you would send a password.\n\
    The host needs a key for it, approval_key in [saga].")]
pub struct Link {
    /// Saga, root or sub-saga
    pub id: String,
    /// Who will decide; kept with the decision as link:NAME
    #[arg(long, value_name = "NAME")]
    pub by: String,
    /// Which step, where several wait
    #[arg(long)]
    pub step: Option<String>,
    /// How long the links are good [default: as long as the step waits]
    #[arg(long, value_name = "TIME", value_parser = super::duration)]
    pub expires: Option<Duration>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Accepts a stuck compensation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga accept order-17 --reason 'refunded by hand, ticket 4711'\n  \
    waybill saga accept --filter 'state=failed code=BANK.CLOSED' --reason 'refunded by hand' --yes\n\n\
    The saga ends as failed (accepted), and its dead letter goes away.")]
pub struct Accept {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why it is all right as it is
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: String,
}
