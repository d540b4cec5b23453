//! Rust: cargo, for wasm32-wasip2.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Project;
use crate::author::tool;
use crate::exit::CliError;
use crate::term::Term;

/// What plugins are compiled for.
const TARGET: &str = "wasm32-wasip2";

/// Keeps names and lines. What is compiled with them stands beside what is compiled without.
const DEBUG: [&str; 4] =
    ["--config", "profile.release.debug=\"line-tables-only\"", "--config", "profile.release.strip=\"none\""];

/// Builds and reads the component.
pub(super) fn build(project: &Project, debug: bool, term: &mut Term) -> Result<Vec<u8>, CliError> {
    let no_rust = || tool::missing("there is no Rust (cargo) on the PATH", "install it: https://rustup.rs");
    let cargo = tool::find("cargo", term).ok_or_else(no_rust)?;
    let rustc = tool::find("rustc", term).ok_or_else(no_rust)?;
    check_target(&rustc, project)?;
    let mut command = Command::new(cargo);
    command.current_dir(&project.root);
    command.args(["build", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    // Keeps this machine's paths out of the component: the same sources give the same digest anywhere.
    command.arg("--config").arg(format!("target.{TARGET}.rustflags={}", remap(&project.root, term)));
    if debug {
        command.args(DEBUG);
    }
    command.args(["--color", if term.color_errors() { "always" } else { "never" }]);
    let said = tool::run(&mut command, "cargo build", term)?;
    let component = component(&said, &project.root).ok_or_else(|| {
        tool::failed("cargo built no component\n  fix Cargo.toml needs [lib] with crate-type = [\"cdylib\"]".to_owned())
    })?;
    std::fs::read(&component).map_err(CliError::io(format!("reading {}", component.display())))
}

/// Says what to do where the target is missing; the compiler's own message is about a missing `std`.
fn check_target(rustc: &Path, project: &Project) -> Result<(), CliError> {
    let asked = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(&project.root)
        .output()
        .map_err(CliError::io("starting rustc"))?;
    let folder = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    if asked.status.success() && folder.is_dir() {
        return Ok(());
    }
    Err(tool::missing(
        &format!("this Rust has no {TARGET}, which plugins are compiled for"),
        &format!("run `rustup target add {TARGET}`; without rustup, install your toolchain's standard library for it"),
    ))
}

/// Flags as a TOML array.
fn remap(root: &Path, term: &Term) -> String {
    let home = term.env.get("HOME").map(|home| Path::new(home).join(".cargo"));
    let cargo = term.env.get("CARGO_HOME").map(PathBuf::from).or(home);
    let mut flags = vec![format!("--remap-path-prefix={}=/plugin", root.display())];
    flags.extend(cargo.map(|cargo| format!("--remap-path-prefix={}=/cargo", cargo.display())));
    toml::Value::Array(flags.into_iter().map(toml::Value::String).collect()).to_string()
}

/// The file that cargo tells of for this package's library.
fn component(said: &[u8], root: &Path) -> Option<PathBuf> {
    let manifest = root.join("Cargo.toml");
    String::from_utf8_lossy(said).lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let own = message.get("manifest_path")?.as_str().is_some_and(|path| Path::new(path) == manifest);
        let artifact = message.get("reason")?.as_str()? == "compiler-artifact";
        let files = message.get("filenames")?.as_array()?;
        let component = files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm"))?;
        (own && artifact).then(|| PathBuf::from(component))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_component_is_the_one_of_the_project_itself() {
        let line = |manifest: &str, file: &str| {
            format!(r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","filenames":["{file}"]}}"#)
        };
        let said = [
            line("/p/Cargo.toml", "/t/p.wasm"),
            line("/p/vendor/Cargo.toml", "/t/sdk.rlib"),
            line("/q/Cargo.toml", "/t/q.wasm"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .join("\n");
        assert_eq!(component(said.as_bytes(), Path::new("/p")).unwrap(), Path::new("/t/p.wasm"));
        assert_eq!(component(said.as_bytes(), Path::new("/r")), None);
    }
}
