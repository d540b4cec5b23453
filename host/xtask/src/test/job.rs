//! One run of a test program: all of its tests or some of them.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::Result;
use tokio::process::Command;

use super::program::{Ended, TIME_MAX, follow};
use super::suites::Suite;

/// Suites that can't stand another one beside them, by name. None: what is measured of memory is that of the test's own process
/// (`guest_memory`, the peaks of statements), disks are slow, broken or full for the test's own host only (`strace`, a library
/// before the system's, a small disk in a namespace of its own), recorders of metrics are installed once a process, and brokers
/// listen on free ports. One that takes a fixed port, or asserts what the whole machine does, belongs here.
const ALONE: &[&str] = &[];

/// Suites whose tests wait for brokers, hosts and timers most of their time: more of them run at a time than there are cores.
/// docs/development.md has how much they wait.
const WAITING: &[&str] = &["tests: test authors", "tests: test brokers", "tests: test processes"];

/// Says to test programs that they are to try all that they would take a choice of. `host/testkit/src/extent.rs` reads it.
const EXTENT: (&str, &str) = ("WAYBILL_TESTS", "full");

/// What is run of a suite.
#[derive(Clone, Debug)]
pub struct Job {
    /// As shown: the suite, and which of its tests.
    pub name: String,
    /// Nothing may run beside it.
    pub alone: bool,
    suite: Suite,
    /// Only tests whose names contain this.
    filter: Option<String>,
    /// It is no failure when no test has such a name.
    may_run_nothing: bool,
    /// Its tests try all combinations instead of a choice.
    is_full: bool,
}

impl Job {
    /// Whatever somebody asked for, of one of all suites.
    pub fn asked(suite: &Suite, filter: Option<&str>) -> Self {
        Self {
            name: suite.name.clone(),
            alone: ALONE.contains(&suite.name.as_str()),
            suite: suite.clone(),
            filter: filter.map(str::to_owned),
            may_run_nothing: filter.is_some(),
            is_full: false,
        }
    }

    /// The same, with all that its tests would take a choice of.
    pub fn in_full(self, is_full: bool) -> Self {
        Self { is_full, ..self }
    }

    /// Tests of a suite that have to be there; without a name, all of them.
    pub fn required(suite: &Suite, tests: Option<&str>) -> Self {
        let name = match tests {
            Some(tests) => format!("{}, {tests}", suite.name),
            None => suite.name.clone(),
        };
        Self { name, may_run_nothing: false, ..Self::asked(suite, tests) }
    }

    /// Runs it with Waybill's binary; what it said, and what is wrong with that.
    pub async fn run(&self, binary: &Path) -> Result<(Ended, Option<String>)> {
        let suite = &self.suite;
        let mut command = Command::new(&suite.program);
        command
            .args(&self.filter)
            .args(["--color", if std::io::stdout().is_terminal() { "always" } else { "never" }])
            .current_dir(&suite.package_dir)
            // As `cargo test` does.
            .env("CARGO_MANIFEST_DIR", &suite.package_dir)
            .env("WAYBILL_BIN", binary)
            // SurrealDB makes an error for each row that isn't there yet. A backtrace for each, as RUST_BACKTRACE asks, would take
            // twenty times what an INSERT of many rows takes; a panic has its own all the same.
            .env("RUST_LIB_BACKTRACE", "0");
        if self.is_full {
            let (name, value) = EXTENT;
            command.env(name, value);
        }
        if WAITING.contains(&suite.name.as_str()) {
            command.env("RUST_TEST_THREADS", more_than_cores().to_string());
        }
        let ended = follow(command, &suite.program.display().to_string()).await?;
        let outcome = ended.outcome;
        let failure = match ended.status {
            None => Some(format!("it still ran after {} minutes and was ended", TIME_MAX.as_secs() / 60)),
            Some(status) if !outcome.complete => Some(format!("it ended with {status} in the middle of its tests")),
            Some(_) if outcome.failed > 0 => Some(format!("{} tests failed", outcome.failed)),
            Some(status) if !status.success() => Some(format!("its tests passed and it ended with {status}")),
            Some(_) if outcome.ignored > 0 => {
                Some(format!("{} tests are ignored: mend or delete them", outcome.ignored))
            }
            Some(_) if !self.may_run_nothing && outcome.passed == 0 && suite.has_tests()? => {
                Some("it has tests and ran none of them".to_owned())
            }
            Some(_) => None,
        };
        Ok((ended, failure))
    }
}

/// Half as many again as there are cores: for what waits half of its time.
pub fn more_than_cores() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores.div_ceil(2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::test::suites::script;

    #[tokio::test]
    async fn a_program_that_dies_or_runs_nothing_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        for (script_text, filter, failure) in [
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
            let job = Job::asked(&script(folder.path(), "s", script_text), filter);
            let (_, found) = job.run(Path::new("")).await.unwrap();
            assert_eq!(found.as_deref(), failure, "{script_text}");
        }
    }

    #[tokio::test]
    async fn tests_that_wait_run_more_at_a_time_than_there_are_cores() {
        let folder = tempfile::tempdir().unwrap();
        let passes = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let text = format!("[ \"$RUST_TEST_THREADS\" = {} ] || exit 3\n{passes}", more_than_cores());
        for name in WAITING {
            let (_, failure) = Job::asked(&script(folder.path(), name, &text), None).run(Path::new("")).await.unwrap();
            assert_eq!(failure, None, "{name}");
        }
    }

    #[tokio::test]
    async fn a_full_run_says_so_to_its_tests() {
        let folder = tempfile::tempdir().unwrap();
        let passes = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";
        let suite = script(folder.path(), "s", &format!("[ \"$WAYBILL_TESTS\" = full ] || exit 3\n{passes}"));
        let (_, failure) = Job::asked(&suite, None).in_full(true).run(Path::new("")).await.unwrap();
        assert_eq!(failure, None);
    }

    #[tokio::test]
    async fn tests_that_have_to_be_there_are_missed() {
        let folder = tempfile::tempdir().unwrap();
        let suite = script(folder.path(), "s", "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'");
        let job = Job::required(&suite, Some("walls::"));
        assert_eq!(job.name, "s, walls::");
        let (_, found) = job.run(Path::new("")).await.unwrap();
        assert_eq!(found.as_deref(), Some("it has tests and ran none of them"));
    }
}
