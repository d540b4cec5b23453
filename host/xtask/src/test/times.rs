//! How long suites take: the longest begin first, and the slowest are named at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// In the target folder: milliseconds by the name of a suite, of its last run.
const FILE: &str = "waybill-suites.json";

/// Times of earlier runs and of this one.
pub struct Times {
    file: PathBuf,
    earlier: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
}

impl Times {
    /// Reads those of earlier runs.
    pub fn read(target: &Path) -> Self {
        let file = target.join(FILE);
        // Without them the order is another one, and nothing else.
        let earlier = std::fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { file, earlier, now: BTreeMap::new() }
    }

    /// What it took before; one that nobody knows could take for ever.
    pub fn expected(&self, name: &str) -> Duration {
        self.now.get(name).or_else(|| self.earlier.get(name)).map_or(Duration::MAX, |ms| Duration::from_millis(*ms))
    }

    /// It ran; of several runs the longest counts.
    pub fn took(&mut self, name: &str, took: Duration) {
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let longest = self.now.entry(name.to_owned()).or_default();
        *longest = ms.max(*longest);
    }

    /// The slowest of this run, the slowest first.
    pub fn slowest(&self, count: usize) -> Vec<(&str, Duration)> {
        let mut all: Vec<_> = self.now.iter().map(|(name, ms)| (name.as_str(), Duration::from_millis(*ms))).collect();
        all.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        all.truncate(count);
        all
    }

    /// Keeps them for the next run.
    pub fn keep(&self) -> Result<()> {
        let mut all = self.earlier.clone();
        all.extend(self.now.clone());
        let text = serde_json::to_vec_pretty(&all).context("writing the times of suites")?;
        std::fs::write(&self.file, text).with_context(|| format!("writing {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_kept_is_expected_and_the_slowest_come_first() {
        let target = tempfile::tempdir().unwrap();
        let mut times = Times::read(target.path());
        assert_eq!(times.expected("a"), Duration::MAX);
        times.took("a", Duration::from_secs(2));
        times.took("b", Duration::from_secs(5));
        times.took("b", Duration::from_secs(3));
        times.took("c", Duration::from_secs(1));
        times.keep().unwrap();
        let again = Times::read(target.path());
        assert_eq!(again.expected("b"), Duration::from_secs(5));
        assert_eq!(times.slowest(2), [("b", Duration::from_secs(5)), ("a", Duration::from_secs(2))]);
        assert!(again.slowest(2).is_empty(), "it ran nothing itself");
    }
}
