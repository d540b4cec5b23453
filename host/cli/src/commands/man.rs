//! `waybill man`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::args::Cli;
use crate::exit::CliError;
use crate::term::Term;

/// Manual pages, one a command: `waybill.1`, `waybill-send.1`, `waybill-dead-replay.1`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill man ~/.local/share/man/man1\n  man -l man1/waybill-send.1")]
pub struct Man {
    /// Folder that gets them; made if it isn't there
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

pub(super) fn run(args: &Man, term: &mut Term) -> Result<(), CliError> {
    std::fs::create_dir_all(&args.folder).map_err(CliError::io("making the folder"))?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(CliError::io("writing the pages"))?;
    term.line(&format!("manual pages are in {}", args.folder.display()))
}
