//! Calls and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::{Decision, DecisionKind, End, Stage};
use super::hand::SettleAs;
use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::inbox::limits::{HOLD_MAX, LOADS_MAX, NAMED_AHEAD};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::InboxRow;
use crate::inbox::settings::{ConsumerId, Target};
use crate::inbox::verdict::Verdict;
use crate::port::transport::Fault;
use crate::time::{Monotonic, Now};

/// A message for its consumer's target: a call, or something to forward.
#[derive(Clone, Debug)]
pub struct Call {
    /// Names it in [`InboxOwner::answered`].
    pub seq: Seq,
    pub consumer: ConsumerId,
    pub target: Target,
    pub message: Arc<InboundMessage>,
    /// 1 on the first try.
    pub attempt: u32,
    /// It may have been handled before.
    pub maybe_handled: bool,
}

impl InboxOwner {
    /// Rows whose turn has come and whose messages aren't in memory, each once. What is read goes to [`Self::loaded`].
    pub fn take_loads(&mut self) -> Vec<Seq> {
        let is_full = self.entries.is_row_memory_full();
        let mut ahead: BTreeMap<ConsumerId, usize> = BTreeMap::new();
        let may_load = |seq: &&Seq| {
            let Some(consumer) = self.entries.get(**seq).and_then(|entry| entry.consumer).filter(|_| is_full) else {
                return true;
            };
            let left = ahead.entry(consumer).or_insert_with(|| self.loads_ahead(consumer));
            let may = *left > 0;
            *left = left.saturating_sub(1);
            may
        };
        let seqs: Vec<Seq> = self.unloaded.iter().filter(may_load).take(LOADS_MAX).copied().collect();
        for seq in &seqs {
            self.unloaded.remove(seq);
        }
        seqs
    }

    /// How many rows of a consumer may be read although the memory for rows is used up: its calls aren't to wait for reads, and of
    /// thousands that are due at once most wait for a call. Suspects wait for their trials, and take nobody's room.
    fn loads_ahead(&self, id: ConsumerId) -> usize {
        let suspects = &self.record.suspicion.suspects;
        let is_suspect =
            |seq: &Seq| self.entries.get(*seq).is_some_and(|entry| suspects.contains_key(&entry.fingerprint));
        let ready = self.consumers.get(id).map_or(0, |of| of.ready.iter().filter(|seq| !is_suspect(seq)).count());
        let concurrency = self.config.settings.consumer(id).map_or(1, |settings| settings.concurrency);
        (concurrency.max(1) * NAMED_AHEAD).saturating_sub(ready)
    }

    /// A row was read; none = it isn't there any more, because it couldn't be read and lies in quarantine. `Err(())` = ask again.
    pub fn loaded(&mut self, seq: Seq, row: Result<Option<Arc<InboxRow>>, ()>, now: Now) {
        self.tick(now);
        let is_wanted = self.entries.get(seq).is_some_and(|entry| entry.is_row() && entry.message.is_none());
        if !is_wanted {
            return;
        }
        match row {
            Ok(Some(row)) => {
                self.entries.set_message(seq, Arc::clone(&row.message));
                let by_id = self.record.secret.of_id(&row.consumer, &row.message.id);
                if let Some(entry) = self.entries.get_mut(seq) {
                    entry.reused = entry.fingerprint != by_id;
                    entry.last_error.clone_from(&row.last_error);
                }
                self.settle_released(seq);
                self.consider(seq);
            }
            Ok(None) => {
                if let Some(entry) = self.drop_entry(seq) {
                    self.contexts.remove(&entry.context, entry.received_at, seq);
                    // What its source still holds is the only readable copy: it comes again, as a message of its own.
                    for delivery in &entry.copies {
                        self.hand.settle(*delivery, SettleAs::Release);
                    }
                }
            }
            Err(()) => {
                self.unloaded.insert(seq);
            }
        }
    }

    /// What may be called now. Nothing begins after `lease_until`, when another owner may have taken over.
    pub fn take_calls(&mut self, now: Now, lease_until: Monotonic) -> Vec<Call> {
        self.tick(now);
        if now.mono >= lease_until || self.draining {
            return Vec::new();
        }
        self.begin_trial(now);
        let mut calls = Vec::new();
        for id in self.consumers.ids() {
            let Some(settings) = self.config.settings.consumer(id) else { continue };
            let (target, concurrency) = (settings.target, settings.concurrency);
            for seq in self.choose(id, target, concurrency, now) {
                calls.extend(self.call(seq, id, target));
            }
        }
        calls
    }

    fn choose(&self, id: ConsumerId, target: Target, concurrency: usize, now: Now) -> Vec<Seq> {
        let Some(consumer) = self.consumers.get(id) else { return Vec::new() };
        if consumer.is_held(now.mono) || consumer.ready.is_empty() {
            return Vec::new();
        }
        if target == Target::Forward {
            return consumer.ready.iter().copied().collect();
        }
        let may_go = consumer.ready.iter().copied().filter(|seq| self.may_be_called(*seq));
        if !consumer.is_probing() {
            return may_go.take(concurrency.saturating_sub(consumer.running.len())).collect();
        }
        if !consumer.running.is_empty() {
            return Vec::new();
        }
        let mut can: Vec<Seq> = may_go.collect();
        let is_other =
            |seq: &Seq| self.entries.get(*seq).is_some_and(|entry| Some(entry.fingerprint) != consumer.offender());
        let first = can.iter().position(is_other).unwrap_or(0);
        can.drain(..first);
        can.truncate(1);
        can
    }

    fn call(&mut self, seq: Seq, consumer: ConsumerId, target: Target) -> Option<Call> {
        let tells = self.is_rule_kept(Rule::TellMaybeHandled);
        let entry = self.entries.get(seq)?;
        let message = entry.message.clone()?;
        self.unlist(seq);
        if target == Target::Handler {
            self.consumers.get_mut(consumer)?.running.insert(seq);
        }
        let entry = self.entries.get_mut(seq)?;
        entry.stage = Stage::Called;
        let maybe_handled = (entry.maybe_handled || entry.attempts > 0) && tells;
        Some(Call { seq, consumer, target, message, attempt: entry.attempts + 1, maybe_handled })
    }

    /// What was said of a message that was called. `random` is uniform in [0, 1).
    pub fn answered(&mut self, seq: Seq, verdict: Verdict, now: Now, random: f64) {
        self.tick(now);
        let Some(entry) = self.entries.get(seq).filter(|entry| entry.stage == Stage::Called) else { return };
        let (fingerprint, attempts) = (entry.fingerprint, entry.attempts);
        let Some(id) = entry.consumer else { return };
        self.unlist(seq);
        self.end_call(fingerprint);
        let decision = match verdict {
            Verdict::NotCalled => None,
            Verdict::Interrupted => {
                if let Some(entry) = self.entries.get_mut(seq) {
                    entry.maybe_handled = true;
                }
                None
            }
            Verdict::Busy(fault) | Verdict::Blocked(fault) => {
                let is_charged = self.is_charged(seq, id);
                if let Some(consumer) = self.consumers.get_mut(id) {
                    consumer.hold(fault.after, fingerprint, now.mono);
                }
                let costs = is_charged || !self.is_rule_kept(Rule::HoldsAreFree);
                costs.then(|| self.failed(id, attempts, fault, random))
            }
            Verdict::Failed(fault) => Some(self.failed(id, attempts, fault, random)),
            Verdict::Poison(fault) => {
                let (code, reason) = (fault.code, fault.reason);
                Some(Decision::Finish(End::Dead { code, reason, attempted: true }))
            }
            Verdict::Processed(leavings) => Some(Decision::Finish(End::Processed(leavings))),
            Verdict::Duplicate => Some(Decision::Finish(End::Duplicate)),
        };
        match decision {
            Some(decision) => {
                let is_hold = self.consumers.is_held(Some(id), now.mono);
                if let Some(consumer) = self.consumers.get_mut(id).filter(|_| !is_hold) {
                    consumer.answered();
                }
                self.decide(seq, decision);
                if !self.is_rule_kept(Rule::SettleAfterCommit) {
                    let copies = self.entries.get(seq).map(|entry| entry.copies.clone()).unwrap_or_default();
                    self.done_with_copies(seq, &copies);
                }
            }
            None => {
                if let Some(entry) = self.entries.get_mut(seq) {
                    entry.stage = Stage::Idle;
                }
                self.consider(seq);
            }
        }
    }

    /// Whether asking for a pause or a hold costs this message an attempt: another one went through since it last asked. One message
    /// must not hold a consumer for ever.
    fn is_charged(&mut self, seq: Seq, id: ConsumerId) -> bool {
        let processed = self.consumers.get(id).map_or(0, |consumer| consumer.processed);
        let is_kept = self.is_rule_kept(Rule::HoldsAreCharged);
        let Some(entry) = self.entries.get_mut(seq) else { return false };
        let before = entry.asked.replace(processed);
        is_kept && before.is_some_and(|before| processed > before)
    }

    pub(super) fn failed(&self, id: ConsumerId, attempts: u32, fault: Fault, random: f64) -> Decision {
        let Some(settings) = self.config.settings.consumer(id) else {
            return Decision::Retry { fault, delay: std::time::Duration::ZERO };
        };
        if !settings.retry.allowed(attempts + 1) {
            let (code, reason) = (fault.code, fault.reason);
            return Decision::Finish(End::Dead { code, reason, attempted: true });
        }
        // Nobody asks for more time than for a hold: a component is free to name a year.
        let asked = fault.after.unwrap_or_default().min(HOLD_MAX);
        let delay = settings.retry.delay(attempts + 1, random).max(asked);
        Decision::Retry { fault, delay }
    }

    /// Whether a handler has it, or had it and its fate waits for a commit.
    pub(super) fn is_past_call(stage: &Stage) -> bool {
        matches!(
            stage,
            Stage::Called | Stage::Decided(_) | Stage::Committing(DecisionKind::Finish | DecisionKind::Retry)
        )
    }
}
