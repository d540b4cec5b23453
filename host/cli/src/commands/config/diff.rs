//! `waybill config diff`: what a reload would change.

use clap::Args;

use super::reload;
use crate::commands::Context;
use crate::exit::CliError;

/// Diff.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config diff\n  waybill config diff -o ids        only the keys\n  waybill config diff --exit-code   1 when something differs, for scripts\n\nThe host reads its own file, environment and flags; plugins are loaded, nothing changes."
)]
pub struct Diff {
    /// Exit with 1 when something differs
    #[arg(long)]
    pub exit_code: bool,
}

pub(super) async fn run(args: &Diff, context: &mut Context<'_>) -> Result<(), CliError> {
    match reload::changes(false, context).await? {
        differ @ 1.. if args.exit_code => Err(CliError::Differs { settings: differ }),
        _ => Ok(()),
    }
}
