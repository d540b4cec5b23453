//! `cargo xtask dist`: what is given away. The binary without its symbols, whose name says where it runs, and the symbols in a file
//! beside it: whoever has both in one folder gets the names of functions in a backtrace all the same, because the binary names the
//! file. A container image and a Debian package of it, a list of what is in it, checksums of them all, and a signature of those if there
//! is a key.

mod deb;
mod glibc;
mod image;
mod oci;
mod sbom;
mod signature;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{Repository, run as run_command, shown};
use crate::setup;

const VERSION: &str = env!("CARGO_PKG_VERSION");
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
    let name = format!("waybill-{VERSION}-linux-{}-glibc{glibc}", std::env::consts::ARCH);
    let (binary, symbols) = (place.join(&name), place.join(format!("{name}.debug")));
    let tool = tool()?;
    run_command(Command::new(&tool).arg("--only-keep-debug").args([&built, &symbols]))?;
    let mut strip = Command::new(&tool);
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={}", symbols.display())).args([&built, &binary]);
    run_command(&mut strip)?;
    let architecture = architecture()?;
    let image = image::make(&place, &binary, architecture)?;
    let package = deb::make(&place, &binary, architecture, &glibc)?;
    let parts = sbom::make(&repository, &place, &binary)?;
    let files = [
        (binary, "the binary"),
        (symbols, "its symbols, for backtraces: keep them beside it"),
        (package, "for Debian and Ubuntu: apt install ./FILE"),
        (image, "for containers: docker load --input FILE, podman load --input FILE"),
        (parts, "what is in the binary, as CycloneDX"),
    ];
    for (path, what) in &files {
        println!("{:>7.1} MB  {}  ({what})", megabytes(path)?, path.display());
    }
    let sums = place.join("SHA256SUMS");
    let output = std::fs::File::create(&sums).with_context(|| format!("making {}", sums.display()))?;
    let names = files.iter().filter_map(|(path, _)| path.file_name());
    run_command(Command::new("sha256sum").args(names).current_dir(&place).stdout(output))?;
    println!("            {}  (sha256sum --check SHA256SUMS)", sums.display());
    let key = std::env::var_os(signature::VARIABLE).map(PathBuf::from);
    match signature::make(&sums, key.as_deref())? {
        Some(signature) => {
            println!("            {}  (docs/operations.md says how it is verified)", signature.display())
        }
        None => {
            println!("not made: a signature of the checksums ({}=FILE, a private key of OpenSSH)", signature::VARIABLE)
        }
    }
    println!(
        "not made: other processors (cargo build --release --target aarch64-unknown-linux-gnu), rpm (alien --to-rpm on the package),"
    );
    println!("a static binary (cargo build --release --target x86_64-unknown-linux-musl)");
    Ok(ExitCode::SUCCESS)
}

/// The processor by the name that Debian and containers have for it.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("the name of the processor {other} in packages isn't known here"),
    }
}

/// Runs a program to its end, and answers what it wrote.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("starting {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    Ok(output.stdout)
}

/// Digest of a file, in hexadecimal.
fn sha256(file: &Path) -> Result<String> {
    let bytes = std::fs::File::open(file).with_context(|| format!("opening {}", file.display()))?;
    let line = output(Command::new("sha256sum").stdin(bytes))?;
    let line = String::from_utf8_lossy(&line);
    let digest =
        line.split_whitespace().next().with_context(|| format!("sha256sum says nothing of {}", file.display()))?;
    Ok(digest.to_owned())
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
