//! How many partitions topics have, as the clients of an instance agree on it.

use std::cell::RefCell;
use std::collections::HashMap;

/// Most topics that are remembered: their names come from messages.
const TOPICS_MAX: usize = 10_000;

/// Partitions by topic. A key's partition follows from their number, so two clients that differ would write it to two.
#[derive(Debug, Default)]
pub(crate) struct Counts(RefCell<HashMap<String, usize>>);

impl Counts {
    /// Whether another client was told another number: the topic is asked for again then.
    pub(crate) fn differ(&self, topic: &str, count: usize) -> bool {
        self.0.borrow().get(topic).is_some_and(|known| *known != count)
    }

    /// Notes what was told last.
    pub(crate) fn note(&self, topic: &str, count: usize) {
        let mut counts = self.0.borrow_mut();
        if let Some(known) = counts.get_mut(topic) {
            *known = count;
            return;
        }
        if counts.len() >= TOPICS_MAX {
            counts.clear();
        }
        counts.insert(topic.to_owned(), count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_was_told_of_fewer_partitions_asks_again() {
        let counts = Counts::default();
        assert!(!counts.differ("orders", 3), "nobody was told anything");
        counts.note("orders", 3);
        assert!(!counts.differ("orders", 3));
        counts.note("orders", 5);
        assert!(counts.differ("orders", 3) && !counts.differ("orders", 5));
    }

    #[test]
    fn names_do_not_pile_up() {
        let counts = Counts::default();
        for number in 0..=TOPICS_MAX {
            counts.note(&number.to_string(), 1);
        }
        assert_eq!(counts.0.borrow().len(), 1);
    }
}
