//! How the generations of a slot did, the latest of them.

use std::collections::VecDeque;
use std::sync::Arc;

use waybill_api::plugin_outcomes::GenerationOutcomes;

use crate::tally::Tally;

/// Generations that are remembered: enough for a day of deploys. Each takes little more than a kibibyte.
pub const OUTCOMES_MAX: usize = 8;

/// What is counted of each, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Outcomes(VecDeque<(u32, Arc<Tally>)>);

impl Outcomes {
    /// A generation serves from now on. One that did before goes on counting.
    pub fn begin(&mut self, generation: u32, tally: Arc<Tally>) {
        if let Some((_, before)) = self.0.iter_mut().find(|(number, _)| *number == generation) {
            tally.take_over(before);
            *before = tally;
            return;
        }
        self.0.push_back((generation, tally));
        let over = self.0.len().saturating_sub(OUTCOMES_MAX);
        self.0.drain(..over);
    }

    /// What was counted, the newest first.
    pub fn read(&self) -> Vec<GenerationOutcomes> {
        self.0.iter().rev().map(|(generation, tally)| tally.read(*generation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_generations_are_remembered_newest_first() {
        let mut outcomes = Outcomes::default();
        for generation in 1..=20 {
            outcomes.begin(generation, Arc::default());
        }
        let numbers: Vec<u32> = outcomes.read().iter().map(|outcome| outcome.generation).collect();
        assert_eq!(numbers, [20, 19, 18, 17, 16, 15, 14, 13]);
    }

    #[test]
    fn one_that_comes_again_under_its_number_is_one() {
        let mut outcomes = Outcomes::default();
        let first = Arc::new(Tally::default());
        first.lost();
        outcomes.begin(1, Arc::clone(&first));
        outcomes.begin(1, Arc::default());
        let traps: Vec<u64> = outcomes.read().iter().map(|outcome| outcome.traps).collect();
        assert_eq!(traps, [1]);
    }
}
