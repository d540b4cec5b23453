//! Formatting, clippy, and `cargo deny`.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;
use clap::Args;

use crate::cargo::{Repository, run as run_command};
use crate::setup;
use crate::stage::Stages;

/// Guest workspaces beside the host's.
const GUESTS: [&str; 2] = ["plugins", "tests/guests"];

#[derive(Debug, Args)]
pub struct Arguments {
    /// Install `cargo deny` when it is missing (some minutes)
    #[arg(long)]
    install: bool,
}

/// Runs all of it.
pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    let mut stages = Stages::of(5);
    stages.run("setting up", async { setup::guest_target() }).await;
    stages.run("formatting", async { formatting(&repository) }).await;
    stages.run("licences and sources of dependencies", async { deny(&repository, arguments) }).await;
    stages.run("advisories about dependencies", async { advisories(&repository) }).await;
    stages.run("clippy", async { clippy(&repository) }).await;
    print!("\n{}", stages.summary());
    Ok(if stages.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `cargo fmt --check` over the host and the guests.
pub fn formatting(repository: &Repository) -> Result<()> {
    setup::component("rustfmt", "fmt")?;
    run_command(&mut repository.cargo(["fmt", "--all", "--check"]))?;
    for guest in GUESTS {
        run_command(repository.cargo(["fmt", "--all", "--check"]).current_dir(repository.root.join(guest)))?;
    }
    Ok(())
}

/// Clippy with warnings as errors, in the release profile: its build scripts and macros are there already.
pub fn clippy(repository: &Repository) -> Result<()> {
    setup::component("clippy", "clippy")?;
    let release = ["clippy", "--release", "--locked", "--workspace"];
    run_command(repository.cargo(release).args(["--all-targets", "--", "--deny", "warnings"]))?;
    for guest in GUESTS {
        let target = repository.target.join("guests-clippy");
        let mut command = repository.cargo(release);
        command.current_dir(repository.root.join(guest)).args(["--target", setup::GUEST_TARGET, "--target-dir"]);
        run_command(command.arg(target).args(["--", "--deny", "warnings"]))?;
    }
    Ok(())
}

/// `cargo deny` where it is installed; a machine without it isn't a failure, and says so.
fn deny(repository: &Repository, arguments: &Arguments) -> Result<()> {
    if !has_deny() && arguments.install {
        run_command(&mut repository.cargo(["install", "--locked", "cargo-deny"]))?;
    }
    if !has_deny() {
        eprintln!("cargo deny isn't installed, so nothing was checked: `cargo xtask lint --install` installs it");
        return Ok(());
    }
    run_command(&mut repository.cargo(["deny", "--log-level", "error", "check", "bans", "licenses", "sources"]))
}

fn has_deny() -> bool {
    let version = Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Known vulnerabilities of what both lock files name. The database comes from the network: where it can't be had, that is said
/// and isn't a failure.
pub fn advisories(repository: &Repository) -> Result<()> {
    let unchecked = |why: &str| {
        println!("advisories: not checked ({why})");
        Ok(())
    };
    if !has_deny() {
        return unchecked("cargo deny isn't installed; `cargo xtask lint --install` installs it");
    }
    if !repository.cargo(["deny", "fetch", "db"]).stdin(Stdio::null()).status()?.success() {
        return unchecked("the database of advisories couldn't be fetched");
    }
    let configuration = repository.root.join("deny.toml");
    for workspace in ["", "plugins"] {
        let mut command = repository.cargo(["deny", "--manifest-path"]);
        command.arg(repository.root.join(workspace).join("Cargo.toml"));
        command.args(["check", "--disable-fetch", "--config"]).arg(&configuration).arg("advisories");
        run_command(&mut command)?;
    }
    Ok(())
}
