//! `waybill changes`: what changed at a host.

use clap::Args;
use serde_json::Value;

use super::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, plain, prose, text, whole, words};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill changes\n  waybill changes --since 2026-11-21T22:00:00Z\n  waybill changes --limit 10 -o json\n\n\
        Plugins that were swapped, rolled back or refused, breakers, configurations, operations, pauses, transports that were blocked and flow\n\
        again: the latest 1,000 that this host saw since it was started. What people did before is in `waybill audit list`."
)]
pub struct Changes {
    /// Not before this instant (RFC 3339) or day (UTC)
    #[arg(long, value_name = "INSTANT")]
    pub since: Option<String>,
    /// Most changes, up to 1,000
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
}

const VIEW: View<'_> = View {
    columns: &[
        moment("AT", |item| instant(item, "at")),
        whole("CHANGE", |item| text(item, "kind")),
        whole("OBJECT", |item| text(item, "object")),
        less(2, column("TIMES", |item| words(item, "times"))),
        column("ACTOR", |item| text(item, "actor")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        prose("WHY", why),
    ],
    id: |item| text(item, "id"),
    none: "nothing has changed",
};

fn why(item: &Value) -> String {
    match item.get("code").filter(|code| !code.is_null()) {
        Some(code) => format!("{}: {}", plain(code), text(item, "detail")),
        None => text(item, "detail"),
    }
}

/// Writes what changed, newest first.
pub(super) async fn run(args: &Changes, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = args.limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(args.since.as_deref().map(|since| ("since", since)));
    let answer = context.client.get(&["v1", "changes"], &query).await?;
    let items = answer.need("items", Value::as_array)?;
    match context.format {
        Format::Json => context.term.line(answer.text.trim_end()),
        format => {
            output::list(context.term, format, items, &VIEW)?;
            let since = instant(&answer.body, "since");
            context.term.say(&format!("all that changed since {since} is known"));
            Ok(())
        }
    }
}
