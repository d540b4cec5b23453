//! Part: after an unclean end a batch is named in this host's own store before it goes, so that the next crash has suspects.

use std::collections::{BTreeMap, BTreeSet};

use super::config::{DirectConfig, RowId};
use super::rules::Rule;
use crate::outbox::suspicion::Suspect;
use crate::time::Monotonic;

/// What a host's store keeps of a table: nothing else of it is written here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectRecord {
    /// A host has it open, or died with it.
    pub open: bool,
    /// Unclean ends in turn.
    pub unclean: u32,
    /// What is sent, or about to be, while the host is cautious.
    pub calling: BTreeSet<RowId>,
    /// What stood named when a host died, and wasn't answered since.
    pub suspects: BTreeMap<RowId, Suspect>,
}

impl DirectRecord {
    /// What is true when a host opens the table.
    #[must_use]
    pub fn opened(mut self) -> Self {
        let unclean = std::mem::replace(&mut self.open, true);
        self.unclean = if unclean { self.unclean.saturating_add(1) } else { 0 };
        let alone = self.calling.len() == 1;
        for row in std::mem::take(&mut self.calling) {
            let suspect = self.suspects.entry(row).or_default();
            suspect.crashes += u32::from(!alone);
            suspect.alone += u32::from(alone);
        }
        self
    }

    /// What is true when a host has closed it in good order.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.open = false;
        self.calling.clear();
        self
    }
}

#[derive(Debug)]
pub(super) struct Claims {
    pub record: DirectRecord,
    /// This host is cautious.
    on: bool,
    until: Monotonic,
    forget_at: Monotonic,
}

impl Claims {
    pub fn new(record: DirectRecord, config: &DirectConfig, now: Monotonic) -> Self {
        let grows = config.rules.kept(Rule::CautionGrows);
        let doublings = if grows { record.unclean.saturating_sub(1).min(31) } else { 0 };
        let lasts = config.caution.first.saturating_mul(1 << doublings).min(config.caution.longest);
        Self { on: record.unclean > 0, until: now + lasts, forget_at: now + config.caution.forget, record }
    }

    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Ends caution when its time is over and no suspect waits.
    pub fn end(&mut self, config: &DirectConfig, now: Monotonic) {
        let waits_for_suspects = config.rules.kept(Rule::CautionGrows);
        if self.on && now >= self.until && (self.record.suspects.is_empty() || !waits_for_suspects) {
            self.on = false;
        }
        if !self.on && now >= self.forget_at {
            self.record.unclean = 0;
        }
    }

    /// It goes when nothing else of its host is out.
    pub fn is_suspect(&self, row: &RowId) -> bool {
        self.record.suspects.get(row).is_some_and(|suspect| suspect.crashes >= 2 || suspect.alone >= 1)
    }

    pub fn is_convicted(&self, row: &RowId) -> bool {
        self.record.suspects.get(row).is_some_and(|suspect| suspect.is_convicted())
    }

    /// It was answered, and its host lives.
    pub fn clear(&mut self, row: &RowId) {
        self.record.suspects.remove(row);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn row(id: &str) -> RowId {
        RowId(Arc::from(id))
    }

    #[test]
    fn who_is_alone_at_three_crashes_is_convicted() {
        let mut record = DirectRecord::default().opened();
        assert_eq!((record.open, record.unclean), (true, 0));
        for times in 1..=3 {
            record.calling.insert(row("7"));
            record = record.opened();
            assert_eq!(record.suspects.get(&row("7")).map(|suspect| suspect.is_convicted()), Some(times == 3));
            assert_eq!(record.unclean, times);
        }
        record.calling.insert(row("8"));
        let closed = record.closed().opened();
        assert_eq!((closed.unclean, closed.suspects.contains_key(&row("8"))), (0, false));
    }
}
