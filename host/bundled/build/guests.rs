//! Building a guest workspace from a build script. Shared by the build scripts of `host/bundled` and `tests`.
//!
//! The guests are built in a target folder of their own, so the inner cargo doesn't wait for the lock that the outer one holds,
//! and with an environment of their own, so that flags meant for the host don't reach them. What this doesn't do: install
//! the target; it says how.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

/// What guests are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// Environment of the outer cargo that must not reach the inner one, by prefix. What is left says where registries,
/// toolchains and the job server are.
const OUTER: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_ENCODED_RUST",
    "CARGO_FEATURE_",
    "CARGO_INCREMENTAL",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_PROFILE_",
    "CARGO_RESOLVER_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
    "DEBUG",
    "HOST",
    "LD_LIBRARY_PATH",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "TARGET",
    "__CARGO",
];

/// Ends a build script: an error is shown by cargo as one.
pub fn exit(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            for line in reason.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Root of the repository: the nearest folder above this package with `wit` and `plugins`.
pub fn repository() -> Result<PathBuf, String> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    package
        .ancestors()
        .find(|folder| folder.join("wit").is_dir() && folder.join("plugins").is_dir())
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("no folder above {} holds wit/ and plugins/", package.display()))
}

/// Runs the script again when one of these changes.
pub fn watch(paths: &[&Path]) {
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Runs the script again when a guest workspace changes, but for its own target folder.
pub fn watch_workspace(workspace: &Path) -> Result<(), String> {
    watch(&[&workspace.join("Cargo.toml"), &workspace.join("Cargo.lock")]);
    for folder in folders(workspace)? {
        watch(&[&folder]);
    }
    Ok(())
}

/// Folders of a workspace, without `target`.
pub fn folders(workspace: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error| format!("failed to list {}: {error}", workspace.display());
    let mut folders = Vec::new();
    for entry in fs::read_dir(workspace).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            folders.push(path);
        }
    }
    Ok(folders)
}

/// Builds in a workspace with further arguments of `cargo build`, and answers the folder of the artifacts. `name` is the
/// folder below the outer target folder, kept between builds.
pub fn build(workspace: &Path, name: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    check_target()?;
    let target = target_folder(name)?;
    let mut command = Command::new(variable("CARGO")?);
    command.args(["build", "--release", "--locked", "--target", TARGET, "--manifest-path"]);
    command.arg(workspace.join("Cargo.toml")).arg("--target-dir").arg(&target).args(arguments);
    for (variable, _) in env::vars_os() {
        if variable.to_str().is_some_and(|variable| OUTER.iter().any(|prefix| variable.starts_with(prefix))) {
            command.env_remove(variable);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", remap()?.join("\x1f"));
    let output =
        command.output().map_err(|error| format!("failed to start cargo for {}: {error}", workspace.display()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("failed to build the guests of {} ({}):\n{text}", workspace.display(), output.status));
    }
    Ok(target.join(TARGET).join("release"))
}

/// Flags that keep this machine's paths out of the components, so that the same sources give the same digest anywhere.
fn remap() -> Result<Vec<String>, String> {
    let mut flags = vec![format!("--remap-path-prefix={}=/waybill", repository()?.display())];
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    if let Some(cargo) = env::var_os("CARGO_HOME").map(PathBuf::from).or(home) {
        flags.push(format!("--remap-path-prefix={}=/cargo", cargo.display()));
    }
    Ok(flags)
}

/// Says what to do where the target is missing; the compiler's own message is about a missing `std`.
fn check_target() -> Result<(), String> {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(&rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .map_err(|error| format!("failed to start {rustc}: {error}"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if output.status.success() && folder.is_dir() {
        return Ok(());
    }
    Err(format!(
        "the Rust target {TARGET} is not installed, and the plugins are built for it.\n\
         Run: rustup target add {TARGET}\n\
         Without rustup: install your toolchain's standard library for {TARGET} (expected in {}).",
        folder.display()
    ))
}

/// A folder below the outer target folder, which is the one marked as cache by cargo; else in this script's own output.
fn target_folder(name: &str) -> Result<PathBuf, String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    let outer = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    Ok(outer.unwrap_or(&out).join(name))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error} (cargo sets it for build scripts)"))
}
