//! Asking the seen set. A message is registered before: a second copy meets the first in memory, and one that comes behind the commit
//! that finished it meets that in the store.

use std::sync::Arc;

use super::entry::{Decision, Durable, End, Stage};
use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::inbox::fingerprint::ContentCheck;
use crate::inbox::seen::{SeenPlace, SeenQuery};
use crate::time::{Now, UnixMillis};

/// A question to the seen set for one message in memory.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// Names the message in [`InboxOwner::looked_up`].
    pub seq: Seq,
    pub query: SeenQuery,
}

impl InboxOwner {
    /// Questions to ask, each once. Who can't ask them gives them back with [`Self::ask_again`].
    pub fn take_lookups(&mut self) -> Vec<LookUp> {
        let unseen = std::mem::take(&mut self.unseen);
        unseen.into_iter().filter_map(|seq| Some(LookUp { seq, query: self.query(seq)? })).collect()
    }

    fn query(&self, seq: Seq) -> Option<SeenQuery> {
        let entry = self.entries.get(seq)?;
        let (message, consumer) = (entry.message.as_ref()?, entry.consumer_name.clone()?);
        let places = if entry.reused {
            vec![SeenPlace::in_runs(entry.fingerprint)]
        } else {
            let by_stamp = self.stamp(seq).is_some();
            let mut places = SeenPlace::all_of(message.id.as_str(), entry.fingerprint, message.occurred_at);
            let runs = SeenPlace::in_runs(entry.fingerprint);
            // Stamps that are far from the clock's time are filed there.
            places.extend(Some(runs).filter(|runs| by_stamp && !places.contains(runs)));
            places
        };
        Some(SeenQuery { consumer, places })
    }

    /// The time that decides a message's bucket instead of its id.
    pub(super) fn stamp(&self, seq: Seq) -> Option<UnixMillis> {
        let entry = self.entries.get(seq)?;
        let settings = self.source_settings(entry.source?)?;
        entry.message.as_ref()?.occurred_at.filter(|_| settings.id_time_occurred)
    }

    /// Questions that weren't answered, because the store couldn't be read.
    pub fn ask_again(&mut self, seqs: impl IntoIterator<Item = Seq>) {
        for seq in seqs {
            if self.entries.get(seq).is_some_and(|entry| entry.stage == Stage::LookUp) {
                self.unseen.insert(seq);
            }
        }
    }

    /// What the seen set has of a message: the check of its content, or nothing.
    pub fn looked_up(&mut self, seq: Seq, found: Option<ContentCheck>, now: Now) {
        self.tick(now);
        let Some(entry) = self.entries.get(seq).filter(|entry| entry.stage == Stage::LookUp) else { return };
        let Some(check) = found else { return self.is_new(seq) };
        if check != entry.digest.check() && !entry.reused && self.is_reuse(entry.consumer) {
            return self.was_reused(seq);
        }
        let copies = entry.copies.clone();
        self.counts.duplicates += copies.len() as u64;
        self.give_way(seq);
        self.done_with_copies(seq, &copies);
    }

    /// It wasn't finished within the window.
    fn is_new(&mut self, seq: Seq) {
        self.note_after_crash(seq);
        let Some(entry) = self.entries.get_mut(seq) else { return };
        entry.stage = match entry.refusal.take() {
            None => Stage::Idle,
            Some(fault) => {
                let end = End::Dead { code: fault.code, reason: fault.reason, attempted: false };
                Stage::Decided(Decision::Finish(end))
            }
        };
        self.consider(seq);
    }

    /// After an unclean end the first messages of each group may have been handled without a commit. So may a second copy, of any source,
    /// until everything that was in hand then has come again: it is noted when it arrives.
    fn note_after_crash(&mut self, seq: Seq) {
        if !self.config.unclean {
            return;
        }
        let Some(entry) = self.entries.get(seq) else { return };
        let Some(source) = entry.source else { return };
        let group = entry.copies.first().and_then(|id| self.hand.get(*id)).and_then(|held| held.group.clone());
        let window = self.source_settings(source).map_or(0, |settings| settings.window);
        let is_among_first = self.sources.is_among_first(source, entry.consumer, group, window);
        if is_among_first && let Some(entry) = self.entries.get_mut(seq) {
            entry.maybe_handled = true;
        }
    }

    /// Its id was finished with another content: its deliveries wait for what stands for that.
    fn was_reused(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get(seq) else { return };
        let (Some(source), Some(name), Some(message)) =
            (entry.source, entry.consumer_name.clone(), entry.message.clone())
        else {
            return;
        };
        let (consumer, digest, copies) = (entry.consumer, entry.digest, entry.copies.clone());
        let message = Arc::clone(&message);
        let reused = self.reused_entry(source, consumer, name, digest, &message);
        if let Some(entry) = self.entries.get_mut(reused) {
            entry.copies.extend(copies.iter().copied());
        }
        for delivery in &copies {
            self.hand.wait_for(*delivery, reused);
        }
        self.give_way(seq);
        self.done_with_copies(seq, &copies);
    }

    /// A message that isn't handled: it leaves memory, at once or with its take.
    fn give_way(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get_mut(seq) else { return };
        entry.copies.clear();
        if entry.durable == Durable::Nothing && !entry.flying {
            self.drop_entry(seq);
        } else {
            entry.stage = Stage::Decided(Decision::Expire);
            self.consider(seq);
        }
    }

    /// Whether a message has to be looked up before it goes on.
    pub(super) fn needs_lookup(&self, seq: Seq) -> bool {
        let Some(entry) = self.entries.get(seq) else { return false };
        let consumer = entry.consumer.and_then(|consumer| self.config.settings.consumer(consumer));
        let has_seen_set = consumer.is_none_or(|settings| settings.idempotent) && !entry.anonymous;
        has_seen_set && self.is_rule_kept(Rule::AskTheSeenSet)
    }

    /// A message that needn't be looked up goes on at once.
    pub(super) fn skip_lookup(&mut self, seq: Seq) {
        self.is_new(seq);
    }
}
