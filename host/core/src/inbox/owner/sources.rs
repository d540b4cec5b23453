//! Sources: how much they may bring, what they are told, and what becomes of it when they go.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::entry::Stage;
use super::hand::{DeliveryId, Settle, SettleAs, SettleResult};
use super::{InboxOwner, Rule};
use crate::inbox::limits::{EXTEND_PART, TOKEN_GRACE};
use crate::inbox::settings::{ConsumerId, SourceId};
use crate::time::{Monotonic, Now};

/// Part: what is known of each source.
#[derive(Debug, Default)]
pub(super) struct Sources {
    sessions: BTreeMap<SourceId, u64>,
    /// When the first pull of a session was answered.
    since: BTreeMap<SourceId, Monotonic>,
    /// Sources whose last pull found nothing more, and when it said so.
    caught_up: BTreeMap<SourceId, Monotonic>,
    /// New messages of each group at each consumer since this owner began, as far as they may have been handled before: a window of
    /// deliveries is as many for each.
    first: HashMap<GroupOf, usize>,
}

/// A group of a source, at one consumer.
type GroupOf = (SourceId, Option<ConsumerId>, Option<Arc<str>>);

impl Sources {
    pub fn session(&self, source: SourceId) -> Option<u64> {
        self.sessions.get(&source).copied()
    }

    pub fn begin_session(&mut self, source: SourceId, session: u64) {
        self.sessions.insert(source, session);
        self.since.remove(&source);
        self.caught_up.remove(&source);
    }

    pub fn end_session(&mut self, source: SourceId) {
        self.sessions.remove(&source);
        self.since.remove(&source);
    }

    /// A pull was answered.
    pub fn pulled(&mut self, source: SourceId, caught_up: bool, now: Monotonic) {
        self.since.entry(source).or_insert(now);
        if caught_up {
            self.caught_up.insert(source, now);
        } else {
            self.caught_up.remove(&source);
        }
    }

    /// What its last pull said is out of date.
    pub fn forget_caught_up(&mut self, source: SourceId) {
        self.caught_up.remove(&source);
    }

    /// Whether what was in hand elsewhere would have come again: it was pulled for so long, and a pull after that found nothing more.
    /// What one said before, or what time passed while nothing could come, says nothing of it.
    pub fn has_waited(&self, source: SourceId, wait: Duration) -> bool {
        let ends = self.since.get(&source).map(|since| *since + wait);
        self.caught_up.get(&source).zip(ends).is_some_and(|(told, ends)| *told > ends)
    }

    /// Counts a new message of a group at a consumer; whether it is one of the first.
    pub fn is_among_first(
        &mut self,
        source: SourceId,
        consumer: Option<ConsumerId>,
        group: Option<Arc<str>>,
        window: usize,
    ) -> bool {
        let count = self.first.entry((source, consumer, group)).or_default();
        *count += 1;
        *count <= window
    }
}

/// What a source said of itself when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceAbilities {
    /// See [`SourceSettings::replays_in_order`](crate::inbox::settings::SourceSettings).
    pub replays_in_order: bool,
    /// It settles by offsets.
    pub by_offsets: bool,
    /// It acknowledges in the order in which it brought.
    pub ordered_acks: bool,
    /// It prolongs `settle-within`.
    pub extends: bool,
    /// It has a place of its own for what is refused.
    pub rejects: bool,
    /// It has no place of its own at its peer, and begins behind the position that is kept here.
    pub resumes: bool,
    /// `settle-within` of its deliveries, at most: what was in hand at a crash comes again after it. None: it doesn't say.
    pub settle_within: Option<Duration>,
}

impl InboxOwner {
    /// A source was opened and says what it can; before it is pulled. What is in memory of it goes by that from now on.
    pub fn opened(&mut self, source: SourceId, can: SourceAbilities) {
        self.positions.opened(source, can.resumes);
        let settings = Arc::make_mut(&mut self.config.settings);
        let Some(source_settings) = settings.sources.get_mut(usize::from(source.0)) else { return };
        source_settings.replays_in_order = can.replays_in_order;
        (source_settings.by_offsets, source_settings.ordered_acks) = (can.by_offsets, can.ordered_acks);
        (source_settings.extends, source_settings.rejects) = (can.extends, can.rejects);
        source_settings.settle_within = can.settle_within.unwrap_or(source_settings.settle_within);
        let idle = self.entries.iter().filter(|entry| entry.source == Some(source) && entry.stage == Stage::Idle);
        let idle: Vec<crate::ids::Seq> = idle.map(|entry| entry.seq).collect();
        idle.into_iter().for_each(|seq| self.consider(seq));
    }

    /// The position behind which a source begins that has no place of its own at its peer, as last known committed.
    pub fn resume_after(&self, source: SourceId) -> Option<&str> {
        let settings = self.source_settings(source)?;
        self.record.positions.get(&settings.name).map(|kept| kept.position.as_str())
    }

    /// Whether a source that has no place of its own brought so much that isn't settled that its place isn't followed any more: until it
    /// is opened anew, it would begin where it stood before.
    pub fn has_lost_place(&self, source: SourceId) -> bool {
        self.positions.is_lost(source)
    }

    /// A source brings nothing: its last pull failed, or it is paused. That it had caught up is out of date.
    pub fn silent(&mut self, source: SourceId) {
        self.sources.forget_caught_up(source);
    }

    /// How many deliveries a source may be asked for now. None while its window is full of bytes, while the rows of one of its consumers
    /// are at their bound, and while this owner drains.
    pub fn room(&self, source: SourceId) -> usize {
        let Some(settings) = self.source_settings(source).filter(|_| !self.draining) else { return 0 };
        if !self.is_rule_kept(Rule::PullIntoRoom) {
            return settings.window;
        }
        if self.is_full_of_rows(source) || self.hand.bytes(source) >= settings.window_bytes {
            return 0;
        }
        // What has no delivery isn't even looked for while those that are held leave no room.
        let room = settings.window.saturating_sub(self.hand.count(source));
        if room == 0 {
            return 0;
        }
        let loose = self.entries.iter().filter(|entry| entry.is_loose() && entry.source == Some(source));
        let loose: BTreeSet<&str> =
            loose.filter_map(|entry| entry.message.as_ref().map(|message| message.id.as_str())).collect();
        room.saturating_sub(loose.len())
    }

    /// Whether the rows of one of its consumers are at their bound.
    pub(super) fn is_full_of_rows(&self, source: SourceId) -> bool {
        let consumers = self.source_settings(source).map(|settings| settings.consumers.as_slice()).unwrap_or_default();
        consumers.iter().any(|id| {
            let stored_max = self.config.settings.consumer(*id).map_or(usize::MAX, |settings| settings.stored_max);
            self.consumers.get(*id).is_some_and(|consumer| consumer.rows >= stored_max)
        })
    }

    /// Orders for a source, in the session that [`Self::pulled`] named last. The answers go to [`Self::settled`].
    pub fn take_settlements(&mut self, source: SourceId, now: Now) -> Vec<Settle> {
        self.tick(now);
        if self.draining {
            self.give_back(source);
        }
        let extends = self.source_settings(source).is_some_and(|settings| settings.extends);
        self.hand.take_orders(source, extends.then_some(EXTEND_PART), now.mono)
    }

    /// Whether orders for a source wait. What is to be extended isn't among them.
    pub fn has_settlements(&self, source: SourceId) -> bool {
        self.hand.has_orders(source)
    }

    /// What a source answered to an order.
    pub fn settled(&mut self, order: &Settle, result: SettleResult, now: Now) {
        self.tick(now);
        let is_for_good =
            matches!(order.settle_as, SettleAs::Ack | SettleAs::Reject(_)) && result == SettleResult::Done;
        if let Some(held) = self.hand.settled(order.delivery, &order.settle_as, result, now.mono) {
            if let Some(position) = held.position.as_deref().filter(|_| is_for_good) {
                self.positions.settled(held.source, position);
            }
            self.forget_copy(order.delivery, &held.open);
        }
    }

    /// A source says that these tokens are no longer ours.
    pub fn lost(&mut self, source: SourceId, tokens: &[bytes::Bytes], now: Now) {
        self.tick(now);
        let gone: Vec<DeliveryId> =
            self.hand.of(source).filter(|(_, held)| tokens.contains(&held.token)).map(|(id, _)| id).collect();
        gone.into_iter().for_each(|id| self.lose_delivery(id));
    }

    /// A source no longer has these groups: what of them isn't with a handler, stored, taken or in a commit is dropped, and comes to
    /// whoever has them next.
    pub fn revoked(&mut self, source: SourceId, groups: &[String], now: Now) {
        self.tick(now);
        let is_gone =
            |group: &Option<Arc<str>>| group.as_deref().is_some_and(|group| groups.iter().any(|gone| gone == group));
        let gone: Vec<DeliveryId> =
            self.hand.of(source).filter(|(_, held)| is_gone(&held.group)).map(|(id, _)| id).collect();
        for id in gone {
            if let Some(held) = self.hand.drop_delivery(id) {
                self.forget_copy(id, &held.open);
                self.drop_untouched(&held.open);
            }
        }
    }

    /// A source was opened anew: the tokens of its last session are of no use. The work stays, but for sources that settle by offsets:
    /// they bring everything behind the last one again, in order.
    pub fn restarted(&mut self, source: SourceId, session: u64) {
        self.sources.begin_session(source, session);
        self.positions.restarted(source);
        let by_offsets = self.source_settings(source).is_some_and(|settings| settings.by_offsets);
        let gone: Vec<DeliveryId> = self.hand.of(source).map(|(id, _)| id).collect();
        for id in gone {
            if let Some(held) = self.hand.drop_delivery(id) {
                self.forget_copy(id, &held.open);
                if by_offsets {
                    self.drop_untouched(&held.open);
                }
            }
        }
    }

    pub(super) fn lose_delivery(&mut self, id: DeliveryId) {
        if let Some(held) = self.hand.drop_delivery(id) {
            self.forget_copy(id, &held.open);
        }
    }

    /// Messages whose delivery is gone.
    fn forget_copy(&mut self, id: DeliveryId, open: &[crate::ids::Seq]) {
        for seq in open {
            if let Some(entry) = self.entries.get_mut(*seq) {
                entry.copies.retain(|copy| *copy != id);
            }
        }
    }

    /// What of a revoked delivery no handler has, and nothing stored.
    fn drop_untouched(&mut self, seqs: &[crate::ids::Seq]) {
        let keeps_flying = self.is_rule_kept(Rule::KeepWhatFlies);
        for seq in seqs {
            if let Some(entry) = self.entries.get_mut(*seq) {
                entry.flying &= keeps_flying;
                entry.withdrawn = entry.copies.is_empty();
            }
            self.drop_withdrawn(*seq);
        }
    }

    /// Drops a message whose delivery was revoked, if it may be. An owner before this one may have had it called, which its source doesn't
    /// say when it brings it again.
    pub(super) fn drop_withdrawn(&mut self, seq: crate::ids::Seq) {
        let may_go = self.entries.get(seq).is_some_and(|entry| entry.withdrawn && entry.may_be_dropped());
        let dropped = if may_go { self.drop_entry(seq) } else { None };
        if let Some(entry) = dropped.filter(|entry| entry.maybe_handled) {
            self.touched.went(entry.fingerprint);
        }
    }

    /// Tokens whose time is over, of sources that can't extend it: they deliver again.
    pub(super) fn end_late_tokens(&mut self) {
        let settings = Arc::clone(&self.config.settings);
        for (number, source) in settings.sources.iter().enumerate() {
            if source.by_offsets {
                continue;
            }
            let id = SourceId(u16::try_from(number).unwrap_or(u16::MAX));
            let gone: Vec<DeliveryId> = self
                .hand
                .ending_before(id, self.clock)
                .filter(|(_, held)| held.until + TOKEN_GRACE.min(held.settle_within) < self.clock)
                .map(|(id, _)| id)
                .collect();
            gone.into_iter().for_each(|id| self.lose_delivery(id));
        }
    }

    /// A source was closed: no token of it is of use any more. The work stays as in [`Self::restarted`].
    pub fn closed(&mut self, source: SourceId) {
        self.restarted(source, 0);
        self.sources.end_session(source);
    }

    /// From now on nothing is pulled or called. What handlers have is finished and committed; what is stored is acknowledged, and the
    /// rest is given back.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether a drain has come to its end: no handler has anything, and nothing waits for a commit.
    pub fn is_drained(&self) -> bool {
        let is_busy = self.entries.iter().any(|entry| InboxOwner::is_past_call(&entry.stage) || entry.flying);
        self.draining && self.flight.is_none() && !is_busy
    }

    fn give_back(&mut self, source: SourceId) {
        let open: Vec<(DeliveryId, Vec<crate::ids::Seq>)> =
            self.hand.of(source).map(|(id, held)| (id, held.open.clone())).collect();
        for (id, seqs) in open {
            let mut is_untouched = !seqs.is_empty();
            for seq in seqs {
                let Some(entry) = self.entries.get_mut(seq) else { continue };
                if entry.is_row() && !matches!(entry.stage, Stage::Decided(_) | Stage::Committing(_)) {
                    entry.releasable = true;
                    self.done_with(id, seq);
                } else if InboxOwner::is_past_call(&entry.stage) || entry.flying {
                    is_untouched = false;
                }
            }
            if is_untouched {
                self.hand.settle(id, SettleAs::Release);
            }
        }
    }
}
