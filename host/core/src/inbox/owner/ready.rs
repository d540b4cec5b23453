//! What a message in memory waits for. Every change of one is followed by [`InboxOwner::consider`], which lists it anew.

use super::InboxOwner;
use super::Rule;
use super::entry::{Decision, Durable, End, Entry, Stage};
use crate::code::Code;
use crate::ids::Seq;

impl InboxOwner {
    /// Takes a message off every list.
    pub(super) fn unlist(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get(seq) else { return };
        self.timers.remove(&(entry.due, seq));
        self.untaken.remove(&seq);
        self.unloaded.remove(&seq);
        self.unseen.remove(&seq);
        if let Some(consumer) = entry.consumer.and_then(|id| self.consumers.get_mut(id)) {
            consumer.ready.remove(&seq);
            consumer.running.remove(&seq);
        }
    }

    /// Lists a message by what it waits for now.
    pub(super) fn consider(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get(seq) else { return };
        match &entry.stage {
            Stage::Orphan => {
                self.orphans.insert(seq);
            }
            Stage::LookUp => {
                if self.needs_lookup(seq) {
                    self.unseen.insert(seq);
                } else {
                    self.skip_lookup(seq);
                }
            }
            Stage::Idle => self.consider_idle(seq),
            Stage::Called => {}
            Stage::Decided(_) => {
                self.unlist(seq);
                self.decided.insert(seq);
            }
            Stage::Committing(_) => self.unlist(seq),
        }
    }

    fn consider_idle(&mut self, seq: Seq) {
        self.unlist(seq);
        let Some(entry) = self.entries.get(seq) else { return };
        let Some(consumer) = entry.consumer else { return };
        let (due, is_loaded) = (entry.due, entry.message.is_some());
        // Its deliveries wait to see that it can be read.
        if !is_loaded && entry.releasable && !entry.copies.is_empty() {
            self.unloaded.insert(seq);
        }
        if self.needs_take(entry) {
            self.untaken.insert(seq);
            return;
        }
        if !self.is_head(entry) || self.waits_for_row(entry) {
            return;
        }
        if due > self.clock {
            self.timers.insert((due, seq));
            return;
        }
        if !is_loaded {
            self.unloaded.insert(seq);
            return;
        }
        if self.is_convicted(seq) {
            let reason = "its host died again and again while it was handled";
            let (code, reason) = (Code::SUSPECTED_POISON.into(), reason.to_owned());
            return self.decide(seq, Decision::Finish(End::Dead { code, reason, attempted: false }));
        }
        if let Some(consumer) = self.consumers.get_mut(consumer) {
            consumer.ready.insert(seq);
        }
    }

    /// Considers all messages of a key.
    pub(super) fn consider_key_of(&mut self, seq: Seq) {
        let tag = self.entries.get(seq).and_then(|entry| entry.order);
        for seq in tag.map(|tag| self.entries.order().all(tag)).unwrap_or_default() {
            self.consider(seq);
        }
    }

    pub(super) fn decide(&mut self, seq: Seq, decision: Decision) {
        if let Some(entry) = self.entries.get_mut(seq) {
            entry.stage = Stage::Decided(decision);
            self.consider(seq);
        }
    }

    /// It has a key, and its source doesn't bring those in order again.
    pub(super) fn needs_take(&self, entry: &Entry) -> bool {
        let settings = entry.source.and_then(|source| self.source_settings(source));
        entry.durable == Durable::Nothing
            && entry.order.is_some()
            && settings.is_none_or(|settings| settings.needs_takes())
            && self.is_rule_kept(Rule::TakeBeforeCall)
    }

    /// It is stored before it is called.
    pub(super) fn waits_for_row(&self, entry: &Entry) -> bool {
        let is_kept = self.is_rule_kept(Rule::StoreAtLastDeliveries) || entry.anonymous;
        entry.store_first && !entry.is_row() && is_kept
    }

    /// Nothing before it in its key is unfinished.
    pub(super) fn is_head(&self, entry: &Entry) -> bool {
        let Some(tag) = entry.order else { return true };
        if self.is_rule_kept(Rule::FailedHeadHolds) {
            return self.entries.order().head(tag) == Some(entry.seq);
        }
        let waits = |seq: Seq| self.entries.get(seq).is_some_and(|other| other.is_row() && other.due > self.clock);
        self.entries.order().before(tag, entry.seq).all(waits)
    }

    /// It waits for its key, its time or a hold, and not for a handler.
    pub(super) fn only_waits(&self, entry: &Entry) -> bool {
        entry.stage == Stage::Idle
            && (!self.is_head(entry)
                || entry.due > self.clock
                || entry.consumer.is_none()
                || self.consumers.is_held(entry.consumer, self.clock))
    }
}
