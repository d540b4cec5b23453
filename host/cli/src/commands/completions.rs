//! `waybill completions`.

use clap::CommandFactory;

use crate::args::Cli;
use crate::args::rest::Completions;
use crate::exit::CliError;
use crate::term::Term;

/// Writes the script.
pub fn run(args: &Completions, term: &mut Term) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "waybill", &mut script);
    term.out.write_all(&script).map_err(CliError::io("writing the script"))
}
