//! Runs without and with somebody at the page, in turn: a machine's speed changes by the minute, so each run is compared with the one
//! beside it, and what counts is the median of these ratios.

use anyhow::{Context, Result};
use serde::Serialize;

use super::Value;
use crate::bench::figure::{Figure, median};

/// As many runs without as with.
#[derive(Debug, Default)]
pub struct Pairs {
    without: Vec<Figure>,
    with: Vec<Figure>,
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    workload: &'a str,
    with_page: bool,
    round: usize,
    #[serde(flatten)]
    figure: &'a Figure,
}

/// Whether somebody is at the page, first and then: the two change places with each round, so that neither always has the later run.
pub fn in_turn(round: u32) -> [bool; 2] {
    let with_first = round.is_multiple_of(2);
    [with_first, !with_first]
}

impl Pairs {
    pub fn take(&mut self, with_page: bool, figure: Figure) {
        if with_page { self.with.push(figure) } else { self.without.push(figure) }
    }

    pub fn count(&self) -> usize {
        self.without.len().min(self.with.len())
    }

    /// Median over the pairs of what it is with, by what it is without.
    pub fn ratio(&self, value: Value) -> Option<f64> {
        let ratios = self.without.iter().zip(&self.with).filter_map(|(without, with)| {
            let without = value(without).filter(|without| *without > 0.0)?;
            Some(value(with)? / without)
        });
        median(ratios.collect())
    }

    /// Medians of the runs without, and of those with.
    pub fn medians(&self, value: Value) -> [Option<f64>; 2] {
        [&self.without, &self.with].map(|runs| median(runs.iter().filter_map(value).collect()))
    }

    /// A JSON line for each run.
    pub fn lines(&self, workload: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for (with_page, runs) in [(false, &self.without), (true, &self.with)] {
            for (figure, round) in runs.iter().zip(1..) {
                let record = JsonRecord { workload, with_page, round, figure };
                lines.push(serde_json::to_string(&record).context("a JSON line")?);
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_compared_with_the_one_beside_it() {
        let mut pairs = Pairs::default();
        // The machine is half as fast in the second round.
        for (round, rates) in [(1, [100.0, 90.0]), (2, [50.0, 45.0]), (3, [100.0, 95.0])] {
            let [without, with] = rates.map(|rate| Figure { rate: Some(rate), ..Figure::default() });
            for with_page in in_turn(round) {
                pairs.take(with_page, if with_page { with.clone() } else { without.clone() });
            }
        }
        assert_eq!(pairs.count(), 3);
        assert_eq!(pairs.ratio(|figure| figure.rate), Some(0.9));
        assert_eq!(pairs.medians(|figure| figure.rate), [Some(100.0), Some(90.0)]);
        assert_eq!(pairs.ratio(|figure| figure.p99_ms), None);
        assert_eq!(pairs.lines("page W1b").unwrap().len(), 6);
    }

    #[test]
    fn neither_of_the_two_always_comes_first() {
        assert_eq!([in_turn(1), in_turn(2)], [[false, true], [true, false]]);
    }
}
