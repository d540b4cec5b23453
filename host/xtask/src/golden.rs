//! `cargo xtask golden`: a data directory of today's version, with everything in it that later ones have to read.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};
use clap::Args;

use crate::cargo::{Repository, run as run_command};
use crate::setup;

/// The program that makes one, an example of the store.
const EXAMPLE: &str = "golden";

/// How it is made.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Make it anew although there is one of this version
    #[arg(long)]
    again: bool,
}

/// Builds the binary and makes `tests/golden/VERSION`.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    setup::guest_target()?;
    let folder = repository.root.join("tests").join("golden").join(env!("CARGO_PKG_VERSION"));
    if folder.exists() && !arguments.again {
        bail!(
            "there is {} already: it says what that version wrote, so make it anew with --again only until the version is released",
            folder.display()
        );
    }
    let binary = match std::env::var_os("WAYBILL_BIN") {
        Some(binary) => binary.into(),
        None => repository.build_binary()?,
    };
    let example = ["build", "--release", "--locked", "--workspace", "--example", EXAMPLE];
    run_command(&mut repository.cargo(example))?;
    let program = repository.target.join("release").join("examples");
    let program = program.join(format!("{EXAMPLE}{}", std::env::consts::EXE_SUFFIX));
    run_command(Command::new(program).arg(&folder).env("WAYBILL_BIN", binary))?;
    Ok(ExitCode::SUCCESS)
}
