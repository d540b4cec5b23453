//! Whether a participant may be called now: after losses its breaker opens, after a failed `open` it is left alone for a while.
//!
//! Pure: the caller reads the clock.

use std::time::Duration;

use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::port::transport::{ErrorKind, Fault};

use crate::instance::{Restart, RestartBudget};
use crate::limits::REOPEN_DELAY_MAX;

/// The state of one participant.
#[derive(Debug, Default)]
pub(super) struct Gate {
    budget: RestartBudget,
    held: Option<(Instant, Fault)>,
    /// A call is trying whether it works again.
    trying: bool,
}

/// A call may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// It is the one that tries whether it works again.
    pub(super) trial: bool,
}

impl Gate {
    /// Whether a call may go on; if not, why and when to come back.
    pub(super) fn admit(&mut self, now: Instant) -> Result<Admitted, Fault> {
        if let Some(fault) = self.closed(now) {
            return Err(fault);
        }
        let trial = self.held.is_some() || self.budget.half_open();
        self.trying |= trial;
        Ok(Admitted { trial })
    }

    /// Why no call may go on now, without trying.
    pub(super) fn closed(&self, now: Instant) -> Option<Fault> {
        let (until, fault) = self.held.as_ref()?;
        let left = until.saturating_duration_since(now);
        if left.is_zero() && !self.trying {
            return None;
        }
        // While one tries, the others come back soon.
        let after = left.max(Duration::from_millis(100));
        Some(Fault { after: Some(after), maybe_delivered: false, ..fault.clone() })
    }

    /// A guest answered a call.
    pub(super) fn proved(&mut self) {
        self.budget.proved();
        self.held = None;
    }

    /// An instance was lost.
    pub(super) fn lost(&mut self, now: Instant, fault: &Fault) {
        if let Restart::After(delay) = self.budget.lost(now) {
            let reason =
                format!("the breaker is open after repeated failures, the last: {}: {}", fault.code, fault.reason);
            self.held = Some((now + delay, Fault::new(Code::PLUGIN_BREAKER_OPEN, reason)));
        }
    }

    /// `open` was answered with an error.
    pub(super) fn refused(&mut self, now: Instant, kind: ErrorKind, fault: &Fault) {
        let delay = match kind {
            // Only an operator can repair it, by writing a secret or giving a right; the gate doesn't notice that.
            ErrorKind::InvalidConfig | ErrorKind::Denied | ErrorKind::Unsupported => REOPEN_DELAY_MAX,
            _ => self.budget.reopen_after(fault.after),
        };
        self.held = Some((now + delay, fault.clone()));
    }

    /// A call has ended, whatever came of it.
    pub(super) fn ended(&mut self, admitted: Admitted) {
        if admitted.trial {
            self.trying = false;
        }
    }

    /// Lets the next call try at once.
    pub(super) fn reopen(&mut self, now: Instant) {
        if let Some((until, _)) = &mut self.held {
            *until = now;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::limits::{BREAKER_DELAY_MIN, RESTARTS_MAX};

    fn fault() -> Fault {
        Fault::new("PLUGIN.TRAPPED", "it panicked")
    }

    #[test]
    fn after_repeated_losses_one_call_tries_and_the_others_wait_for_it() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        for _ in 0..=RESTARTS_MAX {
            let admitted = gate.admit(now).unwrap();
            assert!(!admitted.trial);
            gate.lost(now, &fault());
            gate.ended(admitted);
        }
        let refused = gate.admit(now).unwrap_err();
        assert_eq!((refused.code.as_str(), refused.after), ("PLUGIN.BREAKER_OPEN", Some(BREAKER_DELAY_MIN)));
        let later = now + BREAKER_DELAY_MIN;
        let trial = gate.admit(later).unwrap();
        assert!(trial.trial);
        assert!(gate.admit(later).is_err(), "one tries");
        gate.proved();
        gate.ended(trial);
        assert!(!gate.admit(later).unwrap().trial);
    }

    #[test]
    fn a_trial_that_ends_without_a_word_leaves_room_for_another() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.refused(now, ErrorKind::Denied, &fault());
        assert!(gate.admit(now).is_err());
        gate.reopen(now);
        let trial = gate.admit(now).unwrap();
        assert!(gate.admit(now).is_err());
        gate.ended(trial);
        assert!(gate.admit(now).is_ok());
    }

    #[test]
    fn what_only_somebody_can_mend_is_tried_seldom() {
        let (mut gate, now) = (Gate::default(), Instant::now());
        gate.refused(now, ErrorKind::InvalidConfig, &fault());
        assert!(gate.admit(now + REOPEN_DELAY_MAX - Duration::from_millis(1)).is_err());
        assert!(gate.admit(now + REOPEN_DELAY_MAX).is_ok());
        let mut gate = Gate::default();
        gate.refused(now, ErrorKind::Unavailable, &fault());
        assert!(gate.admit(now + Duration::from_secs(1)).is_ok());
    }
}
