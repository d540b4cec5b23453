//! Part: rows by context, with the oldest of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::Seq;
use crate::inbox::limits::{CONTEXTS_MAX, OTHER_CONTEXTS};
use crate::inbox::records::ContextCount;
use crate::time::UnixMillis;

/// A row that comes or goes with a commit.
#[derive(Clone, Debug)]
pub(super) struct RowChange {
    pub comes: bool,
    pub context: Arc<str>,
    pub received_at: UnixMillis,
    pub seq: Seq,
}

/// As of the commit that is out.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    rows: BTreeMap<Arc<str>, BTreeSet<(UnixMillis, Seq)>>,
}

impl Contexts {
    pub fn insert(&mut self, context: &Arc<str>, received_at: UnixMillis, seq: Seq) {
        self.rows.entry(Arc::clone(context)).or_default().insert((received_at, seq));
    }

    /// Makes a commit's changes, or with `back` takes them back.
    pub fn change(&mut self, changes: &[RowChange], back: bool) {
        for change in changes {
            if change.comes != back {
                self.insert(&change.context, change.received_at, change.seq);
            } else {
                self.remove(&change.context, change.received_at, change.seq);
            }
        }
    }

    pub fn remove(&mut self, context: &Arc<str>, received_at: UnixMillis, seq: Seq) {
        if let Some(rows) = self.rows.get_mut(context) {
            rows.remove(&(received_at, seq));
            if rows.is_empty() {
                self.rows.remove(context);
            }
        }
    }

    /// Those with the most rows apart, the others together.
    pub fn counts(&self) -> BTreeMap<Arc<str>, ContextCount> {
        let count = |rows: &BTreeSet<(UnixMillis, Seq)>| ContextCount {
            count: rows.len() as u64,
            oldest_at: rows.first().map_or(UnixMillis::default(), |(at, _)| *at),
        };
        let mut all: Vec<(&Arc<str>, ContextCount)> =
            self.rows.iter().map(|(context, rows)| (context, count(rows))).collect();
        all.sort_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(b.0)));
        let others = all.split_off(all.len().min(CONTEXTS_MAX));
        let mut counts: BTreeMap<Arc<str>, ContextCount> =
            all.into_iter().map(|(context, count)| (Arc::clone(context), count)).collect();
        let sum = others.iter().map(|(_, count)| *count).reduce(|sum, next| ContextCount {
            count: sum.count + next.count,
            oldest_at: sum.oldest_at.min(next.oldest_at),
        });
        if let Some(sum) = sum {
            counts.insert(Arc::from(OTHER_CONTEXTS), sum);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_contexts_count_together_with_their_oldest() {
        let mut contexts = Contexts::default();
        for number in 0..CONTEXTS_MAX + 3 {
            let context = Arc::from(format!("c{number:03}"));
            for row in 0..=usize::from(number < CONTEXTS_MAX) {
                let at = UnixMillis(10 + number as u64);
                contexts.insert(&context, at, Seq((number * 10 + row) as u64));
            }
        }
        let counts = contexts.counts();
        assert_eq!(counts.len(), CONTEXTS_MAX + 1);
        let other = counts.get(OTHER_CONTEXTS).copied();
        assert_eq!(other, Some(ContextCount { count: 3, oldest_at: UnixMillis(10 + CONTEXTS_MAX as u64) }));
        contexts.remove(&Arc::from("c000"), UnixMillis(10), Seq(0));
        let first = contexts.rows.get("c000").map(BTreeSet::len);
        assert_eq!(first, Some(1));
    }
}
