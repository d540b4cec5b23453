//! `waybill quarantine show`.

use clap::Args;
use serde_json::Value;

use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, instant, plain, shortened, text};

/// Characters of one column shown in a table; more is left to `-o json`.
const SHOWN_MAX: usize = 400;

/// One row.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill quarantine show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
    waybill quarantine show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC -o json | jq -r .columns.data | base64 -d | xxd")]
pub struct Show {
    /// Its name in quarantine
    pub id: String,
}

pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "quarantine", &args.id], &[]).await?;
    answer.need("columns", Value::as_object)?;
    let item = &answer.body;
    let mut rows: Vec<(String, String)> = ["id", "table", "key", "tenant"]
        .into_iter()
        .map(|name| (name.to_owned(), text(item, name)))
        .chain([("since".to_owned(), instant(item, "since")), ("why".to_owned(), text(item, "reason"))])
        .filter(|(_, value)| value != "-")
        .collect();
    let now = match item.get("unreadable").and_then(Value::as_str) {
        Some(reason) => format!("still unreadable: {reason}"),
        None => "it can be read: `waybill quarantine restore` puts it back".to_owned(),
    };
    rows.push(("now".to_owned(), now));
    for (name, value) in item.get("columns").and_then(Value::as_object).into_iter().flatten() {
        rows.push((format!("  {name}"), shortened(&plain(value), SHOWN_MAX)));
    }
    output::one(context.term, context.format, &answer.text, &text(item, "id"), rows)
}
