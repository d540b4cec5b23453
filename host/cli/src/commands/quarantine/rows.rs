//! Acts on rows in quarantine, one after the other.

use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::commands::{Context, selection};
use crate::exit::CliError;
use crate::output;

/// Rows to act on.
#[derive(Debug, Args)]
pub struct Rows {
    /// Their names in quarantine; `-` reads them from stdin
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Does `act` to each, and says what `report` makes of the answer.
pub(super) async fn each(
    args: &Rows,
    act: &str,
    report: impl Fn(&str, &Value) -> String,
    context: &mut Context<'_>,
) -> Result<(), CliError> {
    let ids = selection::read_ids(context, &args.ids, None)?;
    let body = json!({ "reason": args.reason });
    let silent = |_: u64| None;
    selection::each(context, &ids, &ProgressBar::hidden(), silent, async |context, row| {
        let answer = context.client.post(&["v1", "quarantine", &row.id, act], &[], &body).await?;
        let id = answer.need("id", Value::as_str)?;
        context.term.say(&report(id, &answer.body));
        Ok(output::answer(context.term, context.format, &answer.text, id, |_| Ok(())))
    })
    .await
}
