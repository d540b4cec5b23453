//! What was said to be at fault isn't called again at once by every saga that needs it: it is held, and then one call at a
//! time tries whether it is back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::ids::Tenant;
use waybill_core::port::participant::StepError;
use waybill_core::port::transport::Fault;
use waybill_core::time::Monotonic;

/// First time for which something is held; it doubles with every failed probe.
const HOLD: Duration = Duration::from_millis(500);
/// Longest time for which something is held.
const HOLD_MAX: Duration = Duration::from_secs(30);
/// A wish to wait is cut at this.
const AFTER_MAX: Duration = Duration::from_secs(300);
/// A probe that hasn't ended by then counts as gone.
const PROBE_TIME: Duration = Duration::from_secs(60);
/// Most things held at once. Past it calls are made and fail by themselves.
const HOLDS_MAX: usize = 10_000;

/// What is called: a step of a participant, the origin of a URL, or a whole participant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// For whom; none = for everybody.
    pub tenant: Option<Tenant>,
    /// `fn:<participant>/<step>`, `https://host:port` or `fn:<participant>`.
    pub name: Arc<str>,
}

#[derive(Debug)]
struct Hold {
    scope: String,
    fault: Fault,
    until: Monotonic,
    time: Duration,
    /// A call tries whether it is back, until then.
    probe: Option<Monotonic>,
}

#[derive(Debug, Default)]
pub(super) struct Holds {
    held: Mutex<HashMap<Target, Hold>>,
    count: AtomicUsize,
}

impl Holds {
    /// Whether a target may be called now. The error is what a call would say: it is held.
    pub fn admit(&self, target: &Target, now: Monotonic) -> Result<(), StepError> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let mut held = self.held.lock();
        let Some(hold) = held.get_mut(target) else { return Ok(()) };
        if now >= hold.until && hold.probe.is_none_or(|until| now >= until) {
            hold.probe = Some(now + PROBE_TIME);
            return Ok(());
        }
        let left = (hold.until - now).max(HOLD);
        let reason = format!("held, because: {}", hold.fault.reason);
        let fault = Fault { after: Some(left), reason, maybe_delivered: false, ..hold.fault.clone() };
        Err(StepError::Blocked { scope: hold.scope.clone(), fault })
    }

    /// A call said that its target is at fault.
    pub fn blocked(&self, target: Target, scope: &str, fault: &Fault, now: Monotonic) {
        let mut held = self.held.lock();
        if held.len() >= HOLDS_MAX && !held.contains_key(&target) {
            return;
        }
        let hold = held.entry(target).or_insert_with(|| Hold {
            scope: scope.to_owned(),
            fault: fault.clone(),
            until: now,
            time: Duration::ZERO,
            probe: None,
        });
        // Several calls may have been under way: only the first of them, or the probe, makes it longer.
        if now >= hold.until {
            hold.time = hold.time.saturating_mul(2).clamp(HOLD, HOLD_MAX);
            hold.until = now + hold.time.max(fault.after.unwrap_or_default().min(AFTER_MAX));
        }
        hold.probe = None;
        (hold.scope, hold.fault) = (scope.to_owned(), fault.clone());
        self.count.store(held.len(), Ordering::Release);
    }

    /// A call found its target well.
    pub fn well(&self, target: &Target) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut held = self.held.lock();
        held.remove(target);
        self.count.store(held.len(), Ordering::Release);
    }

    /// A call ended without a word about its target.
    pub fn unknown(&self, target: &Target) {
        if self.count.load(Ordering::Acquire) > 0
            && let Some(hold) = self.held.lock().get_mut(target)
        {
            hold.probe = None;
        }
    }

    /// How many things are held.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn target() -> Target {
        Target { tenant: None, name: Arc::from("fn:stock") }
    }

    fn at(millis: u64) -> Monotonic {
        Monotonic(Duration::from_millis(millis))
    }

    #[test]
    fn after_the_time_one_call_probes_and_the_others_wait_for_what_it_finds() {
        let holds = Holds::default();
        assert!(holds.admit(&target(), at(0)).is_ok());
        holds.blocked(target(), "fn:stock", &Fault::new("X.DOWN", "down"), at(0));
        let held = holds.admit(&target(), at(100)).unwrap_err();
        assert_eq!(held.fault().after, Some(HOLD));
        assert!(holds.admit(&target(), at(500)).is_ok(), "the probe");
        assert!(holds.admit(&target(), at(501)).is_err(), "one at a time");
        holds.blocked(target(), "fn:stock", &Fault::new("X.DOWN", "down"), at(600));
        assert!(holds.admit(&target(), at(1_500)).is_err(), "twice as long");
        assert!(holds.admit(&target(), at(1_600)).is_ok());
        holds.well(&target());
        assert!(holds.admit(&target(), at(1_601)).is_ok() && holds.admit(&target(), at(1_601)).is_ok());
        assert_eq!(holds.len(), 0);
    }

    #[test]
    fn a_probe_that_says_nothing_gives_way_to_the_next() {
        let holds = Holds::default();
        let fault = Fault { after: Some(Duration::from_secs(2)), ..Fault::new("X.DOWN", "down") };
        holds.blocked(target(), "fn:stock", &fault, at(0));
        assert!(holds.admit(&target(), at(1_999)).is_err(), "it asked for two seconds");
        assert!(holds.admit(&target(), at(2_000)).is_ok());
        holds.unknown(&target());
        assert!(holds.admit(&target(), at(2_001)).is_ok());
    }
}
