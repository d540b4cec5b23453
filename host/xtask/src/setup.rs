//! What the toolchain of a fresh clone lacks: the target that plugins are compiled for, and the tools that checks use.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// What plugins are compiled for.
pub const GUEST_TARGET: &str = "wasm32-wasip2";

/// Makes sure that plugins can be compiled.
pub fn guest_target() -> Result<()> {
    if has_guest_target()? {
        return Ok(());
    }
    eprintln!("Waybill's plugins are compiled for {GUEST_TARGET}, which this Rust lacks: adding it with rustup");
    rustup(&["target", "add", GUEST_TARGET])?;
    if !has_guest_target()? {
        bail!(
            "rustup added {GUEST_TARGET} to another toolchain than the one that compiles here; \
             run `rustup target add {GUEST_TARGET} --toolchain <name>` with the name that `rustup show active-toolchain` tells"
        );
    }
    Ok(())
}

/// Makes sure that a tool of the toolchain (`rustfmt`, `clippy`) is there.
pub fn component(name: &str, subcommand: &str) -> Result<()> {
    let there =
        crate::cargo::cargo().args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    eprintln!("{name} is missing: adding it with rustup");
    rustup(&["component", "add", name])
}

fn has_guest_target() -> Result<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc)
        .args(["--print", "target-libdir", "--target", GUEST_TARGET])
        .stderr(Stdio::null())
        .output()
        .with_context(|| format!("starting {}: is Rust installed? https://rustup.rs", rustc.display()))?;
    // An unknown target is an error of rustc; a known one that isn't installed is a folder that isn't there.
    Ok(output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn rustup(arguments: &[&str]) -> Result<()> {
    let line = format!("rustup {}", arguments.join(" "));
    match Command::new("rustup").args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!(
            "`{line}` ended with {status}, see above. It needs the network once (static.rust-lang.org, or the mirror in \
             RUSTUP_DIST_SERVER); run it where there is one, then this command again"
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "there is no rustup to run `{line}` with. Either install Rust with rustup (https://rustup.rs), or add the same to \
             your own toolchain: for {GUEST_TARGET} that is its standard library, often a package of its own"
        ),
        Err(error) => Err(error).with_context(|| format!("starting `{line}`")),
    }
}
