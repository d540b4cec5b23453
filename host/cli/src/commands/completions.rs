//! `waybill completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::CliError;
use crate::term::Term;

/// Completion script.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill completions bash > ~/.local/share/bash-completion/completions/waybill\n  waybill completions zsh > \"${fpath[1]}/_waybill\"\n  waybill completions fish > ~/.config/fish/completions/waybill.fish"
)]
pub struct Completions {
    /// Shell
    pub shell: Shell,
}

pub(super) fn run(args: &Completions, term: &mut Term) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "waybill", &mut script);
    term.out.write_all(&script).map_err(CliError::io("writing the script"))
}
