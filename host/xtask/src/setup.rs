//! What a fresh clone lacks: the target that plugins are compiled for, the tools that checks use, the servers that tests
//! and demos run against.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use waybill_testkit::process::find_program;

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

/// Makes sure that a program is there: installed with apt where that is possible without asking, as root or with sudo, else an
/// error that says how.
pub fn program(name: &str, package: &str) -> Result<()> {
    if find_program(name).is_some() {
        return Ok(());
    }
    let by_hand = format!(
        "`{name}` is missing and needed here: install it, e.g. `apt-get install {package}` on Debian or Ubuntu"
    );
    if find_program("apt-get").is_none() || as_root(["true"]).is_err() {
        bail!("{by_hand}");
    }
    eprintln!("{name} is missing: installing the package {package}");
    install(package).with_context(|| by_hand.clone())?;
    if find_program(name).is_some() { Ok(()) } else { bail!("the package {package} brought no `{name}`. {by_hand}") }
}

/// Installs a package with apt, without starting what it brings.
fn install(package: &str) -> Result<()> {
    let _kept_down = KeptDown::new()?;
    for arguments in [&["update", "--quiet"][..], &["install", "--yes", "--quiet", "--no-install-recommends", package]]
    {
        // sudo hands on no environment.
        as_root(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"].iter().chain(arguments))?;
    }
    Ok(())
}

/// Makes sure that Python can make environments of its own, which Debian has as a package apart.
pub fn python_venv() -> Result<()> {
    let can = || Command::new("python3").args(["-c", "import ensurepip, venv"]).stderr(Stdio::null()).status();
    if can().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    install("python3-venv").context("`python3` can't make environments: install the package python3-venv")?;
    match can() {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the package python3-venv is installed, and `python3` still can't make environments"),
    }
}

/// Runs a program as root: as it is, or with sudo where that asks for no password.
fn as_root<Word: AsRef<OsStr>>(words: impl IntoIterator<Item = Word>) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let mut words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    if !is_root {
        words.splice(..0, ["sudo".into(), "--non-interactive".into()]);
    }
    let line = words.join(OsStr::new(" ")).display().to_string();
    let mut words = words.into_iter();
    let status = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("starting `{line}`"))?;
    if status.success() { Ok(()) } else { bail!("`{line}` ended with {status}") }
}

/// While it lives, packages start no services: tests start servers of their own, with folders and ports of their own.
struct KeptDown {
    policy: Option<&'static Path>,
}

impl KeptDown {
    /// Debian asks this program before it starts a service; 101 means no.
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn new() -> Result<Self> {
        let path = Path::new(Self::POLICY);
        if path.exists() {
            return Ok(Self { policy: None });
        }
        let mut draft = tempfile::NamedTempFile::new().context("making a temporary file")?;
        draft.write_all(b"#!/bin/sh\nexit 101\n")?;
        as_root([OsStr::new("install"), OsStr::new("--mode=755"), draft.path().as_os_str(), path.as_os_str()])?;
        Ok(Self { policy: Some(path) })
    }
}

impl Drop for KeptDown {
    fn drop(&mut self) {
        if let Some(path) = self.policy {
            // What stays behind only keeps services down.
            let _ = as_root([OsStr::new("rm"), OsStr::new("--force"), path.as_os_str()]);
        }
    }
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
