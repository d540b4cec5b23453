//! Running the binary on projects that stay between runs, so that cargo has little to build the second time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use waybill_testkit::{process, toolchains};

/// Variables that a test's own cargo sets and a person's shell doesn't have.
const OUTER: [&str; 6] = ["CARGO_", "RUST", "__CARGO", "VIRTUAL_ENV", "WAYBILL_", "LD_LIBRARY_PATH"];

/// Cargo's target folder, two above the one for this suite.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap()
}

pub fn tools() -> &'static toolchains::Toolchains {
    static TOOLS: LazyLock<toolchains::Toolchains> =
        LazyLock::new(|| toolchains::install(target()).unwrap_or_else(|error| panic!("{error}")));
    &TOOLS
}

/// A program with the environment of an author's shell.
pub fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        let outer = name.to_str().is_some_and(|name| OUTER.iter().any(|prefix| name.starts_with(prefix)));
        // Where toolchains and registries are.
        if outer && name != "CARGO_HOME" && name != "RUSTUP_HOME" && name != "RUSTUP_TOOLCHAIN" {
            command.env_remove(name);
        }
    }
    let mut path = tools().path.clone();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    command.env("PATH", std::env::join_paths(path).unwrap());
    // One folder for what all Rust projects build.
    command.env("CARGO_TARGET_DIR", target().join("authors"));
    command
}

pub fn waybill(arguments: &[&str]) -> Command {
    let mut command = program(process::binary().unwrap());
    command.args(arguments);
    command
}

/// What a command did, in words, for messages.
pub fn words(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command that has to end well.
pub fn well(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", words(&output));
    output
}

/// Runs a command that has to fail with an exit code, and answers what it complained of.
pub fn fails(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {}", words(&output));
    String::from_utf8(output.stderr).unwrap()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(output)))
}

/// A new project in a folder of its own that stays: only files whose content differs are written.
pub fn project(world: &str, language: &str, further: &[&str]) -> PathBuf {
    project_at(&format!("{language}-{world}"), world, language, further)
}

/// The same in the folder of this name: for a test that changes the project, while others use theirs.
pub fn project_at(folder: &str, world: &str, language: &str, further: &[&str]) -> PathBuf {
    let name = format!("my-{world}");
    let fresh = tempfile::tempdir().unwrap();
    let dir = fresh.path().join(&name);
    let mut arguments =
        vec!["plugin", "new", "--world", world, "--lang", language, &name, "--dir", dir.to_str().unwrap()];
    arguments.extend(further);
    well(&mut waybill(&arguments));
    let kept = kept(folder);
    copied(&dir, &kept, language);
    kept
}

/// A folder that stays between runs.
pub fn kept(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors").join(folder)
}

/// Makes `to` hold the files of a project, with the tools of its language.
pub fn copied(from: &Path, to: &Path, language: &str) {
    remove_others(&from.join("wit"), &to.join("wit"));
    sync(from, to);
    if language == "js" {
        let link = to.join("node_modules");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&tools().node_modules, link).unwrap();
    }
}

/// Removes the files in `to` that `from` doesn't have: the tools read each that lies in a contract's folder.
fn remove_others(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(to).into_iter().flatten() {
        let entry = entry.unwrap();
        let other = from.join(entry.file_name());
        if entry.path().is_dir() {
            if other.is_dir() {
                remove_others(&other, &entry.path());
            } else {
                std::fs::remove_dir_all(entry.path()).unwrap();
            }
        } else if !other.is_file() {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// Makes `to` hold the files of `from`; others in it, like what was built, stay.
fn sync(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        // The examples link to the contract.
        if entry.path().is_dir() {
            sync(&entry.path(), &target);
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        // Cargo writes its lock file anew, without what isn't used.
        let locked = entry.file_name() == "Cargo.lock" && target.is_file();
        if !locked && std::fs::read(&target).ok().as_ref() != Some(&bytes) {
            std::fs::write(&target, bytes).unwrap();
        }
    }
}
