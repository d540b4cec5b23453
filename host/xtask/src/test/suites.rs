//! Test programs: built all at once, and found by what cargo says.
//!
//! They are run directly instead of by `cargo test`, so that they run side by side, progress can be shown, a suite that runs
//! nothing is noticed, and one that hangs is ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::build::build;
use crate::cargo::{Repository, shown};

/// A cargo workspace with tests.
pub struct Workspace {
    root: PathBuf,
    arguments: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Suite {
    /// As shown: package and target.
    pub name: String,
    pub program: PathBuf,
    /// Where it is run.
    pub package_dir: PathBuf,
    source: PathBuf,
    /// A file in `tests/`, which has to have tests.
    integration: bool,
}

impl Workspace {
    /// The host's, in the profile of the product.
    pub fn host(repository: &Repository) -> Self {
        let arguments = ["test", "--release", "--locked", "--workspace", "--no-run"];
        Self { root: repository.root.clone(), arguments: arguments.map(str::to_owned).to_vec() }
    }

    /// The plugins', natively: the parts of them that need no host.
    pub fn plugins(repository: &Repository) -> Self {
        let arguments = ["test", "--locked", "--workspace", "--no-run", "--target-dir"];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        arguments.push(repository.target.join("plugins-native").display().to_string());
        Self { root: repository.root.join("plugins"), arguments }
    }

    /// Builds its tests and answers the programs.
    pub fn build(&self, repository: &Repository) -> Result<Vec<Suite>> {
        let mut command = crate::cargo::cargo();
        command.current_dir(&self.root).args(&self.arguments).arg("--message-format=json-render-diagnostics");
        let mut found = BTreeMap::new();
        let mut add = |suite: Suite| found.insert(suite.program.clone(), suite);
        build(repository, &mut command, &mut |line| _ = suite_in(line).map(&mut add))?;
        let mut suites: Vec<_> = found.into_values().collect();
        if suites.is_empty() {
            bail!("{} built no test program", shown(&command));
        }
        // Those in `tests/` take longest.
        suites.sort_by(|a, b| (b.integration, &a.name).cmp(&(a.integration, &b.name)));
        Ok(suites)
    }
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The test program that one of cargo's messages tells of.
fn suite_in(line: &str) -> Option<Suite> {
    let message: Message = serde_json::from_str(line).ok()?;
    let (program, target) = (message.executable?, message.target?);
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let package_dir = message.manifest_path?.parent()?.to_owned();
    let folder = package_dir.file_name()?.to_string_lossy().into_owned();
    Some(Suite {
        name: format!("{folder}: {} {}", target.kind.first()?, target.name),
        program,
        package_dir,
        source: target.src_path,
        integration: target.kind.iter().any(|kind| kind == "test"),
    })
}

impl Suite {
    /// Whether it ought to run something: a file in `tests/` always, anything else when its sources have a test.
    pub fn has_tests(&self) -> Result<bool> {
        if self.integration {
            return Ok(true);
        }
        let sources = self.source.parent().context("a source file without a folder")?;
        let beside = |name: &str| sources.join(name);
        let mut found = false;
        let mut look = |path: &Path| {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            found |= text
                .lines()
                .map(str::trim_start)
                .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
            anyhow::Ok(())
        };
        if self.source.ends_with("main.rs") && beside("lib.rs").is_file() {
            // A thin binary over a library: the modules are the library's.
            look(&self.source)?;
        } else {
            crate::tidy::files(sources, &mut |path| {
                let rust = path.extension().is_some_and(|extension| extension == "rs");
                if rust && path != beside("main.rs") || path == self.source { look(path) } else { Ok(()) }
            })?;
        }
        Ok(found)
    }
}

/// A suite of a shell script. Another process writes it: one that a test beside us starts could hold the file open for a moment,
/// and a file that is open for writing can't be run.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub fn script(folder: &Path, name: &str, text: &str) -> Suite {
    let program = folder.join(name);
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod +x \"$2\"";
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write, "sh", text]).arg(&program).status().unwrap();
    assert!(written.success());
    Suite { name: name.to_owned(), source: program.clone(), program, package_dir: folder.to_owned(), integration: true }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_test_program_is_found_in_what_cargo_says() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/host/core/Cargo.toml","target":{{"name":"waybill_core",
                "kind":["lib"],"src_path":"/r/host/core/src/lib.rs"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
            )
        };
        let suite = suite_in(&line(true, r#""/t/deps/waybill_core-1""#)).unwrap();
        assert_eq!((suite.name.as_str(), suite.integration), ("core: lib waybill_core", false));
        assert_eq!(suite.package_dir, Path::new("/r/host/core"));
        assert!(suite_in(&line(false, r#""/t/waybill""#)).is_none());
        assert!(suite_in(&line(true, "null")).is_none());
        assert!(suite_in("warning: something").is_none());
    }
}
