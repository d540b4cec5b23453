//! `waybill token revoke`.

use clap::Args;
use indicatif::ProgressBar;
use serde_json::Value;

use crate::commands::{Context, selection};
use crate::exit::CliError;
use crate::output::{self, safe};

/// Tokens to take away.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill token revoke ci\n  \
    waybill token revoke old-1 old-2\n\n\
    What began with one of them ends: sessions of the page at once, subscriptions with their next event. Calls under\n\
    way are done to their end; tokens that it made and links for approvals stay until theirs. Revoking the last one opens\n\
    nothing. One of the configuration is taken out there.")]
pub struct Revoke {
    /// Their names; `-` reads them from stdin, one a line
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

pub(super) async fn run(args: &Revoke, context: &mut Context<'_>) -> Result<(), CliError> {
    let names = selection::read_ids(context, &args.names, None)?;
    let silent = |_: u64| None;
    selection::each(context, &names, &ProgressBar::hidden(), silent, async |context, token| {
        let answer = context.client.delete(&["v1", "tokens", &token.id], &[]).await?;
        let name = answer.need("name", Value::as_str)?;
        context.term.say(&format!("revoked {}", safe(name)));
        Ok(output::answer(context.term, context.format, &answer.text, name, |_| Ok(())))
    })
    .await
}
