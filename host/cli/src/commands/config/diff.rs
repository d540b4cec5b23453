//! `waybill config diff`: what a reload would change.

use clap::Args;

use super::reload;
use crate::commands::Context;
use crate::exit::CliError;

/// Diff.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill config diff\n  waybill config diff -o ids        only the keys\n\nThe host reads its own file, environment and flags; plugins are loaded, nothing changes."
)]
pub struct Diff {}

pub(super) async fn run(context: &mut Context<'_>) -> Result<(), CliError> {
    reload::changes(false, context).await
}
