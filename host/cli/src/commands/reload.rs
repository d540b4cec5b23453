//! `waybill config reload` and `waybill config diff`: what a running host reads now, against what is in force there.

use serde_json::{Value, json};

use super::Context;
use crate::args::Format;
use crate::exit::CliError;
use crate::output::{self, View, column, number, plain, text};

/// How changes are shown.
const VIEW: View<'_> = View {
    columns: &[
        column("SETTING", |item| text(item, "key")),
        column("IN FORCE", |item| value(item, "from")),
        column("READ NOW", |item| value(item, "to")),
        column("COUNTS", |item| match text(item, "effect").as_str() {
            "now" => "at once".to_owned(),
            _ => "after a restart".to_owned(),
        }),
    ],
    id: |item| text(item, "key"),
    none: "nothing differs",
};

fn value(item: &Value, name: &str) -> String {
    match item.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(value) => plain(value),
    }
}

/// Runs either.
pub(super) async fn run(apply: bool, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.post(&["v1", "config", "reload"], &[], &json!({ "dry_run": !apply })).await?;
    let changes = answer.need("changes", Value::as_array)?.clone();
    for warning in answer.need("warnings", Value::as_array)? {
        context.term.say(&format!("warning: {}", plain(warning)));
    }
    match context.format {
        Format::Json => context.term.line(answer.text.trim_end())?,
        format => output::list(context.term, format, &changes, &VIEW)?,
    }
    let later = changes.iter().filter(|change| text(change, "effect") != "now").count();
    if apply {
        let now = number((changes.len() - later) as u64, "setting", "settings");
        context.term.say(&format!("in force: {now} changed"));
    }
    if later > 0 {
        context.term.say(&format!("{} after a restart", number(later as u64, "setting counts", "settings count")));
    }
    Ok(())
}
