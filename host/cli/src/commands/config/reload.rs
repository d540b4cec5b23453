//! `waybill config reload`: what a running host reads now, against what is in force there.

use clap::Args;
use serde_json::{Value, json};

use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, Format, View, column, number, plain, prose, text, whole};

/// Reload.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config reload --dry-run\n  waybill config reload\n\nAll of what can change while a host runs is put in force, or nothing: transports and routes, retries, weights, times. \
    What needs a restart is named. SIGHUP does the same, and so does a change of the file with server.watch = true."
)]
pub struct Reload {
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
}

pub(super) async fn run(args: &Reload, context: &mut Context<'_>) -> Result<(), CliError> {
    changes(!args.dry_run, context).await.map(|_| ())
}

const VIEW: View<'_> = View {
    columns: &[
        whole("SETTING", |item| text(item, "key")),
        prose("IN FORCE", |item| value(item, "from")),
        prose("READ NOW", |item| value(item, "to")),
        column("COUNTS", counts),
    ],
    id: |item| text(item, "key"),
    none: "nothing differs",
};

/// When another value of a setting counts.
pub(super) fn counts(item: &Value) -> String {
    let words = match text(item, "effect").as_str() {
        "now" => "at once",
        "refused" => "not at all",
        _ => "after a restart",
    };
    words.to_owned()
}

fn value(item: &Value, name: &str) -> String {
    match item.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => plain(value),
    }
}

/// Has the host read its configuration; `apply` puts what can change in force. Answers how many settings differ.
pub(super) async fn changes(apply: bool, context: &mut Context<'_>) -> Result<usize, CliError> {
    let answer = context.client.post(&["v1", "config", "reload"], &[], &json!({ "dry_run": !apply })).await?;
    let changes = answer.need("changes", Value::as_array)?.clone();
    for warning in answer.need("warnings", Value::as_array)? {
        context.term.say(&format!("warning: {}", plain(warning)));
    }
    match context.format {
        Format::Json => context.term.line(answer.text.trim_end())?,
        format => output::list(context.term, format, &changes, &VIEW)?,
    }
    let later = changes.iter().filter(|change| text(change, "effect") == "restart").count();
    if apply {
        let now = number((changes.len() - later) as u64, "setting", "settings");
        context.term.say(&format!("in force: {now} changed"));
    }
    if later > 0 {
        context.term.say(&format!("{} after a restart", number(later as u64, "setting counts", "settings count")));
    }
    Ok(changes.len())
}
