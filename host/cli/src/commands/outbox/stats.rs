//! `waybill outbox stats`.

use clap::Args;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, ago, column, counted_since, scheduled_until, text, words};

/// Depths and ages.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill outbox stats\n  waybill outbox stats --tenant acme -o json")]
pub struct Stats {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

const VIEW: View<'_> = View {
    columns: &[
        column("TENANT", |item| text(item, "tenant")),
        column("TRANSPORT", |item| text(item, "transport")),
        column("READY", |item| words(item, "ready")),
        column("LEASED", |item| words(item, "leased")),
        column("PARKED", |item| words(item, "parked")),
        column("SCHEDULED", |item| {
            format!("{}{}", words(item, "scheduled"), scheduled_until(item).map_or("", |_| "+"))
        }),
        column("DEAD", |item| format!("{}{}", words(item, "dead"), counted_since(item).map_or("", |_| "+"))),
        column("OLDEST READY", |item| ago(item, "oldest_ready_ms")),
    ],
    id: |item| text(item, "tenant"),
    none: "nothing waits, nothing is dead",
};

/// Shows them, and says where a count ended early.
pub(super) async fn run(args: &Stats, context: &mut Context<'_>) -> Result<(), CliError> {
    let items = lists::whole(context, &["v1", "outbox", "stats"], &lists::tenant_query(args.tenant.as_deref())).await?;
    output::list(context.term, context.format, &items, &VIEW)?;
    if let Some(early) = items.iter().find(|item| counted_since(item).is_some()) {
        lists::tell_counted(context, early);
    }
    if let Some(until) = items.iter().find_map(scheduled_until) {
        context.term.say(&format!("scheduled messages are counted up to what is due at {until}: there may be more"));
    }
    Ok(())
}
