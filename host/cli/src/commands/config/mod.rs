//! `waybill config ...`.

pub(super) mod check;
mod diff;
mod path;
mod reload;
mod show;

use clap::Subcommand;

use super::Context;
use crate::args::Global;
use crate::exit::CliError;
use crate::term::Term;

/// Configuration.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Is it right; loads the plugins too
    Check(check::Check),
    /// Every setting in effect
    Show(show::Show),
    /// Where the file and the data are
    Path(path::Path),
    /// What differs between what a running host reads now and what is in force there
    Diff(diff::Diff),
    /// Have a running host read its configuration again
    Reload(reload::Reload),
}

/// Runs one of them.
pub(super) async fn run(command: &Config, global: &Global, term: &mut Term) -> Result<(), CliError> {
    match command {
        Config::Check(args) => check::run(args, global.format(), term).await,
        Config::Show(args) => show::run(args, global, term).await,
        Config::Path(args) => path::run(args, global.format(), term),
        Config::Diff(args) => diff::run(args, &mut Context::new(global, term)?).await,
        Config::Reload(args) => reload::run(args, &mut Context::new(global, term)?).await,
    }
}
