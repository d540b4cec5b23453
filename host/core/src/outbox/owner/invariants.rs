//! What the owner's lists must agree on. For tests: the model checker asks after every step.

use std::collections::{BTreeMap, HashMap};

use super::pending::PendingIds;
use super::ready::Wish;
use super::slots::{Origin, Slot, SlotState};
use super::{Owner, Rules};
use crate::ids::{Seq, Tenant};

impl Owner {
    /// Checks every list against the messages in memory, and every idle head against what it should wait for. Costs as
    /// much as everything in memory; says what contradicts what.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_lists()?;
        self.check_pending_ids()?;
        self.check_keys()?;
        self.check_named()?;
        self.check_window()?;
        if self.config.rules == Rules::default() { self.check_heads() } else { Ok(()) }
    }

    fn check_lists(&self) -> Result<(), String> {
        let count = |is: fn(&SlotState) -> bool| self.slots.values().filter(|slot| is(&slot.state)).count();
        let lists = [
            ("want_claim", count(|state| *state == SlotState::WantClaim), self.want_claim_count()),
            ("want_trial", count(|state| *state == SlotState::WantTrial), self.trial.waiting.len()),
            ("stalled", count(|state| *state == SlotState::Stalled), self.stalled.len()),
            ("sending", count(|state| *state == SlotState::Sending), self.flying + self.outside.leases.len()),
            ("outs", count(|state| matches!(state, SlotState::Out(_))), self.outs.len()),
            (
                "held",
                count(|state| matches!(state, SlotState::Held(_))),
                self.holds.values().map(|hold| hold.waiting.len()).sum(),
            ),
            (
                "ready",
                count(|state| matches!(state, SlotState::Ready { .. })),
                self.ready.values().map(super::turns::ReadyQueue::len).sum::<usize>() + self.naming.len(),
            ),
        ];
        for (name, states, listed) in lists {
            if states != listed {
                return Err(format!("{states} messages say {name}, {listed} are listed"));
            }
        }
        for (seq, slot) in &self.slots {
            let is_listed = match &slot.state {
                SlotState::WantClaim => self.wants_claim(slot),
                SlotState::WantTrial => self.trial.waiting.contains(seq),
                SlotState::Stalled => self.stalled.contains(seq),
                SlotState::Held(key) => self.holds.get(key).is_some_and(|hold| hold.waiting.contains(seq)),
                SlotState::Out(_) => self.outs.contains(seq),
                _ => true,
            };
            if !is_listed {
                return Err(format!("message {seq} isn't on the list that it says: {:?}", slot.state));
            }
        }
        Ok(())
    }

    fn check_pending_ids(&self) -> Result<(), String> {
        let mut pending = PendingIds::default();
        self.directs.iter().for_each(|direct| pending.add(&direct.request));
        let out = self.in_flight_record().into_iter().flat_map(|flight| &flight.directs);
        out.for_each(|(direct, _)| pending.add(&direct.request));
        if pending == self.pending_ids {
            return Ok(());
        }
        Err(format!("{pending:?} wait for a commit or are in one, {:?} are listed", self.pending_ids))
    }

    fn check_keys(&self) -> Result<(), String> {
        let keyed = self.slots.values().filter(|slot| slot.key.is_some()).count();
        let queued: usize = self.keys.values().map(|queue| queue.seqs.len()).sum();
        if keyed != queued {
            return Err(format!("{keyed} messages have keys, {queued} are queued"));
        }
        for queue in self.keys.values() {
            if queue.seqs.is_empty() && queue.busy.is_none() {
                return Err("an empty key is kept".to_owned());
            }
            if let Some(busy) = queue.busy.filter(|busy| self.slots.get(busy).is_none_or(Slot::is_idle)) {
                return Err(format!("a key is busy with {busy}, which is idle or gone"));
            }
        }
        Ok(())
    }

    fn check_window(&self) -> Result<(), String> {
        let mut slots: HashMap<Seq, (usize, usize)> = HashMap::new();
        let mut tenants: BTreeMap<Tenant, usize> = BTreeMap::new();
        let mut parked: BTreeMap<Tenant, usize> = BTreeMap::new();
        for slot in self.slots.values() {
            let tenant = slot.message.tenant.clone();
            if slot.origin == Origin::Parked {
                *parked.entry(tenant).or_default() += 1;
                continue;
            }
            let of = slots.entry(slot.place.segment).or_default();
            of.0 += 1;
            let is_active = !slot.is_idle() || matches!(slot.state, SlotState::Ready { .. });
            of.1 += usize::from(slot.pins_segment() && is_active);
            *tenants.entry(tenant).or_default() += 1;
        }
        for (tenant, window) in &self.windows {
            let mine = tenants.get(tenant).copied().unwrap_or(0);
            if window.messages != mine {
                return Err(format!("tenant {tenant} is counted with {} messages and has {mine}", window.messages));
            }
        }
        let counted: usize = parked.values().sum();
        let parked_count: usize = self.parked_count.values().sum();
        if counted != parked_count {
            return Err(format!("{parked_count} parked messages are counted, there are {counted}"));
        }
        if self.window_messages != tenants.values().sum::<usize>() {
            return Err(format!(
                "the window counts {} messages, there are {}",
                self.window_messages,
                tenants.values().sum::<usize>()
            ));
        }
        for (first, loaded) in &self.segments {
            let (held, active) = slots.remove(first).unwrap_or_default();
            if (loaded.slots, loaded.active) != (held, active) {
                return Err(format!(
                    "segment {first} counts {} messages and {} active ones, there are {held} and {active}",
                    loaded.slots, loaded.active
                ));
            }
            if held == 0 && !self.record.open.contains_key(first) && !self.flight_opens(*first) {
                return Err(format!("segment {first} is in memory for nothing"));
            }
        }
        let mut stored: Vec<&Seq> = self.windows.values().flat_map(|window| window.directory.keys()).collect();
        stored.sort_unstable();
        if !stored.into_iter().eq(self.stored.iter()) {
            return Err("the directories and the list of stored segments differ".to_owned());
        }
        let by_tenant: usize = self.want_by_tenant.values().map(std::collections::BTreeSet::len).sum();
        if by_tenant != self.want_segments.len() {
            return Err(format!(
                "{} segments want a claim, {by_tenant} are listed by tenant",
                self.want_segments.len()
            ));
        }
        let busy = self.windows.values().filter(|window| !window.directory.is_empty()).count();
        if busy != self.busy_tenants {
            return Err(format!("{} tenants are counted as busy, {busy} are", self.busy_tenants));
        }
        for (tenant, window) in &self.windows {
            let wants = window.resume.keys().any(|key| !self.keys.contains_key(key) && self.is_readable(window, *key))
                || !window.caught_up();
            if wants && !self.load_wanted.contains(tenant) {
                return Err(format!("tenant {tenant} has something to read and isn't listed"));
            }
            let ready = |(key, resume): (&crate::ids::KeyHash, &super::window::Resume)| {
                self.keys.contains_key(key)
                    || !self.is_readable(window, *key)
                    || window.resume_ready.contains(&(resume.from, *key))
            };
            if !window.resume.iter().all(ready) {
                return Err(format!("a skipped key of tenant {tenant} could be read again and isn't listed"));
            }
        }
        match slots.keys().next() {
            Some(first) => Err(format!("segment {first} isn't in memory, messages of it are")),
            None => Ok(()),
        }
    }

    /// An idle message waits for what it should wait for: else nothing would ever wake it.
    fn check_heads(&self) -> Result<(), String> {
        if self.releasing {
            // Nothing is sent any more, and the last commit un-claims what could be.
            return Ok(());
        }
        for (seq, slot) in &self.slots {
            if !slot.is_idle() || self.timers.contains(&(slot.wakes, *seq)) {
                continue;
            }
            // Time doesn't matter: who waits for an instant is in `timers`.
            let Some(Wish::State(wish)) = self.wish(*seq, crate::time::Monotonic(std::time::Duration::MAX)) else {
                continue;
            };
            let stalled = matches!(slot.state, SlotState::Ready { .. } | SlotState::WantClaim | SlotState::WantTrial)
                && wish == SlotState::Stalled;
            if std::mem::discriminant(&wish) != std::mem::discriminant(&slot.state) && !stalled {
                return Err(format!("message {seq} is {:?} and should be {wish:?}", slot.state));
            }
        }
        Ok(())
    }

    fn is_readable(&self, window: &super::window::TenantWindow, key: crate::ids::KeyHash) -> bool {
        window.resume.get(&key).is_some_and(|resume| resume.hold.is_none() && !self.is_fenced(key, resume.from))
    }

    fn wants_claim(&self, slot: &Slot) -> bool {
        match slot.origin {
            Origin::Parked => self.want_parked.contains(&slot.seq()),
            Origin::Segment => {
                self.want_segments.get(&slot.place.segment).is_some_and(|wanted| wanted.contains(&slot.seq()))
            }
        }
    }
    fn want_claim_count(&self) -> usize {
        self.want_parked.len() + self.want_segments.values().map(std::collections::BTreeSet::len).sum::<usize>()
    }
}
