//! `cargo xtask demo`, `bench` and `chaos`: the program beside this one that runs real hosts (`trials/`).

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::cargo::{Repository, shown};
use crate::setup;

/// What is handed on to the program as it was written.
#[derive(Debug, Args)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Builds the binary and the trials, and runs one of them.
pub fn run(trial: &str, arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    setup::guest_target()?;
    if !repository.binary().is_file() {
        eprintln!("building waybill: the first time takes half an hour on two cores, afterwards seconds");
    }
    repository.build_binary()?;
    let mut command = repository.trials(trial);
    let status = command.args(&arguments.words).status().with_context(|| format!("starting {}", shown(&command)))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
