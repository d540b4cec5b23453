//! `waybill stream show`.

use clap::Args;
use serde_json::Value;
use waybill_core::seq_json::SeqJson;

use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, size, text, words};

/// Which stream.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill stream show task.node.7\n  \
    waybill stream show task.node.7 --tenant acme -o json")]
pub struct Show {
    /// Its name
    pub name: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Shows what is kept of it, and who takes it.
pub(super) async fn run(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let tenant = args.tenant.as_deref();
    let answer = context.client.get(&["v1", "streams", &args.name], &lists::tenant_query(tenant)).await;
    let answer = answer.map_err(|error| requests::with_tenant(error, tenant))?;
    answer.need("last_seq", SeqJson::in_value)?;
    let item = &answer.body;
    let mut rows: Vec<(String, String)> =
        ["name", "tenant"].iter().map(|name| ((*name).to_owned(), text(item, name))).collect();
    let counts = [
        ("first", "first_seq"),
        ("last", "last_seq"),
        ("readers", "readers"),
        ("named to", "named_to"),
        ("purged", "purged"),
    ];
    rows.extend(counts.map(|(title, name)| (title.to_owned(), words(item, name))));
    let bytes = item.get("bytes").and_then(Value::as_u64).map_or_else(|| "-".into(), size);
    rows.push(("bytes".to_owned(), bytes));
    rows.push(("shard".to_owned(), words(item, "shard")));
    rows.push(("numbered here".to_owned(), text(item, "here")));
    rows.push(("settings".to_owned(), text(item, "settings")));
    for relay in item.get("relays").and_then(Value::as_array).into_iter().flatten() {
        rows.push((format!("relay {}", text(relay, "relay")), format!("up to {}", words(relay, "upto"))));
    }
    output::one(context.term, context.format, &answer.text, &args.name, rows)
}
