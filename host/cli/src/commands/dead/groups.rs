//! `waybill dead groups`.

use clap::Args;
use serde_json::Value;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, less, moment, text, topic, whole, words};

/// By error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill dead groups\n  waybill dead groups --filter 'tenant=acme age<1d'")]
pub struct Groups {
    /// Conditions
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
}

const VIEW: View<'_> = View {
    columns: &[
        column("COUNT", |item| words(item, "count")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        whole("CODE", |item| text(item, "code")),
        column("ERROR", |item| text(item, "signature")),
        less(2, column("TOPIC", |item| topic(item, "topic"))),
        less(3, moment("FIRST", |item| instant(item, "first_at"))),
        moment("LATEST", |item| instant(item, "latest_at")),
        whole("EXAMPLE", |item| text(item, "example")),
    ],
    id: |item| item.get("example").and_then(Value::as_str).unwrap_or_default().to_owned(),
    none: "there are no dead letters",
};

pub(super) async fn run(args: &Groups, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "dead-letters", "groups"], &[("filter", &args.filter)]).await?;
    output::list(context.term, context.format, answer.need("items", Value::as_array)?, &VIEW)?;
    lists::tell_counted(context, &answer.body);
    Ok(())
}
