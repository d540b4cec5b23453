//! From what a transport said of a message to what follows (`semantics.md` §1, Delivery and Backoff).

use std::time::Duration;

use crate::backoff::RetryPolicy;
use crate::outbox::owner::Verdict;
use crate::outbox::records::AttemptOutcome;
use crate::port::backoff::{BackoffDecision, FailureKind};
use crate::port::transport::{CallError, ErrorKind, Fault, Outcome};
use crate::time::UnixMillis;

/// Shortest pause before a message that was given back untried is offered again, so that a transport that releases
/// everything doesn't spin.
const RELEASE_PAUSE: Duration = Duration::from_millis(100);

/// What is known of one message after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The transport answered for this message.
    Answered(Outcome),
    /// The call failed and nothing was told of it.
    CallFailed(CallError),
}

/// What follows, as far as no retry policy is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Verdict(Verdict),
    /// A failed attempt: the policy decides ([`after_failure`]).
    Failed {
        kind: FailureKind,
        fault: Fault,
        /// Its fate isn't known: it may have been delivered, or it may be what broke the call.
        unknown: bool,
    },
    /// Given back untried because the whole transport is at fault; the caller holds the transport.
    TransportDown(Fault),
}

/// Sorts out one fate. What a receiver or a plugin asks to wait is cut to `after_max`.
pub fn classify(mut fate: Fate, after_max: Duration, now: UnixMillis) -> Next {
    let fault = match &mut fate {
        Fate::Answered(Outcome::Ack(_)) => None,
        Fate::Answered(Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault)) => Some(fault),
        Fate::Answered(Outcome::Blocked { fault, .. }) | Fate::CallFailed(CallError { fault, .. }) => Some(fault),
    };
    if let Some(fault) = fault {
        fault.after = fault.after.map(|after| after.min(after_max));
    }
    match fate {
        Fate::Answered(Outcome::Ack(receipt)) => Next::Verdict(Verdict::Ack(receipt)),
        Fate::Answered(Outcome::Retryable(fault)) => {
            Next::Failed { kind: FailureKind::Retryable, fault, unknown: false }
        }
        Fate::Answered(Outcome::Permanent(fault)) => {
            Next::Failed { kind: FailureKind::Permanent, fault, unknown: false }
        }
        Fate::Answered(Outcome::Blocked { scope, fault }) => Next::Verdict(Verdict::Blocked { scope, fault }),
        Fate::Answered(Outcome::Release(fault)) => {
            let due = now.plus(fault.after.unwrap_or(RELEASE_PAUSE).max(RELEASE_PAUSE));
            Next::Verdict(Verdict::Release { due: Some(due) })
        }
        Fate::CallFailed(CallError { kind, fault }) => match kind {
            ErrorKind::Trapped | ErrorKind::Contract | ErrorKind::Internal => {
                Next::Failed { kind: FailureKind::Trapped, fault, unknown: true }
            }
            ErrorKind::TimedOut => Next::Failed { kind: FailureKind::TimedOut, fault, unknown: true },
            // It may have been sent before the connection broke: a second send must say that it is one.
            _ if fault.maybe_delivered => Next::Failed { kind: FailureKind::Unavailable, fault, unknown: true },
            _ => Next::TransportDown(fault),
        },
    }
}

/// The verdict on a failed attempt. `number` is the attempt that failed, from 1; `decision` is a policy component's
/// opinion, if there is one; `random` is uniform in [0, 1).
pub fn after_failure(
    policy: &RetryPolicy,
    decision: Option<BackoffDecision>,
    kind: FailureKind,
    mut fault: Fault,
    number: u32,
    random: f64,
    now: UnixMillis,
) -> Verdict {
    let delay = match decision {
        Some(BackoffDecision::Dead(reason)) => {
            fault.reason = format!("{reason} (after: {})", fault.reason);
            return Verdict::Dead(fault);
        }
        Some(BackoffDecision::Pause(reason)) => {
            fault.reason = format!("{reason} (after: {})", fault.reason);
            return Verdict::Blocked { scope: String::new(), fault };
        }
        Some(BackoffDecision::Delay(delay)) => delay,
        None | Some(BackoffDecision::Fallback) if kind == FailureKind::Permanent => return Verdict::Dead(fault),
        None | Some(BackoffDecision::Fallback) => policy.delay(number, random),
    };
    if !policy.allowed(number) {
        return Verdict::Dead(fault);
    }
    let delay = delay.max(fault.after.unwrap_or_default());
    Verdict::Retry { due: now.plus(delay), delay, fault }
}

/// How an attempt is recorded.
pub fn attempt_outcome(verdict: &Verdict, unknown: bool) -> AttemptOutcome {
    match verdict {
        Verdict::Ack(_) => AttemptOutcome::Delivered,
        Verdict::Dead(_) => AttemptOutcome::Dead,
        Verdict::Retry { .. } if unknown => AttemptOutcome::Unknown,
        Verdict::Retry { .. } => AttemptOutcome::Retry,
        Verdict::Blocked { .. } => AttemptOutcome::Blocked,
        Verdict::Release { .. } | Verdict::Expired | Verdict::Cancelled => AttemptOutcome::Released,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;
    use crate::port::transport::Receipt;

    const NOW: UnixMillis = UnixMillis(1_000_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn fail(kind: FailureKind, fault: Fault, number: u32, decision: Option<BackoffDecision>) -> Verdict {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        after_failure(&policy, decision, kind, fault, number, 0.5, NOW)
    }

    #[test]
    fn the_twelfth_failure_is_a_dead_letter() {
        let fault = || Fault::new("HTTP.503", "busy");
        assert!(matches!(fail(FailureKind::Retryable, fault(), 11, None), Verdict::Retry { .. }));
        assert!(matches!(fail(FailureKind::Retryable, fault(), 12, None), Verdict::Dead(_)));
    }

    #[test]
    fn a_permanent_failure_is_dead_at_once_unless_a_policy_says_otherwise() {
        let fault = || Fault::new("HTTP.400", "bad");
        assert!(matches!(fail(FailureKind::Permanent, fault(), 1, None), Verdict::Dead(_)));
        let delay = Some(BackoffDecision::Delay(Duration::from_secs(1)));
        assert!(matches!(fail(FailureKind::Permanent, fault(), 1, delay), Verdict::Retry { .. }));
    }

    #[test]
    fn retry_after_wins_when_later() {
        let fault = Fault { after: Some(Duration::from_secs(90)), ..Fault::new("HTTP.429", "slow down") };
        let Verdict::Retry { due, .. } = fail(FailureKind::Throttled, fault, 1, None) else { panic!("not a retry") };
        assert_eq!(due, NOW.plus(Duration::from_secs(90)));
    }

    #[test]
    fn a_trap_counts_and_a_transport_that_is_away_does_not() {
        let error = |kind| Fate::CallFailed(CallError { kind, fault: Fault::new("X", "x") });
        assert!(matches!(classify(error(ErrorKind::Trapped), HOUR, NOW), Next::Failed { unknown: true, .. }));
        assert!(matches!(classify(error(ErrorKind::Unavailable), HOUR, NOW), Next::TransportDown(_)));
        let mut fault = Fault::new("X", "x");
        fault.maybe_delivered = true;
        let lost = Fate::CallFailed(CallError { kind: ErrorKind::Unavailable, fault });
        assert!(matches!(classify(lost, HOUR, NOW), Next::Failed { unknown: true, .. }));
        let ack = Fate::Answered(Outcome::Ack(Receipt::default()));
        assert!(matches!(classify(ack, HOUR, NOW), Next::Verdict(Verdict::Ack(_))));
    }

    #[test]
    fn nobody_asks_for_more_time_than_the_host_allows() {
        let ages = || Fault { after: Some(100 * HOUR), ..Fault::new("HTTP.404", "gone") };
        let after = |next| match next {
            Next::Verdict(Verdict::Blocked { fault, .. }) | Next::Failed { fault, .. } | Next::TransportDown(fault) => {
                fault.after
            }
            other => panic!("{other:?}"),
        };
        let words = [
            Fate::Answered(Outcome::Blocked { scope: String::new(), fault: ages() }),
            Fate::Answered(Outcome::Retryable(ages())),
            Fate::CallFailed(CallError { kind: ErrorKind::Unavailable, fault: ages() }),
        ];
        for word in words {
            assert_eq!(after(classify(word, HOUR, NOW)), Some(HOUR));
        }
        let release = classify(Fate::Answered(Outcome::Release(ages())), HOUR, NOW);
        assert_eq!(release, Next::Verdict(Verdict::Release { due: Some(NOW.plus(HOUR)) }));
    }

    #[test]
    fn what_is_released_waits_a_moment() {
        let release = Fate::Answered(Outcome::Release(Fault::new("X", "x")));
        assert_eq!(
            classify(release, HOUR, NOW),
            Next::Verdict(Verdict::Release { due: Some(NOW.plus(RELEASE_PAUSE)) })
        );
    }
}
