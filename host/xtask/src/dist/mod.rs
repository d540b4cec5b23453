//! `cargo xtask dist`: what is given away. The binary without its symbols, whose name says where it runs, and the symbols in a file
//! beside it: whoever has both in one folder gets the names of functions in a backtrace all the same, because the binary names the
//! file. A Debian package of it with its service, manual pages and completions. Checksums of them.

mod deb;
mod glibc;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, run as run_command};
use crate::setup;

/// Where the files go, unless `WAYBILL_DIST` names another folder.
const FOLDER: &str = "dist";

pub fn run() -> Result<ExitCode> {
    if !cfg!(target_os = "linux") {
        bail!("what is given away is made on Linux only");
    }
    let repository = Repository::find()?;
    setup::guest_target()?;
    let built = match std::env::var_os("WAYBILL_BIN") {
        Some(binary) => binary.into(),
        None => repository.build_binary()?,
    };
    let place = std::env::var_os("WAYBILL_DIST").map_or_else(|| repository.target.join(FOLDER), PathBuf::from);
    std::fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    let glibc = glibc::lowest(&std::fs::read(&built).with_context(|| format!("reading {}", built.display()))?)?;
    let name = format!("waybill-{}-linux-{}-glibc{glibc}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let (binary, symbols) = (place.join(&name), place.join(format!("{name}.debug")));
    let tool = tool()?;
    run_command(Command::new(&tool).arg("--only-keep-debug").args([&built, &symbols]))?;
    let mut strip = Command::new(&tool);
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display())).args([&built, &binary]);
    run_command(&mut strip)?;
    let package = deb::make(&place, &binary, &glibc)?;
    let files = [
        (binary, "the binary"),
        (symbols, "its symbols, for backtraces: keep them beside it"),
        (package, "for Debian and Ubuntu: apt install ./FILE"),
    ];
    for (path, what) in &files {
        println!("{:>7.1} MB  {}  ({what})", megabytes(path)?, path.display());
    }
    let sums = place.join("SHA256SUMS");
    let output = std::fs::File::create(&sums).with_context(|| format!("making {}", sums.display()))?;
    let names = files.iter().filter_map(|(path, _)| path.file_name());
    run_command(Command::new("sha256sum").args(names).current_dir(&place).stdout(output))?;
    println!("            {}  (sha256sum --check SHA256SUMS)", sums.display());
    println!(
        "not made: other processors (cargo build --release --target aarch64-unknown-linux-gnu), rpm (alien --to-rpm on the package),"
    );
    println!("a static binary (cargo build --release --target x86_64-unknown-linux-musl)");
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
