//! What becomes of a component once a host serves it: its log, and how its probation ends.

use std::time::Duration;

use super::{Fate, Loaded, Place};
use crate::exit::CliError;
use crate::term::Term;

/// Between two looks at what became of it.
const PAUSE: Duration = Duration::from_millis(100);

/// Shows what the plugin says and what becomes of it. Goes on until it is dropped, also when the host goes away: the next save
/// finds out whether it is back.
pub(super) async fn follow<T: Place>(name: &str, place: &T, loaded: &Loaded, term: &mut Term) {
    if let Err(error) = watch(name, place, loaded, term).await {
        term.complain(&format!("{name} is no longer followed: {error}"));
    }
    std::future::pending().await
}

async fn watch<T: Place>(name: &str, place: &T, loaded: &Loaded, term: &mut Term) -> Result<(), CliError> {
    let (generation, mut after) = (loaded.generation, loaded.log_from);
    let mut known: Option<Fate> = None;
    loop {
        let fate = place.fate(loaded).await?;
        let is_rolled_back = |fate: &Fate| matches!(fate, Fate::RolledBack { .. });
        if is_rolled_back(&fate) && !known.as_ref().is_some_and(is_rolled_back) {
            // What led to it was said before.
            after = show_log(place, after, term).await?;
        }
        if known.as_ref() != Some(&fate) {
            match (&fate, &known) {
                (Fate::OnTrial { until }, _) => {
                    term.say(&format!("generation {generation} is on probation until {until}"));
                }
                (Fate::Serves, Some(Fate::OnTrial { .. })) => {
                    term.say(&format!("the probation of generation {generation} is over: {name} keeps it"));
                }
                (Fate::Serves, _) => {}
                (Fate::RolledBack { code, reason }, _) => term.complain(&format!(
                    "error: generation {generation} was rolled back, and {name} is served by the one before it: {code}: {reason}"
                )),
                (Fate::Replaced, _) => term.say(&format!("{name} is served by another component than this one")),
            }
            known = Some(fate);
        }
        after = show_log(place, after, term).await?;
        // A host that has many who wait answers at once.
        tokio::time::sleep(PAUSE).await;
    }
}

/// Shows the lines behind a number, and answers the last one's.
async fn show_log<T: Place>(place: &T, after: u64, term: &mut Term) -> Result<u64, CliError> {
    let log = place.log(after).await?;
    log.lines.iter().for_each(|line| term.complain(line));
    Ok(log.next)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::super::LogLines;
    use super::*;
    use crate::term::Written;

    /// A host that tells one fate after the other, with a line of the log between, and then goes away.
    struct Scripted(Mutex<Vec<Fate>>);

    impl Place for Scripted {
        async fn load(&self, _: &Path, _: &str) -> Result<Loaded, CliError> {
            Ok(Loaded { generation: 4, log_from: 0 })
        }

        async fn fate(&self, _: &Loaded) -> Result<Fate, CliError> {
            let mut left = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if left.is_empty() { Err(CliError::usage("the host is gone", "start it")) } else { Ok(left.remove(0)) }
        }

        async fn log(&self, after: u64) -> Result<LogLines, CliError> {
            Ok(LogLines { lines: vec![format!("line {after}")], next: after + 1 })
        }
    }

    /// What an author reads who loads a component with these fates.
    async fn read(fates: &[Fate]) -> Vec<String> {
        let written = Written::default();
        let mut term = Term { err: Box::new(written.clone()), ..Term::of_process() };
        let told = Scripted(Mutex::new(fates.to_vec()));
        let loaded = Loaded { generation: 4, log_from: 0 };
        // It goes on for ever.
        let followed = follow("hook", &told, &loaded, &mut term);
        assert!(tokio::time::timeout(Duration::from_secs(60), followed).await.is_err());
        written.text().lines().map(str::to_owned).collect()
    }

    fn on_trial() -> Fate {
        Fate::OnTrial { until: "12:01".to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rollback_is_told_with_its_reason_and_the_log_before_it() {
        let (code, reason) = ("PLUGIN.PROBATION_FAILED".to_owned(), "3 instances were lost".to_owned());
        let said = read(&[on_trial(), on_trial(), Fate::RolledBack { code, reason }]).await;
        assert_eq!(
            said,
            [
                "generation 4 is on probation until 12:01",
                "line 0",
                "line 1",
                "line 2",
                "error: generation 4 was rolled back, and hook is served by the one before it: PLUGIN.PROBATION_FAILED: 3 instances were lost",
                "line 3",
                "hook is no longer followed: CLI.USAGE: the host is gone",
                "  fix start it",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_probation_is_told_once() {
        let said = read(&[on_trial(), Fate::Serves, Fate::Serves]).await;
        let told = said.iter().filter(|line| line.contains("is over: hook keeps it"));
        assert_eq!(told.count(), 1, "{said:?}");
        assert!(read(&[Fate::Serves]).await.first().is_some_and(|line| line == "line 0"), "nothing was on trial");
    }
}
