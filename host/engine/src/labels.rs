//! Label values that others choose (tenants, codes of plugins and workers), bounded: the recorder never forgets a series.

use std::collections::HashSet;

use parking_lot::RwLock;

/// Label of what is past a bound.
pub(crate) const OTHER: &str = "other";
/// Codes that get a label of their own: plugins, workers, replies and participants choose them.
pub(crate) const CODES_MAX: usize = 200;
/// Codes by tenant (and definition) that get labels of their own.
pub(crate) const FAILURES_MAX: usize = 2_000;

/// Values with a label of their own: the first that come, up to a number.
#[derive(Debug)]
pub(crate) struct Labels {
    own: RwLock<HashSet<String>>,
    most: usize,
}

impl Labels {
    pub fn up_to(most: usize) -> Self {
        Self { own: RwLock::default(), most }
    }

    /// Whether a value has a label of its own; it gets one if there is room.
    pub fn has(&self, value: &str) -> bool {
        if self.own.read().contains(value) {
            return true;
        }
        let mut own = self.own.write();
        own.contains(value) || (own.len() < self.most && own.insert(value.to_owned()))
    }

    pub fn of<'v>(&self, value: &'v str) -> &'v str {
        if self.has(value) { value } else { OTHER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_past_the_bound_share_a_label_and_known_ones_keep_theirs() {
        let labels = Labels::up_to(CODES_MAX);
        let codes: Vec<String> = (0..CODES_MAX).map(|n| format!("SHOP.C{n}")).collect();
        for code in codes.iter().chain(&codes) {
            assert_eq!(labels.of(code), code);
        }
        assert_eq!(labels.of("SHOP.ONE_MORE"), "other");
        assert_eq!((labels.of("SHOP.C7"), labels.own.read().len()), ("SHOP.C7", CODES_MAX));
    }
}
