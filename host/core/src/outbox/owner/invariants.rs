//! What the owner's parts must agree on. For tests: the model checker asks after every step.

use std::collections::{BTreeMap, HashMap};

use super::ready::Waits;
use super::slots::{Origin, Slot, SlotState};
use super::{Owner, Rules};
use crate::ids::{Seq, Tenant};

impl Owner {
    /// Checks every list against the messages in memory, and every idle head against what it should wait for. Costs as
    /// much as everything in memory; says what contradicts what.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_lists()?;
        self.check_requests()?;
        self.check_keys()?;
        self.check_named()?;
        self.check_window()?;
        if self.config.rules == Rules::default() { self.check_heads() } else { Ok(()) }
    }

    fn check_lists(&self) -> Result<(), String> {
        let count = |is: fn(&SlotState) -> bool| self.slots.values().filter(|slot| is(&slot.state)).count();
        let lists = [
            ("want_claim", count(|state| *state == SlotState::WantClaim), self.scheduler.claims().len()),
            ("want_trial", count(|state| *state == SlotState::WantTrial), self.trial.waiting().len()),
            ("stalled", count(|state| *state == SlotState::Stalled), self.scheduler.stalled().len()),
            ("sending", count(|state| *state == SlotState::Sending), self.scheduler.sending() + self.leases()),
            ("outs", count(|state| matches!(state, SlotState::Out(_))), self.waiting_settlements()),
            (
                "held",
                count(|state| matches!(state, SlotState::Held(_))),
                self.holds.values().map(|hold| hold.waiting.len()).sum(),
            ),
            (
                "ready",
                count(|state| matches!(state, SlotState::Ready { .. })),
                self.scheduler.ready() + self.naming.len(),
            ),
        ];
        for (name, states, listed) in lists {
            if states != listed {
                return Err(format!("{states} messages say {name}, {listed} are listed"));
            }
        }
        for (seq, slot) in &self.slots {
            let is_listed = match &slot.state {
                SlotState::WantClaim => self.scheduler.claims().contains(slot),
                SlotState::WantTrial => self.trial.waiting().contains(seq),
                SlotState::Stalled => self.scheduler.stalled().contains(seq),
                SlotState::Held(key) => self.holds.get(key).is_some_and(|hold| hold.waiting.contains(seq)),
                SlotState::Out(_) => self.next.settlements().contains(seq),
                _ => true,
            };
            if !is_listed {
                return Err(format!("message {seq} isn't on the list that it says: {:?}", slot.state));
            }
        }
        self.scheduler.claims().check()
    }

    fn check_requests(&self) -> Result<(), String> {
        let out = self.flight.commit().into_iter().flat_map(|flight| &flight.directs);
        self.next.requests.check(out.map(|(direct, _)| direct))
    }

    fn check_keys(&self) -> Result<(), String> {
        let keyed = self.slots.values().filter(|slot| slot.key.is_some()).count();
        let queued: usize = self.keys.iter().map(|(_, queue)| queue.seqs().len()).sum();
        if keyed != queued {
            return Err(format!("{keyed} messages have keys, {queued} are queued"));
        }
        for (_, queue) in self.keys.iter() {
            if queue.seqs().is_empty() && queue.busy().is_none() {
                return Err("an empty key is kept".to_owned());
            }
            if let Some(busy) = queue.busy().filter(|busy| self.slots.get(busy).is_none_or(Slot::is_idle)) {
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
        let counted: usize = parked.values().sum();
        let parked_count = self.scheduler.parked();
        if counted != parked_count {
            return Err(format!("{parked_count} parked messages are counted, there are {counted}"));
        }
        self.window.check(slots, &tenants, &self.keys, |first| {
            self.record.open.contains_key(&first) || self.flight.opens(first)
        })
    }

    /// An idle message waits for what it should wait for: else nothing would ever wake it.
    fn check_heads(&self) -> Result<(), String> {
        if self.releasing {
            // Nothing is sent any more, and the last commit un-claims what could be.
            return Ok(());
        }
        for (seq, slot) in &self.slots {
            if !slot.is_idle() || self.scheduler.waits_until(slot.wakes, *seq) {
                continue;
            }
            // Time doesn't matter: who waits for an instant is listed under it.
            let Some(Waits::State(state)) = self.waits_for(*seq, crate::time::Monotonic(std::time::Duration::MAX))
            else {
                continue;
            };
            let stalled = matches!(slot.state, SlotState::Ready { .. } | SlotState::WantClaim | SlotState::WantTrial)
                && state == SlotState::Stalled;
            if std::mem::discriminant(&state) != std::mem::discriminant(&slot.state) && !stalled {
                return Err(format!("message {seq} is {:?} and should be {state:?}", slot.state));
            }
        }
        Ok(())
    }
}
