//! `cargo xtask dist`: the binary as it is given away, without its symbols, and the symbols in a file beside it. Whoever has both in
//! one folder gets the names of functions in a backtrace all the same, because the binary names the file.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, run as run_command};
use crate::setup;

pub fn run() -> Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        bail!("symbols are kept in a file beside the binary on Linux only");
    }
    let repository = Repository::find()?;
    setup::guest_target()?;
    let built = repository.build_binary()?;
    let place = repository.target.join("dist");
    std::fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    let (binary, symbols) = (place.join("waybill"), place.join("waybill.debug"));
    let tool = tool()?;
    run_command(Command::new(&tool).arg("--only-keep-debug").args([&built, &symbols]))?;
    let mut strip = Command::new(&tool);
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display())).args([&built, &binary]);
    run_command(&mut strip)?;
    for (path, what) in [(&binary, "the binary"), (&symbols, "its symbols, for backtraces: keep them beside it")] {
        println!("{:>7.1} MB  {}  ({what})", megabytes(path)?, path.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn megabytes(path: &Path) -> Result<f64> {
    let metadata = std::fs::metadata(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(metadata.len() as f64 / 1e6)
}

/// The objcopy that Rust brings, else the system's.
fn tool() -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).args(["--print", "target-libdir"]).output().context("starting rustc")?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let rusts = libraries.parent().map(|folder| folder.join("bin").join("rust-objcopy"));
    let found = rusts.into_iter().chain(["llvm-objcopy".into(), "objcopy".into()]).find(|tool: &PathBuf| starts(tool));
    match found {
        Some(tool) => Ok(tool),
        None => bail!("there is no objcopy: install the package binutils, or a Rust that brings rust-objcopy"),
    }
}

fn starts(tool: &Path) -> bool {
    let status = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
