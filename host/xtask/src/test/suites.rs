//! Test programs: built all at once, found by what cargo says, and run one after the other.
//!
//! They are run directly instead of by `cargo test`, so that progress can be shown, a suite that runs nothing is noticed,
//! and one that hangs is ended.

use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader as AsyncBufReader};
use tokio::process::{Child, Command};

use super::count::{Counts, Outcome};
use crate::cargo::{Repository, shown};

/// A suite that runs longer hangs; the longest takes about two minutes on two cores.
const SUITE_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// A cargo workspace with tests.
pub struct Workspace {
    root: PathBuf,
    arguments: Vec<String>,
}

/// One test program.
#[derive(Clone, Debug)]
pub struct Suite {
    /// As shown: package and target.
    name: String,
    program: PathBuf,
    package_dir: PathBuf,
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
    pub fn build(&self) -> Result<Vec<Suite>> {
        let mut command = crate::cargo::cargo();
        command.current_dir(&self.root).args(&self.arguments).arg("--message-format=json-render-diagnostics");
        let mut cargo =
            command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {}", shown(&command)))?;
        let mut suites = Vec::new();
        if let Some(output) = cargo.stdout.take() {
            for line in BufReader::new(output).lines() {
                suites.extend(suite_in(&line.context("reading what cargo says")?));
            }
        }
        let status = cargo.wait().context("waiting for cargo")?;
        if !status.success() {
            bail!("{} ended with {status}", shown(&command));
        }
        if suites.is_empty() {
            bail!("{} built no test program", shown(&command));
        }
        suites.sort_by(|a, b| (a.integration, &a.name).cmp(&(b.integration, &b.name)));
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

/// Runs suites one after the other and adds up what they say.
pub async fn run(repository: &Repository, suites: &[Suite], filter: Option<&str>, counts: &mut Counts) -> Result<()> {
    let before = counts.failed_suites.len();
    for (index, suite) in suites.iter().enumerate() {
        eprintln!("\n  {} ({} of {})", suite.name, index + 1, suites.len());
        let (outcome, failure) = run_one(repository, suite, filter).await?;
        counts.passed += outcome.passed;
        counts.failed += outcome.failed;
        if let Some(failure) = failure {
            counts.failed += usize::from(outcome.failed == 0);
            counts.failed_suites.push(format!("{}: {failure}", suite.name));
        }
    }
    let failed = counts.failed_suites.len() - before;
    if failed > 0 {
        bail!("{failed} of {} suites", suites.len());
    }
    Ok(())
}

async fn run_one(repository: &Repository, suite: &Suite, filter: Option<&str>) -> Result<(Outcome, Option<String>)> {
    let mut command = Command::new(&suite.program);
    command
        .args(filter)
        .args(["--color", if std::io::stdout().is_terminal() { "always" } else { "never" }])
        .current_dir(&suite.package_dir)
        // As `cargo test` does.
        .env("CARGO_MANIFEST_DIR", &suite.package_dir)
        .env("WAYBILL_BIN", repository.binary())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let (outcome, ended) = follow(&mut command, &suite.program).await?;
    let failure = match ended {
        None => Some(format!("it still ran after {} minutes and was ended", SUITE_TIME_MAX.as_secs() / 60)),
        Some(status) if !outcome.complete => Some(format!("it ended with {status} in the middle of its tests")),
        Some(_) if outcome.failed > 0 => Some(format!("{} tests failed", outcome.failed)),
        Some(status) if !status.success() => Some(format!("its tests passed and it ended with {status}")),
        Some(_) if outcome.ignored > 0 => Some(format!("{} tests are ignored: mend or delete them", outcome.ignored)),
        Some(_) if filter.is_none() && outcome.passed == 0 && suite.has_tests()? => {
            Some("it has tests and ran none of them".to_owned())
        }
        Some(_) => None,
    };
    Ok((outcome, failure))
}

/// Shows what a program writes and reads the results in it; no status when its time was over.
async fn follow(command: &mut Command, name: &Path) -> Result<(Outcome, Option<std::process::ExitStatus>)> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {}", name.display()))?;
    let mut outcome = Outcome::default();
    let ended = tokio::time::timeout(SUITE_TIME_MAX, read(&mut child, &mut outcome)).await;
    match ended {
        Ok(status) => Ok((outcome, Some(status?))),
        Err(_) => {
            child.kill().await.with_context(|| format!("ending {}", name.display()))?;
            Ok((outcome, None))
        }
    }
}

async fn read(child: &mut Child, outcome: &mut Outcome) -> Result<std::process::ExitStatus> {
    if let Some(output) = child.stdout.take() {
        let mut lines = AsyncBufReader::new(output).split(b'\n');
        while let Some(line) = lines.next_segment().await.context("reading what a test says")? {
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            outcome.read(&line);
        }
    }
    child.wait().await.context("waiting for a test program")
}

impl Suite {
    /// Whether it ought to run something: a file in `tests/` always, anything else when its sources have a test.
    fn has_tests(&self) -> Result<bool> {
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

/// Tests in documentation, which only cargo can run.
pub async fn documentation(repository: &Repository, counts: &mut Counts) -> Result<()> {
    let mut command: Command =
        repository.cargo(["test", "--release", "--locked", "--workspace", "--doc", "--no-fail-fast"]).into();
    command.kill_on_drop(true);
    let (outcome, ended) = follow(&mut command, Path::new("cargo test --doc")).await?;
    counts.passed += outcome.passed;
    counts.failed += outcome.failed;
    match ended {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            counts.failed += usize::from(outcome.failed == 0);
            bail!("`cargo test --doc` ended with {status}")
        }
        None => bail!("`cargo test --doc` still ran after {} minutes", SUITE_TIME_MAX.as_secs() / 60),
    }
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

    #[tokio::test]
    async fn a_program_that_dies_or_runs_nothing_is_seen() {
        let suite = |script: &str| {
            let dir = tempfile::tempdir().unwrap();
            let program = dir.path().join("suite");
            std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&program, executable).unwrap();
            let package_dir = dir.path().to_owned();
            (Suite { name: "s".into(), program, source: package_dir.join("s.rs"), package_dir, integration: true }, dir)
        };
        let repository = Repository { root: PathBuf::new(), target: PathBuf::new(), packages: Vec::new() };
        for (script, filter, failure) in [
            ("echo 'test result: ok. 3 passed; 0 failed; 0 ignored'", None, None),
            ("echo 'test result: ok. 0 passed; 0 failed; 0 ignored'", None, Some("it has tests and ran none of them")),
            ("echo 'test result: ok. 0 passed; 0 failed; 0 ignored'", Some("x"), None),
            ("echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 101", None, Some("2 tests failed")),
            (
                "echo 'test result: ok. 1 passed; 0 failed; 1 ignored'",
                None,
                Some("1 tests are ignored: mend or delete them"),
            ),
            ("exit 3", None, Some("it ended with exit status: 3 in the middle of its tests")),
        ] {
            let (suite, _dir) = suite(script);
            let (_, found) = run_one(&repository, &suite, filter).await.unwrap();
            assert_eq!(found.as_deref(), failure, "{script}");
        }
    }
}
