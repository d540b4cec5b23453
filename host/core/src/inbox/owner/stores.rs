//! What is stored although it hasn't failed (`docs/design/inbox.md`, rules 5 and 7): under pressure, near its deadline, at its last
//! deliveries.

use std::collections::BTreeSet;

use super::entry::{Durable, Entry, Stage};
use super::hand::Held;
use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::inbox::fingerprint::OrderTag;
use crate::inbox::limits::{DEADLINE_PART, EXTEND_PART};
use crate::inbox::settings::{SourceId, SourceSettings};
use crate::time::Monotonic;

/// What is to become a row, and which rows are to be acknowledged.
#[derive(Debug, Default)]
pub(super) struct Pressed {
    pub store: BTreeSet<Seq>,
    pub release: BTreeSet<Seq>,
}

impl InboxOwner {
    fn each_source(&self) -> impl Iterator<Item = (SourceId, &SourceSettings)> {
        let sources = self.config.settings.sources.iter().enumerate();
        sources.map(|(number, settings)| (SourceId(u16::try_from(number).unwrap_or(u16::MAX)), settings))
    }

    /// Looks at everything in hand.
    pub(super) fn pressed(&self) -> Pressed {
        let mut pressed = Pressed::default();
        for (source, settings) in self.each_source() {
            // By bytes as by count, or a few large ones that wait would keep all others from being pulled.
            let bytes = self.hand.bytes(source).saturating_mul(3) >= settings.window_bytes.saturating_mul(2);
            let is_full = bytes || self.hand.count(source) * 3 >= settings.window * 2;
            let is_full = is_full && self.is_rule_kept(Rule::StoreUnderPressure);
            for delivery in self.hand.open_by_end(source) {
                for seq in &delivery.open {
                    let Some(entry) = self.entries.get(*seq) else { continue };
                    self.press(entry, self.is_late(delivery, settings), is_full, &mut pressed);
                }
            }
        }
        pressed
    }

    fn press(&self, entry: &Entry, is_late: bool, is_full: bool, pressed: &mut Pressed) {
        if !matches!(entry.stage, Stage::Idle | Stage::Called) {
            return;
        }
        let is_last = entry.store_first && (self.is_rule_kept(Rule::StoreAtLastDeliveries) || entry.anonymous);
        if is_late || is_last || is_full && self.only_waits(entry) {
            if !entry.is_row() {
                pressed.store.insert(entry.seq);
            } else if !entry.releasable {
                pressed.release.insert(entry.seq);
            }
        }
    }

    /// A third of its time is left, and it can't be extended.
    fn is_late(&self, held: &Held, settings: &SourceSettings) -> bool {
        let waits = !settings.extends && !settings.by_offsets;
        waits && held.until - self.clock < held.settle_within / DEADLINE_PART
    }

    /// When a delivery is to be extended or stored next.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let mut next: Option<Monotonic> = None;
        for (source, settings) in self.each_source().filter(|(_, settings)| !settings.by_offsets) {
            let part = if settings.extends { EXTEND_PART } else { DEADLINE_PART };
            let most = self.hand.longest(source) / part;
            for held in self.hand.open_by_end(source) {
                // Of what ends later none is due before it.
                if next.is_some_and(|next| Monotonic(held.until.0.saturating_sub(most)) >= next) {
                    break;
                }
                let at = Monotonic(held.until.0.saturating_sub(held.settle_within / part));
                // What was stored or told for it already waits for its end.
                let at = if at <= self.clock { held.until } else { at };
                next = Some(next.map_or(at, |other| other.min(at)));
            }
        }
        next.filter(|at| *at > self.clock)
    }

    /// What the next commit stores, in order. A message becomes a row only behind rows or takes of everything earlier in its key, or the
    /// next owner would call it first: so what is before it and has neither becomes a row with it, or it doesn't.
    pub(super) fn rows_behind_rows(&self, wanted: &BTreeSet<Seq>, leaving: &BTreeSet<Seq>, most: usize) -> Vec<Seq> {
        let keeps = self.is_rule_kept(Rule::RowsBehindRows);
        let mut candidates = wanted.clone();
        if keeps {
            for seq in wanted {
                let Some(tag) = self.entries.get(*seq).and_then(|entry| entry.order) else { continue };
                let before = self.entries.order().before(tag, *seq);
                candidates.extend(before.filter(|seq| self.is_not_durable(*seq)));
            }
        }
        let mut shut: BTreeSet<OrderTag> = BTreeSet::new();
        let mut chosen = Vec::new();
        for seq in candidates {
            let Some(entry) = self.entries.get(seq).filter(|_| !leaving.contains(&seq)) else { continue };
            let is_shut = entry.order.is_some_and(|tag| shut.contains(&tag));
            let can = matches!(entry.stage, Stage::Idle | Stage::Called) && entry.message.is_some();
            if can && !is_shut && chosen.len() < most {
                chosen.push(seq);
            } else if keeps && entry.durable == Durable::Nothing {
                shut.extend(entry.order);
            }
        }
        chosen
    }

    fn is_not_durable(&self, seq: Seq) -> bool {
        self.entries.get(seq).is_some_and(|entry| !entry.is_durable())
    }

    /// What the next commit takes, in order: everything earlier in its key is durable, or is in this commit.
    pub(super) fn takes(&self, with: &BTreeSet<Seq>, most: usize) -> Vec<Seq> {
        let mut taken = BTreeSet::new();
        for seq in self.untaken.iter().take(most) {
            let Some(entry) = self.entries.get(*seq).filter(|_| !with.contains(seq)) else { continue };
            let Some(tag) = entry.order else { continue };
            let is_in =
                |earlier: Seq| !self.is_not_durable(earlier) || with.contains(&earlier) || taken.contains(&earlier);
            if self.entries.order().before(tag, *seq).all(is_in) {
                taken.insert(*seq);
            }
        }
        taken.into_iter().collect()
    }
}
