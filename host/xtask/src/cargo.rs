//! Running cargo and its relatives, and knowing where things are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::build::build;

/// The package and program that runs real hosts.
pub(crate) const TRIALS: &str = "waybill-trials";

/// The repository: where its root is and where cargo puts what it builds.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    pub target: PathBuf,
    /// Packages of the host's workspace.
    pub packages: Vec<Package>,
}

/// A package of the workspace as `cargo metadata` tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    pub name: String,
    /// What is built of it.
    pub targets: Vec<Target>,
    /// What it depends on, as its `Cargo.toml` says.
    pub dependencies: Vec<Dependency>,
}

/// A library, a program, an example or a test program of a package.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    pub name: String,
    /// `lib`, `bin`, `test` and the like.
    pub kind: Vec<String>,
}

/// A dependency as a `Cargo.toml` says.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `dev`, `build` or none for a normal one.
    pub kind: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Repository {
    /// Asks cargo, from the folder that this program is run in.
    pub fn find() -> Result<Self> {
        let output = cargo().args(["metadata", "--no-deps", "--format-version", "1"]).stderr(Stdio::inherit()).output();
        let output = output.context("starting cargo")?;
        if !output.status.success() {
            bail!("`cargo metadata` ended with {}: run this inside the Waybill repository", output.status);
        }
        let metadata: Metadata =
            serde_json::from_slice(&output.stdout).context("reading what `cargo metadata` says")?;
        Ok(Self { root: metadata.workspace_root, target: metadata.target_directory, packages: metadata.packages })
    }

    /// The release binary, built or not.
    pub fn binary(&self) -> PathBuf {
        self.target.join("release").join(format!("waybill{}", std::env::consts::EXE_SUFFIX))
    }

    /// The release binary, which `cargo xtask` has built before it began a trial.
    pub fn built_binary(&self) -> Result<PathBuf> {
        let binary = self.binary();
        if !binary.is_file() {
            bail!("there is no {}: run this by `cargo xtask`, which builds it", binary.display());
        }
        Ok(binary)
    }

    /// A command of cargo, run in the root.
    pub fn cargo<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// The program of `trials/`, which has to be built, with the name of a trial.
    pub fn trials(&self, trial: &str) -> Command {
        let program = self.target.join("release").join(format!("{TRIALS}{}", std::env::consts::EXE_SUFFIX));
        let mut command = Command::new(program);
        command.arg(trial);
        command
    }

    /// Builds the binary as the product, the tests and the demo use it, and the trials with it: together, so that what both
    /// depend on is compiled once.
    pub fn build_binary(&self) -> Result<PathBuf> {
        let mut command = self.cargo(["build", "--release", "--locked", "--package", "waybill", "--package", TRIALS]);
        build(self, &mut command, &mut |_| ())?;
        self.built_binary()
    }
}

/// The cargo that runs us, else the one on the path.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // `cargo run` tells these to us; they say nothing about what we start.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs to the end with our own terminal; anything but success is an error that shows the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut text = format!("`{}", program.to_string_lossy());
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text + "`"
}
