//! `waybill token list`.

use clap::Args;
use serde_json::Value;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, less, moment, plain, prose, text, whole};

/// Takes nothing: all of them are listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill token list\n  \
    waybill token list -o jsonl | jq -r 'select(.state == \"expired\") | .name' | waybill token revoke -")]
pub struct List {}

const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("STATE", |item| text(item, "state").replace('_', " ")),
        prose("ROLES", |item| joined(item, "roles")),
        prose("TENANTS", |item| joined(item, "tenants")),
        less(1, column("FROM", |item| text(item, "source"))),
        less(2, column("ENDS IN", |item| text(item, "ends_with"))),
        less(3, moment("MADE", |item| instant(item, "created_at"))),
        less(4, column("BY", |item| text(item, "created_by"))),
        moment("EXPIRES", |item| instant(item, "expires_at")),
    ],
    id: |item| text(item, "name"),
    none: "there is no token",
};

fn joined(item: &Value, name: &str) -> String {
    let words: Vec<String> = item.get(name).and_then(Value::as_array).into_iter().flatten().map(plain).collect();
    words.join(", ")
}

pub(super) async fn run(_: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let tokens = lists::whole(context, &["v1", "tokens"], &[]).await?;
    output::list(context.term, context.format, &tokens, &VIEW)
}
