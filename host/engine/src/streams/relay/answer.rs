//! What a broker's word on an event means for the relay.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::RelayName;
use waybill_core::outbox::decide::{Next, after_failure, classify};
use waybill_core::outbox::owner::Verdict;
use waybill_core::port::transport::Fault;
use waybill_core::streams::records::Refusal;
use waybill_core::streams::relay::{Relay, RelayOutcome};
use waybill_core::streams::settings::OnRefused;
use waybill_core::time::Now;

use super::super::actor::Actor;
use super::super::mail::Sent;
use super::super::meter;
use super::RelayDriver;
use crate::live::Live;

/// Longest pause of a relay whose transport is away, unless that asks for more.
const HELD_MAX: Duration = Duration::from_secs(30);
/// A destination that is at fault is tried again after this long, unless it asks for longer.
const BLOCKED_PAUSE: Duration = Duration::from_secs(5);

impl Actor {
    /// Takes the words of a broker.
    pub(in crate::streams) fn take_sent(&mut self, name: &RelayName, sent: Vec<Sent>) {
        let (live, now) = (self.shared.context.live(), self.shared.context.clock.now());
        let Some(driver) = self.relays.iter_mut().find(|driver| driver.name() == name) else { return };
        let Some(relay) = self.owner.relays_mut().get_mut(name) else { return };
        driver.out = driver.out.saturating_sub(sent.len());
        driver.state.give_back(sent.len());
        for Sent { stream, seq, generation, fate } in sent {
            let next = classify(fate, live.config.retries.retry_after_max, now.wall);
            let failed = relay.failures(&stream, seq);
            let outcome = driver.outcome(relay, failed, next, &live, now);
            let is_settled = outcome.is_settled();
            // A word of another generation is dropped: its event was sought away.
            if relay.answer(&stream, seq, generation, outcome) && is_settled {
                driver.count_unsettled(&stream.tenant, -1);
                driver.word();
            }
        }
        // A seek may have waited for this.
    }
}

impl RelayDriver {
    /// What it means for an event that had failed so often.
    fn outcome(&mut self, relay: &mut Relay, failed: u32, next: Next, live: &Live, now: Now) -> RelayOutcome {
        let again = |pause: Duration| RelayOutcome::Again(now.mono + pause);
        match next {
            Next::Verdict(Verdict::Ack(_)) => {
                self.well();
                self.state.delivered.fetch_add(1, Ordering::AcqRel);
                meter::relayed(self.name(), "delivered");
                RelayOutcome::Acknowledged
            }
            Next::Verdict(Verdict::Release { due }) => again(due.map_or(Duration::ZERO, |due| due.since(now.wall))),
            Next::Verdict(Verdict::Blocked { fault, .. }) => {
                self.waits(&fault);
                again(fault.after.unwrap_or(BLOCKED_PAUSE).max(BLOCKED_PAUSE))
            }
            Next::TransportDown(fault) => {
                self.hold(&fault, &live.config.retries.policy);
                again(Duration::ZERO)
            }
            Next::Failed { kind, fault, .. } => {
                let policy = RetryPolicy { max_attempts: self.plan.attempts_max, ..live.config.retries.policy };
                let verdict = after_failure(&policy, None, kind, fault, failed + 1, rand::random(), now.wall);
                match verdict {
                    Verdict::Retry { delay, fault, .. } => {
                        self.waits(&fault);
                        meter::relayed(self.name(), "retried");
                        RelayOutcome::Failed(now.mono + delay)
                    }
                    Verdict::Dead(fault) => self.refused(relay, fault, now),
                    other => {
                        tracing::error!(relay = self.name().as_str(), verdict = ?other, "a verdict that no event has");
                        again(BLOCKED_PAUSE)
                    }
                }
            }
            Next::Verdict(other) => {
                tracing::error!(relay = self.name().as_str(), verdict = ?other, "a verdict that no event has");
                again(BLOCKED_PAUSE)
            }
        }
    }

    /// The broker will never take it.
    fn refused(&mut self, relay: &mut Relay, fault: Fault, now: Now) -> RelayOutcome {
        match self.plan.on_refused {
            OnRefused::DeadLetter => {
                self.state.refused.fetch_add(1, Ordering::AcqRel);
                meter::relayed(self.name(), "refused");
                RelayOutcome::Refused(Refusal { code: fault.code, reason: fault.reason })
            }
            OnRefused::Stop => {
                self.state.stop_everywhere(format!("an event was refused for good: {}: {}", fault.code, fault.reason));
                // Whoever resumes it has it tried anew.
                relay.forget_failures();
                RelayOutcome::Again(now.mono)
            }
        }
    }

    /// The whole transport is at fault: nothing is sent for a while, longer each time.
    fn hold(&mut self, fault: &Fault, policy: &RetryPolicy) {
        let now = Instant::now();
        if self.held_until.is_none_or(|until| until <= now) {
            self.held_times = self.held_times.saturating_add(1);
            let pause =
                policy.delay(self.held_times, rand::random()).min(HELD_MAX).max(fault.after.unwrap_or_default());
            self.held_until = Some(now + pause);
        }
        self.waits(fault);
    }

    fn waits(&self, fault: &Fault) {
        *self.state.waits.lock() = Some(format!("{}: {}", fault.code, fault.reason));
    }

    fn well(&mut self) {
        (self.held_until, self.held_times) = (None, 0);
        let mut waits = self.state.waits.lock();
        if waits.is_some() {
            *waits = None;
        }
    }
}
