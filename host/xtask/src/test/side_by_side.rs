//! Suites side by side: a few more at a time than there are cores, the longest first.
//!
//! What a suite writes is shown when it has ended, so that the outputs of two don't mix.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use super::count::Counts;
use super::job::Job;
use super::times::Times;
use crate::stage::seconds;

/// Runs jobs, so many at a time, and adds up what they say. Those that have to be alone come last.
pub async fn run(binary: &Path, at_once: usize, jobs: Vec<Job>, counts: &mut Counts, times: &mut Times) -> Result<()> {
    let (total, failed_before) = (jobs.len(), counts.failed_suites.len());
    let (alone, mut beside): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.alone);
    beside.sort_by_key(|job| Reverse(times.expected(&job.name)));
    let mut remaining = total;
    for (jobs, at_once) in [(beside, at_once), (alone, 1)] {
        let mut waiting = VecDeque::from(jobs);
        let mut running = JoinSet::new();
        loop {
            while running.len() < at_once
                && let Some(job) = waiting.pop_front()
            {
                eprintln!("  begins: {}", job.name);
                let binary = binary.to_owned();
                running.spawn(async move {
                    let began = Instant::now();
                    let done = job.run(&binary).await;
                    (job, began.elapsed(), done)
                });
            }
            let Some(ended) = running.join_next().await else { break };
            let (job, took, done) = ended.context("running a suite")?;
            let (ended, failure) = done?;
            remaining -= 1;
            let verdict = if failure.is_some() { "FAILED" } else { "ends" };
            let (passed, failed) = (ended.outcome.passed, ended.outcome.failed);
            let (name, seconds) = (&job.name, seconds(took));
            eprintln!(
                "\n  {verdict}: {name}: {passed} passed, {failed} failed, {seconds}; {remaining} of {total} remain"
            );
            ended.output.show()?;
            counts.take(&job.name, ended.outcome, failure);
            counts.leave_out(ended.left_out);
            times.took(&job.name, took);
        }
    }
    let failed = counts.failed_suites.len() - failed_before;
    if failed > 0 {
        bail!("{failed} of {total} suites");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::test::suites::script;

    const PASSED: &str = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'";

    /// A job of a script that runs where it lies.
    fn job(folder: &Path, name: &str, text: &str) -> Job {
        Job::asked(&script(folder, name, &format!("{text}\n{PASSED}")), None)
    }

    /// Says that it is there, and goes on when the other one is: by itself it fails.
    fn needs(folder: &Path, own: &str, other: &str) -> Job {
        let text = format!(
            "mkdir here-{own}; tries=0\n\
             until [ -e met-{other} ] || [ -e here-{other} ]; do tries=$((tries + 1)); [ $tries -lt 1200 ] || exit 1; sleep 0.05; done\n\
             mkdir met-{own}; sleep 0.3; rmdir here-{own}"
        );
        job(folder, own, &text)
    }

    /// Fails when anything runs beside it.
    fn lonely(folder: &Path, name: &str) -> Job {
        let text = "mkdir alone && [ -z \"$(ls -d here-* 2>/dev/null)\" ] || exit 1\nsleep 0.2; rmdir alone";
        let mut job = job(folder, name, text);
        job.alone = true;
        job
    }

    async fn ran(folder: &Path, at_once: usize, jobs: Vec<Job>, times: &mut Times) -> (Counts, bool) {
        let mut counts = Counts::default();
        let done = run(&folder.join("waybill"), at_once, jobs, &mut counts, times).await;
        (counts, done.is_ok())
    }

    #[tokio::test]
    async fn suites_run_side_by_side_and_some_by_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let jobs = vec![lonely(folder, "c"), needs(folder, "a", "b"), lonely(folder, "d"), needs(folder, "b", "a")];
        let (counts, well) = ran(folder, 2, jobs, &mut Times::read(folder)).await;
        assert_eq!((counts, well), (Counts { passed: 4, ..Counts::default() }, true));
    }

    #[tokio::test]
    async fn no_more_run_at_once_than_are_told_and_the_longest_begins() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut times = Times::read(folder);
        times.took("short", Duration::from_secs(1));
        times.took("long", Duration::from_secs(90));
        let of = |name: &str| {
            job(folder, name, &format!("mkdir only || exit 1\necho {name} >>order; sleep 0.1; rmdir only"))
        };
        let (counts, well) = ran(folder, 1, vec![of("short"), of("long"), of("unknown")], &mut times).await;
        assert_eq!((counts.passed, well), (3, true));
        assert_eq!(std::fs::read_to_string(folder.join("order")).unwrap(), "unknown\nlong\nshort\n");
    }

    #[tokio::test]
    async fn what_tests_left_out_is_kept_once_however_many_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let jobs = ["a", "b"].map(|name| job(folder, name, "echo 'left out: 3 of 4 widths'")).into();
        let (counts, well) = ran(folder, 1, jobs, &mut Times::read(folder)).await;
        assert_eq!((counts.left_out, well), (vec!["3 of 4 widths".to_owned()], true));
    }

    #[tokio::test]
    async fn one_that_fails_is_named_and_the_others_run() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let jobs = vec![job(folder, "bad", "exit 3"), job(folder, "good", "")];
        let (counts, well) = ran(folder, 1, jobs, &mut Times::read(folder)).await;
        assert!(!well);
        assert_eq!((counts.passed, counts.failed), (1, 1));
        assert_eq!(counts.failed_suites, ["bad: it ended with exit status: 3 in the middle of its tests"]);
    }
}
