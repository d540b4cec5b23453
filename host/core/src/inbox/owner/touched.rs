//! What left memory with its delivery and may have been handled: its source brings it again as if it were new.

use std::collections::HashSet;

use crate::inbox::fingerprint::Fingerprint;
use crate::inbox::limits::TOUCHED_MAX;

/// Part: what went with its delivery, and is told `maybe-handled` when it comes again.
#[derive(Debug, Default)]
pub(super) struct Touched {
    away: HashSet<Fingerprint>,
    /// More went than are kept by name: whatever comes may be one of them.
    is_full: bool,
}

impl Touched {
    pub fn went(&mut self, of: Fingerprint) {
        if self.away.len() < TOUCHED_MAX {
            self.away.insert(of);
        } else {
            self.is_full = true;
        }
    }

    /// A message is here that wasn't: whether it went before.
    pub fn came(&mut self, of: Fingerprint) -> bool {
        self.away.remove(&of) || self.is_full
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    fn name(number: usize) -> Fingerprint {
        let mut of = Fingerprint::default();
        of.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
        of
    }

    #[test]
    fn what_went_is_known_once_and_of_too_many_nobody_is_forgotten() {
        let mut touched = Touched::default();
        touched.went(name(0));
        assert!(touched.came(name(0)) && !touched.came(name(0)) && !touched.came(name(1)));
        (0..=TOUCHED_MAX).for_each(|number| touched.went(name(number)));
        assert!(touched.came(name(TOUCHED_MAX)) && touched.came(name(0)));
        assert!(touched.away.len() < TOUCHED_MAX);
    }
}
