//! What a bulk act on dead letters would concern: how many, what it leaves out, what it may repeat, and whose order it keeps.

use std::collections::HashMap;

use crate::ids::{Key, KeyHash, Tenant};
use crate::inbox::records::InboxDead;
use crate::outbox::records::{DeadLetter, DeadState};
use crate::port::query::Counted;
use crate::saga::records::SagaDead;
use crate::streams::dead::StoredDead;

/// Dead letters of each kind that a plan looks at unless it is asked for the exact number.
pub const PLAN_READS_MAX: usize = 10_000;

/// Gathers a plan from dead letters given one after another. What it remembers is bounded by how many these are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadTally {
    /// Quarantined ones are left out.
    spares_quarantined: bool,
    plan: DeadPlan,
    /// How many of each key.
    keys: HashMap<KeyHash, u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadPlan {
    /// How many it would act on.
    pub matched: u64,
    /// How many match and are left out, because an operator fenced them off.
    pub quarantined: u64,
    /// How many of those it would act on were put back before; of messages only, others don't tell.
    pub replayed_before: u64,
    /// How many keys have several of them.
    pub keys_with_several: u64,
}

impl DeadTally {
    pub fn new(spares_quarantined: bool) -> Self {
        Self { spares_quarantined, ..Self::default() }
    }

    pub fn add(&mut self, dead: &DeadLetter) {
        let message = &dead.message;
        self.count(&dead.state, &message.tenant, message.key.as_ref(), message.replays > 0);
    }

    /// Counts a stuck saga.
    pub fn add_saga(&mut self, dead: &SagaDead) {
        self.count(&dead.state, &dead.key.tenant, None, false);
    }

    /// Counts a received message that couldn't be handled.
    pub fn add_inbox(&mut self, dead: &InboxDead) {
        self.count(&dead.state, &dead.message.tenant, dead.message.key.as_ref(), false);
    }

    /// Counts an event of a stream that couldn't be numbered or relayed.
    pub fn add_event(&mut self, dead: &StoredDead) {
        self.count(&dead.state, &dead.stream().tenant, None, false);
    }

    fn count(&mut self, state: &DeadState, tenant: &Tenant, key: Option<&Key>, was_replayed: bool) {
        if self.spares_quarantined && *state != DeadState::Dead {
            self.plan.quarantined += 1;
            return;
        }
        self.plan.matched += 1;
        self.plan.replayed_before += u64::from(was_replayed);
        if let Some(key) = key {
            let of_key = self.keys.entry(KeyHash::of(tenant, key)).or_default();
            *of_key = of_key.saturating_add(1);
            self.plan.keys_with_several += u64::from(*of_key == 2);
        }
    }

    pub fn plan(&self) -> DeadPlan {
        self.plan
    }
}

/// Whether more match than were planned. Of a count that ended before the end only what it came to tells.
pub fn has_grown(planned: u64, counted: &Counted<u64>) -> bool {
    counted.value > planned
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::time::UnixMillis;

    const FENCED: fn() -> DeadState = || DeadState::Quarantined { note: String::new(), at: UnixMillis(1) };

    /// Counts a dead letter of a key of `acme`.
    fn counted(tally: &mut DeadTally, state: &DeadState, key: &str, was_replayed: bool) {
        let (tenant, key) = (Tenant::new("acme").unwrap(), Key::new(key).unwrap());
        tally.count(state, &tenant, Some(&key), was_replayed);
    }

    #[test]
    fn what_is_fenced_off_is_left_out_and_told() {
        let mut tally = DeadTally::new(true);
        counted(&mut tally, &DeadState::Dead, "a", false);
        counted(&mut tally, &FENCED(), "a", true);
        let plan = tally.plan();
        assert_eq!((plan.matched, plan.quarantined, plan.replayed_before, plan.keys_with_several), (1, 1, 0, 0));
    }

    #[test]
    fn an_act_that_takes_what_is_fenced_off_counts_it() {
        let mut tally = DeadTally::new(false);
        counted(&mut tally, &FENCED(), "a", false);
        assert_eq!((tally.plan().matched, tally.plan().quarantined), (1, 0));
    }

    #[test]
    fn a_key_with_several_counts_once_and_what_was_put_back_before_each_time() {
        let mut tally = DeadTally::new(true);
        for key in ["a", "a", "a", "b", "c", "c"] {
            counted(&mut tally, &DeadState::Dead, key, key == "c");
        }
        assert_eq!((tally.plan().keys_with_several, tally.plan().replayed_before), (2, 2));
    }

    #[test]
    fn the_same_key_of_another_tenant_is_another_key() {
        let mut tally = DeadTally::new(true);
        counted(&mut tally, &DeadState::Dead, "a", false);
        tally.count(&DeadState::Dead, &Tenant::new("beta").unwrap(), Some(&Key::new("a").unwrap()), false);
        assert_eq!(tally.plan().keys_with_several, 0);
    }

    #[test]
    fn a_set_has_grown_when_more_match_than_were_planned_and_not_when_fewer_do() {
        let counted = |value| Counted { value, since: None };
        assert!(has_grown(7, &counted(8)));
        assert!(!has_grown(7, &counted(7)) && !has_grown(7, &counted(3)));
    }
}
